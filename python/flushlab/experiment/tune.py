"""Tune: the experiment that finds the fastest settings at each floor and proves them.

Sits on top of `experiment`; pure. The story is `Tune._story`:

1. calibrate: the base alone; what a trial costs, how much it scatters. Fixes how trials are spent.
2. screen: what lowers a guarantee is tried alone on the base; everything else in trials that each switch
   about half of the candidates on, on the base *and* on the fastest foundation that the floor allows,
   because at flush=1 the disk hides what the others do (`statistics.factorial`).
3. combine: per floor, what looked good and may stand together. No trials.
4. reduce: each combination against itself without one change; what costs less than 1 % or the noise to
   drop is dropped. It comes before the confirmation so that what is confirmed is what is handed over.
5. confirm: fresh blocks with base, control, the combination of each floor and its free part; looks fixed
   beforehand. Every reported figure comes from here.

Promises: no request below the floor; deterministic in plan and records; a claim of `faster` is wrong in
at most a share alpha of campaigns, stopping and selection included (`benchmarks/false_positives.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np

from flushlab.errors import BelowFloor, BudgetTooSmall, MeasurementError
from flushlab.experiment.blocks import BASE, CONTROL, Round, run_block
from flushlab.experiment.confirmation import WORTH_LOG, Confirmation
from flushlab.experiment.frontier import Dropped, Excluded, TuneResult
from flushlab.experiment.guards import Guards
from flushlab.experiment.objective import Objective, redo_rate, score
from flushlab.experiment.protocol import Conversation, Progress, Request, Steps
from flushlab.experiment.selection import Selection, Space, half_on
from flushlab.record import Arm, Stage, Trial, Value
from flushlab.settings.candidate import Candidate
from flushlab.settings.floor import Floor
from flushlab.statistics import Effects, Looks, Scores, contrasts, estimate_effects
from flushlab.units import format_seconds

CONFIRM_BLOCKS_LEAST = 3
CONFIRM_BLOCKS_MOST = 16
CONFIRM_SHARE = 0.45
"""Share of the budget that is kept for confirmation: fewer blocks could not prove what screening finds."""

SCREEN_SHARE = 0.36
SCREEN_RUNS_PER_CANDIDATE = 8
"""More screening runs than this per candidate buy nothing that the confirmation could still see."""

DROP_ERRORS = 1.5
"""A cost below this many of its standard errors is noise, once reduction has measured it: of changes that
do nothing 7 % stay."""

STAGE_POWER = 0.93
"""Power asked of screening and of confirmation, so that both together have 0.8: a little more than its
square root, because a find takes blocks from the others (checked by simulation)."""

STAGE_DEVIATES = 1.48
"""The normal deviate of that power."""


class TunePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner needs to know.

    Attributes:
        base: the base's settings.
        candidates: changes worth trying; those below the floor or equal to the base are left out.
        floor: the least that every trial must keep.
        level_of: the safest floor that settings satisfy; the durability rules, bound to server and storage.
        is_free: whether settings lower no guarantee of the base; None: their level is at least the base's.
        budget_trials, budget_s: limits, at least one of them. The budget in seconds is divided by what the
            trials take, `Trial.seconds` summed.
        seed: of all random order.
        alpha: probability that any reported interval misses.
        objective: what a trial is scored by.
        variants: number of workload variants; every arm runs each once per block.
        guards: limits on latency and stalls.
        redo_to_outlast: bytes of redo that a window must write under some settings before it says anything
            about them; None: windows need not outlast the redo log.
        window_limit_s: longest window, in seconds, that a candidate may need for that.
    """

    base: Mapping[str, Value]
    candidates: tuple[Candidate, ...]
    floor: Floor
    level_of: Callable[[Mapping[str, Value]], Floor]
    is_free: Callable[[Mapping[str, Value]], bool] | None = None
    budget_trials: int | None = None
    budget_s: float | None = None
    seed: int = 0
    alpha: float = 0.05
    objective: Objective = "throughput"
    variants: int = 1
    guards: Guards = Guards()
    redo_to_outlast: Callable[[Mapping[str, Value]], int] | None = None
    window_limit_s: float = math.inf


