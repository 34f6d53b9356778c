"""Rounds: arms run once each, in random order, only the user's own settings below the floor. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from flushlab.experiment.blocks import BASE, CONTROL, YOURS, Round, no_base, run_block
from flushlab.experiment.objective import score
from flushlab.experiment.protocol import Steps
from flushlab.experiment.sheet import is_disturbed
from flushlab.experiment.tune.plan import TunePlan
from flushlab.experiment.tune.pool import Pool
from flushlab.record import Arm, Stage, Trial


class Rounds:
    """Asks for the trials of a round; changes that the server undid leave the pool."""

    def __init__(self, plan: TunePlan, pool: Pool) -> None:
        self._plan = plan
        self._pool = pool

    def run(
        self,
        arms: Sequence[Arm],
        stage: Stage,
        block: int,
        *,
        spare: Callable[[], float] = lambda: math.inf,
    ) -> Steps[Round]:
        """One round.

        Args:
            arms: of it.
            stage: that it belongs to.
            block: its number in the stage.
            spare: trials that it may take from now on; see `run_block`.

        Raises:
            MeasurementError: the base cannot be measured.
        """
        for arm in arms:
            level = self._plan.level_of(arm.settings)
            assert arm.name == YOURS or level.at_least(self._plan.floor), (
                f"{arm.name} keeps {level}, below {self._plan.floor}"
            )
        order = Random(f"{self._plan.seed}/{stage}/{block}")
        is_first = stage == "calibrate" and block == 0
        finished = yield from run_block(
            arms,
            stage=stage,
            block=block,
            order=order,
            variants=self._plan.variants,
            patient=() if is_first else {BASE, CONTROL},
            spare=spare,
        )
        if BASE in finished.out:
            raise no_base(finished.out[BASE], finished.hints.get(BASE))
        for name, trials in finished.measured.items():
            self._pool.exclude_unchanged(name, trials[0])
        return finished

    def block(self, arms: Sequence[Arm], stage: Stage, block: int) -> Steps[dict[str, tuple[Trial, ...]]]:
        """A round of arms with at most one change each: whoever fails is out for good."""
        finished, out, _ = yield from self.run(arms, stage, block)
        for name, reason in out.items():
            self._pool.exclude_arm(name, reason)
        return finished

    def score_block(
        self,
        arms: Sequence[Arm],
        stage: Stage,
        block: int,
        scores: dict[str, dict[int, float]],
        disturbed: set[tuple[str, int]],
    ) -> Steps[None]:
        """A round; adds its scores, by arm and block, and which of these cells were disturbed."""
        finished, _, _ = yield from self.run(arms, stage, block)
        for name, trials in finished.items():
            scores.setdefault(name, {})[block] = score(trials, self._plan.objective)
            if is_disturbed(trials):
                disturbed.add((name, block))
