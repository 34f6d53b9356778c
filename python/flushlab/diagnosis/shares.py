"""Shares: how large a part of the writers' time each wait is, with an interval. Pure.

By Little's law the mean number of connections in a state is the time spent there per second. A writer's time
is all that it was seen to do, its client's turn included: a closed loop of connections is as fast as the sum
of these allows. Connections that never wrote, or slept through, count nowhere.

The interval is a jackknife's over equal stretches of the window: samples of one stretch are alike.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from flushlab.diagnosis.waits import ROW_LOCK, is_write, wait_of
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import ThreadState

STRETCHES = 10
_T_975 = 2.262
"""Student's t of 9 degrees of freedom at 97.5 %."""
MOST = 100.0
"""No bound above this is worth a distinction."""


class Share(msgspec.Struct, frozen=True):
    """Part of the writers' time.

    Attributes:
        low, mid, high: 0 to 1; low and high are the ends of the 95 % interval.
    """

    low: float
    mid: float
    high: float

    @property
    def at_most(self) -> float:
        """Factor that throughput cannot exceed if this time goes, at the same number of connections."""
        return min(MOST, 1.0 / max(1.0 - self.high, 1.0 / MOST))

    def at_most_all(self, part: float) -> Share:
        """The share of something that is some part of this one, about so large: none of it to all of it."""
        return Share(0.0, self.mid * min(1.0, part), self.high)


def times(factor: float) -> str:
    """A bound in words: `1.4×`."""
    return f"{factor:.1f}×" if factor < 10 else f"{factor:.0f}×"


class WriteTime(msgspec.Struct, frozen=True, kw_only=True):
    """Where writers spent their time.

    Attributes:
        samples: moments at which connections were looked at.
        writers: connections that were seen to write.
        connections: by wait, the mean number of writers in it.
        stretches: the same by stretch of the window.
    """

    samples: int = 0
    writers: int = 0
    connections: Mapping[str, float] = {}
    stretches: tuple[Mapping[str, float], ...] = ()

    @property
    def total(self) -> float:
        """Mean number of writers at work, or in the middle of it."""
        return sum(self.connections.values())

    @property
    def in_server(self) -> float:
        """Mean number of writers that the server worked for."""
        return self.total - self.connections.get("client", 0.0)

    def within(self, part: float, *waits: str) -> Share | None:
        """Share of something within these waits that takes about this part of them; see `share`."""
        share = self.share(*waits)
        return None if share is None else share.at_most_all(part)

    def share(self, *waits: str) -> Share | None:
        """Part of these waits; None if no writer was seen."""
        whole = _ratio(self.connections, waits)
        if whole is None:
            return None
        parts = [
            found
            for leave in self.stretches
            if (found := _ratio(_less(self.stretches, leave), waits)) is not None
        ]
        if len(parts) < 2:
            return Share(0.0, whole, 1.0)
        mean = sum(parts) / len(parts)
        spread = math.sqrt((len(parts) - 1) / len(parts) * sum((one - mean) ** 2 for one in parts))
        # A share of samples has a spread of its own where all stretches are alike by chance.
        spread = max(spread, math.sqrt(max(whole * (1 - whole), 1e-4) / max(self.samples, 1)))
        half = _T_975 * spread
        return Share(max(0.0, whole - half), whole, min(1.0, whole + half))


class Tally:
    """Counts moments; `write_time` concludes.

    Args:
        identity: of the server.
    """

    def __init__(self, identity: ServerIdentity) -> None:
        self._identity = identity
        self._cells: Counter[tuple[int, int, str]] = Counter()
        self._moments: Counter[int] = Counter()
        self._writers: set[int] = set()

    def add(self, stretch: int, states: Iterable[ThreadState]) -> None:
        """One moment, in one of the `STRETCHES`."""
        self._moments[stretch] += 1
        for seen in states:
            wait = wait_of(seen, self._identity)
            if wait is None:
                continue
            if is_write(seen):
                self._writers.add(seen.id)
            self._cells[stretch, seen.id, wait] += 1

    def write_time(self, row_lock_connections: float = 0.0) -> WriteTime:
        """Where the writers' time went.

        Args:
            row_lock_connections: mean number of connections that waited for a row lock, by the server's
                counters; taken out of `statement`.
        """
        counts: dict[int, Counter[str]] = defaultdict(Counter)
        for (stretch, one, wait), count in self._cells.items():
            if one in self._writers:
                counts[stretch][wait] += count
        stretches = [
            {wait: count / self._moments[stretch] for wait, count in counts[stretch].items()}
            for stretch in sorted(self._moments)
        ]
        whole = Counter[str]()
        for found in counts.values():
            whole.update(found)
        moments = self._moments.total()
        connections = {wait: count / moments for wait, count in whole.items()}
        statement = connections.get("statement", 0.0)
        part = min(1.0, row_lock_connections / statement) if statement else 0.0
        return WriteTime(
            samples=moments,
            writers=len(self._writers),
            connections=_with_row_locks(connections, part),
            stretches=tuple(_with_row_locks(one, part) for one in stretches),
        )


def _with_row_locks(connections: Mapping[str, float], part: float) -> dict[str, float]:
    """The same, with a part of `statement` as row locks."""
    if not part or "statement" not in connections:
        return dict(connections)
    statement = connections["statement"]
    return {**connections, "statement": statement * (1 - part), ROW_LOCK: statement * part}


def _ratio(connections: Mapping[str, float], waits: tuple[str, ...]) -> float | None:
    total = sum(connections.values())
    return sum(connections.get(one, 0.0) for one in waits) / total if total else None


def _less(stretches: tuple[Mapping[str, float], ...], left_out: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in stretches:
        if one is not left_out:
            for wait, mean in one.items():
                found[wait] = found.get(wait, 0.0) + mean
    return found
