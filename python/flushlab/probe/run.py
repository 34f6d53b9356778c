"""One probe, from an empty folder to its record.

Probe layer. Says what it does to a watcher; every file is gone when it returns or raises.

Every step says how long its window should be; where the time left does not hold all of them, all shrink
alike, down to what still means something. When the time is over, the rest is left out and counted.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from flushlab import _core, machine
from flushlab.errors import UsageError
from flushlab.probe import against, ceilings, disk
from flushlab.probe.against import MeasuredServer
from flushlab.probe.ceilings import CommitCell, Maker, Matrix, ProbePlace, StrategyGroup, SyncSettings
from flushlab.probe.disk import (
    DiskCell,
    existing,
    medium_of,
    most_bytes,
    probe_folder,
    storage_errors,
)
from flushlab.probe.reading import headline, read
from flushlab.probe.servers import OWN_US, ROUND_SECONDS, ROUNDS, measure_servers
from flushlab.record import (
    Ceiling,
    DiskEmulation,
    Machine,
    ProbeRecord,
    RefusedStrategy,
    Switching,
    Warning,
)
from flushlab.telemetry.observation import CpuTimes, cpu_times
from flushlab.version import __version__

LIMIT_S, QUICK_LIMIT_S = 54.0, 12.5
"""For all windows; the command, its start and the tables have the rest of 60 and 15 seconds."""

DISK_SECONDS, QUICK_DISK_SECONDS = 0.3, 0.12
FILE_BYTES = 128 << 20
SPARE_THREADS = 32
"""Left to everybody else, and to the probe itself."""

_CAVEAT_SHARE = 0.10


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted measurements.

    Attributes:
        seconds: length of every window; None: what fits into 60 s, 15 s if quick.
        own_us: processor time of a server before each commit.
        disk: that was made slow for it; None: the directory's own.
    """

    directory: Path
    quick: bool = False
    seconds: float | None = None
    matrix: Matrix
    servers: tuple[MeasuredServer, ...] = ()
    switch: bool = False
    own_us: float = OWN_US
    disk: DiskEmulation | None = None
    command: str = "flushlab probe"


Watch = Callable[[int, int, str], None]


