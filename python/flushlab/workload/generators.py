"""Generators: several load generators that load one server together, used as one load.

Sits in `workload`. The connections are divided, all generators act at the same moment, and what they measured
is merged exactly. `Reached` is the way to a generator: a thread here, or an actor on another machine.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from flushlab import _core
from flushlab.errors import FlushlabError, UsageError
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

PINGS = 300
"""Round trips of the network that a generator measures when it connects."""
_HANDSHAKES = 20
_LEAD_S, _LEAD_TRIPS = 0.002, 4
"""From a call to the agreed moment: so much, and the longest way to a generator so often."""
_numbers = count()
Action = Literal["start", "progress", "seen", "open_window", "close_window_part", "pause", "resume", "stop"]
E = TypeVar("E", FlushlabError, _core.CoreError)


class Generator:
    def __init__(self) -> None:
        self._loads: dict[int, _core.LoadRun] = {}

    def clock(self) -> float:
        return time.monotonic()

    def connect(self, number: int, spec: LoadSpec) -> Latency:
        load = _core.LoadRun(msgspec.json.encode(spec))
        trips = msgspec.json.decode(load.round_trips(PINGS), type=Latency)
        self._loads[number] = load
        return trips

    def act(self, number: int, action: Action, at_s: float | None = None) -> tuple[float, bytes]:
        """Returns when it began, on this machine's monotonic clock, and the engine's JSON."""
        load = self._loads.pop(number, None) if action == "stop" else self._loads[number]
        if load is None:  # it was never connected
            return time.monotonic(), b""
        if at_s is not None:
            time.sleep(max(0.0, at_s - time.monotonic()))
        return time.monotonic(), getattr(load, action)() or b""


class Reached(Protocol):
    """An object on another machine, as its user here sees it."""

    @property
    def machine(self) -> str:
        """Its machine's name."""
        ...

    def call(self, method: str, *arguments: object) -> Callable[[], Any]:
        """Calls a method without a wait; what waits for the result, whose errors name the machine."""
        ...


def named(machine: str, error: E) -> E:
    found = copy.copy(error)
    found.message = f"machine {machine}: {error.message}"
    found.args = (f"machine {machine}: {error}",)
    return found


class Clock(NamedTuple):
    """How far a generator's clock is ahead of this process's monotonic clock, and the time of the call that
    told so: the offset is exact to half of it."""

    ahead_s: float
    trip_s: float


def clock_of(generator: Reached) -> Clock:
    def asked() -> Clock:
        before = time.monotonic()
        there = float(generator.call("clock")())
        after = time.monotonic()
        return Clock(there - (before + after) / 2, after - before)

    return min((asked() for _ in range(_HANDSHAKES)), key=lambda clock: clock.trip_s)


def divided(spec: LoadSpec, generators: int) -> list[LoadSpec]:
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
    """Clocks are compared when it is made, and not again: they drift less than connections last."""

    def __init__(self, spec: LoadSpec, generators: Sequence[Reached]) -> None:
        self._number = next(_numbers)
        self._generators = generators
        self._clocks = [clock_of(generator) for generator in generators]
        self._parts = divided(spec, len(generators))
        self._opened_s: Sequence[float] = ()
        try:
            # One after the other: what a generator measures on the network is not what another one sends.
            self._trips: list[Latency] = [
                generator.call("connect", self._number, part)()
                for generator, part in zip(generators, self._parts, strict=True)
            ]
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        self._all("start", at_once=True)

    def progress(self) -> bytes:
        found = [msgspec.json.decode(part, type=LoadProgress) for _, part in self._all("progress")]
        return msgspec.json.encode(progress_of(found))

    def seen(self) -> bytes:
        found = [msgspec.json.decode(part, type=LoadSeen) for _, part in self._all("seen")]
        return msgspec.json.encode(seen_of(found))

    def open_window(self) -> None:
        self._opened_s = [began_s for began_s, _ in self._all("open_window", at_once=True)]

    def close_window(self) -> bytes:
        parts = [part for _, part in self._all("close_window_part", at_once=True)]
        result = msgspec.json.decode(_core.merge_windows(parts), type=LoadResult)
        busy = [msgspec.json.decode(part)["busy"] for part in parts]
        clients = tuple(
            LoadClient(machine=generator.machine, connections=part.threads, round_trip_us=trips, busy=share)
            for generator, part, trips, share in zip(
                self._generators, self._parts, self._trips, busy, strict=True
            )
        )
        skew_s = max(self._opened_s) - min(self._opened_s)
        return msgspec.json.encode(
            msgspec.structs.replace(result, clients=clients, clients_skew_us=round(skew_s * 1e6))
        )

    def pause(self) -> None:
        self._all("pause")

    def resume(self) -> None:
        self._all("resume", at_once=True)

    def stop(self) -> None:
        self._all("stop")

    def _all(self, action: Action, *, at_once: bool = False) -> list[tuple[float, bytes]]:
        moment_s = None
        if at_once and len(self._generators) > 1:
            moment_s = time.monotonic() + _LEAD_S + _LEAD_TRIPS * max(clock.trip_s for clock in self._clocks)
        waiting = [
            generator.call(
                "act", self._number, action, None if moment_s is None else moment_s + clock.ahead_s
            )
            for generator, clock in zip(self._generators, self._clocks, strict=True)
        ]
        answers = [wait() for wait in waiting]
        return [
            (began_s - clock.ahead_s, part)
            for (began_s, part), clock in zip(answers, self._clocks, strict=True)
        ]


def progress_of(parts: Sequence[LoadProgress]) -> LoadProgress:
    offsets = [int(one.elapsed_s) - len(one.per_second) for one in parts]
    seconds = range(max(offsets), min(int(one.elapsed_s) for one in parts))
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
    lags = [one.lag_p99_us for one in parts if one.lag_p99_us is not None]
    backlogs = [one.backlog for one in parts if one.backlog is not None]
    return msgspec.structs.replace(
        seen_together(parts),
        backlog=sum(backlogs) if backlogs else None,
        lag_p99_us=max(lags, default=None),
    )
