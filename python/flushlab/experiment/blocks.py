"""Blocks: every arm once per round, in random order, the base twice.

Sits in `experiment`; pure. `run_block` is the round that all experiments share; `Blocks` is the
experiment that compares given arms over a number of rounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from random import Random
from typing import NamedTuple

import msgspec

from flushlab.experiment.objective import Objective, score
from flushlab.experiment.protocol import Conversation, Progress, Request, Steps
from flushlab.record import Arm, Comparison, Stage, Trial
from flushlab.statistics import compare

BASE = "base"
"""Name of the arm that `tune` compares the others with."""

CONTROL = "control"
"""Name of the arm that runs the base's settings once more."""

ATTEMPTS = 3
"""How often one cell is tried when the base fails."""

VOID_ATTEMPTS = 2
"""How often one cell is tried when its trials are void. A cell that is disturbed again shows the machine's
usual state: it counts, and widens the intervals as it should."""


class Round(NamedTuple):
    """What one block gave.

    Attributes:
        measured: trials per arm, one per workload variant, complete ones only.
        out: arms that cannot go on, with the reason.
        hints: the way out for those that one is known for.
    """

    measured: dict[str, tuple[Trial, ...]]
    out: dict[str, str]
    hints: dict[str, str]


def run_block(
    arms: Sequence[Arm],
    *,
    stage: Stage,
    block: int,
    order: Random,
    variants: int = 1,
    patient: Collection[str] = (),
) -> Steps[Round]:
    """Runs every arm once per workload variant, in random order.

    A void trial is repeated at the end of the same block; disturbed again, it counts (`VOID_ATTEMPTS`). A
    refused, failed or invalid one puts its arm out, unless the arm is in `patient` (the base):
    a base that worked before is given the same attempts as a void one.
    """
    cells = [(arm, variant) for arm in arms for variant in range(variants)]
    order.shuffle(cells)
    queue = deque((arm, variant, 1) for arm, variant in cells)
    measured: dict[str, dict[int, Trial]] = {arm.name: {} for arm in arms}
    out: dict[str, str] = {}
    hints: dict[str, str] = {}
    while queue:
        arm, variant, attempt = queue.popleft()
        if arm.name in out:
            continue
        trial = yield Request(arm=arm, stage=stage, block=block, variant=variant)
        if trial.hint:
            hints[arm.name] = trial.hint
        again = trial.outcome == "void" and attempt >= VOID_ATTEMPTS and trial.figure is not None
        if trial.outcome == "measured" or again:
            measured[arm.name][variant] = trial
        elif trial.outcome == "void" or arm.name in patient:
            if attempt < ATTEMPTS:
                queue.append((arm, variant, attempt + 1))
            elif trial.outcome != "void":
                out[arm.name] = f"{trial.outcome}: {trial.reason}"
        else:
            out[arm.name] = f"{trial.outcome}: {trial.reason}"
    complete = {
        name: tuple(trials[variant] for variant in range(variants))
        for name, trials in measured.items()
        if len(trials) == variants and name not in out
    }
    return Round(complete, out, hints)


class BlocksPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of given arms.

    Attributes:
        base: the arm that the others are compared with.
        arms: the others; a control is added.
        blocks: number of rounds, at least 2.
        stage: what the trials are filed under.
        variants: number of workload variants, each run once per arm and block.
        objective: what a trial is scored by.
        alpha: probability that any of the intervals misses.
        seed: of the random order.
    """

    base: Arm
    arms: tuple[Arm, ...] = ()
    blocks: int = 5
    stage: Stage = "bench"
    variants: int = 1
    objective: Objective = "throughput"
    alpha: float = 0.05
    seed: int = 0


class Blocks:
    """Runs a `BlocksPlan`; looks at the figures once, at the end."""

    def __init__(self, plan: BlocksPlan) -> None:
        assert plan.blocks >= 2 and plan.variants >= 1
        names = [plan.base.name, CONTROL, *(arm.name for arm in plan.arms)]
        assert len(set(names)) == len(names), f"arms need names of their own: {names}"
        self._plan = plan
        self._scores: dict[str, dict[int, float]] = {name: {} for name in names}
        self._conversation = Conversation(self.steps())
        self.out: dict[str, str] = {}
        """Arms that could not go on, with the reason."""
        self.hints: dict[str, str] = {}
        """The way out for those that one is known for."""
        self.finished = 0
        """Rounds that are done."""

    def ask(self) -> Request | None:
        """The trial to run now, or None when all blocks are done."""
        return self._conversation.ask()

    def tell(self, trial: Trial) -> None:
        """Takes the record of the trial that was due."""
        self._conversation.tell(trial)

    @property
    def progress(self) -> Progress:
        """Where it stands."""
        due = self.ask()
        total = self._plan.blocks * self._plan.variants * len(self._scores)
        return Progress(stage=due.stage if due else None, done=self._conversation.told, total=total)

    @property
    def scores(self) -> dict[str, dict[int, float]]:
        """Score of each arm in each finished block, without the arms that are out; the base always stays."""
        base = self._plan.base.name
        return {
            name: dict(cells) for name, cells in self._scores.items() if name == base or name not in self.out
        }

    def result(self) -> tuple[Comparison, ...]:
        """Arms against the base over the finished blocks; empty before the second."""
        return compare(self._scores, self._plan.base.name, alpha=self._plan.alpha)

    def steps(self) -> Steps[None]:
        """The rounds, for an experiment that they are a part of."""
        plan = self._plan
        control = Arm(name=CONTROL, settings=plan.base.settings)
        for block in range(plan.blocks):
            arms = [arm for arm in (plan.base, control, *plan.arms) if arm.name not in self.out]
            finished = yield from run_block(
                arms,
                stage=plan.stage,
                block=block,
                order=Random(f"{plan.seed}/{plan.stage}/{block}"),
                variants=plan.variants,
                patient={plan.base.name, CONTROL},
            )
            self.out.update(finished.out)
            self.hints.update(finished.hints)
            for name, trials in finished.measured.items():
                self._scores[name][block] = score(trials, plan.objective)
            if plan.base.name in self.out:
                return
            self.finished += 1
