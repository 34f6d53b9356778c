"""Series: the experiment that takes one change at a time against a base, then all that proved faster.

Sits on top of `experiment`; pure. The story is `Series._story`:

1. arms: blocks of base, control and every arm, in random order. An arm that is refused, fails or reads back
   differently drops out with its reason; the others go on. Arms that cannot be
   measured in the same rounds run in groups, one after the other, each with base and control.
2. best: the composition of all arms that proved faster, in fresh blocks with base and control.

Its claims are valid for these reasons:

- Arms are fixed before the first block. No arm is added, stopped or favoured by its results, so the ratios
  carry no selection bias. To choose the fastest of many afterwards would add bias; the limits are
  simultaneous (Dunnett's), so they hold for whichever arm a reader picks.
- `best` *is* chosen by the results of the arms. These results are biased in favour of the chosen arms, so the
  ratio, interval and verdict of `best` come from its own blocks alone.
- Results are judged once, when all blocks are done. A series that is stopped early shows intervals that hold
  if the series was not stopped because of them.
- With `interim` there are interim analyses too, after numbers of blocks that are fixed beforehand. The
  intervals of all analyses hold together, so a proven claim is kept (`statistics.held`). An arm may leave, or
  the series may end, because the interval is narrow enough.
- Blocks of several machines are judged at the end alone, and the machine is a random effect
  (`statistics.machines`).
- Every judged ratio (arms, `best`, pairs of arms, effects of factors) has its share of alpha, fixed
  beforehand: all intervals together miss nothing with probability 1 - alpha.

Deterministic in plan and records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from flushlab.experiment.blocks import Blocks, no_base
from flushlab.experiment.protocol import SECOND, BlockAhead, Conversation, Objective, Request, Standing, Steps
from flushlab.record import (
    BASE,
    BEST,
    CONTROL,
    Arm,
    Comparison,
    FactorEffect,
    OverMachines,
    Ratio,
    Stage,
    Trial,
)
from flushlab.statistics import InterimAnalyses, RatioTable, held

Compose = Callable[[tuple[str, ...]], Arm | None]
"""From the arms that proved faster to the arm `best`; None if they cannot be composed.

The arms are in the order of their ratios, the least first, so that the larger ratio decides on a setting."""


class RoundGroup(msgspec.Struct, frozen=True, kw_only=True):
    arms: tuple[str, ...]
    blocks: int
    trial_s: float | None = None


class SeriesPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A series, as its planner needs it.

    Attributes:
        groups: arms that run in rounds of their own, each arm in one group; none: all run in the same rounds.
            The rounds of `best` are as many as those of the last group that a part of `best` comes from.
        interim: the arms are judged at interim analyses too, not only at the end. Not with a fleet: an
            analysis before the second machine's first block would prove what holds on the first one.
        precision: with `interim`, an arm leaves once its interval is within so much (0.02 is ± 2 %). Base and
            control stay until the last arm has left. So do arms that are compared with each other or crossed,
            because their ratios are judged at the end alone.
        against: by arm, the arm that it is compared with in place of the base: the base of another
            server. Both are in one group, and such a base is itself compared with `base`.
        crossed: of a factorial, the arm of every combination of factors, `base` for none of them. They are
            in one group, so that every block has all of them.
    """

    base: Arm
    arms: tuple[Arm, ...]
    blocks: int = 5
    groups: tuple[RoundGroup, ...] = ()
    compose: Compose | None = None
    objective: Objective = "throughput"
    interim: bool = False
    precision: float | None = None
    against: Mapping[str, str] = {}
    pairs: tuple[tuple[str, str], ...] = ()
    crossed: Mapping[tuple[str, ...], str] = {}
    alpha: float = 0.05
    seed: int = 0


class Dropout(NamedTuple):
    outcome: str
    reason: str


class SeriesResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a series, at any moment.

    Attributes:
        comparisons: by arm, with what it is compared with, of the arms' blocks; `best` of its own. Arms that
            are out are not in it.
        p99: the same of p99 latency, the control's of the arms' blocks among them; without arms whose
            workload has none.
        best_of: arms that it is composed of, the least ratio first.
    """

    comparisons: Mapping[str, Comparison]
    p99: Mapping[str, Comparison]
    throughput: Mapping[str, Comparison]
    control: Comparison | None
    best_control: Comparison | None
    best: Arm | None
    best_of: tuple[str, ...]
    pairs: Mapping[tuple[str, str], Ratio]
    effects: tuple[FactorEffect, ...]
    machines: Mapping[str, OverMachines]
    out: Mapping[str, Dropout]
    blocks: int
    finished: bool


class Series:
    """`tell` raises MeasurementError when the base yields no result in the first block."""

    def __init__(self, plan: SeriesPlan) -> None:
        assert plan.base.name == BASE
        pairs = {other for arm, other in plan.pairs if BEST not in (arm, other)}
        self._plan = plan
        self._bases = (BASE, *dict.fromkeys(plan.against.values()))
        judged = len(self._bases) + (plan.compose is not None) + len(pairs) + bool(plan.crossed)
        self._alpha = plan.alpha / judged
        self._plans = plan.groups or (
            RoundGroup(arms=tuple(arm.name for arm in plan.arms), blocks=plan.blocks),
        )
        self._groups, first = list[Blocks](), 0
        for one in self._plans:
            arms = tuple(arm for arm in plan.arms if arm.name in one.arms)
            self._groups.append(self._blocks(arms, "arms", one.blocks, first))
            first += one.blocks
        looked = [
            InterimAnalyses.planned(one.blocks, self._alpha) if plan.interim else None for one in self._plans
        ]
        self._interim = dict(zip(self._groups, looked, strict=True))
        paired = (name for pair in plan.pairs for name in pair)
        self._to_the_end = {*plan.crossed.values(), *paired}
        self._stay = {CONTROL, *self._bases, *self._to_the_end}
        self._seen: dict[tuple[Objective, str], list[Comparison]] = {}
        self._best: Blocks | None = None
        self._best_plan = self._plans[-1]
        self._best_arm: Arm | None = None
        self.best_of: tuple[str, ...] = ()
        self._told_before_block = 0
        self._conversation = Conversation(self._story())

    def ask(self) -> Request | None:
        return self._conversation.ask()

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        if self.ask() is None:
            return ()
        coming = self._groups if self._best is None else [self._best]
        return tuple(block for one in coming if self._goes_on(one) for block in one.ahead(most))[:most]

    def tell(self, trial: Trial) -> None:
        finished = self._arms_finished + self._best_finished
        self._conversation.tell(trial)
        if self._arms_finished + self._best_finished != finished:
            self._told_before_block = self._conversation.trials

    @property
    def standing(self) -> Standing:
        """Standing, with the proven claims of interim analyses only: no other result may lead to a stop."""
        due = self.ask()
        told = self._conversation.trials
        by = self._plan.objective
        found = self._held(by)
        if due is None:
            return Standing(stage=None, done=told, total=told, found=found, objective=by)
        parts = list(zip(self._plans, self._groups, strict=True))
        left = [(one, (one.blocks - group.finished) * len(group.due)) for one, group in parts]
        if self._plan.compose is not None:
            left.append((self._best_plan, (self._best_plan.blocks - self._best_finished) * 3))
        told_of_block = told - self._told_before_block  # repeats of disturbed trials are not foreseen
        total = told + max(sum(count for _, count in left) - told_of_block, 1)
        left_s = None
        if len(self._plans) > 1:  # trials of groups differ
            known = [count * one.trial_s for one, count in left if one.trial_s is not None]
            left_s = sum(known) if len(known) == len(left) else None
        return Standing(stage=due.stage, done=told, total=total, found=found, left_s=left_s, objective=by)

    @property
    def _best_finished(self) -> int:
        return self._best.finished if self._best else 0

    @property
    def _arms_finished(self) -> int:
        return sum(group.finished for group in self._groups)

    def result(self) -> SeriesResult:
        by = self._plan.objective
        found, best = self._of_arms(by), self._of_best(by)
        control, best_control = found.pop(CONTROL, None), best.pop(CONTROL, None)
        comparisons = found | best
        out = self._out() | (self._best.out if self._best is not None else {})
        return SeriesResult(
            comparisons=comparisons,
            p99=self._besides("p99"),
            throughput=self._besides("throughput") if by == "latency" else {},
            control=control,
            best_control=best_control,
            best=self._best_arm,
            best_of=self.best_of,
            pairs=self._pairs(comparisons),
            effects=self._effects(),
            machines=self._over_machines(),
            out={name: Dropout(*reason.split(": ", 1)) for name, reason in out.items()},
            blocks=self._arms_finished,
            finished=self.ask() is None,
        )

    def _besides(self, by: Objective) -> dict[str, Comparison]:
        if by not in (self._plan.objective, SECOND[self._plan.objective]):
            return {}
        return {**self._of_best(by), **self._of_arms(by)}

    def _story(self) -> Steps[None]:
        if not self._plan.arms:
            return
        for group in self._groups:
            while self._goes_on(group):
                yield from group.next_round()
                self._analyse(group)
            if self._arms_finished == 0:
                raise no_base(group.out[BASE], group.hints.get(BASE))
            if BASE in group.out:
                return
        if self._plan.compose is None:
            return
        found = self._of_arms(self._plan.objective)
        faster = [arm for arm in self._plan.arms if arm.name in found and found[arm.name].verdict == "faster"]
        faster.sort(key=lambda arm: found[arm.name].ratio.estimate)
        names = tuple(arm.name for arm in faster)
        best = self._plan.compose(names) if names else None
        if best is None:
            return
        self._best_arm, self.best_of = best, names
        self._best_plan = [one for one in self._plans if set(one.arms) & set(names)][-1]
        self._best = self._blocks((best,), "best", self._best_plan.blocks)
        yield from self._best.steps()

    def _blocks(self, arms: tuple[Arm, ...], stage: Stage, blocks: int, first: int = 0) -> Blocks:
        plan = self._plan
        return Blocks(
            plan.base,
            arms,
            blocks=blocks,
            stage=stage,
            seed=plan.seed,
            first=first,
            objective=plan.objective,
        )

    def _analyse(self, group: Blocks) -> None:
        interim = self._interim[group]
        if interim is None or group.finished not in interim.blocks or BASE in group.out:
            return
        alpha = interim.alpha_at(group.finished)
        for by in group.sheet.measures:
            table = group.table(by)
            running = {name: cells for name, cells in table.scores.items() if name not in group.settled}
            for one in self._compared(table._replace(scores=running), alpha):
                self._seen.setdefault((by, one.arm), []).append(one)
        group.settled |= self._precise() - self._stay

    def _precise(self) -> set[str]:
        if (asked := self._plan.precision) is None:
            return set()
        found = self._held(self._plan.objective).items()
        return {name for name, one in found if one.ratio.half_width <= asked and not one.contradicted}

    def _goes_on(self, group: Blocks) -> bool:
        left = {arm.name for arm in group.due} - {BASE, CONTROL}
        return bool(left - ({*self._bases} & self._precise()) | left & self._to_the_end)

    def _held(self, by: Objective) -> dict[str, Comparison]:
        out = self._out()
        return {
            name: held(found)
            for (measure, name), found in self._seen.items()
            if measure == by and name not in out
        }

    def _out(self) -> dict[str, str]:
        return {name: reason for group in self._groups for name, reason in group.out.items()}

    def _joined(self, by: Objective | None = None) -> RatioTable:
        scores, machines, stalled = dict[str, dict[int, float]](), dict[int, str](), set[str]()
        for table in (group.table(by) for group in self._groups):
            machines |= table.machines
            stalled |= {*table.stalled}
            for name, own in table.scores.items():
                scores.setdefault(name, {}).update(own)
        return RatioTable(scores, machines, stalled)

    def _of_best(self, by: Objective) -> dict[str, Comparison]:
        if self._best is None:
            return {}
        return _by_name(self._best.table(by).compare(BASE, alpha=self._alpha, twin=CONTROL))

    def _of_arms(self, by: Objective) -> dict[str, Comparison]:
        """The arms, each by the rounds of its group, whose noise is its own; the control by all rounds."""
        found = self._held(by)
        if len(self._groups) == 1:
            return found or _by_name(self._compared(self._groups[0].table(by), self._alpha))
        for one, group in zip(self._plans, self._groups, strict=True):
            if not found.keys() & set(one.arms):
                own = _by_name(self._compared(group.table(by), self._alpha))
                found |= {name: comparison for name, comparison in own.items() if name in one.arms}
        joined = self._joined(by)
        both = {name: cells for name, cells in joined.scores.items() if name in (BASE, CONTROL)}
        return found | _by_name(self._compared(joined._replace(scores=both), self._alpha, of_all=True))

    def _compared(self, table: RatioTable, alpha: float, *, of_all: bool = False) -> Iterator[Comparison]:
        """The intervals of one base hold together, whichever of its arms are compared here; every base has an
        equal share of the error rate."""
        left = {CONTROL} if len(self._groups) > 1 and not of_all else set()
        for base, own, family in self._families(table):
            twin = CONTROL if base == BASE else ""
            yield from table.compare(base, alpha=alpha, only=own - left, family=family, twin=twin)

    def _families(self, table: RatioTable) -> Iterator[tuple[str, set[str], int]]:
        against = self._plan.against
        for base in self._bases:
            if base in table.scores:
                own = {name for name in table.scores if against.get(name, BASE) == base and name != base}
                arms = sum(against.get(arm.name, BASE) == base for arm in self._plan.arms)
                yield base, own, arms + (base == BASE)

    def _over_machines(self) -> dict[str, OverMachines]:
        found: dict[str, OverMachines] = {}
        for table in (group.table() for group in self._groups):
            for base, own, family in self._families(table):
                found |= table.over_machines(base, alpha=self._alpha, only=own, family=family)
        if self._best is not None:
            found |= self._best.table().over_machines(BASE, alpha=self._alpha, only={BEST})
        return found

    def _effects(self) -> tuple[FactorEffect, ...]:
        crossed = self._plan.crossed
        if not crossed or self._out().keys() & {*crossed.values()}:
            return ()
        tables = (group.table() for group in self._groups)
        own = next((one for one in tables if {*crossed.values()} <= one.scores.keys()), None)
        table = own or self._joined()  # one group's noise is its own
        return table.effects(crossed, alpha=self._alpha, twin=CONTROL)

    def _pairs(self, comparisons: Mapping[str, Comparison]) -> dict[tuple[str, str], Ratio]:
        """From the blocks that both share in one group; where they share none, as with `best`, from the
        bounds of both against the base."""
        found = dict[tuple[str, str], Ratio]()
        tables = [group.table() for group in self._groups]
        for arm, against in self._plan.pairs:
            shared = (
                table
                for table in tables
                if table.scores.get(arm, {}).keys() & table.scores.get(against, {}).keys()
            )
            if (table := next(shared, None)) is not None:
                asked = {one for one, other in self._plan.pairs if other == against}
                compared = table.compare(against, alpha=self._alpha, only=asked, family=len(asked))
                found |= {(one.arm, against): one.ratio for one in compared if one.arm == arm}
            elif arm in comparisons and against in comparisons:
                found[arm, against] = comparisons[arm].ratio.over(comparisons[against].ratio)
        return found


def _by_name(found: Iterable[Comparison]) -> dict[str, Comparison]:
    return {one.arm: one for one in found}
