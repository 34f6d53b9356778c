"""Screening: what each candidate seems to do, alone and with half of the others. Pure."""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

import numpy as np

from flushlab.experiment.objective import score
from flushlab.experiment.protocol import Steps
from flushlab.experiment.selection import Selection, half_on
from flushlab.experiment.tune.budget import CONFIRM_BLOCKS_LEAST, Budget
from flushlab.experiment.tune.plan import TunePlan
from flushlab.experiment.tune.pool import Pool
from flushlab.experiment.tune.rounds import Rounds
from flushlab.settings.floor import Floor
from flushlab.statistics import Effects, estimate_effects


class Run(NamedTuple):
    """A screening cell."""

    selection: Selection
    context: int
    block: int
    score: float


class Screening:
    """Runs that each switch some candidates on, and the effects that they tell.

    Attributes:
        runs: all of them, those of the calibration first.
        contexts: what the runs stand on: the base, and the fastest foundation where there is one.
        effects: of every candidate in every context; None before the first estimate.
    """

    def __init__(self, plan: TunePlan, pool: Pool, rounds: Rounds, budget: Budget) -> None:
        self._plan = plan
        self._pool = pool
        self._rounds = rounds
        self._budget = budget
        self.runs: list[Run] = []
        self.contexts: list[Selection] = [frozenset()]
        self.effects: Effects | None = None

    def screen_bought(self) -> Steps[None]:
        """What lowers a guarantee, alone on the base; needed only where there is a choice of foundation."""
        bought = self._pool.bought()
        if len(bought) < 2:
            return
        for block in range(3 if self._budget.cells() >= 150 else 2):
            singles = [frozenset({index}) for index in bought if index in self._pool.usable]
            arms = [self._pool.base, *(self._pool.arm(single) for single in singles)]
            finished = yield from self._rounds.block(arms, "screen", block)
            for selection in (frozenset[int](), *singles):
                if (trials := finished.get(self._pool.arm(selection).name)) is not None:
                    self.runs.append(Run(selection, 0, block, score(trials, self._plan.objective)))

    def screen_free(self) -> Steps[None]:
        """Everything else, half of it on in each run, on the base and on the fastest foundation."""
        if bought := self._pool.bought():
            if len(bought) >= 2:
                self._estimate()
            bottom = self.foundation(self._plan.floor)
            if bottom:
                self.contexts.append(bottom)
        free = self._pool.free()
        if not free and len(self.contexts) == 1:
            self._estimate()
            return
        if len(free) == 1 and len(self.contexts) == 1:
            self._estimate()  # one candidate: nothing to choose from, all trials go to its confirmation
            return
        runs = self._budget.screen_runs(len(free), len(self.contexts))
        first = 1 + max(run.block for run in self.runs)
        designs = [self._design(context, runs // len(self.contexts)) for context in range(len(self.contexts))]
        rows = [list(enumerate(row)) for row in zip(*designs, strict=True)]
        order = Random(f"{self._plan.seed}/screen")
        for row in rows:
            order.shuffle(row)
        queue = [(selection, context) for row in rows for context, selection in row]
        reserve = CONFIRM_BLOCKS_LEAST * self._budget.confirm_arms_most()
        for number, (planned, context) in enumerate(queue):
            if self._budget.cells() <= reserve:
                break  # repeats of disturbed trials used up what was meant for screening
            block = first + number // 4
            if number == len(queue) // 2 and number >= 16:
                self._estimate()
                self._drop_harmful()
            selection = planned & (self._pool.usable | self.contexts[context])
            yield from self._screen_run(selection, context, block)
        self._estimate()

    def foundation(self, floor: Floor) -> Selection | None:
        """What the floor's combination stands on: what it needs, and what it lets be bought.

        One candidate that lowers a guarantee is taken as it is (the runs on both foundations measure it);
        of several, those that looked useful alone, best first.
        """
        needed = self._pool.space.foundation(floor, self._pool.usable)
        if needed is None:
            return None
        bought = self._pool.bought()
        if len(bought) >= 2:
            assert self.effects is not None
            mean, error = self.effects.mean[0], self.effects.sd[0]
            bought = sorted((i for i in bought if mean[i] > 0.5 * error[i]), key=lambda i: -mean[i])
        selection = needed
        for index in bought:
            if self._pool.space.legal(selection | {index}, floor):
                selection |= {index}
        return selection

    def alone(self, index: int) -> float:
        """Effect of a candidate on the base, log units."""
        assert self.effects is not None
        return float(self.effects.mean[0, index])

    def deviation(self) -> float | None:
        """How far off the estimates typically are, log units; None where nothing was chosen by them."""
        screened = sorted(self._pool.usable) if len(self._pool.usable) > 1 else []
        if not screened or self.effects is None:
            return None
        return float(np.median(self.effects.sd[:, screened]))

    def _screen_run(self, selection: Selection, context: int, block: int) -> Steps[None]:
        """One run; if the server does not take it, its changes are tried one by one to find the culprit."""
        if not selection <= self._pool.usable:
            return
        arm = self._pool.arm(selection)
        finished, out, _ = yield from self._rounds.run([arm], "screen", block)
        if arm.name in finished:
            found = score(finished[arm.name], self._plan.objective)
            self.runs.append(Run(selection, context, block, found))
        elif arm.name in out and len(selection) > 1:
            cleared = frozenset[int]().union(*(run.selection for run in self.runs))
            for suspect in sorted(selection - cleared):
                single = frozenset({suspect})
                if self._pool.space.legal(single, self._plan.floor):
                    yield from self._screen_run(single, 0, block)
        elif arm.name in out:
            self._pool.exclude(min(selection, default=0), out[arm.name], refused=True)

    def _design(self, context: int, runs: int) -> list[Selection]:
        foundation = self.contexts[context]
        floor = self._plan.floor if foundation else self._pool.space.level(foundation)
        eligible = [i for i in self._pool.free() if self._pool.space.legal(foundation | {i}, floor)]
        seed = f"{self._plan.seed}/design/{context}"
        return half_on(self._pool.space, self._pool.space.slots(eligible), foundation, floor, runs, seed)

    def _estimate(self) -> None:
        """Effects of all candidates in all contexts, from every run so far."""
        if len(self.runs) < 2:
            return
        on = np.zeros((len(self.runs), max(len(self._pool.space.candidates), 1)), dtype=bool)
        for row, run in enumerate(self.runs):
            for index in run.selection - self.contexts[run.context]:
                on[row, index] = True
        self.effects = estimate_effects(
            on,
            np.array([run.context for run in self.runs]),
            np.array([run.block for run in self.runs]),
            np.array([run.score for run in self.runs]),
            contexts=len(self.contexts),
        )

    def _drop_harmful(self) -> None:
        """Halfway: what slows down everywhere no longer disturbs the remaining runs."""
        assert self.effects is not None
        worse = (self.effects.mean + self.effects.sd).max(axis=0)
        for index in self._pool.free():
            if worse[index] < 0:
                reason = f"slower in screening, about {100 * -math.expm1(self.effects.mean[0, index]):.0f} %"
                self._pool.exclude(index, reason, refused=False)
