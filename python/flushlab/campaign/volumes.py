"""Volumes: the data roots and disks that the arms of a campaign ask for, opened once each.

Sits in `campaign`, above datadir. That a volume is not here is an error of this module; binding makes it the
reason why an arm is skipped.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from flushlab.build import Progress, silent
from flushlab.datadir import DataRoot, Volume, own_disk, storage_of, volume_in
from flushlab.errors import StorageError
from flushlab.record import Storage

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Volumes:
    """Opens volumes; a context manager that removes the disks it made.

    Args:
        base: where the base runs.
        progress: told what takes long.
    """

    def __init__(self, base: Volume, progress: Progress = silent) -> None:
        self.base = base
        self._progress = progress
        self._stack = ExitStack()
        self._open: dict[tuple[Path, str | None], Volume] = {}

    def open(self, data_root: str | None, disk: str | None) -> Volume | None:
        """The volume with this data root and this disk; None where none is given: the base's.

        The base's disk is not made in a data root in memory, which has no disk.

        Raises:
            StorageError: it is not here, or cannot be written.
            UsageError, HarnessError: its disk cannot be made.
        """
        if data_root is None and disk is None:
            return None
        root = self.base.below if data_root is None else self._root(data_root)
        slow = self.base.slow_disk
        if disk is None and slow is not None and not root.storage.in_memory:
            disk = slow.profile.name
        key = (root.path, disk)
        if key not in self._open:
            self._open[key] = self._made(root, disk)
        return self._open[key]

    def close(self) -> None:
        """Removes the disks."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _folder(self, text: str) -> Path:
        path = Path(expanded(text)).expanduser()
        if not path.is_dir():
            raise StorageError(f"there is no folder {path}", hint="mount it, or remove the arm")
        return path

    def _root(self, text: str) -> DataRoot:
        return DataRoot.open(self._folder(text))

    def _made(self, root: DataRoot, disk: str | None) -> Volume:
        return self._stack.enter_context(volume_in(root, disk, self._progress))


class PaperVolumes(Volumes):
    """Volumes that are only looked at; no disk is made."""

    def _root(self, text: str) -> DataRoot:
        return paper_root(self._folder(text))

    def _made(self, root: DataRoot, disk: str | None) -> Volume:
        own_disk(disk)
        return Volume(root)


class NoVolumes(Volumes):
    """No volumes: a server that runs already stays where it is."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def open(self, data_root: str | None, disk: str | None) -> None:
        """Never for an arm with a place of its own.

        Raises:
            StorageError: it has one.
        """
        if (data_root, disk) == (None, None):
            return
        raise StorageError("one running server cannot move to another place")


def paper_root(path: Path) -> DataRoot:
    """The data root as it would be: what its folder, or the nearest one above that there is, lies on."""
    path = path.expanduser().absolute()
    existing = next(folder for folder in (path, *path.parents) if folder.is_dir())
    return DataRoot(path=existing, storage=storage_of(existing))


def expanded(text: str) -> str:
    """The text with `${NAME}` replaced by environment variables.

    Raises:
        StorageError: one of them is not set.
    """

    def value(found: re.Match[str]) -> str:
        known = os.environ.get(found[1])
        if not known:
            raise StorageError(
                f"the environment variable {found[1]}, which names its data root, is not set",
                hint=f"set {found[1]} to a folder, or remove the arm",
            )
        return known

    return _VARIABLE.sub(value, text)


def mismatch(storage: Storage, path: Path, file_system: str | None, record_size: int | None) -> str:
    """Why the storage of a folder is not what an arm asks for, or an empty string."""
    # zfs-fuse mounts as `fuse`; a record size is known of ZFS alone.
    is_zfs = storage.filesystem == "zfs" or storage.record_size_bytes is not None
    found = "zfs" if is_zfs else storage.filesystem
    if file_system is not None and found != file_system.lower():
        return f"{path} is on {found}, not on {file_system}"
    if record_size is not None and storage.record_size_bytes != record_size:
        size = storage.record_size_bytes
        has = "records of unknown size" if size is None else f"records of {size} bytes"
        return f"{path} has {has}, not of {record_size}"
    return ""