def probe(request: ProbeRequest, watch: Watch, make: Maker = _core.CommitPath) -> ProbeRecord:
    directory = existing(request.directory)
    medium = medium_of(directory)
    most = most_bytes(medium)
    started, begin = datetime.now(UTC).isoformat(timespec="seconds"), _Moment()
    with probe_folder(directory) as folder:
        place = ProbePlace(folder, medium, most, make)
        cells, refused = _cells(request, place)
        _require_threads(cells)
        on_disk = disk.cells(quick=request.quick)
        beside = [one for one in ceilings.strategy_groups(cells) if "serial" in one.strategies]
        switches = ceilings.switching_groups(cells) if request.switch else ()
        steps = _Steps(request, watch, on_disk, cells, beside, switches)
        with _below(folder, "disk") as own:
            file_bytes = min(FILE_BYTES, most // 4)
            measured = steps.measured(
                on_disk, partial(disk.measure, own, file_bytes=file_bytes, medium=medium)
            )
        with _below(folder, "commits") as own:
            there = place._replace(folder=own)
            reached = steps.measured(cells, partial(ceilings.measure, there))
            served = steps.measured(beside, partial(measure_servers, there, own_us=request.own_us))

        def switch(group: StrategyGroup, *, seconds: float) -> Switching | None:
            with _below(folder, "switching") as own:
                return ceilings.measure_switching(place._replace(folder=own), group, seconds=seconds)

        switched = steps.measured(switches, switch)
    facts = machine.describe(directory, slow_disk=request.disk)
    record = ProbeRecord(
        started_at=started,
        seconds=time.monotonic() - begin.at,
        quick=request.quick,
        command=request.command,
        machine=facts,
        medium=medium,
        flushlab=__version__,
        disk=measured,
        servers=tuple(one for rates in served for one in rates),
        ceilings=reached,
        refused=refused,
        switches=switched,
        against=against.shares(request.servers, reached, medium),
        warnings=(
            *disk.flush_warnings(medium, measured),
            *_short(reached),
            *_caveats(facts, begin, steps.left_out),
        ),
    )
    return msgspec.structs.replace(record, headline=headline(record), reading=read(record))


@contextmanager
def _below(folder: Path, name: str) -> Iterator[Path]:
    own = folder / name
    with storage_errors(folder.parent):
        own.mkdir()
    yield own
    shutil.rmtree(own, ignore_errors=True)


def _cells(
    request: ProbeRequest, place: ProbePlace
) -> tuple[tuple[CommitCell, ...], tuple[RefusedStrategy, ...]]:
    cells, refused = ceilings.plan(request.matrix, place)
    if not cells:
        rules = [
            f"{one.binlog_strategy} at {one.trx_commit}/{one.sync_binlog}: {one.reason}" for one in refused
        ]
        first = ceilings.refusal(request.matrix.sync_settings[0], request.matrix.strategies[0], place)
        raise UsageError(f"nothing is permitted: {'; '.join(rules)}", hint=first[1] if first else None)
    more = [
        cell
        for cell in against.cells(request.servers)
        if ceilings.refusal(cell.sync_settings, cell.binlog_strategy, place) is None
    ]
    return tuple(dict.fromkeys([*more, *cells])), refused


def _require_threads(cells: Sequence[CommitCell]) -> None:
    most, left = max(cell.threads for cell in cells), machine.threads_left()
    if left is not None and most + SPARE_THREADS > left:
        raise UsageError(
            f"{most} threads asked for, but this machine has room for {left} more",
            hint=f"use --threads {max(1, left - SPARE_THREADS)} or fewer",
        )


C = TypeVar("C")
T = TypeVar("T")


class _Step(NamedTuple):
    words: str
    natural_s: float
    windows: int = 1


class _Steps:
    def __init__(
        self,
        request: ProbeRequest,
        watch: Watch,
        on_disk: Sequence[DiskCell],
        cells: Sequence[CommitCell],
        beside: Sequence[StrategyGroup],
        switches: Sequence[StrategyGroup],
    ) -> None:
        disk_s = QUICK_DISK_SECONDS if request.quick else DISK_SECONDS
        self._steps = [_Step(f"disk · {one.words}", disk_s) for one in on_disk]
        for cell in cells:
            how = f"{cell.sync_settings.name} · {cell.binlog_strategy}"
            self._steps.append(_Step(f"{how} · {cell.threads} connections", cell.natural_seconds))
        for group in (*beside, *switches):
            windows, each, how = ROUNDS * len(group.strategies), ROUND_SECONDS, "as in a server"
            if group in switches:
                windows, each, how = len(group.strategies), ceilings.PHASE_SECONDS, "switching"
            words = f"{group.sync_settings.name} · {how} · {group.threads} connections"
            self._steps.append(_Step(words, each * windows, windows))
        naturals = [one.natural_s for one in self._steps]
        limit: float | None = QUICK_LIMIT_S if request.quick else LIMIT_S
        if request.seconds is not None:
            limit, naturals = None, [request.seconds * one.windows for one in self._steps]
        self._budget = ProbeBudget(limit, naturals, time.monotonic)
        self._watch, self._next = watch, 0

    @property
    def left_out(self) -> int:
        return self._budget.left_out

    def measured(self, cells: Sequence[C], measure: Callable[..., T | None]) -> tuple[T, ...]:
        found = []
        for cell in cells:
            self._watch(self._next, len(self._steps), self._steps[self._next].words)
            window = self._budget.window(self._next)
            self._next += 1
            if window is None:
                continue
            if (one := measure(cell, seconds=window)) is None:
                self._budget.left_out += 1
            else:
                found.append(one)
        return tuple(found)


class _Moment:
    def __init__(self) -> None:
        self.at = time.monotonic()
        self.sample = machine.sample()
        self.cpu: CpuTimes = cpu_times(None)


def _short(reached: Sequence[Ceiling]) -> Iterator[Warning]:
    timed = [one.seconds for one in reached if SyncSettings(one.trx_commit, one.sync_binlog).is_timed]
    if timed and min(timed) < 1:
        yield Warning(
            "short-window",
            f"windows of {min(timed):.2g} s may miss the fsync of settings that sync once a second: p99 and"
            " bytes at risk are too low",
        )


def _caveats(facts: Machine, begin: _Moment, left_out: int) -> Iterator[Warning]:
    now, seconds = _Moment(), time.monotonic() - begin.at
    if facts.cpu_count < 2:
        yield Warning(
            "one-cpu",
            "this process may use only one processor: the binlog strategy parallel cannot gain here",
        )
    if left_out:
        were = "measurement was" if left_out == 1 else "measurements were"
        yield Warning(
            "cut-short",
            f"{left_out} {were} skipped: the disk is too slow for the time limit; use --window 1",
        )
    steal = machine.between(begin.sample, now.sample).steal_share
    own = now.cpu.own_s - begin.cpu.own_s
    foreign = max(0.0, now.cpu.busy_s - begin.cpu.busy_s - own) / (seconds * (facts.cpu_count or 1))
    for share, what in ((steal, "was stolen by the hypervisor"), (foreign, "was used by other programs")):
        if share > _CAVEAT_SHARE:
            yield Warning(
                "disturbed", f"{share:.0%} of the CPU time {what}: measure again on a quiet machine"
            )


SMALLEST_SHARE = 0.5
"""Of a window's natural length: less is not measured."""

FIRST_OVERHEAD_S = 0.1
"""Making and removing files for one step, until it is known."""


class ProbeBudget:
    def __init__(self, limit_s: float | None, naturals: Sequence[float], clock: Callable[[], float]) -> None:
        self._naturals = tuple(naturals)
        self._clock = clock
        self._end = None if limit_s is None else clock() + limit_s
        self._overhead_s = FIRST_OVERHEAD_S
        self._begun: tuple[float, float] | None = None
        self.left_out = 0

    def window(self, step: int) -> float | None:
        self._learn()
        natural, window = self._naturals[step], self._naturals[step]
        now = self._clock()
        if self._end is not None:
            remaining = self._naturals[step:]
            available = self._end - now - self._overhead_s * len(remaining)
            window = natural * min(1.0, max(SMALLEST_SHARE, available / sum(remaining)))
            if now + window > self._end:
                self.left_out += 1
                return None
        self._begun = (now, window) if step else None  # the first one also prepares the files of the others
        return window

    def _learn(self) -> None:
        """The time of a step beyond its window: the mean so far, the later ones counting more."""
        if self._begun is None:
            return
        start, window = self._begun
        self._begun = None
        over = max(0.0, self._clock() - start - window)
        self._overhead_s += 0.3 * (over - self._overhead_s)
