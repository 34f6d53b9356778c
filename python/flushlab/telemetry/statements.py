"""Statements by kind: how many of each, and how long they took.

Telemetry layer. From performance_schema's summary; without it, from the Com_… counters, which only count. A
statement counts when it has ended.
"""

from __future__ import annotations

from flushlab.errors import ServerError
from flushlab.record import StatementKind
from flushlab.server.protocol import Server
from flushlab.telemetry import performance_schema
from flushlab.telemetry.performance_schema import PICOSECONDS, Counters, Reading

INSTRUMENTS = "statement/%"

_SUMMARY = """
SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT, SUM_ERRORS, SUM_ROWS_AFFECTED
FROM performance_schema.events_statements_summary_global_by_event_name WHERE COUNT_STAR > 0
"""
_COUNTERS = "SHOW GLOBAL STATUS LIKE 'Com\\_%'"


def read(server: Server) -> Reading:
    """The statements since the server's start, by kind.

    Raises:
        ServerDied: the server is gone.
    """
    try:
        if not performance_schema.is_on(server):
            return Reading(_counts_alone(server), f"counts without times: {performance_schema.OFF}")
        counters = performance_schema.read(server, _SUMMARY, key_columns=1)
        note = performance_schema.partly_off(server, INSTRUMENTS)
    except ServerError as error:
        return performance_schema.refused(server, error)
    return Reading(counters, note)


def _counts_alone(server: Server) -> Counters:
    return {(f"statement/sql/{name[4:]}",): (int(count),) for name, count in server.query(_COUNTERS)}


def between(before: Reading, after: Reading) -> tuple[StatementKind, ...]:
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
