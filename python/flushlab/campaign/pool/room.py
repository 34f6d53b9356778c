"""Room: how much memory and disk servers take, and how many of them this machine holds.

Sits in `campaign.pool`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from flushlab.campaign.request import SeriesRequest
from flushlab.campaign.scheduling import Capacity
from flushlab.datadir import DataRoot, Volume, own_disk, storage_of, volume_in
from flushlab.errors import StorageError
from flushlab.machine import available_memory_bytes
from flushlab.progress import Progress, silent
from flushlab.record import ServerIdentity, Storage, Value
from flushlab.settings.configuration import Configuration
from flushlab.settings.fit import number_of
from flushlab.units import format_size
from flushlab.workload.parse import workload_options

BESIDE_BYTES = 300 << 20
"""Of a server, beside its buffer pool and log buffer (measured: 110 MiB to 250 MiB with 16 connections)."""
POOL_SHARE = 0.08
"""Of a pool's size that a server takes as it starts (measured: MySQL 5.7 and 8.0 8.1 %, MariaDB 1.9 %)."""
MADE_BYTES = 512 << 20
"""Of pages that a workload may add to its data while it is driven; a pool may fill up to them."""
MEMORY_SHARE = 0.8
"""Servers that are kept running may take so much of the memory that is free."""

EMPTY_BYTES = 150 << 20
"""About what a data directory without data takes, its redo log aside."""

ROW_BYTES, FEW_ROWS = 248, 50_000
"""Of sysbench's tables, with their index (measured: 8 × 250,000 rows take 473 MiB)."""
SMALL_ROW_BYTES = 280
"""Of tables with few rows (measured: 8 × 10,000 rows take 21.4 MiB)."""

DUMP_GROWS = 2
"""Tables take about so many times the size of their dump."""

PACKED = 5
"""A compressed dump is about so many times smaller."""


def room(
    settings: Sequence[Mapping[str, Value]], identity: ServerIdentity, root: DataRoot, data_bytes: int | None
) -> Capacity:
    def server_bytes(own: Mapping[str, Value]) -> int:
        configuration = Configuration(own, identity)
        pool = number_of(configuration, "innodb_buffer_pool_size")
        pages = pool if data_bytes is None else min(pool, data_bytes + MADE_BYTES)
        log_buffer = number_of(configuration, "innodb_log_buffer_size")
        return round(pages + POOL_SHARE * pool) + log_buffer + BESIDE_BYTES

    free = available_memory_bytes()
    each = identity.nodes * max(map(server_bytes, settings))
    found = Capacity(int(MEMORY_SHARE * free // each), _each(each, free, "of memory"))
    if copy := identity.nodes * (copy_bytes(settings, identity, data_bytes) or 0):
        free = root.free_bytes()
        if (most := max(free // copy - 1, 0)) < found.servers:  # the snapshot is one more
            return Capacity(most, _each(copy, free, "on the disk"))
    return found


def _each(each: int, free: int, where: str) -> str:
    return f"each may take {format_size(each)} of {format_size(free)} {where}"


def copy_bytes(
    arms: Iterable[Mapping[str, Value]], identity: ServerIdentity, data_bytes: int | None
) -> int | None:
    redo = max(Configuration(settings, identity).redo_capacity_bytes or 0 for settings in arms)
    return None if data_bytes is None else data_bytes + EMPTY_BYTES + redo


def data_bytes_of(workload: str, options: Mapping[str, object], dataset: str | None) -> int | None:
    if dataset is not None:
        path = Path(dataset)
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        if (path / "ibdata1").is_file():
            return sum(file.stat().st_size for file in files)
        packed = (PACKED if file.suffix in (".gz", ".zst") else 1 for file in files)
        return sum(file.stat().st_size * DUMP_GROWS * by for file, by in zip(files, packed, strict=True))
    known = {name: option.default for name, option in workload_options(workload).items()}
    if "table_size" not in known:
        return None
    tables, rows = ({"tables": 1, **known, **options}[name] for name in ("tables", "table_size"))
    if not isinstance(tables, int) or not isinstance(rows, int):
        return None
    return tables * rows * (SMALL_ROW_BYTES if rows < FEW_ROWS else ROW_BYTES)


def data_bytes_of_arms(request: SeriesRequest) -> int | None:
    data = [
        data_bytes_of(arm.workload.name, arm.workload.options, request.spec.data.dataset)
        for arm in (request.base, *request.running)
    ]
    known = [one for one in data if one is not None]
    return max(known) if len(known) == len(data) else None


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Volumes:
    def __init__(self, base: Volume, progress: Progress = silent) -> None:
        self.base = base
        self._progress = progress
        self._stack = ExitStack()
        self._open: dict[tuple[Path, str | None], Volume] = {}

    def open(self, data_root: str | None, disk: str | None) -> Volume | None:
        """None where none is given: the base's, whose disk is not made in a data root in memory."""
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
    def _root(self, text: str) -> DataRoot:
        return paper_root(self._folder(text))

    def _made(self, root: DataRoot, disk: str | None) -> Volume:
        own_disk(disk)
        return Volume(root)


class NoVolumes(Volumes):
    def __init__(self) -> None:
        self._stack = ExitStack()

    def open(self, data_root: str | None, disk: str | None) -> None:
        if (data_root, disk) == (None, None):
            return
        raise StorageError("one running server cannot move to another place")


def paper_root(path: Path) -> DataRoot:
    path = path.expanduser().absolute()
    existing = next(folder for folder in (path, *path.parents) if folder.is_dir())
    return DataRoot(path=existing, storage=storage_of(existing))


def expanded(text: str) -> str:
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
