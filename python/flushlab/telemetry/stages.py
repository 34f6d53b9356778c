"""Stages: where statements spend their time inside the server.

Telemetry layer. From performance_schema, where a server has them switched off by default, apart from those
that report progress (ALTER TABLE's in InnoDB, on MySQL); `performance.switch_on` switches them on.
"""

from __future__ import annotations

from flushlab.errors import ServerError
from flushlab.record import StageTime
from flushlab.server.protocol import Server
from flushlab.telemetry import performance_schema
from flushlab.telemetry.performance_schema import PICOSECONDS, Reading

INSTRUMENTS = "stage/%"

_SUMMARY = """
SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT
FROM performance_schema.events_stages_summary_global_by_event_name WHERE COUNT_STAR > 0
"""


def read(server: Server) -> Reading:
    """The stages since the server's start.

    Raises:
        ServerDied: the server is gone.
    """
    try:
        if not performance_schema.is_on(server):
            return Reading(note=performance_schema.OFF)
        counters = performance_schema.read(server, _SUMMARY, key_columns=1)
        note = performance_schema.partly_off(server, INSTRUMENTS)
    except ServerError as error:
        return performance_schema.refused(server, error)
    return Reading(counters, note)


def between(before: Reading, after: Reading) -> tuple[StageTime, ...]:
    """The stages that were gone through in between, most time first."""
    found = [
        StageTime(stage=event.removeprefix("stage/"), count=count, seconds=picoseconds * PICOSECONDS)
        for (event,), (count, picoseconds) in performance_schema.deltas(
            before.counters, after.counters
        ).items()
        if count
    ]
    return tuple(sorted(found, key=lambda one: (-one.seconds, one.stage)))
