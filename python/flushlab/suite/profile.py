"""Profile: the settings of a sandbox for tests, each with its reason and its measured gain.

Suite layer, pure. Settings that cost time to protect data are off. Settings that change the results of SQL
(sql_mode, isolation, character sets, checks) stay. Resets need a binary log besides. Ratios are measured by
the shipped plan `throwaway` (`flushlab series throwaway --data-root /dev/shm/…`) and by
`benchmarks/flyway_suite.py`.

Two places: `memory`, where an fsync costs nothing, and `disk`, where the server skips as many as it can.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from flushlab.datadir import DataRoot
from flushlab.datadir.data_root import storage_of
from flushlab.errors import NotWritable
from flushlab.machine import available_memory_bytes, memory_bytes
from flushlab.record import Value
from flushlab.record.machine import Flavor
from flushlab.units import format_size

Where = Literal["memory", "disk"]


class ServerKind(Protocol):
    """A server as far as the profile goes: a build, or the image of a container."""

    @property
    def flavor(self) -> Flavor:
        """`mysql` or `mariadb`."""
        ...

    @property
    def version(self) -> tuple[int, ...]:
        """As numbers."""
        ...


class ProfileChoice(msgspec.Struct, frozen=True, kw_only=True):
    """`why`: time or I/O saved, with the measured ratio; `until` is excluded; None: for both."""

    name: str
    value: Value
    why: str
    flavor: Flavor | None = None
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = (999,)
    where: Where | None = None

    def holds(self, build: ServerKind, where: Where) -> bool:
        return (
            self.flavor in (None, build.flavor)
            and self.since <= build.version < self.until
            and self.where in (None, where)
        )


CHOICES = (
    ProfileChoice(
        name="log_bin",
        value="OFF",
        why="a test server has no replicas; on by default since 8.0",
        flavor="mysql",
        since=(8, 0),
    ),
    ProfileChoice(
        name="innodb_flush_log_at_trx_commit",
        value=0,
        why="commits do not write the redo log; no difference found in memory; it matters on disk",
    ),
    ProfileChoice(
        name="innodb_doublewrite",
        value="OFF",
        why="pages are written once; with the setting above 1.05 to 1.15 times as fast in memory, on 9.7 no"
        " difference found",
    ),
    ProfileChoice(
        name="performance_schema",
        value="OFF",
        why="its memory is allocated at every start; migrations 0.99 to 1.10, no difference found;"
        " `--compare` switches it on",
    ),
    ProfileChoice(
        name="innodb_file_per_table",
        value="OFF",
        why="migrations 2.74 times as fast in memory [2.29, 3.28]: a table is not a file. A suite with"
        " ROW_FORMAT=COMPRESSED needs --set innodb_file_per_table=ON",
        flavor="mysql",
        until=(8, 0),
    ),
    ProfileChoice(name="innodb_buffer_pool_load_at_startup", value="OFF", why="nothing to load"),
    ProfileChoice(name="innodb_buffer_pool_dump_at_shutdown", value="OFF", why="nothing to keep"),
    ProfileChoice(
        name="innodb_log_file_size",
        value="16M",
        why="less to copy: a data directory of MariaDB takes 45 instead of 125 MiB; migrations 0.97 to 1.21,"
        " no difference found",
        flavor="mariadb",
    ),
    ProfileChoice(
        name="innodb_log_file_size",
        value="16M",
        why="less to copy",
        flavor="mysql",
        until=(8, 0, 30),
    ),
    ProfileChoice(
        name="innodb_redo_log_capacity",
        value="32M",
        why="less to copy; a data directory of MySQL 9.7 takes 122 instead of 190 MiB",
        flavor="mysql",
        since=(8, 0, 30),
    ),
    ProfileChoice(
        name="innodb_flush_method", value="nosync", why="data files are never synced", where="disk"
    ),
)

_ARGUMENTS: Mapping[Flavor, tuple[str, ...]] = {"mariadb": ("--debug-no-sync",), "mysql": ()}
"""On disk: MariaDB's own switch also leaves out the syncs of DDL logs and of Aria."""


