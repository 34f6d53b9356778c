"""Performance: what the server tells of its own work, on both ends of a window.

Telemetry layer; the registry of the collectors that read performance_schema. Each is read for itself: what
one cannot tell is noted, and the others go on. On a server that starts with `SETTINGS`, `switch_on` makes
every collector tell all it can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from flushlab.record import Performance
from flushlab.server.protocol import Server
from flushlab.telemetry import file_io, performance_schema, stages, statements
from flushlab.telemetry.files import Names, names
from flushlab.telemetry.performance_schema import SETTINGS, Reading

__all__ = ["SETTINGS", "Snapshot", "between", "snapshot", "switch_on"]


class Collector(Protocol):
    """A module that reads one kind of counters.

    Attributes:
        INSTRUMENTS: pattern of the instruments that must count for it.
    """

    INSTRUMENTS: str

    def read(self, server: Server) -> Reading:
        """The counters since the server's start, or why there are none."""
        ...


COLLECTORS: Mapping[str, Collector] = {
    "io_by_file": file_io,
    "statements_by_kind": statements,
    "stages": stages,
}
"""By the field of `record.Performance` that it fills."""


class Snapshot(msgspec.Struct, frozen=True):
    """All collectors at one moment.

    Attributes:
        readings: by the name of the collector.
        called: how this server's files are named.
    """

    readings: Mapping[str, Reading]
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
    for collector in COLLECTORS.values():
        performance_schema.switch_on(server, collector.INSTRUMENTS)
    performance_schema.leave_out_this_connection(server)
    return True


def snapshot(server: Server) -> Snapshot:
    """What is counted since the server's start.

    Raises:
        ServerDied: the server is gone.
    """
    readings = {name: collector.read(server) for name, collector in COLLECTORS.items()}
    return Snapshot(readings, names(server))


def between(before: Snapshot, after: Snapshot, fsyncs: Mapping[str, int] | None = None) -> Performance:
    """What happened in between.

    Args:
        before, after: of one server that was not restarted meanwhile.
        fsyncs: as the kernel counted them, by file; see `activity.Watched`.
    """
    old, new = before.readings, after.readings
    return Performance(
        io_by_file=file_io.between(old["io_by_file"], new["io_by_file"], after.called, fsyncs),
        statements_by_kind=statements.between(old["statements_by_kind"], new["statements_by_kind"]),
        stages=stages.between(old["stages"], new["stages"]),
        untold={name: reading.note for name, reading in new.items() if reading.note},
    )
