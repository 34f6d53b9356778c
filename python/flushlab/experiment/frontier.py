"""Frontier: the best settings per floor, as `tune` hands them over.

Sits in `experiment`; frozen values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from flushlab.record import Arm, Comparison, OverMachines, Ratio, Value
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
    """The points below a floor that gain more than every safer one, the safest first."""
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
        """What became of it, in a word, and why."""
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
    """What `tune` has proven so far.

    Attributes:
        base: the arm that everything is compared with.
        frontier: from the safest reachable floor to the lowest that may run; empty before the first interim
            analysis, and where there was nothing to try.
        winner: the best point at the plan's floor, and the safest of equals; None: no improvement was proven.
        offers: points below the plan's floor that gain more than every safer one, the safest first.
        control: the base against itself; None before the first interim analysis.
        yours: the user's own settings against the base that raises them to the floor; None where the base is
            theirs, or theirs were not measured.
        confirmed: all comparisons of the last interim analysis.
        p99: the same of p99 latency, by arm; without those whose workload has none.
        machines: by arm, the objective's ratio on every machine of a fleet; empty where one machine ran all.
        dropped: by reduction.
        rejected: by the guards or from outside.
        excluded: refused by the server, or left out by a rule.
        tried: changes that were in the running to the end; 0: none existed, or all are `excluded`.
        detectable: smallest gain, as a fraction, that the whole procedure would have found with a power of
            about 0.8; None before the first interim analysis, and where nothing was tried.
        interim_analyses: number of interim analyses of the confirmation.
        blocks: confirmation blocks behind the results.
        finished: False if the campaign may still be continued.
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

    @property
    def proposed(self) -> tuple[FrontierPoint, ...]:
        """The winner, if any, and the offers."""
        return (*([self.winner] if self.winner else []), *self.offers)
