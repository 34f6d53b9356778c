"""The folder that a probe writes in: checked before, removed after, whatever happens.

Probe layer. After SIGKILL the next flushlab that reaps leftovers removes it, in whatever directory it lies.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

from flushlab.datadir.data_root import free_bytes
from flushlab.errors import FlushlabError, NoSpace, NotWritable, StorageError
from flushlab.machine import file_system_of
from flushlab.process import passing_folder
from flushlab.record import Medium
from flushlab.units import format_size

MIN_FREE_BYTES = 256 << 20
"""Least free space for a probe."""

MAX_BYTES = 1 << 30
"""What a probe's files take at most, all together; half of what is free if that is less."""

REMOVAL_SECONDS = 30.0
"""A disk that has not removed the files by then hangs: nobody waits for it."""

_TELLING = ("barrier", "nobarrier", "volatile", "sync", "async", "data", "flush")
_HINT = "choose a writable directory with --data-root"


def medium_of(directory: Path) -> Medium:
    under = file_system_of(directory)
    device = under.device
    return Medium(
        directory=str(directory),
        filesystem=under.filesystem,
        in_memory=under.in_memory,
        options=tuple(one for one in under.options if one.partition("=")[0] in _TELLING),
        device=device.name if device else None,
        disk=device.disk if device else None,
        scheduler=device.scheduler if device else None,
        rotational=device.rotational if device else None,
        volatile_cache=device.volatile_cache if device else None,
        logical_block_bytes=device.logical_block_bytes if device else None,
        free_bytes=free_bytes(directory, in_memory=under.in_memory),
    )


def most_bytes(medium: Medium) -> int:
    """What a probe's files may take at one moment; NoSpace if too little is free."""
    if medium.free_bytes < MIN_FREE_BYTES:
        raise NoSpace(
            f"a probe needs {format_size(MIN_FREE_BYTES)}, but only {format_size(medium.free_bytes)} is free"
            f" in {medium.directory}",
            hint="free some memory, or probe a disk with --data-root" if medium.in_memory else _SPACE_HINT,
        )
    return min(MAX_BYTES, medium.free_bytes // 2)


_SPACE_HINT = "free some space, or choose another directory with --data-root"


def existing(directory: Path) -> Path:
    """The directory, absolute and without symbolic links; NotWritable if there is none."""
    found = directory.expanduser().absolute()
    if not found.exists():
        raise NotWritable(
            f"the directory {found} does not exist", hint="choose an existing one with --data-root"
        )
    if not found.is_dir():
        raise NotWritable(f"{found} is not a directory", hint=_HINT)
    return found.resolve()


@contextmanager
def probe_folder(directory: Path) -> Iterator[Path]:
    """A new folder in a writable directory, removed with everything in it.

    If the disk hangs, the next flushlab removes it.
    """
    stack = ExitStack()
    with storage_errors(directory):
        folder = stack.enter_context(passing_folder(directory, "probe"))
    try:
        yield folder
    finally:
        removal = Thread(target=stack.close, daemon=True)
        removal.start()
        removal.join(REMOVAL_SECONDS)


@contextmanager
def storage_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _storage_error(directory, error) from error


def _storage_error(directory: Path, error: OSError) -> FlushlabError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"{directory} filled up during the probe", hint=_SPACE_HINT)
    if error.errno == errno.EROFS:
        return NotWritable(f"the directory {directory} is on a read-only file system", hint=_HINT)
    if error.errno in (errno.EACCES, errno.EPERM):
        return NotWritable(f"the directory {directory} is not writable: {error.strerror}", hint=_HINT)
    return StorageError(
        f"the disk under {directory} failed: {error.strerror or error}", hint="see dmesg; probe another disk"
    )
