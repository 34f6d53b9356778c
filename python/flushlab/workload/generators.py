"""Generators: several load generators that load one server together, used as one load.

Sits in `workload`. The connections are divided, all generators act at the same moment, and what they measured
is merged exactly. `Reached` is the way to one generator: a thread here, or an actor on another machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

import msgspec

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.record import (
    Latency,
    LoadClient,
    LoadProgress,
    LoadResult,
    LoadSeen,
    LoadSpec,
    ShareSpec,
    seen_together,
)
from flushlab.workload.generator import Action, answer, latency

_HANDSHAKES = 20
_LEAD_S, _LEAD_TRIPS = 0.002, 4
"""From a call to the agreed moment: so much, and the longest way to a generator so often."""
_numbers = count()


class Reached(Protocol):
    """A generator, as who uses it sees it."""

    @property
    def machine(self) -> str:
        """Its machine's name."""
        ...

    def call(self, method: str, *arguments: object) -> Callable[[], Any]:
        """Calls a method of `Generator` without a wait; what waits for the result."""
        ...


class Clock(NamedTuple):
    """A generator's clock.

    Attributes:
        ahead_s: of this process's monotonic clock.
        trip_s: of the call that told so; the offset is exact to half of it.
    """

    ahead_s: float
    trip_s: float


def clock_of(generator: Reached) -> Clock:
    """Compares a generator's clock with this process's, by the fastest of several calls."""

    def asked() -> Clock:
        before = time.monotonic()
        there = float(generator.call("clock")())
        after = time.monotonic()
        return Clock(there - (before + after) / 2, after - before)

    return min((asked() for _ in range(_HANDSHAKES)), key=lambda one: one.trip_s)


def divided(spec: LoadSpec, generators: int) -> list[LoadSpec]:
    """The parts of a load, with as many connections each as possible.

    Raises:
        UsageError: there are fewer connections than generators.
    """
    if spec.threads < generators:
        raise UsageError(
            f"{spec.threads} connections cannot be divided over {generators} clients",
            hint=f"use --threads {generators} or more, or fewer --client",
        )
    each, more = divmod(spec.threads, generators)
    parts, first = list[LoadSpec](), 0
    for number in range(generators):
        threads = each + (number < more)
        share = ShareSpec(
            generator=number, generators=generators, first_connection=first, connections=spec.threads
        )
        parts.append(msgspec.structs.replace(spec, threads=threads, share=share))
        first += threads
    return parts


class SeveralLoads:
    """One load that several generators drive: connected when made, then used as a `_core.LoadRun`.

    Args:
        spec: of the whole load.
        generators: each drives a part of it.
        clocks: theirs, by machine; a clock is read once, as the connections last longer.

    Raises:
        UsageError: there are fewer connections than generators.
        CoreError: a part cannot be connected.
    """

    def __init__(self, spec: LoadSpec, generators: Sequence[Reached], clocks: Mapping[str, Clock]) -> None:
        self._number = next(_numbers)
        self._generators = generators
        self._clocks = [clocks[one.machine] for one in generators]
        self._parts = divided(spec, len(generators))
        self._opened_s: list[float] = []
        try:
            self._trips = self._connected()
        except BaseException:
            self.stop()
            raise

    def _connected(self) -> list[Latency]:
        """One after the other: what a generator measures on the network is not what another one sends."""
        return [
            latency(answer(one.call("connect", self._number, msgspec.json.encode(part))(), one.machine))
            for one, part in zip(self._generators, self._parts, strict=True)
        ]

    def start(self) -> None:
        """Starts all."""
        self._all("start", self._moment())

    def progress(self) -> bytes:
        """JSON of a `LoadProgress`: since the latest start."""
        found = [msgspec.json.decode(one, type=LoadProgress) for one in self._all("progress")]
        return msgspec.json.encode(progress_of(found))

    def seen(self) -> bytes:
        """JSON of a `LoadSeen`."""
        found = [msgspec.json.decode(one, type=LoadSeen) for one in self._all("seen")]
        return msgspec.json.encode(seen_of(found))

    def open_window(self) -> None:
        """Opens a window of each at the same moment."""
        self._all("open_window", self._moment(), told=self._opened_s)

    def close_window(self) -> bytes:
        """Closes them at the same moment, while all loads run on: JSON of a `LoadResult`."""
        parts = self._all("close_window_part", self._moment())
        result = msgspec.json.decode(_core.merge_windows(parts), type=LoadResult)
        busy = [msgspec.json.decode(part, type=_Part).busy for part in parts]
        clients = tuple(
            LoadClient(machine=one.machine, connections=part.threads, round_trip_us=trips, busy=share)
            for one, part, trips, share in zip(self._generators, self._parts, self._trips, busy, strict=True)
        )
        skew_s = max(self._opened_s) - min(self._opened_s)
        told = msgspec.structs.replace(result, clients=clients, clients_skew_us=round(skew_s * 1e6))
        return msgspec.json.encode(told)

    def pause(self) -> None:
        """Pauses all."""
        self._all("pause")

    def resume(self) -> None:
        """All go on."""
        self._all("resume", self._moment())

    def stop(self) -> None:
        """Ends all."""
        self._all("stop")

    def _moment(self) -> float | None:
        """A moment that every generator learns of in time; None for one generator, which waits for nobody."""
        if len(self._generators) == 1:
            return None
        return time.monotonic() + _LEAD_S + _LEAD_TRIPS * max(one.trip_s for one in self._clocks)

    def _all(self, action: Action, at_s: float | None = None, told: list[float] | None = None) -> list[bytes]:
        """What all say to an action.

        Args:
            action: of `Generator.act`.
            at_s: the moment for it, on this process's clock.
            told: gets the moments at which it began, on this process's clock.
        """
        waiting = [
            one.call("act", self._number, action, None if at_s is None else at_s + clock.ahead_s)
            for one, clock in zip(self._generators, self._clocks, strict=True)
        ]
        said = [wait() for wait in waiting]
        acted = [answer(one, by.machine) for one, by in zip(said, self._generators, strict=True)]
        if told is not None:
            told[:] = [one.at_s - clock.ahead_s for one, clock in zip(acted, self._clocks, strict=True)]
        return [bytes(one.json) for one in acted]


class _Part(msgspec.Struct, frozen=True):
    """The field of a window that is not merged."""

    busy: float


def progress_of(parts: Sequence[LoadProgress]) -> LoadProgress:
    """Several glances as one, of the seconds that all have told of."""
    whole = [int(one.elapsed_s) for one in parts]
    first = max(end - len(one.per_second) for end, one in zip(whole, parts, strict=True))
    offsets = [end - len(one.per_second) for end, one in zip(whole, parts, strict=True)]
    seconds = range(first, min(whole))
    failed = next((one for one in parts if one.failed is not None), parts[0])
    return LoadProgress(
        elapsed_s=min(one.elapsed_s for one in parts),
        events=sum(one.events for one in parts),
        per_second=tuple(
            sum(one.per_second[second - offset] for one, offset in zip(parts, offsets, strict=True))
            for second in seconds
        ),
        errors=sum(one.errors for one in parts),
        failed=failed.failed,
        hint=failed.hint,
    )


def seen_of(parts: Sequence[LoadSeen]) -> LoadSeen:
    """All that several have seen; a lag is that of the latest generator."""
    lags = [one.lag_p99_us for one in parts if one.lag_p99_us is not None]
    backlogs = [one.backlog for one in parts if one.backlog is not None]
    return msgspec.structs.replace(
        seen_together(parts),
        backlog=sum(backlogs) if backlogs else None,
        lag_p99_us=max(lags, default=None),
    )
