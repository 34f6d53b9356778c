"""Tune plan: the values a tuning starts from, and its result, the best settings per floor. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec

from flushlab.experiment.protocol import Objective
from flushlab.record import Arm, Comparison, OverMachines, Ratio, Value
from flushlab.settings.candidates import Candidate
from flushlab.settings.floor import Floor

UNCHANGED = Ratio(estimate=1.0, low=1.0, high=1.0)
"""The base against itself."""


class FrontierPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The best proven settings at one floor.

    Attributes:
        floor: what the settings keep at least.
        arm: name of the arm that was confirmed; the base's name if nothing faster was proven.
        settings: difference from the base; empty for the base.
        ratio: gain over the base, from confirmation blocks only.
        free_ratio: the part of it that lowers no guarantee: the gain of the same settings without those that
            do. Exactly 1 if nothing is left of them, equal to `ratio` if all of them are free, None if they
            could not be measured by themselves.
        comparison: the one that `ratio` stands in; None for the base.
        versus_safer: against the point of the next safer floor, with its own error rate; None for the first
            point and where both points are the same arm.
        versus_yours: against the user's own settings, where the base is what raises them to the floor; None
            where the base is theirs, or theirs were not measured.
        beats_safer: proven to gain more than every safer point that did so, and than the base. A point that
            gains no more is not recommended.
    """

    floor: Floor
    arm: str
    settings: Mapping[str, Value]
    ratio: Ratio = UNCHANGED
    free_ratio: Ratio | None = UNCHANGED
    comparison: Comparison | None = None
    versus_safer: Comparison | None = None
    versus_yours: Ratio | None = None
    beats_safer: bool = False


def best_at(frontier: Sequence[FrontierPoint], floor: Floor) -> FrontierPoint | None:
    """The best point that keeps a floor, and the safest of equals; None: no improvement was proven there."""
    points = [point for point in frontier if point.beats_safer and point.floor.at_least(floor)]
    return points[-1] if points else None


def offers_below(frontier: Iterable[FrontierPoint], floor: Floor) -> tuple[FrontierPoint, ...]:
    return tuple(point for point in frontier if point.beats_safer and not point.floor.at_least(floor))


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A change that looked good enough to combine and was left out of what is handed over.

    Attributes:
        floor: of the combination that it was dropped from.
        settings: the change.
        cost: estimated loss by dropping it, as a fraction (0.004 = 0.4 %); negative if dropping it gains.
        error: standard error of the cost.
    """

    floor: Floor
    settings: Mapping[str, Value]
    cost: float
    error: float


class Excluded(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was not tried to the end.

    Attributes:
        settings: the change.
        reason: the server's refusal, the failure, or the rule.
        refused: True if a server did not take it; False if the plan left it out, or if it failed.
    """

    settings: Mapping[str, Value]
    reason: str
    refused: bool

    @property
    def told(self) -> tuple[str, str]:
        outcome, _, reason = self.reason.partition(": ")
        if outcome in ("refused", "failed", "invalid"):
            return outcome, reason
        return ("refused" if self.refused else "excluded"), self.reason


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """An arm that was confirmed and may not win: its latency, stalls or recovery got too bad.

    Attributes:
        arm: name of the arm.
        reason: the limit that it broke.
    """

    arm: str
    reason: str


class TuneResult(msgspec.Struct, frozen=True, kw_only=True):
    """The claims that `tune` has proven so far.

    Attributes:
        frontier: from the safest reachable floor to the lowest that may run; empty before the first interim
            analysis, and where there was nothing to try.
        winner: the best point at the plan's floor, and the safest of equals; None: no improvement was proven.
        yours: the user's own settings against the base that raises them to the floor; None where the base is
            theirs, or theirs were not measured.
        tried: changes that were in the running to the end; 0: none existed, or all are `excluded`.
        detectable: smallest gain, as a fraction, that the whole procedure would have found with a power of
            about 0.8; None before the first interim analysis, and where nothing was tried.
        cut_short: why it ended before its last interim analysis, if the base could no longer be measured;
            else empty.
    """

    base: Arm
    frontier: tuple[FrontierPoint, ...] = ()
    winner: FrontierPoint | None = None
    offers: tuple[FrontierPoint, ...] = ()
    control: Comparison | None = None
    yours: Comparison | None = None
    confirmed: tuple[Comparison, ...] = ()
    p99: Mapping[str, Comparison] = {}
    machines: Mapping[str, OverMachines] = {}
    dropped: tuple[Dropped, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    tried: int = 0
    detectable: float | None = None
    interim_analyses: int = 0
    blocks: int = 0
    finished: bool = False
    cut_short: str = ""

    throughput: ClassVar[Mapping[str, Comparison]] = {}
    best_control: ClassVar[None] = None

    @property
    def comparisons(self) -> dict[str, Comparison]:
        return {one.arm: one for one in self.confirmed}

    @property
    def proposed(self) -> tuple[FrontierPoint, ...]:
        return (*([self.winner] if self.winner else []), *self.offers)


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """Limits beyond which a faster arm may not win, judged over the confirmation blocks.

    Attributes:
        p99_ratio: 99th percentile of the latency against the base's, paired by block. Beyond the limit means
            that the estimate is above it and the worsening is proven (its interval lies above 1): one run's
            p99 scatters far more than its throughput. Whoever needs p99 held tighter, or compared at equal
            load, makes it the objective at a fixed rate; in a closed loop more throughput alone moves it.
        stall_share: how much larger the share of stalled seconds may be than the base's (0.05 = 3 s more in
            a minute). A stalled second has less than a tenth of its window's median throughput.
    """

    p99_ratio: float = 2.0
    stall_share: float = 0.05


class TunePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A tuning, as its planner needs it.

    Attributes:
        yours: the user's own settings, below the floor, where the base is what raises them to it. They run as
            a reference in the confirmation, to tell what meeting the floor costs, and are never handed over.
            None: the base is theirs, or theirs may not run.
        lowest: the lowest floor that trials may run at, those of `yours` excepted. Gains below `floor` are
            offers, proven alike. None: `floor`.
        budget_trials, budget_s: limits, at least one of them. The seconds hold everything from the beginning
            of the command (`Trial.seconds` summed) to its end.
        trial_s: about how long a trial takes, as far as that is known before the first; at least so long
            where it is not.
        redo_to_outlast: bytes of redo that a window must write under some settings before it says anything
            about them; None: windows need not outlast the redo log.
        side_by_side: servers that may run at once and alternate in slices; a block is cheap then, a new arm
            is not. 0: every trial starts a fresh one.
        startup_s: about how long it takes until one takes slices, as far as that is known before the first.
        spread: machines of a fleet run the blocks, so that every block that chooses holds its own base.
    """

    base: Mapping[str, Value]
    candidates: tuple[Candidate, ...]
    floor: Floor
    lowest: Floor | None = None
    level_of: Callable[[Mapping[str, Value]], Floor]
    is_free: Callable[[Mapping[str, Value]], bool]
    yours: Mapping[str, Value] | None = None
    raised: bool = False
    budget_trials: int | None = None
    budget_s: float | None = None
    trial_s: float = 0.0
    seed: int = 0
    alpha: float = 0.05
    objective: Objective = "throughput"
    variants: int = 1
    guards: Guards = Guards()
    redo_to_outlast: Callable[[Mapping[str, Value]], int] | None = None
    window_limit_s: float = math.inf
    side_by_side: int = 0
    start_s: float = 0.0
    startup_s: float = 0.0
    spread: bool = False

    @property
    def runs_at(self) -> Floor:
        return self.lowest or self.floor
