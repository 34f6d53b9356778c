"""Performance: files, statements and stages as performance_schema counts them, on both ends of a window.

Telemetry layer. On a server that starts with `SETTINGS`, `switch_on` makes all of them tell all they can.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import msgspec

from flushlab.errors import ServerError
from flushlab.record import FileActivity, FileIo, Performance, StageTime, StatementKind, Value
from flushlab.server.control import StatementFailed
from flushlab.server.protocol import Server
from flushlab.server.sql import account_of
from flushlab.telemetry.files import REMOVED, Names, classify, inside, names

SETTINGS: Mapping[str, Value] = {"performance_schema": "ON"}
"""With which a server must start for the collectors to see anything."""

OFF = "performance_schema is OFF: start the server with performance_schema=ON"

_DENIED = {1044, 1142, 1143}
"""ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR."""

PICOSECONDS = 1e-12
"""Unit of its timers (manual: "Timers in the Performance Schema tables use picoseconds")."""

Key = tuple[str, ...]
Counters = Mapping[Key, tuple[int, ...]]


class Reading(msgspec.Struct, frozen=True):
    counters: Counters = {}
    note: str = ""


def is_on(server: Server) -> bool:
    rows = server.query("SHOW GLOBAL VARIABLES LIKE 'performance_schema'")
    return bool(rows) and str(rows[0][1]).upper() in ("ON", "1")


def read(server: Server, summary: str, *, key_columns: int, instruments: str) -> Reading:
    """`summary` yields `key_columns` names, then integers; `instruments` is a pattern of those that must
    count for it."""
    counting = (
        "SELECT COUNT(*), SUM(ENABLED = 'YES' AND TIMED = 'YES') FROM performance_schema.setup_instruments"
        f" WHERE NAME LIKE '{instruments}'"
    )
    try:
        if not is_on(server):
            return Reading(note=OFF)
        counters = {
            tuple(str(name) for name in row[:key_columns]): tuple(int(count) for count in row[key_columns:])
            for row in server.query(summary)
        }
        ((count, on),) = server.query(counting)
        is_whole = int(on or 0) == int(count)
        return Reading(
            counters, "" if is_whole else f"{int(on or 0)} of {count} instruments {instruments} are on"
        )
    except StatementFailed as error:  # for want of a right or of a table
        if not server.alive():
            raise
        if error.errno not in _DENIED:
            return Reading(note=f"{error.text} (error {error.errno})")
        account = account_of(str(server.query("SELECT CURRENT_USER()")[0][0]))
        lacks = "the account lacks SELECT on performance_schema"
        return Reading(note=f"{lacks} (GRANT SELECT ON performance_schema.* TO {account})")
    except ServerError as error:
        if not server.alive():
            raise
        return Reading(note=error.message)


def deltas(before: Counters, after: Counters) -> dict[Key, tuple[int, ...]]:
    """A counter that went back was begun anew (another file of that name)."""
    grown = {}
    for key, counts in after.items():
        start = before.get(key, (0,) * len(counts))
        growth = tuple(now - then for now, then in zip(counts, start, strict=True))
        grown[key] = counts if min(growth, default=0) < 0 else growth
    return grown


FILE_INSTRUMENTS = "wait/io/file/%"
MOST_FILES = 20
"""Number of files with a row of their own."""

_COUNTED = (
    "COUNT_READ, COUNT_WRITE, COUNT_MISC, SUM_NUMBER_OF_BYTES_READ, SUM_NUMBER_OF_BYTES_WRITE,"
    " SUM_TIMER_WAIT, SUM_TIMER_MISC"
)
_COMMITS = "commits"
_SUMMARY = f"""
SELECT EVENT_NAME, '', {_COUNTED} FROM performance_schema.file_summary_by_event_name
WHERE EVENT_NAME IN (SELECT NAME FROM performance_schema.setup_instruments WHERE ENABLED = 'YES')
AND EXISTS (SELECT 1 FROM performance_schema.setup_consumers
    WHERE NAME = 'global_instrumentation' AND ENABLED = 'YES')
UNION ALL SELECT '{_COMMITS}', '', COALESCE(SUM(VARIABLE_VALUE), 0), 0, 0, 0, 0, 0, 0 FROM %s.global_status
WHERE VARIABLE_NAME IN ('Binlog_cache_use', 'Binlog_stmt_cache_use')
UNION ALL SELECT EVENT_NAME, FILE_NAME, {_COUNTED} FROM performance_schema.file_summary_by_instance
"""
"""The binary log's transactions are counted in the same statement, at the moment of its calls."""
_STATUS_SCHEMA = {"mariadb": "information_schema", "mysql": "performance_schema"}
"""Of GLOBAL_STATUS, in all versions (MySQL since 5.7)."""
_PLACE = "SELECT @@datadir, @@performance_schema_max_file_instances"
"""Room for so many files; -1 if it grows. (…_instances_lost also counts names without a folder.)"""