class _Run(NamedTuple):
    """A screening cell."""

    selection: Selection
    context: int
    block: int
    score: float


class Tune:
    """Asks for trials until the frontier is proven or the budget is spent.

    Raises:
        BelowFloor: the base itself is below the floor.
        BudgetTooSmall: the trials do not hold the smallest honest campaign. With a budget in seconds this
            shows only once the first trials tell how long they take, and `ask` or `tell` raises it.
        MeasurementError: from `tell`, when the base cannot be measured.
    """

    def __init__(self, plan: TunePlan) -> None:
        assert plan.budget_trials is not None or plan.budget_s is not None, "a plan has a budget"
        self._plan = plan
        level = plan.level_of(plan.base)
        if not level.at_least(plan.floor):
            raise BelowFloor(
                f"the base meets only {level}, below the floor {plan.floor}",
                hint=f"make the base safer, or accept less with --floor {level}",
            )
        is_free = plan.is_free or (lambda settings: plan.level_of(settings).at_least(level))
        self._space = Space(plan.base, plan.candidates, plan.level_of, is_free)
        self._base = Arm(name=BASE, settings=self._space.base)
        self._names: dict[Selection, str] = {}
        self._excluded: list[Excluded] = []
        self._usable = frozenset(range(len(plan.candidates)))
        self._exclude_pointless()
        self._base_read_back: Mapping[str, Value] = {}
        self._runs: list[_Run] = []
        self._contexts: list[Selection] = [frozenset()]
        self._effects: Effects | None = None
        self._chosen: dict[Floor, Selection] = {}
        self._dropped: list[Dropped] = []
        self._confirmation = Confirmation(self._space, plan.guards)
        self._told = 0
        self._spent_s = 0.0
        self._expected = self._budget_cells() * plan.variants if plan.budget_trials is not None else 0
        if plan.budget_trials is not None:
            self._demand(plan.budget_trials // plan.variants)
        self._conversation = Conversation(self._story())

    # -- ask and tell ------------------------------------------------------------------------------

    def ask(self) -> Request | None:
        """The trial to run now, or None when the campaign is done."""
        return self._conversation.ask()

    def tell(self, trial: Trial) -> None:
        """Takes the record of the trial that was due; records of the recovery check are ignored."""
        if trial.stage == "recovery":
            return
        self._conversation.ask()
        self._told += 1
        self._spent_s += sum(trial.seconds.values())
        self._conversation.tell(trial)

    def reject(self, arm: str, reason: str) -> None:
        """Takes an arm out of the running for a reason measured elsewhere (its recovery takes too long).

        `result` then shows the next best that was confirmed, or the base.
        """
        self._confirmation.reject(arm, reason)

    @property
    def progress(self) -> Progress:
        """Where it stands."""
        due = self.ask()
        best = self.result().winner
        total = self._told if due is None else max(self._expected, self._told + 1)
        return Progress(
            stage=due.stage if due else None, done=self._told, total=total, best=best.ratio if best else None
        )

    def result(self) -> TuneResult:
        """What is proven so far; works at any moment. Only finished looks count."""
        confirmation = self._confirmation
        frontier = confirmation.frontier(self._chosen)
        return TuneResult(
            base=self._base,
            frontier=frontier,
            winner=confirmation.winner(frontier),
            control=confirmation.compared(CONTROL),
            confirmed=confirmation.comparisons,
            dropped=tuple(self._dropped),
            rejected=confirmation.rejected,
            excluded=tuple(self._excluded),
            detectable=self._detectable(),
            looks=confirmation.looks,
            blocks=confirmation.blocks,
            finished=self.ask() is None,
        )

    def _detectable(self) -> float | None:
        """Smallest gain that would have passed screening and confirmation, with a power of 0.8 for both."""
        gain = self._confirmation.detectable_log(STAGE_POWER)
        if gain is None:
            return None
        screened = sorted(self._usable) if len(self._usable) > 1 else []
        if screened and self._effects is not None:
            # A candidate passes where its estimate exceeds its deviation: with probability Φ(effect/sd - 1).
            sd = float(np.median(self._effects.sd[:, screened]))
            gain = max(gain, max(WORTH_LOG, sd) + STAGE_DEVIATES * sd)
        return math.expm1(gain)

    # -- the story ---------------------------------------------------------------------------------

    def _story(self) -> Steps[None]:
        yield from self._calibrate()
        yield from self._screen_bought()
        yield from self._screen_free()
        self._combine()
        yield from self._reduce()
        yield from self._confirm()

    def _calibrate(self) -> Steps[None]:
        """The base by itself, two to four times."""
        wanted, block = 2, 0
        steady = True
        redo_rates: list[float] = []
        while block < wanted:
            finished, _, _ = yield from self._round([self._base], "calibrate", block)
            if BASE not in finished:
                raise MeasurementError("the base yielded no figure, so there is nothing to compare with")
            trials = finished[BASE]
            self._runs.append(_Run(frozenset(), 0, -1, score(trials, self._plan.objective)))
            steady = steady and not any(w.slug == "window-too-short" for t in trials for w in t.warnings)
            redo_rates += [rate for trial in trials if (rate := redo_rate(trial)) is not None]
            block += 1
            if block == 1:
                self._exclude_slow_windows(min(redo_rates, default=None))
            if block == 2:
                cells = self._budget_cells()
                self._demand(cells)
                self._expected = cells * self._plan.variants
                wanted = 2 if cells < 30 else 3 if cells < 100 else 4
        if not steady:
            for index in [i for i in self._usable if self._plan.candidates[i].needs_steady_state]:
                self._exclude(index, "window too short: it would have to outlast the redo log", refused=False)

    def _exclude_slow_windows(self, rate: float | None) -> None:
        """Leaves out candidates whose redo log this workload takes too long to fill."""
        need = self._plan.redo_to_outlast
        if need is None or not rate:
            return
        own = need(self._space.base)
        for index in sorted(self._usable):
            needed = need(self._space.settings(frozenset({index})))
            if needed > own and (window := needed / rate) > self._plan.window_limit_s:
                reason = (
                    f"its windows would have to last {format_seconds(window)} to outlast the redo log, "
                    f"longer than this budget allows ({format_seconds(self._plan.window_limit_s)})"
                )
                self._exclude(index, reason, refused=False)

    def _screen_bought(self) -> Steps[None]:
        """What lowers a guarantee, alone on the base; needed only where there is a choice of foundation."""
        bought = self._bought()
        if len(bought) < 2:
            return
        for block in range(3 if self._budget_cells() >= 150 else 2):
            singles = [frozenset({index}) for index in bought if index in self._usable]
            arms = [self._base, *(self._arm(single) for single in singles)]
            finished = yield from self._block(arms, "screen", block)
            for selection in (frozenset[int](), *singles):
                if (trials := finished.get(self._arm(selection).name)) is not None:
                    self._runs.append(_Run(selection, 0, block, score(trials, self._plan.objective)))

    def _screen_free(self) -> Steps[None]:
        """Everything else, half of it on in each run, on the base and on the fastest foundation."""
        if bought := self._bought():
            if len(bought) >= 2:
                self._estimate()
            bottom = self._foundation(self._plan.floor)
            if bottom:
                self._contexts.append(bottom)
        free = self._free_candidates()
        if not free and len(self._contexts) == 1:
            self._estimate()
            return
        if len(free) == 1 and len(self._contexts) == 1:
            self._estimate()  # one candidate: nothing to choose from, all trials go to its confirmation
            return
        runs = self._screen_runs(len(free))
        first = 1 + max(run.block for run in self._runs)
        designs = [
            self._design(context, runs // len(self._contexts)) for context in range(len(self._contexts))
        ]
        rows = [list(enumerate(row)) for row in zip(*designs, strict=True)]
        order = Random(f"{self._plan.seed}/screen")
        for row in rows:
            order.shuffle(row)
        queue = [(selection, context) for row in rows for context, selection in row]
        reserve = CONFIRM_BLOCKS_LEAST * self._confirm_arms_most()
        for number, (planned, context) in enumerate(queue):
            if self._budget_cells() < reserve:
                break  # repeats of disturbed trials used up what was meant for screening
            block = first + number // 4
            if number == len(queue) // 2 and number >= 16:
                self._estimate()
                self._drop_harmful()
            selection = planned & (self._usable | self._contexts[context])
            yield from self._screen_run(selection, context, block)
        self._estimate()

    def _screen_run(self, selection: Selection, context: int, block: int) -> Steps[None]:
        """One run; if the server does not take it, its changes are tried one by one to find the culprit."""
        if not selection <= self._usable:
            return
        arm = self._arm(selection)
        finished, out, _ = yield from self._round([arm], "screen", block)
        if arm.name in finished:
            found = score(finished[arm.name], self._plan.objective)
            self._runs.append(_Run(selection, context, block, found))
        elif arm.name in out and len(selection) > 1:
            cleared = frozenset[int]().union(*(run.selection for run in self._runs))
            for suspect in sorted(selection - cleared):
                single = frozenset({suspect})
                if self._space.legal(single, self._plan.floor):
                    yield from self._screen_run(single, 0, block)
        elif arm.name in out:
            self._exclude(min(selection, default=0), out[arm.name], refused=True)

    def _combine(self) -> None:
        """Per floor, its foundation and what looked good on it."""
        assert self._effects is not None
        for floor in Floor.STRICT.down_to(self._plan.floor):
            foundation = self._foundation(floor)
            if foundation is None:
                continue
            needed = self._space.foundation(floor, self._usable) or frozenset()
            selection = foundation if self._is_worth(foundation - needed) else needed
            context = self._nearest_context(selection)
            mean, error = self._effects.mean[context], self._effects.sd[context]
            good = sorted(
                (i for i in self._free_candidates() if mean[i] > max(WORTH_LOG, error[i])),
                key=lambda i: -mean[i],
            )
            for index in good:
                if self._space.legal(selection | {index}, floor):
                    selection |= {index}
            self._chosen[floor] = selection
        if not any(self._chosen.values()):
            self._take_best_guess()

    def _reduce(self) -> Steps[None]:
        """Drops what costs less than 1 % or the noise, as far as the budget lets it be measured."""
        items = {
            floor: [i for i in sorted(selection) if self._space.legal(selection - {i}, floor)]
            for floor, selection in self._chosen.items()
            if len(selection) >= 2
        }
        wholes = {self._chosen[floor] for floor, droppable in items.items() if droppable}
        arms = wholes | {self._chosen[floor] - {i} for floor, droppable in items.items() for i in droppable}
        blocks = self._reduce_blocks(len(arms))
        scores: dict[str, dict[int, float]] = {}
        if blocks >= 2:
            ordered = [self._arm(selection) for selection in sorted(arms, key=sorted)]
            for block in range(blocks):
                yield from self._score_block(ordered, "reduce", block, scores)
        for floor, droppable in items.items():
            selection = self._chosen[floor]
            costs = self._costs(selection, droppable, scores)
            cheap = self._cheap(selection, costs, floor, measured=blocks >= 2)
            if len(cheap) >= 2 and blocks >= 2:
                cheap = yield from self._drop_together(selection, cheap, floor, blocks)
            self._chosen[floor] = selection - frozenset(cheap)
            self._dropped.extend(
                Dropped(
                    floor=floor,
                    settings=dict(self._plan.candidates[i].settings),
                    cost=-math.expm1(-costs[i][0]),
                    error=costs[i][1],
                )
                for i in cheap
            )

    def _cheap(
        self, selection: Selection, costs: Mapping[int, tuple[float, float]], floor: Floor, measured: bool
    ) -> list[int]:
        """What may be dropped, cheapest first; at least one change stays, for the confirmation to judge."""
        factor = DROP_ERRORS if measured else 1.0
        cheap: list[int] = []
        for index, (cost, error) in sorted(costs.items(), key=lambda item: item[1][0]):
            rest = selection - frozenset(cheap) - {index}
            if cost < max(WORTH_LOG, factor * error) and rest and self._space.legal(rest, floor):
                cheap.append(index)
        return cheap

    def _drop_together(
        self, selection: Selection, cheap: list[int], floor: Floor, blocks: int
    ) -> Steps[list[int]]:
        """Checks that changes which are each cheap to drop are cheap to drop at once; else half of them."""
        attempt = 0
        while len(cheap) >= 2 and self._reduce_blocks(2) >= blocks:
            pair = [self._arm(selection), self._arm(selection - frozenset(cheap))]
            scores: dict[str, dict[int, float]] = {}
            first = 1000 * (1 + floor.rank) + 100 * attempt  # block numbers of their own
            for block in range(first, first + blocks):
                yield from self._score_block(pair, "reduce", block, scores)
            found = contrasts(scores, pair[1].name) if pair[1].name in scores else None
            if found is not None and float(found.estimate[0]) < max(WORTH_LOG, float(found.error[0])):
                return cheap
            cheap = cheap[: len(cheap) // 2]
            attempt += 1
        return cheap

    def _confirm(self) -> Steps[None]:
        """Fresh blocks with base, control, each floor's combination and its free part."""
        confirmation = self._confirmation
        for selection in self._to_confirm():
            confirmation.admit(self._arm(selection).name, selection)
        control = Arm(name=CONTROL, settings=self._base.settings)
        arms = [self._base, control, *map(self._arm, confirmation.selections.values())]
        affordable = self._budget_cells() // len(arms)
        blocks = min(max(affordable, CONFIRM_BLOCKS_LEAST), CONFIRM_BLOCKS_MOST)
        looks = Looks.planned(blocks, self._plan.alpha)
        for block in range(blocks):
            self._expected = self._told + (blocks - block) * len(arms) * self._plan.variants
            finished, out, _ = yield from self._round(arms, "confirm", block)
            arms = [arm for arm in arms if arm.name not in out]
            for name, reason in out.items():
                confirmation.reject(name, reason)
            for name, trials in finished.items():
                confirmation.record(name, block, score(trials, self._plan.objective), trials)
            done = block + 1
            last = self._out_of_time(len(arms)) and done >= CONFIRM_BLOCKS_LEAST
            if done in looks.blocks or last:
                confirmation.judge(done, looks.alpha_at(done))
                if last or confirmation.is_clear(self._chosen):
                    break

    # -- running -----------------------------------------------------------------------------------

    def _round(self, arms: Sequence[Arm], stage: Stage, block: int) -> Steps[Round]:
        for arm in arms:
            level = self._plan.level_of(arm.settings)
            assert level.at_least(self._plan.floor), f"{arm.name} keeps {level}, below {self._plan.floor}"
        order = Random(f"{self._plan.seed}/{stage}/{block}")
        finished = yield from run_block(
            arms, stage=stage, block=block, order=order, variants=self._plan.variants, patient={BASE, CONTROL}
        )
        if BASE in finished.out:
            raise MeasurementError(
                f"the base could not be measured: {finished.out[BASE]}", hint=finished.hints.get(BASE)
            )
        for name, trials in finished.measured.items():
            self._exclude_unchanged(name, trials[0])
        return finished

    def _exclude_unchanged(self, arm: str, trial: Trial) -> None:
        """Leaves out changes that the server rounded back to what the base has."""
        if arm == BASE:
            self._base_read_back = trial.settings
        selection = next((known for known, name in self._names.items() if name == arm), frozenset[int]())
        for index in selection & self._usable:
            names = self._plan.candidates[index].settings
            if all(n in trial.settings and trial.settings[n] == self._base_read_back.get(n) for n in names):
                self._exclude(index, "the server changes it to the base's value", refused=False)

    def _block(self, arms: Sequence[Arm], stage: Stage, block: int) -> Steps[dict[str, tuple[Trial, ...]]]:
        """A round of arms with at most one change each: whoever fails is out for good."""
        finished, out, _ = yield from self._round(arms, stage, block)
        for name, reason in out.items():
            for selection in [s for s, known in self._names.items() if known == name]:
                self._exclude(min(selection), reason, refused=True)
        return finished

    def _score_block(
        self, arms: Sequence[Arm], stage: Stage, block: int, scores: dict[str, dict[int, float]]
    ) -> Steps[None]:
        finished, _, _ = yield from self._round(arms, stage, block)
        for name, trials in finished.items():
            scores.setdefault(name, {})[block] = score(trials, self._plan.objective)

    def _arm(self, selection: Selection) -> Arm:
        """The selection's arm, under a name that no other selection has."""
        if not selection:
            return self._base
        if selection not in self._names:
            name, taken = self._space.name(selection), set(self._names.values())
            number = 2
            unique = name
            while unique in taken:
                unique = f"{name} #{number}"
                number += 1
            self._names[selection] = unique
        return Arm(name=self._names[selection], settings=self._space.settings(selection))

    # -- candidates --------------------------------------------------------------------------------

    def _exclude_pointless(self) -> None:
        """Leaves out what changes nothing or falls below the floor."""
        for index in range(len(self._plan.candidates)):
            single = frozenset({index})
            if not self._space.changes(single):
                self._exclude(index, "the base has this value", refused=False)
            elif not self._space.legal(single, self._plan.floor):
                self._exclude(
                    index, f"meets only {self._space.level(single)}, below the floor", refused=False
                )

    def _exclude(self, index: int, reason: str, *, refused: bool) -> None:
        settings = dict(self._plan.candidates[index].settings)
        self._excluded.append(Excluded(settings=settings, reason=reason, refused=refused))
        self._usable -= {index}

    def _bought(self) -> list[int]:
        """Usable candidates that lower a guarantee."""
        return [i for i in sorted(self._usable) if not self._space.free(frozenset({i}))]

    def _free_candidates(self) -> list[int]:
        return [i for i in sorted(self._usable) if self._space.free(frozenset({i}))]

    def _foundation(self, floor: Floor) -> Selection | None:
        """What the floor's combination stands on: what it needs, and what it lets be bought.

        One candidate that lowers a guarantee is taken as it is (the runs on both foundations measure it);
        of several, those that looked useful alone, best first.
        """
        needed = self._space.foundation(floor, self._usable)
        if needed is None:
            return None
        bought = self._bought()
        if len(bought) >= 2:
            assert self._effects is not None
            mean, error = self._effects.mean[0], self._effects.sd[0]
            bought = sorted((i for i in bought if mean[i] > 0.5 * error[i]), key=lambda i: -mean[i])
        selection = needed
        for index in bought:
            if self._space.legal(selection | {index}, floor):
                selection |= {index}
        return selection

    # -- screening ---------------------------------------------------------------------------------

    def _design(self, context: int, runs: int) -> list[Selection]:
        foundation = self._contexts[context]
        floor = self._plan.floor if foundation else self._space.level(foundation)
        eligible = [i for i in self._free_candidates() if self._space.legal(foundation | {i}, floor)]
        seed = f"{self._plan.seed}/design/{context}"
        return half_on(self._space, self._space.slots(eligible), foundation, floor, runs, seed)

    def _estimate(self) -> None:
        """Effects of all candidates in all contexts, from every run so far."""
        if len(self._runs) < 2:
            return
        on = np.zeros((len(self._runs), max(len(self._plan.candidates), 1)), dtype=bool)
        for row, run in enumerate(self._runs):
            for index in run.selection - self._contexts[run.context]:
                on[row, index] = True
        self._effects = estimate_effects(
            on,
            np.array([run.context for run in self._runs]),
            np.array([run.block for run in self._runs]),
            np.array([run.score for run in self._runs]),
            contexts=len(self._contexts),
        )

    def _drop_harmful(self) -> None:
        """Halfway: what slows down everywhere no longer disturbs the remaining runs."""
        assert self._effects is not None
        worse = (self._effects.mean + self._effects.sd).max(axis=0)
        for index in self._free_candidates():
            if worse[index] < 0:
                reason = f"slower in screening, about {100 * -math.expm1(self._effects.mean[0, index]):.0f} %"
                self._exclude(index, reason, refused=False)

    def _nearest_context(self, foundation: Selection) -> int:
        """The context whose foundation is as fast as this one, as far as screening tells."""
        if len(self._contexts) == 1 or not foundation:
            return 0
        if foundation == self._contexts[1]:
            return 1
        own, bottom = (sum(self._alone(i) for i in s) for s in (foundation, self._contexts[1]))
        return 1 if abs(own - bottom) < abs(own) else 0

    def _alone(self, index: int) -> float:
        assert self._effects is not None
        return float(self._effects.mean[0, index])

    def _is_worth(self, bought: Selection) -> bool:
        """Whether screening makes what is bought look better than not buying it."""
        if not bought or len(self._contexts) == 1 or self._effects is None:
            return bool(bought)
        if bought == self._contexts[1]:
            return float(self._effects.offset[1]) > max(WORTH_LOG, float(self._effects.offset_sd[1]))
        return sum(self._alone(i) for i in bought) > WORTH_LOG

    def _take_best_guess(self) -> None:
        """Nothing looked good: the most promising change is confirmed all the same, so that `no improvement`
        stands on a confirmation too."""
        assert self._effects is not None
        guesses = [
            (float(self._effects.mean[0, i] / self._effects.sd[0, i]), frozenset({i}))
            for i in sorted(self._usable)
            if frozenset({i}) not in self._contexts
        ]
        if len(self._contexts) > 1:
            guesses.append((float(self._effects.offset[1] / self._effects.offset_sd[1]), self._contexts[1]))
        if not guesses:
            return
        _, guess = max(guesses, key=lambda pair: pair[0])
        for floor in self._chosen:
            if self._space.legal(guess, floor):
                self._chosen[floor] = guess

    # -- reduction ---------------------------------------------------------------------------------

    def _costs(
        self, selection: Selection, items: Sequence[int], scores: Scores
    ) -> dict[int, tuple[float, float]]:
        """Loss by dropping each item and its standard error, log units: screening and reduction pooled."""
        assert self._effects is not None
        whole = self._arm(selection).name
        found = contrasts(scores, whole) if whole in scores else None
        direct = (
            {}
            if found is None
            else {
                arm: (-float(estimate), float(error))
                for arm, estimate, error in zip(found.arms, found.estimate, found.error, strict=True)
            }
        )
        context = 1 if len(self._contexts) > 1 and self._contexts[1] & selection else 0
        costs = {}
        for index in items:
            prior = (float(self._effects.mean[context, index]), float(self._effects.sd[context, index]))
            if len(self._contexts) > 1 and self._contexts[1] == frozenset({index}):
                prior = (float(self._effects.offset[1]), float(self._effects.offset_sd[1]))
            elif index in self._contexts[-1]:
                prior = (self._alone(index), float(self._effects.sd[0, index]))
            measured = direct.get(self._arm(selection - {index}).name)
            costs[index] = prior if measured is None else _pooled(prior, measured)
        return costs

    # -- confirmation ------------------------------------------------------------------------------

    def _to_confirm(self) -> list[Selection]:
        """Selections that differ in what they set, the base left out."""
        found: dict[frozenset[tuple[str, Value]], Selection] = {}
        for selection in self._chosen.values():
            for part in (selection, self._space.free_part(selection)):
                changes = frozenset(self._space.changes(part).items())
                if changes:
                    found.setdefault(changes, part)
        return list(found.values())

    # -- budget ------------------------------------------------------------------------------------

    def _budget_cells(self) -> int:
        """Cells (one arm in one block, all variants) that are left."""
        left = math.inf
        if self._plan.budget_trials is not None:
            left = self._plan.budget_trials - self._told
        if self._plan.budget_s is not None and self._told:
            left = min(left, (self._plan.budget_s - self._spent_s) / max(self._spent_s / self._told, 1e-9))
        return max(math.floor(left / self._plan.variants), 0) if left < math.inf else 0

    def _out_of_time(self, arms: int) -> bool:
        """Whether the next block would overrun the budget in seconds (by more than a tenth of it)."""
        if self._plan.budget_s is None or not self._told:
            return False
        block_s = arms * self._plan.variants * self._spent_s / self._told
        return self._spent_s + block_s > 1.1 * self._plan.budget_s

    def _confirm_arms_most(self) -> int:
        """Base, control, one combination per floor that allows more than the floor above, free parts."""
        allowed = [
            frozenset(i for i in self._usable if self._space.level(frozenset({i})).at_least(floor))
            for floor in Floor.STRICT.down_to(self._plan.floor)
        ]
        distinct = len({found for found in allowed if found})
        non_free = len(
            {found for found in allowed if any(not self._space.free(frozenset({i})) for i in found)}
        )
        return 2 + max(distinct, 1) + (non_free if self._free_candidates() else 0)

    def _screen_least(self) -> int:
        if len(self._usable) < 2:
            return 0
        bought = len(self._bought())
        return (2 * (bought + 1) if bought >= 2 else 0) + (8 if bought else 4)

    def _demand(self, cells: int) -> None:
        """Refuses a budget that holds no honest confirmation."""
        spent = self._told // self._plan.variants
        least = 2 + self._screen_least() + CONFIRM_BLOCKS_LEAST * self._confirm_arms_most()
        if cells + spent >= least:
            return
        trials = least * self._plan.variants
        has, needs = f"{(cells + spent) * self._plan.variants} trials", f"{trials} trials"
        if self._spent_s:
            needs += f", about {format_seconds(trials * self._spent_s / self._told)}"
        raise BudgetTooSmall(
            f"the budget allows {has}, but {len(self._usable)} candidates "
            f"down to the floor {self._plan.floor} need at least {needs}",
            hint="use more --minutes or --trials, a safer --floor, or fewer candidates",
        )

    def _screen_runs(self, free: int) -> int:
        """Even number of runs per context, from what the confirmation leaves."""
        contexts = len(self._contexts)
        left = self._budget_cells()
        total = left + self._told // self._plan.variants
        reserve = CONFIRM_BLOCKS_LEAST * self._confirm_arms_most()
        share = min(SCREEN_SHARE * total, SCREEN_RUNS_PER_CANDIDATE * (free + 1) * contexts)
        runs = int(min(max(share, 4 * contexts), max(left - reserve, 4 * contexts)))
        return runs // (2 * contexts) * 2 * contexts

    def _reduce_blocks(self, arms: int) -> int:
        """Blocks that reduction may take, keeping the confirmation's share."""
        confirm = len(self._to_confirm()) + 2
        left = self._budget_cells()
        total = left + self._told // self._plan.variants
        reserve = min(max(int(CONFIRM_SHARE * total / confirm), 5), CONFIRM_BLOCKS_MOST) * confirm
        return min(max(left - reserve, 0) // max(arms, 1), 8)


def _pooled(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Mean of two estimates weighted by precision, with its standard error."""
    weights = [1 / max(error, 1e-9) ** 2 for _, error in (one, other)]
    mean = (one[0] * weights[0] + other[0] * weights[1]) / sum(weights)
    return mean, math.sqrt(1 / sum(weights))
