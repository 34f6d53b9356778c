"""Subject: the campaign that sections are made from, and what the trials of its arms show. Pure values.

Only trials that count are read: measured ones, and disturbed ones whose result was used.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import best_arms
from flushlab.campaign.request import SeriesRequest
from flushlab.experiment.protocol import STALL_SHARE_OF_MEDIAN, p99_us
from flushlab.record import BASE, CONTROL, FILE_CLASSES, ServerIdentity, Stage, Trial, Value
from flushlab.report.stored import Request
from flushlab.report.words import base_name, unit_of_work
from flushlab.store import CampaignRow

MAX_PANELS = 8
"""Most arms that one section shows in plots."""


class OnServer(NamedTuple):
    server: ServerIdentity
    base: str = BASE
    name: str = BASE
    given: Mapping[str, Value] = {}
    chosen: str | None = None


class Subject(NamedTuple):
    row: CampaignRow | None
    request: Request | None
    facts: CampaignFacts | None
    trials: Sequence[Trial]
    arms: Mapping[str, list[Trial]]

    def named(self, arm: str) -> str:
        base = self.request.base_name if isinstance(self.request, SeriesRequest) else BASE
        return base if arm == BASE else arm

    @property
    def servers(self) -> tuple[OnServer, ...]:
        facts = self.facts
        if facts is None:
            server = next((trial.server for trial in reversed(self.trials) if trial.server is not None), None)
            return (OnServer(server),) if server is not None else ()
        return tuple(
            OnServer(
                base.server or facts.server,
                base=base.name if base.server else BASE,
                name=base.name if base.server else base_name(facts),
                given={**facts.base.settings, **base.settings},
                chosen=best.name if best is not None else None,
            )
            for (base, _), best in zip(facts.by_server, best_arms(facts), strict=True)
        )

    @property
    def unit(self) -> str:
        if self.facts is not None:
            return self.facts.unit
        return next((trial.unit for trial in reversed(self.trials) if trial.result is not None), "")

    @property
    def units(self) -> str:
        arms = self.facts.arms if self.facts is not None else ()
        others = [f"{arm.name}: {arm.unit}" for arm in arms if arm.unit not in ("", self.unit)]
        unit = self.unit or "events/s"
        return f"{unit} ({', '.join(others)})" if others else unit

    @property
    def shown(self) -> dict[str, list[Trial]]:
        """The base, the arms of the answer, then what was compared, the largest effects first; all that ran
        as long as nothing was."""
        facts, ran = self.facts, [arm for arm in self.arms if arm != CONTROL]
        if facts is not None:
            yours = facts.tuning.yours if facts.tuning is not None else None
            compared = [arm for arm in (*facts.arms, yours) if arm is not None and arm.comparison is not None]
            compared.sort(key=lambda arm: max(arm.strength, 1 / arm.strength), reverse=True)
            ran = [arm.name for arm in (*best_arms(facts)[:1], *compared) if arm is not None] or ran
        names = [arm for arm in dict.fromkeys((BASE, *ran)) if arm in self.arms]
        return {self.named(arm): self.arms[arm] for arm in names}


# -- what the trials of an arm show ----------------------------------------------------------------------

PROVING: tuple[Stage, ...] = ("confirm", "arms", "best", "bench")
"""Stages whose results are claimed; the others only choose."""

_ORDER = ("calibrate", "screen", "combine", "reduce", "confirm", "arms", "best", "recovery", "bench")


class Throughput(NamedTuple):
    """The windows of an arm, laid end to end.

    Attributes:
        borders: index of the first second of each window but the first.
        stalled: indices of seconds below a tenth of their window's median.
        p99_ms: median over windows of the latency's 99th percentile, or None.
    """

    arm: str
    seconds: tuple[int, ...]
    borders: tuple[int, ...] = ()
    stalled: tuple[int, ...] = ()
    p99_ms: float | None = None


class Rounds(NamedTuple):
    """The slices of an arm whose server was kept running beside the others.

    Attributes:
        kept: start in seconds since the servers ran, and events/s, of each one that counts.
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
    """An arm's work on files, per unit of its workload.

    Attributes:
        amounts: `fsyncs` and `bytes` per class of files; a class that is not told is left out.
        why: why the server tells nothing of its files but its status counters; empty if it does.
        per: the unit: `transaction`, `row` or `run`.
    """

    arm: str
    classes: tuple[str, ...]
    amounts: Mapping[str, Mapping[str, float]]
    flags: Mapping[str, tuple[str, ...]]
    why: str = ""
    per: str = "transaction"

    def looked_for(self, what: str) -> set[str]:
        """Classes with an amount, and those that every server has."""
        return {*self.amounts[what], *({"redo", "binlog", "data"} & {*self.classes})}


