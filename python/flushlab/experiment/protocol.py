"""The experiment's protocol: which trial next (ask), what came of it (tell).

Sits at the bottom of `experiment`; pure. An experiment is a deterministic function of its plan, its
seed and the records told, so resuming is telling it the stored trials again, in their order.

An objective scores trials in log units in which more is better, whatever the unit. So every ratio above 1 is
a gain. A ratio of latency says how many times lower the latency is than the base's.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterable, Mapping
from random import Random
from statistics import fmean, median
from typing import Literal, Protocol, TypeVar

import msgspec

from flushlab.errors import MeasurementError, UsageError
from flushlab.record import Arm, Comparison, CrashRow, Ratio, Stage, Trial
from flushlab.units import format_latency

Objective = Literal["throughput", "p99", "latency"]

OBJECTIVES: tuple[Objective, ...] = ("throughput", "p99")
"""Objectives that users may ask for; `latency` is that of a load which flushlab only observes."""
SECOND: Mapping[Objective, Objective] = {"throughput": "p99", "p99": "p99", "latency": "throughput"}
"""The second comparison, beside the objective's."""

P99 = "p99 latency"
WRITE_LATENCY = "write latency"
LATENCIES: Mapping[Objective, str] = {"p99": P99, "latency": WRITE_LATENCY}
"""Stand for the unit of a latency, which its words have."""
_SHORT: Mapping[Objective, str] = {"p99": "p99", "latency": "latency"}

LEAST_COMMITS = 0.5
"""Of a cell of an observed load that has none, beside cells that have."""

FEW_EVENTS = 20
"""Events of a slice below which one without any is no stall."""
STALL_SHARE_OF_MEDIAN = 0.1
"""A second with less than this share of the window's median throughput is a stalled second."""


def score(trials: Iterable[Trial], objective: Objective = "throughput") -> float:
    """Mean log score of one cell, over its workload variants and the attempts at each: a geometric mean."""
    scores: dict[int, list[float]] = {}
    for trial in trials:
        scores.setdefault(trial.variant, []).append(_score(trial, objective))
    return fmean(map(fmean, scores.values()))


def scores(trials: Collection[Trial], objective: Objective) -> dict[Objective, float]:
    found = {objective: score(trials, objective)}
    if SECOND[objective] == "throughput":
        found["throughput"] = score(trials, "throughput")
    elif all(p99_us(trial) is not None or _is_stall(trial) for trial in trials):
        found["p99"] = score(trials, "p99")
    return found


def _score(trial: Trial, objective: Objective) -> float:
    if objective == "p99":
        latency = p99_us(trial)
        if latency is None and trial.load is not None:
            latency = trial.load.seconds * 1e6  # no event ended in it, so each of them took longer
        if latency is None:
            raise MeasurementError(
                f"the workload of {trial.arm.name!r} reports no latency, so p99 can't be the objective",
                hint="use --objective throughput with commands",
            )
        return -math.log(latency)
    if objective == "latency":
        latency = write_us(trial)
        if latency is None:
            raise MeasurementError(f"{trial.arm.name!r} has no write latency: nothing was observed")
        return -math.log(latency)
    if trial.result is None or not trial.result > 0:
        raise MeasurementError(f"{trial.arm.name!r} yielded {trial.result} {trial.unit}: nothing to compare")
    return math.log(trial.result) if trial.higher_is_better else -math.log(trial.result)


def is_stalled(trials: Iterable[Trial]) -> bool:
    return any(map(_is_stall, trials))


def _is_stall(trial: Trial) -> bool:
    return trial.load is not None and trial.load.is_stall


def p99_us(trial: Trial) -> float | None:
    if trial.load is None or trial.load.latency_us is None:
        return None
    return float(max(trial.load.latency_us.p99, 1))


def write_us(trial: Trial) -> float | None:
    """Mean time that a transaction of an observed load takes in write statements and commit, in microseconds;
    None for other loads. Of a cell without commits, half of one."""
    load = trial.observed
    if load is None or not (load.commits or load.samples):
        return None
    return load.write_us or load.by_samples().write_us_of(LEAST_COMMITS)


def redo_rate(trial: Trial) -> float | None:
    """Bytes of redo per second of the window, or None where the server does not tell."""
    before, after = trial.before, trial.after
    if before is None or after is None or not trial.seconds.get("window"):
        return None
    if before.redo_written_bytes is None or after.redo_written_bytes is None:
        return None
    return (after.redo_written_bytes - before.redo_written_bytes) / trial.seconds["window"]


def stall_share(trial: Trial) -> float | None:
    """None where there is no series, or slices have too few events to tell."""
    if trial.load is None:
        return None
    series = trial.load.per_second
    if not series:
        sliced = [one for one in trial.slices if not one.dropped]
        series = tuple(round(one.events / one.seconds) for one in sliced if one.seconds)
        if not sliced or median([one.events for one in sliced if one.events] or [0]) < FEW_EVENTS:
            return None
    busy = [events for events in series if events]
    if not busy:
        return 1.0
    # More than half of the seconds may be stalled: the median of all would then be 0.
    usual = median(series) or median(busy)
    return sum(1 for events in series if events < STALL_SHARE_OF_MEDIAN * usual) / len(series)


