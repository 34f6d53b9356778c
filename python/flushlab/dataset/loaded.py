"""Loaded: the user's data as a snapshot, made once and found again by content.

Sits in `dataset`; trials and test suites start from it. The steps from a dump to a snapshot:

1. A server without any protection of data (the floor `throwaway`) loads the dump.
2. The server stops in an orderly way and starts again with the settings that shape files.
3. The server updates the statistics of its tables.
4. The data directory is saved.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from flushlab.build.build import Build
from flushlab.datadir import DataRoot, Snapshot, SnapshotKey, Snapshots
from flushlab.dataset.directory import Directory, adopt, require_prepared
from flushlab.dataset.dump import Dump, SqlData, SqlFolder, sql_files
from flushlab.dataset.filling import Filling
from flushlab.dataset.survey import Survey, pieces
from flushlab.dataset.tool_folders import DONE, HEADER, METADATA, MydumperDump, ShellDump
from flushlab.errors import StorageError, UsageError
from flushlab.machine import available_memory_bytes
from flushlab.progress import Progress
from flushlab.record import Value
from flushlab.server import Sandbox, SandboxSpec, Server
from flushlab.server.sql import SYSTEM_LIST, is_system, quoted, require_not_system
from flushlab.units import counted, format_seconds, format_size

Dataset = SqlData | Directory

TAKES = "--dataset takes an SQL dump (.sql, .sql.gz, .sql.zst), a dump folder or a stopped data directory"

_STREAMED = {
    b"XBSTCK01": "a backup stream: unpack it with xbstream -x or mbstream -x, then prepare it",
    b"PK\x03\x04": "an archive: unpack it with unzip, then give the folder or the file in it",
}


def open_dataset(path: Path | str) -> Dataset:
    path = Path(path).expanduser().absolute()
    if path.is_file():
        _require_sql(path)
        return Dump(path=str(path))
    if not path.is_dir():
        raise StorageError(f"there is no {path}", hint=TAKES)
    if (path / "ibdata1").is_file():
        return Directory.open(path)
    if (path / HEADER).is_file():
        if not (path / DONE).is_file():
            raise StorageError(
                f"{path} is an unfinished dump of MySQL Shell: it has no {DONE}", hint="make the dump again"
            )
        return ShellDump(path=str(path))
    if (path / METADATA).is_file():
        return MydumperDump(path=str(path))
    if (path / f"{METADATA}.partial").is_file():
        raise StorageError(f"{path} is an unfinished dump of mydumper", hint="make the dump again")
    require_prepared(path)  # all of a compressed backup is compressed, ibdata1 too
    scripts = sql_files(path)
    if not scripts:
        raise StorageError(
            f"{path} holds neither a dump nor a data directory (it has no .sql file and no ibdata1)",
            hint=TAKES,
        )
    for file in scripts:
        _require_sql(file)
    return SqlFolder(path=str(path))


def choose_database(data: Dataset, asked: str | None) -> str:
    there = data.databases
    if asked is None and len(there) == 1:
        return require_not_system(there[0])
    if asked is None:
        rest = "; another NAME loads all files into one database" if data.takes_any else ""
        raise UsageError(
            f"{data.path} has {len(there)} databases: {_listed(there)}"
            if there
            else f"{data.path} has no database besides the server's own",
            hint="use a dump that has one"
            if not there
            else f"choose the workload's with --database NAME{rest}",
        )
    if asked not in there and not data.takes_any:
        raise UsageError(
            f"there is no database {asked} in {data.path}", hint=f"it has {_listed(there)}" if there else None
        )
    return require_not_system(asked)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def _require_sql(path: Path) -> None:
    head = next(pieces(path), b"")
    for magic, what in _STREAMED.items():
        if head.startswith(magic):
            raise StorageError(f"{path} is not a dump", hint=what)
    if not head.strip():
        raise StorageError(f"{path} is empty", hint=TAKES)
    if b"\0" in head[:4096]:
        raise StorageError(f"{path} is not an SQL dump: it is binary", hint=TAKES)


FORMAT = "7"
"""Raise this when the way data sets are loaded changes."""

NO_PLUGINS = "--plugin-dir=/nonexistent"
"""A copied directory names libraries that its server loaded; this one finds none, and then forgets them."""

_LEAST_POOL = 128 << 20
_POOL_SHARE = 0.5
_POOL_PER_SQL = 1.5
_LARGEST_PACKET = 1 << 30
_SORT_BUFFER = 16 << 20
_FILL_PERCENT = 70
"""Of the pages of an index that is built by sorting: about what inserts in random order leave. Full pages
would split under a workload's first inserts, as those of a server in production do not."""
_LEAST_REDO, _MOST_REDO = 64 << 20, 1 << 30
"""The redo log is as large as the dump, within these: MySQL before 8.0.30 writes all of it at its start."""

USER_TABLES = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
    f"AND table_schema NOT IN {SYSTEM_LIST}"
)


