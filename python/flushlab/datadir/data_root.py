"""Data root: the folder that sandboxes' data directories are made in.

Datadir layer, above machine; used by the sandbox and by `--data-root`. An opened data root is a folder in
which flushlab can make a directory that the servers' user can write to: this was tried, not read from mode
bits. Its `storage` is what the durability rules are asked about.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Self

import msgspec

from flushlab.errors import NoSpace, NotWritable
from flushlab.machine import (
    available_memory_bytes,
    file_system_of,
    home,
    make_open,
    may_write,
    server_user,
)
from flushlab.process import passing_folder
from flushlab.record import Storage
from flushlab.units import format_size


class DataRoot(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    storage: Storage

    @classmethod
    def open(cls, path: Path | None = None) -> Self:
        ours = home()  # first: a data root made in a new home would make that home look like somebody's
        folder = (ours / "run" if path is None else path.expanduser()).absolute()
        try:
            make_open(folder)
        except OSError as error:
            what = f"cannot be created: {error.strerror}"
            if isinstance(error, FileExistsError | NotADirectoryError):
                what = "is not a directory"
            raise NotWritable(f"the data root {folder} {what}", hint=_HINT) from error
        folder = folder.resolve()
        _try_directory(folder)
        return cls(path=folder, storage=storage_of(folder))

    def free_bytes(self) -> int:
        return free_bytes(self.path, in_memory=self.storage.in_memory)

    def require_free(self, size_bytes: int, what: str) -> None:
        require_free(self.path, size_bytes, what, in_memory=self.storage.in_memory)


def storage_of(path: Path) -> Storage:
    under = file_system_of(path)
    return Storage(
        visible=under.filesystem != "unknown",
        filesystem=under.filesystem,
        in_memory=under.in_memory,
        device=under.device.name if under.device else None,
        record_size_bytes=under.record_size_bytes,
        volatile_cache=under.device.volatile_cache if under.device else None,
    )


def free_bytes(path: Path, *, in_memory: bool) -> int:
    facts = os.statvfs(path)
    free = facts.f_bavail * facts.f_frsize
    if not in_memory:
        return free
    is_bounded = facts.f_blocks > 0  # ramfs is as large as memory, and says 0
    return min(free, available_memory_bytes()) if is_bounded else available_memory_bytes()


def require_free(path: Path, size_bytes: int, what: str, *, in_memory: bool) -> None:
    if (free := free_bytes(path, in_memory=in_memory)) < size_bytes:
        raise NoSpace(
            f"{what} needs {format_size(size_bytes)}, but only {format_size(free)} is free in {path}",
            hint=_NO_MEMORY_HINT if in_memory else NO_SPACE_HINT,
            of_data=True,
        )


NO_SPACE_HINT = "free some space, or choose a folder on another disk with --data-root or FLUSHLAB_HOME"
_NO_MEMORY_HINT = "free some memory or choose a folder on a disk with --data-root"
_HINT = "choose a writable directory with --data-root"


def _try_directory(folder: Path) -> None:
    user, made = server_user(), False
    try:
        with passing_folder(folder, "trial") as trial:
            made = True
            if user.uid != os.geteuid():
                os.chown(trial, user.uid, user.gid)
            writable = may_write(trial, user)
    except OSError as error:
        if not made and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(f"the data root {folder} is full", hint=NO_SPACE_HINT, of_data=True) from error
        what = f"the data root {folder} is not writable"
        if made:
            what = f"a directory in the data root {folder} cannot be given to {user.name}"
        raise NotWritable(f"{what}: {error.strerror}", hint=_HINT) from error
    if not writable:
        raise NotWritable(
            f"{user.name}, the user that servers run as, cannot write in the data root"
            f" {folder}, not even in its own directory",
            hint="choose a data root that is writable and whose parent directories everyone can access",
        )
