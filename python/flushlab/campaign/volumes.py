"""Volumes: the data roots and disk limits that the arms of a campaign ask for, opened once each.

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
from flushlab.datadir import DataRoot, Volume, parse_disk, storage_of, volume_in
from flushlab.errors import StorageError
from flushlab.record import Storage

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Volumes:
    """Opens volumes; a context manager that lifts the limits it made.

    Args:
        base: where the base runs.
        progress: told what takes long.
    """

    def __init__(self, base: Volume, progress: Progress = silent) -> None:
        self.base = base
        self._progress = progress
        self._stack = ExitStack()
        self._open: dict[tuple[Path, int | None, str | None], Volume] = {}

    def open(self, data_root: str | None, disk_iops: int | None, disk: str | None = None) -> Volume | None:
        """The volume with this data root and this limit or disk; None where none is given: the base's.

        A data root in memory is not limited with the base's limit, nor is the base's disk made there: it has
        no disk.

        Raises:
            StorageError: it is not here, or cannot be written.
            UsageError, HarnessError: its disk cannot be limited.
        """
        if data_root is None and disk_iops is None and disk is None:
            return None
        slow = self.base.slow_disk
        if data_root is not None:
            root = self._root(data_root)
        else:
            root = self.base.below
        iops, named = disk_iops, disk
        if iops is None and named is None and not root.storage.in_memory:
            iops = self.base.disk_limit.record.write_iops if self.base.disk_limit else None
            named = slow.profile.name if slow else None
        key = (root.path, iops, named)
        if key not in self._open:
            self._open[key] = self._made(root, iops, named)
        return self._open[key]

    def close(self) -> None:
        """Lifts the limits."""
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

    def _made(self, root: DataRoot, iops: int | None, disk: str | None) -> Volume:
        return self._stack.enter_context(volume_in(root, iops, disk, self._progress))


class PaperVolumes(Volumes):
    """Volumes that are only looked at; no disk is limited or made."""

    def _root(self, text: str) -> DataRoot:
        return paper_root(self._folder(text))

    def _made(self, root: DataRoot, iops: int | None, disk: str | None) -> Volume:
        if disk is not None:
            parse_disk(disk)
        return Volume(root)


class NoVolumes(Volumes):
    """No volumes: a server that runs already stays where it is."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def open(self, data_root: str | None, disk_iops: int | None, disk: str | None = None) -> None:
        """Never for an arm with a place of its own.

        Raises:
            StorageError: it has one.
        """
        if (data_root, disk_iops, disk) == (None, None, None):
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