def throwaway(build: ServerKind, where: Where, chosen: Mapping[str, Value] | None = None) -> dict[str, Value]:
    return {one.name: one.value for one in CHOICES if one.holds(build, where)} | dict(chosen or {})


def arguments(build: ServerKind, where: Where) -> tuple[str, ...]:
    return _ARGUMENTS[build.flavor] if where == "disk" else ()


_LOG: Mapping[str, Value] = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "sync_binlog": 0,
    "log_bin_trust_function_creators": "ON",
}
"""A binary log that says what every transaction changed, and lets functions be created as without one.

MySQL does without GTIDs: it stores them in a table of its own now and then, as if rows were not logged.
"""


def undoable(build: ServerKind, where: Where, chosen: Mapping[str, Value]) -> dict[str, Value]:
    return throwaway(build, where, {**logging_rows(build, chosen), **chosen})


def logging_rows(build: ServerKind, chosen: Mapping[str, Value]) -> dict[str, Value]:
    if {"log_bin", "skip_log_bin", "binlog_format", "binlog_row_image"}.intersection(chosen):
        return {}
    return {**_LOG, **({"gtid_mode": "OFF"} if build.flavor == "mysql" else {})}


def content_settings(settings: Mapping[str, Value]) -> dict[str, Value]:
    others = {"performance_schema", *(one.name for one in CHOICES if one.where is not None)}
    return {name: value for name, value in settings.items() if name not in others}


FOLDERS = ("/dev/shm", "/run/shm")

GROWTH_BYTES = 256 << 20
"""Room for what a suite writes on top of its template."""

SERVER_BYTES = 384 << 20
"""Memory of one server's process with the throwaway profile; largest seen: MySQL 9.7."""

_RESERVE_SHARE = 0.1
_LEAST_RESERVE_BYTES = 512 << 20


class ChosenRoot(msgspec.Struct, frozen=True, kw_only=True):
    root: DataRoot
    in_memory: bool
    reason: str = ""

    @property
    def where(self) -> Where:
        return "memory" if self.in_memory else "disk"


def reserve_bytes() -> int:
    return max(_LEAST_RESERVE_BYTES, int(memory_bytes() * _RESERVE_SHARE))


def memory_for(root: ChosenRoot, template_bytes: int, servers: int) -> int:
    data = template_bytes + GROWTH_BYTES if root.in_memory else 0
    return servers * (data + SERVER_BYTES)


def has_room(root: ChosenRoot, template_bytes: int, servers: int) -> bool:
    fits = memory_for(root, template_bytes, servers) + reserve_bytes() <= available_memory_bytes()
    return fits and servers * (template_bytes + GROWTH_BYTES) <= root.root.free_bytes()


def choose_root(
    template_bytes: int, servers: int, data_root: Path | None, *, memory: bool = True
) -> ChosenRoot:
    if not memory:
        return ChosenRoot(root=DataRoot.open(data_root), in_memory=False, reason="--no-in-memory")
    needed = servers * (template_bytes + GROWTH_BYTES)
    available, reserve = available_memory_bytes(), reserve_bytes()
    reason = "there is no writable tmpfs"
    if needed + servers * SERVER_BYTES + reserve > available:
        reason = (
            f"{format_size(available)} of memory is free; {servers} data director"
            f"{'y' if servers == 1 else 'ies'} with a reserve would need"
            f" {format_size(needed + servers * SERVER_BYTES + reserve)}"
        )
        return ChosenRoot(root=DataRoot.open(data_root), in_memory=False, reason=reason)
    for folder in FOLDERS:
        path = Path(folder)
        if not path.is_dir() or not storage_of(path).in_memory:
            continue
        facts = os.statvfs(path)
        free = facts.f_bavail * facts.f_frsize
        if free < needed:
            reason = f"{folder} has {format_size(free)} free of the {format_size(needed)} that may be needed"
            continue
        try:
            return ChosenRoot(root=DataRoot.open(path), in_memory=True)
        except NotWritable as error:
            reason = error.message
    return ChosenRoot(root=DataRoot.open(data_root), in_memory=False, reason=reason)