_BINLOG = "wait/io/file/sql/binlog"

_KINDS = {
    "wait/io/file/innodb/innodb_log_file": "redo",
    "wait/io/file/innodb/innodb_data_file": "data",
    "wait/io/file/innodb/innodb_dblwr_file": "doublewrite",
    _BINLOG: "binlog",
    "wait/io/file/sql/binlog_index": "binlog",
}
"""Class of files that are gone, by the only name that is left of them."""


def read_files(server: Server) -> Reading:
    found = read(
        server, _SUMMARY % _STATUS_SCHEMA[server.identity.flavor], key_columns=2, instruments=FILE_INSTRUMENTS
    )
    if not found.counters:
        return found
    datadir, room = server.query(_PLACE)[0]
    note = found.note
    if 0 < room <= sum(1 for _event, file in found.counters if file):
        note = f"files beyond {room} were not seen: raise performance_schema_max_file_instances"
    counters: Counters = {
        (event, inside(str(datadir), file) if file else ""): counts
        for (event, file), counts in found.counters.items()
    }
    return Reading(counters, note)


def files_between(
    before: Reading, after: Reading, called: Names | None = None, fsyncs: Mapping[str, int] | None = None
) -> tuple[FileIo, ...]:
    """Most time first; `fsyncs` is by file as `FileIo.file` names it, None where the kernel could not
    count."""
    grown = deltas(before.counters, after.counters)
    grown.pop((_COMMITS, ""), None)
    synced = fsyncs if fsyncs is not None else {}
    # A file has a row for each kind of file as which it was opened. A kind counted more than its files that
    # are still there have together: the rest was done to removed ones.
    by_file, removed = dict[str, list[int]](), dict[str, list[int]]()
    for (event, file), counts in grown.items():
        kind = _KINDS.get(event, "other")
        removed[kind] = _plus(removed.get(kind), counts, -1 if file else 1)
        if file:
            by_file[file] = _plus(by_file.get(file), counts)
    rows = list[tuple[FileIo, list[int] | None]]()
    for file in (by_file.keys() | synced.keys()) - {REMOVED}:
        of_file, syncs = by_file.get(file), None if fsyncs is None else fsyncs.get(file, 0)
        if any(of_file or ()) or syncs:
            rows.append((_file_io(file, classify(file, called or Names()), of_file, syncs), of_file))
    rows.sort(key=lambda row: _most_time_first(row[0]))
    told = [one for one, _ in rows[:MOST_FILES]]
    for kind in dict.fromkeys(one.kind for one, _ in rows[MOST_FILES:]):
        many = [row for row in rows[MOST_FILES:] if row[0].kind == kind]
        known = [row[1] for row in many if row[1] is not None]
        total = functools.reduce(_plus, known[1:], known[0]) if known else None
        syncs = None if fsyncs is None else sum(row[0].fsyncs or 0 for row in many)
        told.append(_file_io(f"{len(many)} more of class {kind}", kind, total, syncs, len(many)))
    for kind, rest in removed.items():
        if any(count > 0 for count in rest):
            left = [max(0, count) for count in rest]
            told.append(_file_io(f"removed files of class {kind}", kind, left, None, 0))
    if lost := synced.get(REMOVED, 0):  # the kernel does not tell of what class a removed file was
        told.append(FileIo(file="syncs of removed files", kind="other", files=0, fsyncs=lost))
    return tuple(sorted(told, key=_most_time_first))


def _file_io(
    name: str, kind: str, counts: Sequence[int] | None, fsyncs: int | None, files: int = 1
) -> FileIo:
    if counts is None:
        return FileIo(file=name, kind=kind, files=files, fsyncs=fsyncs)
    reads, writes, misc, read_bytes, written_bytes, picoseconds, misc_picoseconds = counts
    return FileIo(
        file=name,
        kind=kind,
        files=files,
        reads=reads,
        writes=writes,
        misc=misc,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        seconds=picoseconds * PICOSECONDS,
        misc_seconds=misc_picoseconds * PICOSECONDS,
        fsyncs=fsyncs,
    )


def _most_time_first(one: FileIo) -> tuple[float, int, str]:
    return (-(one.seconds or 0.0), -(one.fsyncs or 0), one.file)


def _plus(sums: Sequence[int] | None, counts: Sequence[int], sign: int = 1) -> list[int]:
    return [total + sign * count for total, count in zip(sums or [0] * len(counts), counts, strict=True)]


