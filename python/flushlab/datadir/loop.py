"""Loop: a block device of the kernel's on a file. Sits in `datadir`, under the fault disk.

A device clears itself when the last who has it open lets go, be it by a kill: there is nothing to be undone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flushlab.errors import HarnessError

LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A
LO_FLAGS_AUTOCLEAR, LO_FLAGS_DIRECT_IO = 4, 16
_CONFIG = struct.Struct("=II 52x I 240x")
"""struct loop_config of linux/loop.h: fd, block_size and, of info, lo_flags."""
_TRIES = 20


@contextmanager
def loop_device(file: Path, sector_bytes: int) -> Iterator[Path]:
    """A loop device on a file, which it reads and writes past the page cache.

    It stays while something is mounted from it. A HarnessError if there is none to be had.
    """
    try:
        backing = os.open(file, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        raise HarnessError(f"the disk's file cannot be opened: {error.strerror}") from error
    try:
        device, path = _configured(backing, sector_bytes)
    finally:
        os.close(backing)
    try:
        if Path(f"/sys/block/{path.name}/loop/dio").read_text().strip() != "1":
            raise HarnessError(f"{path} does not do direct I/O on the disk's file")
        yield path
    finally:
        os.close(device)


def _configured(backing: int, sector_bytes: int) -> tuple[int, Path]:
    config = _CONFIG.pack(backing, sector_bytes, LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO)
    path = Path("/dev/loop-control")
    try:
        for _ in range(_TRIES):
            control = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                path = Path(f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}")
            finally:
                os.close(control)
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:  # somebody else was faster
                    raise
                path = Path("/dev/loop-control")
                continue
            return device, path
    except OSError as error:
        raise HarnessError(
            f"no loop device can be had from {path}: {error.strerror}",
            hint="containers often have none; try on the host",
        ) from error
    raise HarnessError(
        f"no loop device was free in {_TRIES} tries", hint="other programs take them; try again"
    )