def loaded(
    build: Build,
    data: Dataset,
    *,
    database: str,
    layout: Mapping[str, Value],
    data_root: DataRoot,
    snapshots: Snapshots,
    progress: Progress,
) -> Snapshot:
    """The snapshot of a data set on a build; made if it is not there.

    Args:
        database: the workload's; a dump that names none goes there. Empty: none in particular.
        layout: settings that shape files.
        data_root: of the loading server.

    Raises:
        DumpRefused: the server did not take a statement; it was tried once.
    """
    key = SnapshotKey(
        {
            "format": FORMAT,
            "build": build.id,
            **{f"set:{name}": str(value) for name, value in layout.items()},
            **data.key,
            # Files of a folder that name no database go into the workload's.
            **(
                {"database": database or data.databases[0]}
                if data.takes_any or isinstance(data, SqlFolder)
                else {}
            ),
        }
    )
    found = snapshots.find(key)
    if found is not None:
        return found

    def fill(target: Path) -> None:
        if isinstance(data, Directory):
            copied = snapshots.make(SnapshotKey({"format": FORMAT, **data.key}), data.copy)
            progress(f"starting {build.name} on a copy of {data.path}")
            server = Sandbox.start(
                SandboxSpec(
                    build,
                    settings=layout,
                    arguments=[NO_PLUGINS],
                    data_root=data_root,
                    snapshot=copied,
                    snapshots=snapshots,
                )
            )
        else:
            server = Sandbox.start(
                SandboxSpec(
                    build,
                    settings={**fast_settings(build, data.survey()), **layout},
                    arguments=["--debug-no-sync"] if build.flavor == "mariadb" else [],
                    data_root=data_root,
                ),
                progress,
            )
        with server:
            adopt(server)
            if not isinstance(data, Directory):
                _load(server, data, database, progress)
                server.stop()
                server.set_before_start(layout, [])
                server.start_again()
            if database:
                _require(server, database, data.path)
            analyze(server)
            server.stop()
            server.move_datadir(target)

    return snapshots.make(key, fill)


def estimated_bytes(data: Dataset) -> int:
    if isinstance(data, Directory):
        return sum(file.stat().st_size for file in data.files)
    return _in_tables(data.survey())


def _in_tables(survey: Survey) -> int:
    return int(_POOL_PER_SQL * max(survey.sql_bytes, survey.bytes))


def analyze(server: Server) -> None:
    for schema, table in server.query(USER_TABLES):
        server.query(f"ANALYZE TABLE {quoted(schema, table)}")


def _load(server: Server, dump: SqlData, database: str, progress: Progress) -> None:
    survey = dump.survey()
    progress(f"loading {dump.path} ({format_size(survey.bytes)}) into {server.identity.name}")
    filling = Filling(server, survey, database or dump.databases[0], progress, dump.path)
    began = time.monotonic()
    filling.create_definers()
    dump.load(filling)
    seconds = time.monotonic() - began
    tables = len(server.query(USER_TABLES))
    rate = f"{format_size(survey.sql_bytes / max(seconds, 0.001))}/s of SQL"
    progress(f"loaded {dump.path} in {format_seconds(seconds)} ({rate}, {counted(tables, 'table')})")
    for note in filling.notes():
        progress(f"warning: {note}")


def _require(server: Server, database: str, path: str) -> None:
    there = [str(name) for (name,) in server.query("SELECT schema_name FROM information_schema.schemata")]
    own = [name for name in there if not is_system(name)]
    if not own:
        raise StorageError(f"{path} holds no database", hint="give a dump that has one")
    if database not in own:
        raise UsageError(
            f"there is no database {database} in {path}", hint=f"it has {', '.join(own)}; use --database NAME"
        )


def fast_settings(build: Build, survey: Survey) -> dict[str, Value]:
    pool = max(_LEAST_POOL, _in_tables(survey))
    settings: dict[str, Value] = {
        "innodb_flush_log_at_trx_commit": 0,
        "innodb_doublewrite": "OFF",
        "innodb_flush_method": "nosync",
        "innodb_buffer_pool_size": min(pool, max(_LEAST_POOL, int(_POOL_SHARE * available_memory_bytes()))),
        "innodb_buffer_pool_load_at_startup": "OFF",
        "innodb_buffer_pool_dump_at_shutdown": "OFF",
        "innodb_io_capacity": 2000,
        "innodb_io_capacity_max": 20000,
        "innodb_log_buffer_size": 64 << 20,
        "innodb_sort_buffer_size": _SORT_BUFFER,
        "innodb_fill_factor": _FILL_PERCENT,
        "max_allowed_packet": _LARGEST_PACKET,
        "performance_schema": "OFF",
    }
    redo = min(_MOST_REDO, max(_LEAST_REDO, -(-survey.sql_bytes // (1 << 20)) << 20))
    if build.flavor == "mysql" and build.version >= (8, 0, 30):
        settings["innodb_redo_log_capacity"] = 2 * redo
    else:
        settings["innodb_log_file_size"] = redo
    if build.flavor == "mysql" and build.version >= (8, 0):
        settings["log_bin"] = "OFF"
    if build.flavor == "mysql" and build.version >= (8, 0, 27):
        settings["innodb_ddl_buffer_size"] = 4 * _SORT_BUFFER
    return settings
