"""What the stored trials of an arm show that facts do not hold: throughput over time, stalls, file activity.

Pure. Only trials that count are read: measured ones, and disturbed
ones whose result was used.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flushlab.experiment.protocol import STALL_SHARE_OF_MEDIAN, p99_us
from flushlab.record import FILE_CLASSES, Stage, Trial
from flushlab.report.words import unit_of_work

PROVING: tuple[Stage, ...] = ("confirm", "arms", "best", "bench")
"""Stages whose results are claimed; the others only choose."""

_ORDER: Mapping[str, int] = {
    stage: order
    for order, stage in enumerate(
        ("calibrate", "screen", "combine", "reduce", "confirm", "arms", "best", "recovery", "bench")
    )
}


class Throughput(NamedTuple):
    """The windows of one arm, laid end to end.

    Attributes:
        arm: its name.
        seconds: events of each whole second.
        borders: index of the first second of each window but the first.
        stalled: indices of stalled seconds: below a tenth of their window's median.
        median: of all seconds.
        slowest: the slowest second.
        p99_ms: median over windows of the latency's 99th percentile, or None.
        windows: number of windows.
    """

    arm: str
    seconds: tuple[int, ...]
    borders: tuple[int, ...]
    stalled: tuple[int, ...]
    median: float
    slowest: int
    p99_ms: float | None
    windows: int


class Rounds(NamedTuple):
    """The slices of one arm whose server was kept running beside the others.

    Attributes:
        arm: its name.
        kept: start in seconds since the servers ran, and events/s, of each one that counts.
        dropped: the same of those whose round does not count.
        slice_s: length of the shortest and of the longest slice that counts.
        foreign_share: of the CPU time that other programs took, median, or None.
        switched: its server was shared, and switched to its settings before each slice.
    """

    arm: str
    kept: tuple[tuple[float, float], ...]
    dropped: tuple[tuple[float, float], ...]
    slice_s: tuple[float, float]
    foreign_share: float | None
    switched: bool = False


class Activity(NamedTuple):
    """What one arm did to files, per unit of its workload.

    Attributes:
        arm: its name.
        classes: of its files.
        fsyncs, bytes: per class of files; a class that is not told is left out.
        flags: with which files of a class were open.
        why: why the server tells nothing of its files but its status counters; empty if it does.
        per: the unit: `transaction`, `row` or `run`.
    """

    arm: str
    classes: tuple[str, ...]
    fsyncs: Mapping[str, float]
    bytes: Mapping[str, float]
    flags: Mapping[str, tuple[str, ...]]
    why: str = ""
    per: str = "transaction"

    @property
    def looked_for(self) -> list[str]:
        """Its classes that every reader looks for, whether the server shows them or not."""
        return [name for name in ("redo", "binlog", "data") if name in self.classes]


def by_arm(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """Trials that count, per arm, ordered by block and variant; of proving stages where the arm has such."""
    every: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.outcome == "measured" or (trial.outcome == "discarded" and trial.result is not None):
            every.setdefault(trial.arm.name, []).append(trial)
    chosen: dict[str, list[Trial]] = {}
    for arm, own in every.items():
        proving = [trial for trial in own if trial.stage in PROVING]
        ordered = sorted(proving or own, key=lambda one: (_ORDER[one.stage], one.block, one.variant))
        last = {(one.stage, one.block, one.variant): one for one in ordered}  # a repeated trial counts once
        chosen[arm] = list(last.values())
    return chosen


def throughput(arm: str, trials: Sequence[Trial]) -> Throughput | None:
    seconds: list[int] = []
    borders: list[int] = []
    stalled: list[int] = []
    latencies: list[float] = []
    windows = 0
    for trial in trials:
        series = trial.load.per_second if trial.load is not None else ()
        if not series:
            continue
        windows += 1
        limit = STALL_SHARE_OF_MEDIAN * sorted(series)[len(series) // 2]
        if seconds:
            borders.append(len(seconds))
        stalled += [len(seconds) + index for index, events in enumerate(series) if events < limit]
        seconds += series
        latency = p99_us(trial)
        if latency is not None:
            latencies.append(latency / 1000)
    if not seconds:
        return None
    return Throughput(
        arm=arm,
        seconds=tuple(seconds),
        borders=tuple(borders),
        stalled=tuple(stalled),
        median=statistics.median(seconds),
        slowest=min(seconds),
        p99_ms=statistics.median(latencies) if latencies else None,
        windows=windows,
    )


def rounds(arm: str, trials: Sequence[Trial]) -> Rounds | None:
    slices = [one for trial in trials for one in trial.slices]
    kept = [one for one in slices if not one.dropped]
    if not kept:
        return None
    foreign = [one.foreign_share for one in kept if one.foreign_share is not None]
    return Rounds(
        arm=arm,
        kept=tuple((one.start_s, one.events / one.seconds) for one in kept),
        dropped=tuple((one.start_s, one.events / one.seconds) for one in slices if one.dropped),
        slice_s=(min(one.seconds for one in kept), max(one.seconds for one in kept)),
        foreign_share=statistics.median(foreign) if foreign else None,
        switched=any(one.switch_s for one in kept),
    )


def activity(arm: str, trials: Sequence[Trial]) -> Activity | None:
    fsyncs: Counter[str] = Counter()
    written: Counter[str] = Counter()
    flags: dict[str, set[str]] = {}
    known: dict[str, Counter[str]] = {"fsyncs": Counter(), "bytes": Counter()}
    per = ""
    for trial in trials:
        per, units = unit_of_work(trial)
        for name, seen in trial.file_activity.items():
            flags.setdefault(name, set()).update(seen.flags)
            if seen.fsyncs is not None:
                fsyncs[name] += seen.fsyncs
                known["fsyncs"][name] += units
            if seen.bytes is not None:
                written[name] += seen.bytes
                known["bytes"][name] += units
    if not any(known["fsyncs"].values()) and not any(known["bytes"].values()):
        return None
    return Activity(
        arm=arm,
        classes=tuple(name for name in FILE_CLASSES if name in flags),
        fsyncs={name: fsyncs[name] / known["fsyncs"][name] for name in FILE_CLASSES if known["fsyncs"][name]},
        bytes={name: written[name] / known["bytes"][name] for name in FILE_CLASSES if known["bytes"][name]},
        flags={name: tuple(sorted(flags[name])) for name in FILE_CLASSES if flags.get(name)},
        why=next(filter(None, map(_untold, trials)), ""),
        per=per,
    )


def _untold(trial: Trial) -> str:
    """Why performance_schema told nothing of the files, or not all."""
    return trial.performance.untold.get("io_by_file", "") if trial.performance is not None else ""
