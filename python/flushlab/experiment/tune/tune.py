"""Tune: the experiment that finds the fastest settings at each floor and proves them.

Sits on top of `experiment`; pure. The story is `Tune._story`:

1. calibrate: the base alone; what a trial costs, how much it scatters. Fixes how trials are spent.
2. screen: a change that lowers a guarantee is tried alone on the base. All other changes are tried in trials
   that each switch about half of the candidates on (`statistics.factorial`). These trials run on the base
   *and* on the fastest foundation that the floor allows, because at `trx_commit=1` the disk hides the other
   effects.
3. combine: per floor, what looked good and may stand together. No trials.
4. reduce: each combination against itself without one change; drops settings whose removal costs less than
   1 % or the noise. It comes before the confirmation so that what is confirmed is what is handed over.
   Where no change is left by then, and the base is no result either, it ends.
5. confirm: fresh blocks with base, control, the combination of each floor and its free part; interim analyses
   fixed beforehand. Every reported result comes from here.

Promises:

- No request is below `TunePlan.lowest` but for `TunePlan.yours`, which is never handed over.
- No winner is below `TunePlan.floor`.
- Requests are deterministic in plan and records.
- A claim of `faster` is wrong in at most a share alpha of campaigns, stopping and selection included
  (`benchmarks/false_positives.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flushlab.errors import BelowFloor, MeasurementError
from flushlab.experiment.blocks import YOURS, Sheet
from flushlab.experiment.protocol import BlockAhead, Conversation, Request, Standing, Steps, redo_rate
from flushlab.experiment.tune.budget import END_TRIALS, TuneBudget
from flushlab.experiment.tune.confirmation import WORTH_LOG, Confirmation
from flushlab.experiment.tune.pool import CandidatePool, Selection, TuneRounds
from flushlab.experiment.tune.screening import Screening
from flushlab.experiment.tune_plan import Dropped, TunePlan, TuneResult, best_at, offers_below
from flushlab.record import BASE, CONTROL, Arm, Trial, Value
from flushlab.settings.floor import Floor
from flushlab.statistics import Contrasts, InterimAnalyses, contrasts

DROP_ERRORS = 1.5
"""A cost below this many of its standard errors is noise, once reduction has measured it: of changes that
do nothing 7 % stay."""


@dataclass
class Reduction:
    _pool: CandidatePool
    _rounds: TuneRounds
    _budget: TuneBudget
    _screening: Screening
    chosen: dict[Floor, Selection] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)

    def run(self) -> Steps[None]:
        items = {
            floor: [i for i in sorted(selection) if self._pool.legal(selection - {i}, floor)]
            for floor, selection in self.chosen.items()
            if len(selection) >= 2
        }
        pairs = [
            (self.chosen[floor], self.chosen[floor] - {i}) for floor, some in items.items() for i in some
        ]
        groups = [{one for pair in pairs for one in pair}] if pairs else []
        if groups and len(groups[0]) > 1 + self._budget.room and self._budget.kept_running:
            groups = [set(pair) for pair in dict.fromkeys(pairs)]
        blocks = self._budget.reduce_blocks(sum(map(len, groups)), len(self.to_confirm()) + 2)
        sheet = Sheet(self._rounds.objective)
        if blocks >= 2:
            for number, arms in enumerate(groups):
                ordered = [self._pool.arm(selection) for selection in sorted(arms, key=sorted)]
                yield from self._rounds.score(ordered, "reduce", number * blocks, blocks, sheet)
        for floor, droppable in items.items():
            selection = self.chosen[floor]
            costs = self._costs(selection, droppable, sheet)
            cheap = self._cheap(selection, costs, floor, measured=blocks >= 2)
            if len(cheap) >= 2 and blocks >= 2:
                cheap = yield from self._drop_together(selection, cheap, floor, blocks)
            self.chosen[floor] = selection - frozenset(cheap)
            self.dropped.extend(
                Dropped(
                    floor=floor,
                    settings=dict(self._pool.candidates[i].settings),
                    cost=-math.expm1(-costs[i][0]),
                    error=costs[i][1],
                )
                for i in cheap
            )

    def to_confirm(self) -> list[Selection]:
        found: dict[frozenset[tuple[str, Value]], Selection] = {}
        for selection in self.chosen.values():
            for part in (selection, self._pool.free_part(selection)):
                changes = frozenset(self._pool.changes(part).items())
                if changes:
                    found.setdefault(changes, part)
        return list(found.values())

    def _cheap(
        self, selection: Selection, costs: Mapping[int, tuple[float, float]], floor: Floor, measured: bool
    ) -> list[int]:
        """Changes that may be dropped, cheapest first; at least one stays, for the confirmation to judge."""
        factor = DROP_ERRORS if measured else 1.0
        cheap: list[int] = []
        for index, (cost, error) in sorted(costs.items(), key=lambda item: item[1][0]):
            rest = selection - frozenset(cheap) - {index}
            if cost < max(WORTH_LOG, factor * error) and rest and self._pool.legal(rest, floor):
                cheap.append(index)
        return cheap

    def _drop_together(
        self, selection: Selection, cheap: list[int], floor: Floor, blocks: int
    ) -> Steps[list[int]]:
        attempt = 0
        while len(cheap) >= 2 and self._budget.reduce_blocks(2, len(self.to_confirm()) + 2) >= blocks:
            pair = [self._pool.arm(selection), self._pool.arm(selection - frozenset(cheap))]
            sheet = Sheet(self._rounds.objective)
            first = 1000 * (1 + floor.rank) + 100 * attempt  # block numbers of their own
            yield from self._rounds.score(pair, "reduce", first, blocks, sheet)
            found = _contrasts(sheet, pair[1].name)
            if found is not None and float(found.estimate[0]) < max(WORTH_LOG, float(found.error[0])):
                return cheap
            cheap = cheap[: len(cheap) // 2]
            attempt += 1
        return cheap

    def _costs(
        self, selection: Selection, items: Sequence[int], sheet: Sheet
    ) -> dict[int, tuple[float, float]]:
        """Loss by dropping each item and its standard error, log units: screening and reduction pooled."""
        effects, contexts = self._screening.effects, self._screening.contexts
        assert effects is not None
        found, measured = _contrasts(sheet, self._pool.arm(selection).name), dict[str, tuple[float, float]]()
        if found is not None:
            each = zip(found.arms, found.estimate, found.error, strict=True)
            measured = {arm: (-float(estimate), float(error)) for arm, estimate, error in each}
        context = 1 if len(contexts) > 1 and contexts[1] & selection else 0
        costs = {}
        for index in items:
            cost, error = effects.mean[context, index], effects.sd[context, index]
            if len(contexts) > 1 and contexts[1] == frozenset({index}):
                cost, error = effects.offset[1], effects.offset_sd[1]
            elif index in contexts[-1]:
                cost, error = effects.mean[0, index], effects.sd[0, index]
            costs[index] = float(cost), float(error)
            direct = measured.get(self._pool.arm(selection - {index}).name)
            if direct is not None:
                costs[index] = _pooled(costs[index], direct)
        return costs


def _contrasts(sheet: Sheet, base: str) -> Contrasts | None:
    return contrasts(sheet.table(base).scores, base) if base in sheet.arms else None


def _pooled(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    weights = [1 / max(error, 1e-9) ** 2 for _, error in (one, other)]
    mean = (one[0] * weights[0] + other[0] * weights[1]) / sum(weights)
    return mean, math.sqrt(1 / sum(weights))


STAGE_POWER = 0.93
"""Power asked of screening and of confirmation, so that both together have 0.8.

