"""Confirmation: fresh blocks of the arms that screening picked.

Sits in `experiment`, below `tune`; pure. Promises:

- Results come from these blocks only, and from interim analyses that were fixed beforehand. Blocks of several
  machines are judged at the end alone, and the machine is a random effect (`statistics.machines`).
- So all intervals of all analyses hold with probability 1 - alpha, and a proven claim stays proven.
- No rejected arm is handed over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from flushlab.experiment.blocks import YOURS, Sheet
from flushlab.experiment.protocol import Objective, stall_share
from flushlab.experiment.tune.pool import CandidatePool, Selection
from flushlab.experiment.tune_plan import UNCHANGED, FrontierPoint, Guards, Rejected
from flushlab.record import BASE, CONTROL, Comparison, OverMachines, Ratio, Trial
from flushlab.settings.floor import Floor
from flushlab.statistics import RatioTable, held

WORTH_LOG = math.log(1.01)
"""A change that buys less than 1 % is not worth a line in an option file."""


PRECISE_LOG = math.log(1.05)
"""Half the width of an interval that is narrow enough."""


class _Analysis(NamedTuple):
    blocks: int
    alpha: float
    comparisons: dict[Objective, dict[str, Comparison]]
    table: RatioTable
    over: dict[str, OverMachines]
    guarded: dict[str, str]


class Confirmation:
    def __init__(self, pool: CandidatePool, guards: Guards, objective: Objective) -> None:
        self._pool = pool
        self._guards = guards
        self._objective = objective
        self.selections: dict[str, Selection] = {}
        self._sheet = Sheet(objective, (BASE, CONTROL))
        self._trials: dict[str, list[Trial]] = {}
        self._rejected: dict[str, str] = {}
        self._analyses: list[_Analysis] = []

    # -- facts in ------------------------------------------------------------------------------------

    def admit(self, arm: str, selection: Selection) -> None:
        self.selections[arm] = selection
        self._sheet.admit(arm)

    def admit_reference(self, arm: str) -> None:
        self._sheet.admit(arm)

    def record(self, arm: str, block: int, trials: Sequence[Trial]) -> None:
        self._sheet.record(arm, block, trials)
        self._trials.setdefault(arm, []).extend(trials)

    def reject(self, arm: str, reason: str) -> None:
        self._rejected[arm] = reason

    def judge(
        self, blocks: int, alpha: float, *, since: int = 0, arms: Collection[str] | None = None
    ) -> None:
        """`since` is the number of the first of these blocks; the intervals of all `arms` hold at once."""
        family = len(self._sheet.arms) - 1
        tables = {by: self._sheet.table(BASE, by, arms=arms, since=since) for by in self._sheet.measures}
        compared = {
            by: {one.arm: one for one in table.compare(BASE, alpha=alpha, family=family, twin=CONTROL)}
            for by, table in tables.items()
        }
        own = tables[self._objective]
        over = own.over_machines(BASE, alpha=alpha, family=family)
        one = _Analysis(blocks, alpha, compared, own, over, {})
        self._analyses.append(one)
        one.guarded.update({name: why for name in self.selections if (why := self._guard(name))})

    @property
    def next_block(self) -> int:
        return self._sheet.next_block

    def _guard(self, arm: str) -> str:
        own, base = self._trials.get(arm, ()), self._trials.get(BASE, ())
        limit = self._guards.p99_ratio
        if (latency := self.compared(arm, "p99")) is not None:
            ratio = latency.ratio.inverse()  # scores are better when higher
            if ratio.estimate > limit and ratio.low > 1:
                return (
                    f"p99 latency is {ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] times "
                    f"the base's, above the limit of {limit:g}"
                )
        stalls, base_stalls = _mean(map(stall_share, own)), _mean(map(stall_share, base))
        limit = self._guards.stall_share
        if stalls is not None and base_stalls is not None and stalls - base_stalls > limit:
            return f"{stalls:.1%} of its time is stalled (base: {base_stalls:.1%}), limit {limit:.1%} more"
        return ""

    # -- claims out ----------------------------------------------------------------------------------

    @property
    def interim_analyses(self) -> int:
        return len(self._analyses)

    @property
    def blocks(self) -> int:
        return self._analyses[-1].blocks if self._analyses else 0

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return self.compared_by(self._objective)

    def compared_by(self, by: Objective) -> tuple[Comparison, ...]:
        return tuple(found for name in self._sheet.arms if (found := self.compared(name, by)) is not None)

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        return tuple(Rejected(arm=arm, reason=reason) for arm, reason in self._reasons().items())

    def compared(self, arm: str, by: Objective | None = None) -> Comparison | None:
        seen = [one for one in self._analyses if arm in one.comparisons[by or self._objective]]
        return held(one.comparisons[by or self._objective][arm] for one in seen) if seen else None

    @property
    def over_machines(self) -> dict[str, OverMachines]:
        return {arm: found for one in self._analyses for arm, found in one.over.items()}

    def frontier(self, floors: Iterable[Floor]) -> tuple[FrontierPoint, ...]:
        """The safest first. Choosing the best of several proven arms is covered: their intervals hold all at
        once."""
        if not self._analyses:
            return ()
        points: list[FrontierPoint] = []
        for floor in floors:
            best = max(self._proven(floor), key=lambda c: c.ratio.estimate, default=None)
            if best is None:
                if self._pool.legal(frozenset(), floor):  # else nothing that was proven is at the floor
                    point = FrontierPoint(floor=floor, arm=BASE, settings={})
                    points.append(msgspec.structs.replace(point, versus_yours=self._versus_yours(BASE)))
                continue
            safer = points[-1].arm if points else BASE
            points.append(
                FrontierPoint(
                    floor=floor,
                    arm=best.arm,
                    settings=self._pool.changes(self.selections[best.arm]),
                    ratio=best.ratio,
                    free_ratio=self._free_ratio(best),
                    comparison=best,
                    versus_yours=self._versus_yours(best.arm),
                    versus_safer=self._against(best.arm, safer) if points and safer != best.arm else None,
                )
            )
        return tuple(self._marked(points))

    def _marked(self, points: Sequence[FrontierPoint]) -> Iterator[FrontierPoint]:
        best = BASE
        for point in points:
            gains = point.arm not in (BASE, best)
            if gains and best != BASE:
                versus = self._against(point.arm, best)
                gains = versus is not None and versus.verdict == "faster" and versus.ratio.estimate > 1.01
            best = point.arm if gains else best
            yield msgspec.structs.replace(point, beats_safer=gains)

    def is_clear(self, floors: Iterable[Floor], among: Collection[str]) -> bool:
        if not self._analyses:
            return False
        arms = [one for one in self.comparisons if one.arm in among]
        between = [p.versus_safer for p in self.frontier(floors) if p.versus_safer is not None]
        return all(_decided(c) for c in (*arms, *between))

    def is_beaten(self, arm: str) -> bool:
        found = self.compared(arm)
        return found is not None and math.log(found.ratio.high) < WORTH_LOG

    def detectable_log(self, power: float) -> float | None:
        """None before the first analysis; the control's without a candidate that stayed. What is proven to
        buy nothing has left early: an arm with such a gain would have stayed."""
        gains, family = dict[str, float](), len(self._sheet.arms) - 1
        for one in self._analyses:
            scores, stalled = one.table.scores, one.table.stalled
            calm = {arm: cells for arm, cells in scores.items() if arm == BASE or arm not in stalled}
            found = one.table._replace(scores=calm).detectable(
                BASE, alpha=one.alpha, family=family, twin=CONTROL, power=power
            )
            gains |= {arm: min(gains.get(arm, math.inf), gain) for arm, gain in found.items()}
        stayed = {arm: gain for arm, gain in gains.items() if not self.is_beaten(arm)} or gains
        candidates = {arm: gain for arm, gain in stayed.items() if arm in self.selections} or stayed
        return max(candidates.values(), default=None)

    def _reasons(self) -> dict[str, str]:
        return {**(self._analyses[-1].guarded if self._analyses else {}), **self._rejected}

    def _proven(self, floor: Floor) -> list[Comparison]:
        rejected = self._reasons()
        return [
            comparison
            for name, selection in self.selections.items()
            if (comparison := self.compared(name)) is not None
            and comparison.verdict == "faster"
            and name not in rejected
            and self._pool.legal(selection, floor)
        ]

    def _free_ratio(self, comparison: Comparison) -> Ratio | None:
        selection = self.selections[comparison.arm]
        if self._pool.is_free(selection):
            return comparison.ratio
        part = self._pool.changes(self._pool.free_part(selection))
        if not part:
            return UNCHANGED
        for name, other in self.selections.items():
            if self._pool.changes(other) == part and (found := self.compared(name)) is not None:
                return found.ratio
        return None

    def _versus_yours(self, arm: str) -> Ratio | None:
        yours = self.compared(YOURS)
        if yours is None:
            return None
        if arm == BASE:
            return yours.ratio.inverse()
        found = self._against(arm, YOURS)
        return found.ratio if found is not None else None

    def _against(self, arm: str, other: str) -> Comparison | None:
        if other == BASE:
            return self.compared(arm)
        found = [
            found
            for one in self._analyses
            if other in one.table.scores
            for found in one.table.compare(other, alpha=one.alpha, only={arm})
        ]
        if found:
            return held(found)
        one, base = self.compared(arm), self.compared(other)
        if one is None or base is None:
            return None
        ratio = one.ratio.over(base.ratio)  # they never ran in the same block
        return msgspec.structs.replace(one, ratio=ratio, verdict=ratio.verdict)


def _decided(comparison: Comparison) -> bool:
    """An interval within 5 % or a tenth of the gain; of arms, what is proven to buy less than 1 % too."""
    low, high = math.log(comparison.ratio.low), math.log(comparison.ratio.high)
    if comparison.verdict == "no difference found" and comparison.arm != CONTROL:
        return high < WORTH_LOG
    if comparison.verdict == "slower":
        return True
    return (high - low) / 2 <= max(PRECISE_LOG, math.log(comparison.ratio.estimate) / 10)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
