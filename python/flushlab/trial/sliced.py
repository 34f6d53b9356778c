"""The sliced runner: servers are kept running side by side, one for each arm, and measured in slices.

Beside `TrialRunner`. Neighbouring slices lie a second apart, in which a machine changes little, so
that intervals come out narrower than those of fresh servers in the same time (docs/how-to/compare.md).

    once an arm:  restore snapshot -> start with its settings -> warm up, while others start -> pause.
    each block:   READ BACK every setting -> rounds: every server one slice, in random order
                  (resume -> window -> pause). At its end: a record per arm.
    some blocks:  telemetry around them all; it takes as long as a slice

A server does its postponed work in the slices of others. The catalog marks the settings whose effect is such
postponed work; this runner does not measure them.

Each arm has a server of its own, unless `place_of` makes arms share one. Arms of a cluster share it if
they differ only in settings that can change at run time. Then every slice begins with SET GLOBAL on every
node, read back, and a short lead under load that does not count.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Self

import msgspec

from flushlab import machine
from flushlab.errors import FlushlabError, MeasurementError, ProtocolError, ServerError
from flushlab.experiment.protocol import Request
from flushlab.process.running import live_status
from flushlab.record import Arm, LoadResult, ObservedLoad, Slice, Trial, Value
from flushlab.server import Server
from flushlab.server.remote.server import RemoteGroup, watched
from flushlab.telemetry import Observation, observation, observe
from flushlab.trial.measurement import NOT_STARTED, Draft, require_whole
from flushlab.trial.runner import ArmRunner, ArmSwitching, NotSwitched, Running, recovered_s
from flushlab.units import format_seconds
from flushlab.workload.sliced import LEAD_S, Sliceable

SLICE_S = 0.2
LATE_FACTOR = 2.0
"""A round does not count if a slice took so many times what it should, by a clock that goes on while the
machine sleeps. What other programs take is no reason: the random order makes noise of it, and to leave rounds
out for it would favour servers that leave them more."""
SWITCH_LEAD_S = 0.1
"""Seconds from the first event of a slice to its window, if settings were switched. By then, the writes that
the last arm left and the first group of commits under the new settings are over."""
DRAIN_LIMIT_S = 30.0
"""Longest wait for the nodes of a cluster to apply what a slice has left them."""
CLUSTER_SLICE_S = 1.0
"""On a cluster, where a switch takes longer."""
_DIED_BEFORE = NotSwitched("discarded", "the server that it shares with other arms died before its slice")
STARTS = 2
"""Servers that start at a time: they wait for the disk as long as for a processor."""
LONGER = 1.25
"""Slices this many times as long as planned are reported: the campaign takes longer by the same factor."""
MOST_ROUNDS = 3
"""So many times the rounds that are due are run at most, the ones that do not count included."""


@dataclass
class SlicedRunner:
    runner_of: Callable[[Arm], ArmRunner]
    seed: int
    place_of: Callable[[Arm], str] | None = None
    slice_s: float = SLICE_S
    _kept: dict[str, _KeptServer] = field(default_factory=dict)
    _block: tuple[str, int] | None = None
    _trials: dict[tuple[str, int], Trial] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _suspects: set[str] = field(default_factory=set)
    _reported_longer: bool = False

    def run(self, request: Request) -> Trial:
        block = request.stage, request.block
        if self._block != block:
            before = self._block[0] if self._block else None
            if before != request.stage and (before, request.stage) != ("calibrate", "screen"):
                self.close()  # a stage compares servers that ran equally long; screening claims nothing
            self._block = block
            self._trials.clear()
            self._end(self._kept.keys() - {self._place(arm) for arm in request.beside})
            for kept in self._kept.values():
                kept.keep({arm.name for arm in request.beside})
        key = request.arm.name, request.variant
        if key not in self._trials:
            self._trials |= {(name, request.variant): trial for name, trial in self._run(request).items()}
        return self._trials.pop(key)

    def keeps_running(self, arms: Iterable[str]) -> bool:
        return self.place_of is None and self._kept.keys() >= set(arms)

    def recovery_s(self, arm: Arm) -> float:
        """Of the arm's server where it runs; else as `TrialRunner.recovery_s`, and no server runs any
        more."""
        runner = self.runner_of(arm)
        kept = self._kept.get(arm.name) if self.keeps_running({arm.name}) else None
        load = kept.sliced.get((arm.name, len(runner.workloads) - 1)) if kept is not None else None
        if kept is None or load is None or isinstance(kept.server, RemoteGroup):
            self.close()
            return runner.recovery_s(arm)

        def drive(kill: Callable[[], None]) -> None:
            ends = iter([lambda: None, kill])
            load.slice(runner.timing.seconds, lambda: next(ends)())

        try:
            return recovered_s(kept.server, drive)
        finally:
            self._end([arm.name])

    def close(self) -> None:
        self._end(list(self._kept))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place(self, arm: Arm) -> str:
        return arm.name if self.place_of is None else self.place_of(arm)

    def _end(self, places: Iterable[str]) -> None:
        for place in places:
            if place in self._kept:
                self._kept.pop(place).close()

    def _run(self, request: Request) -> dict[str, Trial]:
        began = time.monotonic()
        parts, trials = list[_Part](), dict[str, Trial]()
        try:
            drafts = [
                Draft(arm=arm, stage=request.stage, block=request.block, variant=request.variant)
                for arm in request.beside
            ]

            def warm_up(draft: Draft, failed: BaseException | None) -> None:
                try:
                    if failed is not None:
                        raise failed
                    found = self._warmed_up(draft)
                except NOT_STARTED as error:
                    if self.runner_of(draft.arm).is_lost():
                        raise  # no arm's fault: the campaign is resumed once it is back
                    trials[draft.arm.name] = draft.not_started(error)
                    return
                if isinstance(found, NotSwitched):
                    trials[draft.arm.name] = draft.ended(*found)
                else:
                    parts.append(_Part(draft, *found))

            self._start(drafts, warm_up)
            # In the order of the seed, not of readiness.
            parts.sort(key=lambda part: drafts.index(part.draft))
            startup_s = time.monotonic() - began
            observed = is_observed(request.block) and self.runner_of(request.arm).has_telemetry
            for part in parts:
                if self._kept.get(self._place(part.draft.arm)) is part.kept:
                    part.open(observed=observed)
                else:  # it fell silent while another arm's load connected, and its loads were ended
                    part.ended = part.draft.ended(*_DIED_BEFORE)
            self._take_rounds(request, parts, observed=observed)
            trials |= {part.draft.arm.name: part.concluded() for part in parts}
        except BaseException:
            for part in parts:
                part.telemetry.__exit__(*sys.exc_info())
            raise
        for part in parts:
            if part.ended is None:
                continue
            if part.kept.shared and part.kept.server.alive():
                if part.ended.outcome == "failed":
                    part.kept.forget(part.draft.arm.name, request.variant)
            else:
                self._end([self._place(part.draft.arm)])
        return _timed(request, trials, parts, startup_s, time.monotonic() - began)

    def _start(self, drafts: Sequence[Draft], warm_up: Callable[[Draft, BaseException | None], None]) -> None:
        """Each is warmed up while others start, by this thread, which Ctrl-C interrupts."""
        arms = dict[str, list[Draft]]()
        for draft in drafts:
            arms.setdefault(self._place(draft.arm), []).append(draft)

        ended = SimpleQueue[tuple[str, BaseException | None]]()  # no futures: a Ctrl-C may leave them locked

        def start(place: str, settings: Mapping[str, Value]) -> None:
            draft = arms[place][0]
            try:
                arm = msgspec.structs.replace(draft.arm, settings=settings)
                runner = self.runner_of(draft.arm)
                server = runner.start(arm, variant=draft.variant)
                self._kept[place] = _KeptServer(
                    server,
                    draft.arm.name,
                    runner.switching(server, settings),
                    self.place_of is not None,
                    self._suspects,
                    runner.is_lost,
                )
                draft.seconds.update(server.seconds)
            finally:
                ended.put((place, sys.exc_info()[1]))

        with ThreadPoolExecutor(STARTS, "start") as pool:
            for place, own in arms.items():
                first, *others = [draft.arm for draft in own]
                settings = {
                    name: value
                    for name, value in first.settings.items()
                    if all(name in arm.settings and arm.settings[name] == value for arm in others)
                }
                kept = self._kept.get(place)
                if kept and kept.switching.started.items() <= settings.items():
                    ended.put((place, None))
                    continue
                self._end([place])
                try:  # here: many start from the same data
                    self.runner_of(first).prepare(first, variant=own[0].variant)
                except NOT_STARTED as error:
                    ended.put((place, error))
                else:
                    pool.submit(start, place, settings)
            try:
                for _ in arms:
                    place, failed = ended.get()
                    for draft in arms[place]:
                        warm_up(draft, failed)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _warmed_up(self, draft: Draft) -> tuple[_KeptServer, Sliceable] | NotSwitched:
        arm, runner, place = draft.arm, self.runner_of(draft.arm), self._place(draft.arm)
        if place not in self._kept:
            return _DIED_BEFORE
        kept = self._kept[place]
        try:
            load = kept.sliced.get((arm.name, draft.variant))
            if load is None:
                if refused := kept.become(arm):
                    return refused
                load = runner.sliceable(runner.workloads[draft.variant], kept.server, kept.loads)
                kept.loads += 1
                kept.sliced[arm.name, draft.variant] = load
                draft.seconds["warm_up"] = load.warm_up_s
            return kept, load
        except FlushlabError:
            if not (kept.shared and kept.server.alive()):
                self._end([place])
            raise

    def _take_rounds(self, request: Request, parts: Sequence[_Part], *, observed: bool) -> None:
        running = [part for part in parts if part.ended is None]
        if not running:
            return
        seconds = self.runner_of(request.arm).timing.seconds
        slice_s = max(self.slice_s, *(part.sliced.least_slice_s for part in running))
        if observed and self.place_of is not None:
            slice_s = max(slice_s, seconds)  # telemetry is about one arm's slice, not about a server's block
        if slice_s > LONGER * seconds and not self._reported_longer:
            self._reported_longer = True
            self.runner_of(request.arm).progress(
                f"the first slices last {format_seconds(slice_s)} instead of {format_seconds(seconds)}, so"
                " that each connection commits several times; later slices are shorter where less is enough"
            )
        due = max(1, round(seconds / slice_s))
        order = Random(f"{self.seed}/{request.stage}/{request.block}/{request.variant}/{request.arm.name}")
        for number in range(due * MOST_ROUNDS):
            order.shuffle(running)
            pids = [node.pid for part in running for node in part.kept.server.nodes]
            for part in running:
                part.take(number, slice_s, pids, self._began, observed=observed)
            running = [part for part in running if part.ended is None]
            if any(part.slices[-1].dropped for part in running):
                for part in running:
                    part.slices[-1] = msgspec.structs.replace(part.slices[-1], dropped=True)
            else:
                due -= 1
            if not due or not running:
                return


def is_observed(block: int) -> bool:
    """True for the first blocks, and then for ever fewer, 0, 1, 2, 4, 8 and so on. Telemetry costs a tenth of
    a second and more of each server, and its rates gain nothing from many blocks."""
    return block & (block - 1) == 0


@dataclass
class _KeptServer:
    """`suspects`: arms driven when such a server died, which happens by chance once. Loads pause but for one
    slice."""

    server: Running
    arm: str
    switching: ArmSwitching
    shared: bool = False
    suspects: set[str] = field(default_factory=set)
    is_lost: Callable[[], bool] = lambda: False
    sliced: dict[tuple[str, int], Sliceable] = field(default_factory=dict)
    loads: int = 0
    _fell: bool = False

    def __post_init__(self) -> None:
        self.status = watched(self.server, self.arm)
        live_status().server_started(self.status)

    def become(self, arm: Arm) -> NotSwitched | None:
        return self.switching.become(arm) if self.shared else None

    def keep(self, arms: Collection[str]) -> None:
        for arm, variant in [one for one in self.sliced if one[0] not in arms]:
            self.sliced.pop((arm, variant)).stop()

    def forget(self, arm: str, variant: int) -> None:
        """A load that failed would fail for ever; who tries again connects anew."""
        if (load := self.sliced.pop((arm, variant), None)) is not None:
            load.stop()

    def failed(self, draft: Draft, error: FlushlabError) -> Trial:
        """The death of a shared server is the driven arm's fault the second time; until then, and for the
        others, the block is run again on a new one."""
        trial = draft.failed(error)
        if self.is_lost():
            raise error
        if not self.shared or self.server.alive():
            return trial
        first, self._fell = not self._fell, True
        if first and draft.arm.name in self.suspects:
            return trial
        if first:
            self.suspects.add(draft.arm.name)
        return msgspec.structs.replace(trial, outcome="discarded")

    def close(self) -> None:
        live_status().server_ended(self.status.key)
        self.server.kill()  # first: a load whose server hangs is slow to stop
        for load in self.sliced.values():
            load.stop()
        self.server.close()


@dataclass
class _Part:
    draft: Draft
    kept: _KeptServer
    sliced: Sliceable
    seen: Observation = field(default_factory=Observation)
    telemetry: ExitStack = field(default_factory=ExitStack)
    slices: list[Slice] = field(default_factory=list)
    results: list[LoadResult | ObservedLoad] = field(default_factory=list)
    ended: Trial | None = None
    own_bytes: int = 0
    all_bytes: int = 0

    def open(self, *, observed: bool) -> None:
        server = self.kept.server
        try:
            if refused := self.kept.become(self.draft.arm):
                self.ended = self.draft.ended(*refused)
                return
            if broken := self.draft.read_back(server):
                self.ended = self.draft.ended("invalid", broken)
                return
            if observed and not self.kept.shared:
                self.telemetry.enter_context(observe(server, self.seen))
            self.all_bytes = -_written_bytes(server)
        except (ServerError, MeasurementError, ProtocolError) as error:
            self._fail(error)

    def take(
        self, number: int, seconds: float, pids: Sequence[int | None], began: float, *, observed: bool = False
    ) -> None:
        ends = list[tuple[float, machine.MachineSample, observation.CpuTimes]]()
        kept, server, switched = self.kept, self.kept.server, time.monotonic()
        self.own_bytes -= _written_bytes(server)

        def look() -> None:
            now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            ends.append((now_s, machine.sample(), observation.cpu_times(*pids)))

        try:
            if refused := kept.become(self.draft.arm):
                self.ended = self.draft.ended(*refused)
                return
            with (
                live_status().driving(kept.status.key, self.draft.arm.name),
                observe(server, self.seen) if observed and kept.shared else nullcontext(),
            ):
                lead_s = SWITCH_LEAD_S if kept.shared else LEAD_S
                result = self.sliced.slice(seconds, look, lead_s)
            require_whole(server)
            drain_s = server.settled(DRAIN_LIMIT_S)
        except (ServerError, MeasurementError, ProtocolError) as error:
            self._fail(error)
            return
        self.own_bytes += _written_bytes(server)
        (began_s, first, first_cpu), (ended_s, last, last_cpu) = ends[-2:]  # of the last try
        shares = machine.between(first, last)
        self.results.append(result)
        self.slices.append(
            Slice(
                round=number,
                start_s=first.at_s - began,
                seconds=result.seconds,
                events=round(result.throughput * result.seconds),
                foreign_share=observation.foreign_share(
                    first_cpu, last_cpu, last.at_s - first.at_s, os.cpu_count() or 1
                ),
                steal_share=shares.steal_share,
                dropped=ended_s - began_s > LATE_FACTOR * seconds,
                switch_s=max(0.0, first.at_s - switched) if kept.shared else 0.0,
                drain_s=drain_s,
            )
        )

    def concluded(self) -> Trial:
        if self.ended is not None:
            return self.ended
        try:
            self.kept.switching.require_kept()
            self.all_bytes += _written_bytes(self.kept.server)
            self.telemetry.close()
            kept = [n for n, one in enumerate(self.slices) if not one.dropped]
            counted = kept or range(len(self.slices))
            measured = self.sliced.measured([self.results[n] for n in counted])
        except (ServerError, MeasurementError, ProtocolError) as error:
            return self._fail(error)
        self.seen.steal_share = _mean([self.slices[n].steal_share for n in counted])
        self.seen.foreign_cpu_share = _mean([self.slices[n].foreign_share or 0.0 for n in counted])
        disturbed = "" if kept else "the clock had a gap in every round: the machine slept, or was stopped"
        trial = self.draft.measured(measured, self.seen, disturbed, tuple(self.slices))
        if self.kept.shared:  # who wrote what in whose slice cannot be told
            return trial
        return msgspec.structs.replace(trial, later_bytes=max(0, self.all_bytes - self.own_bytes))

    def _fail(self, error: FlushlabError) -> Trial:
        self.telemetry.__exit__(type(error), error, error.__traceback__)
        self.ended = self.kept.failed(self.draft, error)
        return self.ended


def _written_bytes(server: Server) -> int:
    """Bytes that a server's processes have caused to be written to disks (proc(5), /proc/PID/io); those that
    nobody tells are left out."""
    total = 0
    for node in server.nodes:
        with suppress(OSError):
            for line in Path(f"/proc/{node.pid}/io").read_text().splitlines():
                if line.startswith("write_bytes:"):
                    total += int(line.split()[1])
    return total


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _timed(
    request: Request, trials: dict[str, Trial], parts: Sequence[_Part], startup_s: float, seconds: float
) -> dict[str, Trial]:
    slices = [one for part in parts for one in part.slices]
    spent = {
        "prepare": startup_s,  # once: the servers stay
        "window": sum(one.seconds for one in slices),
        "switch": sum(one.switch_s + one.drain_s for one in slices),
    }
    spent["other"] = max(0.0, seconds - sum(spent.values()))
    first = request.arm.name
    return {
        name: msgspec.structs.replace(trial, seconds=spent if name == first else {})
        for name, trial in trials.items()
    }