def binlog_between(before: Reading, after: Reading, commits: int | None = None) -> FileActivity | None:
    """Syncs include the opens and closes of a file, two for each file that is begun. A load goes on while the
    counters are read: with the `commits` of the measured window, the I/O is that of so many transactions.
    None where performance_schema does not count it.
    """
    grown = deltas(before.counters, after.counters)
    if (counts := grown.get((_BINLOG, ""))) is None:
        return None
    transactions = grown.get((_COMMITS, ""), (0,))[0]
    share = 1.0 if commits is None else commits / max(transactions, commits, 1)
    return FileActivity(fsyncs=round(counts[2] * share), bytes=round(counts[4] * share))


_STATEMENTS, _STAGES = "statement/%", "stage/%"
INSTRUMENTS = (FILE_INSTRUMENTS, _STATEMENTS, _STAGES)
"""Patterns of the instruments that must count."""

_STATEMENT_SUMMARY = """
SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT, SUM_ERRORS, SUM_ROWS_AFFECTED
FROM performance_schema.events_statements_summary_global_by_event_name WHERE COUNT_STAR > 0
"""
_STATEMENT_COUNTERS = "SHOW GLOBAL STATUS LIKE 'Com\\_%'"
_STAGE_SUMMARY = """
SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT
FROM performance_schema.events_stages_summary_global_by_event_name WHERE COUNT_STAR > 0
"""
"""Off by default, apart from stages that report progress (ALTER TABLE's in InnoDB, on MySQL)."""


class Readings(msgspec.Struct, frozen=True):
    files: Reading
    statements: Reading
    stages: Reading
    called: Names


def switch_on(server: Server) -> bool:
    """Until the server's next start, without flushlab's own connection; False if performance_schema is off.
    Raises ServerError if the account may not do that."""
    if not is_on(server):
        return False
    for instruments in INSTRUMENTS:
        server.query(
            "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'"
            f" WHERE NAME LIKE '{instruments}'"
        )
    server.query(
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'"
        " WHERE NAME IN ('global_instrumentation', 'thread_instrumentation')"
    )
    server.query(
        "UPDATE performance_schema.threads SET INSTRUMENTED = 'NO' WHERE PROCESSLIST_ID = CONNECTION_ID()"
    )
    return True


def snapshot(server: Server) -> Readings:
    """Each reading for itself, so that one that is refused stops no other. Raises ServerDied if the server is
    gone."""
    return Readings(read_files(server), read_statements(server), read_stages(server), names(server))


def read_statements(server: Server) -> Reading:
    """Statements that have ended, by kind; without performance_schema from the Com_… counters, which only
    count."""
    found = read(server, _STATEMENT_SUMMARY, key_columns=1, instruments=_STATEMENTS)
    if found.note != OFF:
        return found
    rows = server.query(_STATEMENT_COUNTERS)
    counts: Counters = {(f"statement/sql/{name[4:]}",): (int(count),) for name, count in rows}
    return Reading(counts, f"counts without times: {OFF}")


def read_stages(server: Server) -> Reading:
    return read(server, _STAGE_SUMMARY, key_columns=1, instruments=_STAGES)


def statements_between(before: Reading, after: Reading) -> tuple[StatementKind, ...]:
    kinds = []
    for (event,), counts in deltas(before.counters, after.counters).items():
        # Without performance_schema, there is a count alone.
        count, *rest = counts
        picoseconds, errors, rows = rest or (None, None, None)
        if count:
            kinds.append(
                StatementKind(
                    kind=event.removeprefix("statement/").removeprefix("sql/"),
                    count=count,
                    seconds=None if picoseconds is None else picoseconds * PICOSECONDS,
                    errors=errors,
                    rows_affected=rows,
                )
            )
    return tuple(sorted(kinds, key=lambda one: (-(one.seconds or 0.0), -one.count, one.kind)))


def stages_between(before: Reading, after: Reading) -> tuple[StageTime, ...]:
    stages = [
        StageTime(stage=event.removeprefix("stage/"), count=count, seconds=picoseconds * PICOSECONDS)
        for (event,), (count, picoseconds) in deltas(before.counters, after.counters).items()
        if count
    ]
    return tuple(sorted(stages, key=lambda one: (-one.seconds, one.stage)))


def between(before: Readings, after: Readings, fsyncs: Mapping[str, int] | None = None) -> Performance:
    """`before` and `after` are of one server that was not restarted meanwhile; `fsyncs` as of
    `activity.Watched`."""
    readings = {"io_by_file": after.files, "statements_by_kind": after.statements, "stages": after.stages}
    return Performance(
        io_by_file=files_between(before.files, after.files, after.called, fsyncs),
        statements_by_kind=statements_between(before.statements, after.statements),
        stages=stages_between(before.stages, after.stages),
        untold={name: reading.note for name, reading in readings.items() if reading.note},
    )
