"""Budget: how many trials are left, and what each step of a tuning may spend of them. Pure."""

from __future__ import annotations

import math

from flushlab.errors import BudgetTooSmall
from flushlab.experiment.tune.plan import TunePlan
from flushlab.experiment.tune.pool import Pool
from flushlab.record import Trial
from flushlab.settings.floor import Floor
from flushlab.units import format_seconds

CONFIRM_BLOCKS_LEAST = 3
CONFIRM_BLOCKS_MOST = 16
CONFIRM_SHARE = 0.45
"""Share of the budget that is kept for confirmation: fewer blocks could not prove what screening finds."""

SCREEN_SHARE = 0.36
SCREEN_RUNS_PER_CANDIDATE = 8
"""More screening runs than this per candidate buy nothing that the confirmation could still see."""


class Budget:
    """Counts what a tuning spends.

    Attributes:
        told: trials that were run.
        spent_s: seconds that they took.
    """

    def __init__(self, plan: TunePlan, pool: Pool) -> None:
        self._plan = plan
        self._pool = pool
        self.told = 0
        self.spent_s = 0.0

    def count(self, trial: Trial) -> None:
        """Takes a trial."""
        self.told += 1
        self.spent_s += sum(trial.seconds.values())

    def cells(self) -> int:
        """Cells (one arm in one block, all variants) that are left."""
        left = math.inf
        if self._plan.budget_trials is not None:
            left = self._plan.budget_trials - self.told
        if self._plan.budget_s is not None and self.told:
            left = min(left, (self._plan.budget_s - self.spent_s) / max(self.spent_s / self.told, 1e-9))
        return max(math.floor(left / self._plan.variants), 0) if left < math.inf else 0

    def out_of_time(self, arms: int) -> bool:
        """Whether the next block would overrun the budget in seconds (by more than a tenth of it)."""
        if self._plan.budget_s is None or not self.told:
            return False
        block_s = arms * self._plan.variants * self.spent_s / self.told
        return self.spent_s + block_s > 1.1 * self._plan.budget_s

    def demand(self, cells: int) -> None:
        """Refuses a budget that holds no honest confirmation."""
        spent = self.told // self._plan.variants
        least = 2 + self._screen_least() + CONFIRM_BLOCKS_LEAST * self.confirm_arms_most()
        if cells + spent >= least:
            return
        trials = least * self._plan.variants
        has, needs = f"{(cells + spent) * self._plan.variants} trials", f"{trials} trials"
        if self.spent_s:
            needs += f", about {format_seconds(trials * self.spent_s / self.told)}"
        raise BudgetTooSmall(
            f"the budget allows {has}, but {len(self._pool.usable)} candidates "
            f"down to the floor {self._plan.floor} need at least {needs}",
            hint="use more --minutes or --trials, a safer --floor, or fewer candidates",
        )

    def screen_runs(self, free: int, contexts: int) -> int:
        """Even number of runs per context, from what the confirmation leaves."""
        left = self.cells()
        total = left + self.told // self._plan.variants
        reserve = CONFIRM_BLOCKS_LEAST * self.confirm_arms_most()
        share = min(SCREEN_SHARE * total, SCREEN_RUNS_PER_CANDIDATE * (free + 1) * contexts)
        runs = int(min(max(share, 4 * contexts), max(left - reserve, 4 * contexts)))
        return runs // (2 * contexts) * 2 * contexts

    def reduce_blocks(self, arms: int, confirm: int) -> int:
        """Blocks of `arms` that reduction may take, keeping the share of a confirmation of `confirm`."""
        left = self.cells()
        total = left + self.told // self._plan.variants
        reserve = min(max(int(CONFIRM_SHARE * total / confirm), 5), CONFIRM_BLOCKS_MOST) * confirm
        return min(max(left - reserve, 0) // max(arms, 1), 8)

    def confirm_arms_most(self) -> int:
        """Base, control, one combination per floor that allows more than the floor above, free parts."""
        allowed = [
            frozenset(i for i in self._pool.usable if self._pool.space.level(frozenset({i})).at_least(floor))
            for floor in Floor.STRICT.down_to(self._plan.floor)
        ]
        distinct = len({found for found in allowed if found})
        non_free = len(
            {found for found in allowed if any(not self._pool.space.free(frozenset({i})) for i in found)}
        )
        return 2 + max(distinct, 1) + (non_free if self._pool.free() else 0)

    def _screen_least(self) -> int:
        if len(self._pool.usable) < 2:
            return 0
        bought = len(self._pool.bought())
        return (2 * (bought + 1) if bought >= 2 else 0) + (8 if bought else 4)
