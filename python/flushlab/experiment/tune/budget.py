"""Budget: how many trials are left, and what each step of a tuning may spend of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from flushlab.errors import BudgetTooSmall
from flushlab.experiment.tune.pool import CandidatePool
from flushlab.experiment.tune_plan import TunePlan
from flushlab.record import Trial
from flushlab.settings.floor import Floor, aims
from flushlab.units import counted, format_seconds

CONFIRM_SHARE = 0.45
"""Share of the budget that is kept for confirmation: fewer blocks could not prove what screening finds."""

SCREEN_SHARE = 0.36
SCREEN_RUNS_PER_CANDIDATE = 8
"""More screening runs than this per candidate buy nothing that the confirmation could still see."""


class BlockLimits(NamedTuple):
    """Few long blocks on fresh servers, many short ones on servers kept running."""

    confirm_least: int
    confirm_most: int
    reduce_most: int
    screen_least: int
    screen_most: int


FRESH = BlockLimits(confirm_least=3, confirm_most=16, reduce_most=8, screen_least=1, screen_most=1)
KEPT_RUNNING = BlockLimits(confirm_least=6, confirm_most=120, reduce_most=24, screen_least=3, screen_most=16)
SCREEN_SERVERS_MOST = 8
"""Mixtures screened in each context on servers kept running: starting the servers is most of their cost."""

BESIDE_BASE = 4
"""Mixtures screened in a block with the base, where machines of a fleet run blocks on fresh servers."""

END_TRIALS = 2.5
"""Trials' worth of time that is kept for the end: the base and the winner recover from SIGKILL under load."""

END_S = 15.0
"""Seconds that are kept for judging and for writing the files: 5 on an idle machine, 20 on one of whose
processors the hypervisor takes half (measured)."""

LATE_MARGIN, HINT_MARGIN = 1.1, 1.05
"""Factors on the time that the first trials predict. An accepted budget is refused only if the prediction
exceeds the budget by the first factor. The hint then asks for the prediction times the second factor."""