def result_of(trial: Trial, objective: Objective) -> tuple[float, str]:
    latency = {"p99": p99_us, "latency": write_us}[objective](trial) if objective in LATENCIES else None
    return (trial.result or 0.0, trial.unit) if latency is None else (latency, LATENCIES[objective])


def result_words(result: float, unit: str) -> str:
    return format_latency(result) if unit in LATENCIES.values() else f"{result:,.{2 if result < 100 else 0}f}"


def gain_words(ratio: Ratio, objective: Objective, than: str = "the base") -> str:
    """Below 1, latency is so many times higher, and so is its interval."""
    latency = LATENCIES.get(objective)
    higher = latency is not None and ratio.estimate < 1
    shown = ratio.inverse() if higher else ratio
    what = f"{'higher' if higher else 'lower'} {latency}" if latency else "as fast"
    link = f" {'than' if latency else 'as'} {than}" if than else ""
    return f"{shown.estimate:.2f}× {what}{link} [{shown.low:.2f}, {shown.high:.2f}]"


def throughput_words(comparison: Comparison, unit: str) -> str:
    ratio = comparison.ratio
    return f"{unit}: {ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def latency_words(comparison: Comparison) -> str:
    ratio = comparison.ratio
    if comparison.verdict != "no difference found":
        return gain_words(ratio, "p99", "")
    return f"no difference in p99 latency found: {ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def verdict_words(verdict: str, objective: Objective) -> str:
    if (short := _SHORT.get(objective)) is None:
        return verdict
    words: dict[str, str] = {"faster": f"lower {short}", "slower": f"higher {short}"}
    return words.get(verdict, verdict)


T = TypeVar("T")
Row = TypeVar("Row", Trial, CrashRow, contravariant=True)

Steps = Generator["Request", Trial, T]
"""A part of an experiment: yields requests, is sent trials, returns what it found out."""

SELECTING: tuple[Stage, ...] = ("calibrate", "screen", "reduce")
"""Stages of a tuning whose blocks choose what is confirmed; no reported ratio is from them."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    arm: Arm
    stage: Stage
    block: int
    variant: int = 0
    beside: tuple[Arm, ...] = ()


class BlockAhead(msgspec.Struct, frozen=True, kw_only=True):
    stage: Stage
    block: int
    arms: tuple[Arm, ...]
    variants: int = 1
    patient: tuple[str, ...] = ()
    seed: int = 0

    @property
    def order(self) -> Random:
        return Random(f"{self.seed}/{self.stage}/{self.block}")


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where an experiment stands.

    Attributes:
        total: trials expected in all; an upper estimate that shrinks when the experiment stops early.
        found: comparisons by arm that may be shown while it runs, the control's among them: claims that
            interim analyses have proven, and that no later analysis revokes. Empty if results are judged at
            the end only.
        after: work that follows the last trial, in trials' worth.
        left_s: about what is left takes, where trials so far do not tell it; else None.
    """

    stage: Stage | None
    done: int
    total: int
    best: Ratio | None = None
    found: Mapping[str, Comparison] = {}
    after: float = 0.0
    left_s: float | None = None
    objective: Objective = "throughput"


class Experiment(Protocol[Row]):
    """A pure planner, whose requests come to rows of a kind."""

    def ask(self) -> Request | None:
        """The trial to run now, the same until `tell` has its record; None when the experiment is done."""
        ...

    def tell(self, row: Row, /) -> None:
        """Takes the record of the requested trial. A stored record may be handed over without asking.

        Raises:
            UsageError: it is not the one that is due.
        """
        ...

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        """The block that is due, partly told or not, and blocks that will follow.

        A later block is foreseen as if no arm dropped out or left until then, and no interim analysis ended
        the experiment. So it may have more trials than `ask` will name, never fewer.

        Args:
            most: number of blocks.
        """
        ...

    @property
    def standing(self) -> Standing:
        """Where it stands."""
        ...


class Conversation:
    def __init__(self, steps: Steps[None]) -> None:
        self._steps = steps
        self._due: Request | None = None
        self._started = False
        self.trials = 0

    def ask(self) -> Request | None:
        if not self._started:
            self._started = True
            self._due = next(self._steps, None)
        return self._due

    def tell(self, trial: Trial) -> None:
        due = self.ask()
        names = ("arm", "stage", "block", "variant")
        if due is None or any(getattr(trial, name) != getattr(due, name) for name in names):
            expected = (
                "no further trial" if due is None else f"{due.stage} block {due.block} of {due.arm.name!r}"
            )
            raise UsageError(
                f"a trial of {trial.arm.name!r} ({trial.stage} block {trial.block}) does not belong here: "
                f"the plan expects {expected}",
                hint="a campaign can be resumed only with the plan, seed and version it was started with",
            )
        self.trials += 1
        try:
            self._due = self._steps.send(trial)
        except StopIteration:
            self._due = None