A little more than the square root of 0.8, because a find takes blocks from the others (simulated)."""

STAGE_DEVIATES = 1.48
"""The normal deviate of that power."""


class Tune:
    """If the time of the first trials is the reason, `ask` or `tell` raises BudgetTooSmall. MeasurementError
    comes from `tell`, when the base cannot be measured and nothing is proven."""

    def __init__(self, plan: TunePlan) -> None:
        assert plan.budget_trials is not None or plan.budget_s is not None, "a plan has a budget"
        self._plan = plan
        level = plan.level_of(plan.base)
        if not level.at_least(plan.floor):
            raise BelowFloor(
                f"the base meets only {level}, below the floor {plan.floor}",
                hint=f"make the base safer, or accept less with --floor {level}",
            )
        self._pool = CandidatePool(plan)
        self._budget = TuneBudget(plan, self._pool)
        self._rounds = TuneRounds(plan, self._pool)
        self._screening = Screening(plan, self._pool, self._rounds, self._budget)
        self._reduction = Reduction(self._pool, self._rounds, self._budget, self._screening)
        self._confirmation = Confirmation(self._pool, plan.guards, plan.objective)
        self._cut_short = ""
        self._expected = 0
        if plan.budget_trials is not None:
            self._expected = self._budget.cells() * plan.variants
        if self._has_to_measure:
            self._budget.demand()
        self._conversation = Conversation(self._story())

    def ask(self) -> Request | None:
        return self._conversation.ask()

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        return () if self.ask() is None else self._rounds.ahead(most)

    def tell(self, trial: Trial) -> None:
        if trial.stage == "recovery":
            return
        self._conversation.ask()
        self._budget.count(trial)
        self._conversation.tell(trial)

    def reject(self, arm: str, reason: str) -> None:
        self._confirmation.reject(arm, reason)

    @property
    def least_trials(self) -> int:
        return self._budget.least_trials

    @property
    def standing(self) -> Standing:
        due = self.ask()
        best = self.result().winner
        total = self._budget.trials if due is None else max(self._expected, self._budget.trials + 1)
        return Standing(
            stage=due.stage if due else None,
            done=self._budget.trials,
            total=total,
            best=best.ratio if best else None,
            after=END_TRIALS,
            objective=self._plan.objective,
        )

    def result(self) -> TuneResult:
        confirmation = self._confirmation
        frontier = confirmation.frontier(self._reduction.chosen)
        return TuneResult(
            base=self._pool.base,
            frontier=frontier,
            winner=best_at(frontier, self._plan.floor),
            offers=offers_below(frontier, self._plan.floor),
            control=confirmation.compared(CONTROL),
            yours=confirmation.compared(YOURS),
            confirmed=confirmation.comparisons,
            p99={one.arm: one for one in confirmation.compared_by("p99")},
            machines=confirmation.over_machines,
            dropped=tuple(self._reduction.dropped),
            rejected=confirmation.rejected,
            excluded=tuple(self._pool.excluded),
            tried=len(self._pool.usable),
            detectable=self._detectable() if self._pool.usable else None,
            interim_analyses=confirmation.interim_analyses,
            blocks=confirmation.blocks,
            finished=self.ask() is None,
            cut_short=self._cut_short,
        )

    def _detectable(self) -> float | None:
        gain = self._confirmation.detectable_log(STAGE_POWER)
        if gain is None:
            return None
        if (sd := self._screening.deviation()) is not None:
            # A candidate passes where its estimate exceeds its deviation: with probability Φ(effect/sd - 1).
            gain = max(gain, max(WORTH_LOG, sd) + STAGE_DEVIATES * sd)
        return math.expm1(gain)

    # -- the story ---------------------------------------------------------------------------------

    @property
    def _has_to_measure(self) -> bool:
        return bool(self._pool.usable) or self._plan.raised or self._plan.yours is not None

    def _story(self) -> Steps[None]:
        if not self._has_to_measure:
            return
        yield from self._calibrate()
        yield from self._screening.screen_bought()
        yield from self._screening.screen_free()
        if not self._has_to_measure:
            return
        self._reduction.chosen = self._screening.combined()
        yield from self._reduction.run()
        yield from self._confirm()

    def _calibrate(self) -> Steps[None]:
        wanted, block = 2, 0
        steady = True
        redo_rates: list[float] = []
        while block < wanted:
            finished, _, _ = yield from self._rounds.run([self._pool.base], "calibrate", block)
            if BASE not in finished:
                raise MeasurementError("the base yielded no result, so there is nothing to compare with")
            trials = finished[BASE]
            self._screening.add(frozenset(), 0, -1, trials)
            steady = steady and not any(w.slug == "window-too-short" for t in trials for w in t.warnings)
            redo_rates += [rate for trial in trials if (rate := redo_rate(trial)) is not None]
            block += 1
            if block == 1:
                self._pool.exclude_slow_windows(min(redo_rates, default=None))
            self._budget.demand()
            if block == 2:
                cells = self._budget.cells()
                self._expected = cells * self._plan.variants
                wanted = 2 if cells < 30 else 3 if cells < 100 else 4
        if not steady:
            for index in [i for i in self._pool.usable if self._pool.candidates[i].needs_steady_state]:
                self._pool.exclude(
                    index, "window too short: it would have to outlast the redo log", refused=False
                )

    def _confirm(self) -> Steps[None]:
        for selection in self._reduction.to_confirm():
            self._confirmation.admit(self._pool.arm(selection).name, selection)
        control = Arm(name=CONTROL, settings=self._pool.base.settings)
        arms = [control, *map(self._pool.arm, self._confirmation.selections.values())]
        if self._plan.yours is not None:
            self._confirmation.admit_reference(YOURS)
            arms.insert(1, Arm(name=YOURS, settings=self._plan.yours))
        room = self._budget.room if self._budget.kept_running else len(arms)
        for first in range(0, len(arms), room):
            if self._cut_short:
                return
            yield from self._confirm_group(arms[first : first + room], after=len(arms[first + room :]))

    def _confirm_group(self, arms: list[Arm], *, after: int) -> Steps[None]:
        confirmation, budget = self._confirmation, self._budget
        cells = budget.cells(starting=1 + len(arms) + after) * len(arms) // (len(arms) + after)
        most = budget.blocks.confirm_most
        if not confirmation.selections and self._plan.yours is None:
            most = budget.blocks.confirm_least  # more could prove nothing else
        blocks = min(max(cells // (1 + len(arms)), budget.blocks.confirm_least), most)
        interim, first = InterimAnalyses.planned(blocks, self._plan.alpha), confirmation.next_block
        group = {arm.name for arm in arms}
        for block in range(blocks):
            cells = (blocks - block) * (1 + len(arms))
            self._expected = budget.trials + cells * self._plan.variants
            due = max(budget.blocks.confirm_least - block - 1, 0) * (1 + len(arms)) * self._plan.variants
            try:
                finished, out, _ = yield from self._rounds.run(
                    [self._pool.base, *arms],
                    "confirm",
                    first + block,
                    spare=budget.spare(due),
                    following=blocks - block - 1,
                )
            except MeasurementError as error:
                if not confirmation.interim_analyses:
                    raise
                self._cut_short = error.message  # what interim analyses have proven stays proven
                return
            for name, reason in out.items():
                confirmation.reject(name, reason)
            for name, trials in finished.items():
                confirmation.record(name, first + block, trials)
            arms = [arm for arm in arms if arm.name not in out]
            done = block + 1
            last = budget.is_spent(1 + len(arms)) and done >= budget.blocks.confirm_least
            if last or done == blocks or (done in interim.blocks and not self._plan.spread):
                alpha = self._plan.alpha if self._plan.spread else interim.alpha_at(done)
                confirmation.judge(done, alpha, since=first, arms=group)
                if last or confirmation.is_clear(self._reduction.chosen, group):
                    break
                always = (CONTROL, YOURS)
                arms = [arm for arm in arms if arm.name in always or not confirmation.is_beaten(arm.name)]
                group = {arm.name for arm in arms}  # later levels are laxer: what has left was judged