class TuneBudget:
    def __init__(self, plan: TunePlan, pool: CandidatePool) -> None:
        self._plan = plan
        self._pool = pool
        self.trials = 0
        self.kept_running = plan.side_by_side > 0
        self.blocks = KEPT_RUNNING if self.kept_running else FRESH
        self.room = max(plan.side_by_side - 1, 1)
        self._discarded = 0
        self._spent_s = 0.0
        self._once_s = 0.0
        self._prepared_s = 0.0
        self._started: set[tuple[str, str]] = set()
        self._startups_s = 0.0

    def count(self, trial: Trial) -> None:
        self.trials += 1
        self._discarded += trial.outcome == "discarded"
        self._spent_s += trial.spent_s
        self._once_s += trial.once_s
        prepared_s = trial.seconds.get("prepare", 0.0)
        if not self.kept_running or trial.stage == "calibrate":
            self._prepared_s += prepared_s
        else:
            self._started.add((trial.stage, trial.arm.name))
            self._startups_s += prepared_s

    @property
    def trial_s(self) -> float:
        return (self._spent_s - self._once_s) / self.trials if self.trials else self._plan.trial_s

    @property
    def startup_s(self) -> float:
        return self._startups_s / len(self._started) if self._started else self._plan.startup_s

    @property
    def least_trials(self) -> int:
        return (2 + self._screen_least() + self.confirm_least) * self._plan.variants

    @property
    def confirm_least(self) -> int:
        return self.blocks.confirm_least * (self.confirm_arms_most() + self._further_groups)

    @property
    def _further_groups(self) -> int:
        return math.ceil((self.confirm_arms_most() - 1) / self.room) - 1 if self.kept_running else 0

    def spares(self, cells: int) -> bool:
        return self.cells() - cells >= self.confirm_least

    def cells(self, starting: int = 0) -> int:
        """Cells (one arm in one block, all variants) that are left, if as many are disturbed as so far."""
        left = self.trials_left
        if self._plan.budget_s is not None and self.trials:
            left_s = self._plan.budget_s - self._end_s - self._spent_s - starting * self.startup_s
            left = min(left, left_s / max(self.trial_s, 1e-9))
        repeats = 1 + (self._discarded / self.trials if self.trials else 0.0)
        return max(math.floor(left / repeats / self._plan.variants), 0) if left < math.inf else 0

    @property
    def trials_left(self) -> float:
        return math.inf if self._plan.budget_trials is None else self._plan.budget_trials - self.trials

    def spare(self, due: int) -> Callable[[], float]:
        return lambda: self.trials_left - due

    def is_spent(self, arms: int) -> bool:
        if self.trials_left < arms * self._plan.variants:
            return True
        if self._plan.budget_s is None or not self.trials:
            return False
        block_s = arms * self._plan.variants * self.trial_s
        return self._spent_s + block_s > self._plan.budget_s - self._end_s

    def demand(self) -> None:
        """BudgetTooSmall, with the smallest budget that makes sense, if a valid confirmation does not fit."""
        plan, least = self._plan, self.least_trials
        candidates = counted(len(self._pool.usable), "candidate")
        whom = f"{candidates} {aims(plan.floor, plan.runs_at)} need at least"
        ways = "--fixed NAME for settings that stay as they are"
        if plan.runs_at is not plan.floor:
            ways = f"--offer {plan.floor}, which measures no offers, or {ways}"
        elif plan.floor is not Floor.STRICT:
            ways = f"a safer --floor, or {ways}"
        if plan.budget_trials is not None and plan.budget_trials < least:
            raise BudgetTooSmall(
                f"--trials {plan.budget_trials} is too few: {whom} {least}",
                hint=f"use --trials {least} or more, or {ways}",
            )
        left_s = (least - self.trials) * self.trial_s + self._startups_least() * self.startup_s + self._end_s
        all_s = self._spent_s + left_s if self.trials else plan.start_s + left_s
        if plan.budget_s is not None and all_s > plan.budget_s * (LATE_MARGIN if self.trials else 1.0):
            needed_s = all_s - self._prepared_s
            quiet = "the machine is busy: wait with --wait-for-quiet, or " if self._discarded else ""
            each = f" of about {format_seconds(self.trial_s)}" if self.trials else ""
            prepared = (
                f" (preparing the data, which are kept, took {format_seconds(self._prepared_s)})"
                if self._prepared_s > END_S
                else ""
            )
            enough = math.ceil(10 * (needed_s / 60)) / 10  # the next tenth of a minute is accepted
            if self.trials:
                enough = math.ceil(HINT_MARGIN * needed_s / 60)
            raise BudgetTooSmall(
                f"--minutes {plan.budget_s / 60:g} is too short: {whom} {least} trials{each}, "
                f"{format_seconds(needed_s)} in all{prepared}",
                hint=f"{quiet}use --minutes {enough:g} or more, or {ways}",
            )

    @property
    def _end_s(self) -> float:
        return END_TRIALS * (max(self.startup_s, self._plan.startup_s) or self.trial_s) + END_S

    def screen_runs(self, free: int, contexts: int) -> int:
        if self.kept_running:
            return contexts * min(2 * math.ceil(free / 2 + 1), SCREEN_SERVERS_MOST)
        left = self.cells()
        total = left + self.trials // self._plan.variants
        reserve = self.confirm_least
        share = min(SCREEN_SHARE * total, SCREEN_RUNS_PER_CANDIDATE * (free + 1) * contexts)
        each = 1 + self._base_share
        runs = int(min(max(share / each, 4 * contexts), max((left - reserve) / each, 4 * contexts)))
        return runs // (2 * contexts) * 2 * contexts

    def screen_blocks(self, arms: int, servers: int) -> int:
        total = self.cells() + self.trials // self._plan.variants
        share = SCREEN_SHARE * total - (self.cells() - self.cells(servers))
        return min(max(int(share / arms), self.blocks.screen_least), self.blocks.screen_most)

    def reduce_blocks(self, arms: int, confirm: int) -> int:
        left = self.cells(arms + confirm)
        total = left + self.trials // self._plan.variants
        reserve = min(max(int(CONFIRM_SHARE * total / confirm), 5), self.blocks.confirm_most) * confirm
        return min(max(left - reserve, 0) // max(arms, 1), self.blocks.reduce_most)

    def confirm_arms_most(self) -> int:
        allowed = [
            frozenset(i for i in self._pool.usable if self._pool.level(frozenset({i})).at_least(floor))
            for floor in Floor.STRICT.down_to(self._plan.runs_at)
        ]
        distinct = len({found for found in allowed if found})
        non_free = len(
            {found for found in allowed if any(not self._pool.is_free(frozenset({i})) for i in found)}
        )
        yours = self._plan.yours is not None
        return 2 + yours + max(distinct, 1) + (non_free if self._pool.free() else 0)

    def _screen_least(self) -> int:
        if len(self._pool.usable) < 2:
            return 0
        bought = len(self._pool.bought())
        contexts = 2 if bought else 1
        if self.kept_running:
            runs = self.screen_runs(len(self._pool.free()), contexts)
            cells = runs + math.ceil(runs / self.room) + (bought + 1 if bought >= 2 else 0)
            return self.blocks.screen_least * cells
        mixtures = math.ceil(4 * contexts * (1 + self._base_share))
        return (2 * (bought + 1) if bought >= 2 else 0) + mixtures

    @property
    def _base_share(self) -> float:
        return 1 / BESIDE_BASE if self._plan.spread else 0.0

    def _startups_least(self) -> int:
        started = sum(stage == "screen" for stage, _ in self._started)
        screened = self._screen_least() // self.blocks.screen_least
        return max(screened - started, 0) + self.confirm_arms_most() + self._further_groups
