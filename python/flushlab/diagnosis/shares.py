"""Shares: how large a part of the writers' time each wait is, with an interval. Pure.

By Little's law the mean number of connections in a state is the time spent there per second. A writer's time
is all that it was seen to do, its client's turn included: a closed loop of connections is as fast as the sum
of these allows. Connections that never wrote, or slept through, count nowhere.

The interval is a jackknife's over equal stretches of the window: samples of one stretch are alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from flushlab.diagnosis.waits import ROW_LOCK, WAITS, is_write, wait_of
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import ThreadState

STRETCHES = 10
_T_975 = 2.262
"""Student's t of 9 degrees of freedom at 97.5 %."""
_ALL = 0.99
"""A share that may be so large leaves nothing to compute a bound from."""


class Share(msgspec.Struct, frozen=True):
    """Part of the writers' time.

    Attributes:
        low, mid, high: 0 to 1; low and high are the ends of the 95 % interval.
    """

    low: float
    mid: float
    high: float

    @property
    def at_most(self) -> float | None:
        """Factor that throughput cannot exceed if this time goes, at the same number of connections; None if
        it may be all of the time."""
        return 1.0 / (1.0 - self.high) if self.high < _ALL else None

    def at_most_all(self, part: float) -> Share:
        """The share of something that is some part of this one, about so large: none of it to all of it."""
        return Share(0.0, self.mid * min(1.0, part), self.high)


def times(factor: float) -> str:
    """A bound in words: `1.4×`."""
    return f"{factor:.1f}×" if factor < 10 else f"{factor:.0f}×"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the window, for plots.

    Attributes:
        at_s: its begin, in seconds since the window's.
        connections: by wait, the mean number of writers in it.
    """

    at_s: float
    connections: Mapping[str, float]


class WriteTime(msgspec.Struct, frozen=True, kw_only=True):
    """Where writers spent their time.

    Attributes:
        samples: moments at which connections were looked at.
        writers: connections that were seen to write.
        connections: by wait, the mean number of writers in it.
        stretches: the same by stretch of the window.
        steps: the same by step, shorter than a stretch; those without a sample are missing.
        step_s: length of a step.
    """

    samples: int = 0
    writers: int = 0
    connections: Mapping[str, float] = {}
    stretches: tuple[Mapping[str, float], ...] = ()
    steps: tuple[Step, ...] = ()
    step_s: float = 1.0

    @property
    def total(self) -> float:
        """Mean number of writers at work, or in the middle of it."""
        return sum(self.connections.values())

    @property
    def in_server(self) -> float:
        """Mean number of writers that the server worked for."""
        return self.total - self.connections.get("client", 0.0)

    def within(self, part: float, *waits: str, delays: tuple[str, ...] = ()) -> Share | None:
        """Share of something within these waits that takes about this part of them; see `share`.

        Args:
            part: 0 to 1.
            waits: that it is in.
            delays: waits that it may lengthen besides.
        """
        share, all_of_it = self.share(*waits), self.share(*waits, *delays)
        if share is None or all_of_it is None:
            return None
        return msgspec.structs.replace(share.at_most_all(part), high=all_of_it.high)

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
        step_s: moments within so many seconds are counted together.
    """

    def __init__(self, identity: ServerIdentity, step_s: float = 1.0) -> None:
        self._identity = identity
        self._step_s = step_s
        self._moments: Counter[int] = Counter()
        self._cells: dict[int, Counter[int]] = {}
        """By step: how often a connection was in a wait, the two as one number. Thousands of connections make
        hundreds of thousands of these."""
        self._writers: dict[int, set[int]] = {}

    def add(self, at_s: float, states: Iterable[ThreadState]) -> None:
        """One moment, so many seconds after the window's begin."""
        step = int(at_s / self._step_s)
        self._moments[step] += 1
        cells, writers = self._cells.setdefault(step, Counter()), self._writers.setdefault(step, set())
        known = [(seen, wait) for seen in states if (wait := wait_of(seen, self._identity)) is not None]
        is_held = any(wait == "semi-sync" for _, wait in known) and self._identity.flavor == "mysql"
        for seen, wait in known:
            if is_write(seen):
                writers.add(seen.id)
            # MySQL's group waits for the replica while the next one waits for the group.
            held = "semi-sync" if is_held and wait == "commit" else wait
            cells[seen.id * len(WAITS) + _NUMBERS[held]] += 1

    def forget(self, until_s: float) -> None:
        """Counts the steps that ended by then no more."""
        for step in [one for one in self._moments if (one + 1) * self._step_s <= until_s]:
            for counted in (self._moments, self._cells, self._writers):
                del counted[step]

    def write_time(self, row_lock_connections: float = 0.0) -> WriteTime:
        """Where the writers' time went.

        Args:
            row_lock_connections: mean number of connections that waited for a row lock, by the server's
                counters; taken out of `statement`.
        """
        writers = set[int]().union(*self._writers.values())
        counts = {step: self._counts(step, writers) for step in sorted(self._moments)}
        whole = _mean(counts.values(), self._moments.total())
        statement = whole.get("statement", 0.0)
        part = min(1.0, row_lock_connections / statement) if statement else 0.0
        return WriteTime(
            samples=self._moments.total(),
            writers=len(writers),
            connections=_with_row_locks(whole, part),
            stretches=tuple(
                _with_row_locks(
                    _mean((counts[one] for one in steps), sum(self._moments[one] for one in steps)), part
                )
                for steps in _stretches(list(counts))
            ),
            steps=tuple(
                Step(
                    at_s=step * self._step_s,
                    connections=_with_row_locks(_mean((found,), self._moments[step]), part),
                )
                for step, found in counts.items()
            ),
            step_s=self._step_s,
        )

    def _counts(self, step: int, writers: set[int]) -> Counter[str]:
        found = Counter[str]()
        for cell, count in self._cells[step].items():
            one, wait = divmod(cell, len(WAITS))
            if one in writers:
                found[WAITS[wait]] += count
        return found


_NUMBERS = {wait: number for number, wait in enumerate(WAITS)}


def step_of(seconds: float) -> float:
    """Length of the steps of a window: about a second, a stretch has whole ones, a plot at most 120."""
    return seconds / (STRETCHES * min(12, max(1, round(seconds / STRETCHES))))


def _stretches(steps: list[int]) -> list[list[int]]:
    """Steps in stretches of about equal length."""
    if not steps:
        return []
    span, found = steps[-1] + 1 - steps[0], dict[int, list[int]]()
    for step in steps:
        found.setdefault((step - steps[0]) * STRETCHES // span, []).append(step)
    return [*found.values()]


def _mean(counts: Iterable[Counter[str]], moments: int) -> dict[str, float]:
    whole = Counter[str]()
    for found in counts:
        whole.update(found)
    return {wait: count / moments for wait, count in whole.items()}


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
