"""Performance: files, statements and stages as performance_schema counts them, on both ends of a window.

Telemetry layer. On a server that starts with `SETTINGS`, `switch_on` makes all of them tell all they can.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.record import Performance, StageTime, StatementKind
from flushlab.server.protocol import Server
from flushlab.telemetry import file_io, performance_schema
from flushlab.telemetry.files import Names, names
from flushlab.telemetry.performance_schema import PICOSECONDS, SETTINGS, Counters, Reading

__all__ = ["SETTINGS", "Snapshot", "between", "snapshot", "switch_on"]


_STATEMENTS, _STAGES = "statement/%", "stage/%"
INSTRUMENTS = (file_io.INSTRUMENTS, _STATEMENTS, _STAGES)
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


class Snapshot(msgspec.Struct, frozen=True):
    """What is counted since the server's start.

    Attributes:
        files, statements, stages: the readings.
        called: how this server's files are named.
    """

    files: Reading
    statements: Reading
    stages: Reading
    called: Names


def switch_on(server: Server) -> bool:
    """Makes all instruments count and leaves out flushlab's own connection; until the server's next start.

    Returns:
        False if performance_schema is off, so that nothing can be switched on.

    Raises:
        ServerError: the account may not do that.
    """
    if not performance_schema.is_on(server):
        return False
    for instruments in INSTRUMENTS:
        performance_schema.switch_on(server, instruments)
    performance_schema.leave_out_this_connection(server)
    return True


def snapshot(server: Server) -> Snapshot:
    """What is counted since the server's start; each reading for itself, so that one that is refused stops
    no other.

    Raises:
        ServerDied: the server is gone.
    """
    return Snapshot(file_io.read(server), read_statements(server), read_stages(server), names(server))


def read_statements(server: Server) -> Reading:
    """Statements that have ended, by kind; without performance_schema from the Com_… counters, which only
    count."""
    found = performance_schema.read(server, _STATEMENT_SUMMARY, key_columns=1, instruments=_STATEMENTS)
    if found.note != performance_schema.OFF:
        return found
    rows = server.query(_STATEMENT_COUNTERS)
    counts: Counters = {(f"statement/sql/{name[4:]}",): (int(count),) for name, count in rows}
    return Reading(counts, f"counts without times: {performance_schema.OFF}")


def read_stages(server: Server) -> Reading:
    """Stages: where statements spend their time inside the server."""
    return performance_schema.read(server, _STAGE_SUMMARY, key_columns=1, instruments=_STAGES)


def statements_between(before: Reading, after: Reading) -> tuple[StatementKind, ...]:
    """The kinds that occurred in between, most time first."""
    found = [
        _kind(event, *counts)
        for (event,), counts in performance_schema.deltas(before.counters, after.counters).items()
        if counts[0]
    ]
    return tuple(sorted(found, key=lambda one: (-(one.seconds or 0.0), -one.count, one.kind)))


def _kind(event: str, count: int, picoseconds: int | None = None, *more: int) -> StatementKind:
    errors, rows = more or (None, None)
    return StatementKind(
        kind=event.removeprefix("statement/").removeprefix("sql/"),
        count=count,
        seconds=None if picoseconds is None else picoseconds * PICOSECONDS,
        errors=errors,
        rows_affected=rows,
    )


def stages_between(before: Reading, after: Reading) -> tuple[StageTime, ...]:
    """The stages that were gone through in between, most time first."""
    deltas = performance_schema.deltas(before.counters, after.counters)
    found = [
        StageTime(stage=event.removeprefix("stage/"), count=count, seconds=picoseconds * PICOSECONDS)
        for (event,), (count, picoseconds) in deltas.items()
        if count
    ]
    return tuple(sorted(found, key=lambda one: (-one.seconds, one.stage)))


def between(before: Snapshot, after: Snapshot, fsyncs: Mapping[str, int] | None = None) -> Performance:
    """What happened in between.

    Args:
        before, after: of one server that was not restarted meanwhile.
        fsyncs: as the kernel counted them, by file; see `activity.Watched`.
    """
    readings = {
        "io_by_file": after.files,
        "statements_by_kind": after.statements,
        "stages": after.stages,
    }
    return Performance(
        io_by_file=file_io.between(before.files, after.files, after.called, fsyncs),
        statements_by_kind=statements_between(before.statements, after.statements),
        stages=stages_between(before.stages, after.stages),
        untold={name: reading.note for name, reading in readings.items() if reading.note},
    )