def by_arm(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """Trials that count, per arm, ordered by block and variant; of proving stages where the arm has such."""
    every: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.outcome == "measured" or (trial.outcome == "discarded" and trial.result is not None):
            every.setdefault(trial.arm.name, []).append(trial)
    chosen: dict[str, list[Trial]] = {}
    for arm, own in every.items():
        proving = [trial for trial in own if trial.stage in PROVING]
        ordered = sorted(proving or own, key=lambda one: (_ORDER.index(one.stage), one.block, one.variant))
        last = {(one.stage, one.block, one.variant): one for one in ordered}  # a repeated trial counts once
        chosen[arm] = list(last.values())
    return chosen


def throughput(arm: str, trials: Sequence[Trial]) -> Throughput | None:
    """None where its workload has no series."""
    windows = [trial for trial in trials if trial.load is not None and trial.load.per_second]
    seconds: list[int] = []
    borders: list[int] = []
    stalled: list[int] = []
    for trial in windows:
        series = trial.load.per_second if trial.load is not None else ()
        limit = STALL_SHARE_OF_MEDIAN * sorted(series)[len(series) // 2]
        borders.append(len(seconds))
        stalled += [len(seconds) + index for index, events in enumerate(series) if events < limit]
        seconds += series
    latencies = [latency / 1000 for trial in windows if (latency := p99_us(trial)) is not None]
    p99_ms = statistics.median(latencies) if latencies else None
    return Throughput(arm, tuple(seconds), tuple(borders[1:]), tuple(stalled), p99_ms) if seconds else None


def rounds(arm: str, trials: Sequence[Trial]) -> Rounds | None:
    """None where it had fresh servers."""
    slices = [one for trial in trials for one in trial.slices]
    kept = [one for one in slices if not one.dropped]
    if not kept:
        return None
    foreign = [one.foreign_share for one in kept if one.foreign_share is not None]
    return Rounds(
        arm,
        tuple((one.start_s, one.events / one.seconds) for one in kept),
        tuple((one.start_s, one.events / one.seconds) for one in slices if one.dropped),
        slice_s=(min(one.seconds for one in kept), max(one.seconds for one in kept)),
        foreign_share=statistics.median(foreign) if foreign else None,
        switched=any(one.switch_s for one in kept),
    )


def activity(arm: str, trials: Sequence[Trial]) -> Activity | None:
    flags: dict[str, set[str]] = {}
    sums: dict[str, Counter[str]] = {"fsyncs": Counter(), "bytes": Counter()}
    units: dict[str, Counter[str]] = {"fsyncs": Counter(), "bytes": Counter()}
    per = ""
    for trial in trials:
        per, count = unit_of_work(trial)
        for kind, seen in trial.file_activity.items():
            flags.setdefault(kind, set()).update(seen.flags)
            for what, amount in (("fsyncs", seen.fsyncs), ("bytes", seen.bytes)):
                if amount is not None:
                    sums[what][kind] += amount
                    units[what][kind] += count
    each = {
        what: {kind: sums[what][kind] / found[kind] for kind in FILE_CLASSES if found[kind]}
        for what, found in units.items()
    }
    if not any(each.values()):
        return None
    return Activity(
        arm,
        tuple(kind for kind in FILE_CLASSES if kind in flags),
        each,
        flags={kind: tuple(sorted(flags[kind])) for kind in FILE_CLASSES if flags.get(kind)},
        why=next(filter(None, map(_untold, trials)), ""),
        per=per,
    )


def _untold(trial: Trial) -> str:
    return trial.performance.untold.get("io_by_file", "") if trial.performance is not None else ""
