"""The experiment's protocol: which trial next (ask), what came of it (tell).

Sits at the bottom of `experiment`; pure. An experiment is a deterministic function of its plan, its
seed and the records told, so resuming is telling it the stored trials again, in their order.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from random import Random
from typing import Protocol, TypeVar

import msgspec

from flushlab.errors import UsageError
from flushlab.experiment.objective import Objective
from flushlab.record import Arm, Comparison, CrashRow, Ratio, Stage, Trial

T = TypeVar("T")
Row = TypeVar("Row", Trial, CrashRow, contravariant=True)

Steps = Generator["Request", Trial, T]
"""A part of an experiment: yields requests, is sent trials, returns what it found out."""

SELECTING: tuple[Stage, ...] = ("calibrate", "screen", "reduce")
"""Stages of a tuning whose blocks choose what is confirmed; no reported ratio is from them."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One trial to run.

    Attributes:
        arm: the settings to run under.
        stage: the part of the experiment.
        block: number of the block within the stage.
        variant: index of the workload variant (for example of the thread count).
        beside: arms that are due in this block with the same variant, this one first; they may run together.
    """

    arm: Arm
    stage: Stage
    block: int
    variant: int = 0
    beside: tuple[Arm, ...] = ()


class BlockAhead(msgspec.Struct, frozen=True, kw_only=True):
    """A block that is due, or that may follow: all that a machine needs to run it (`blocks.run_block`).

    Blocks of a screening may share their number; they differ in their arms.

    Attributes:
        stage: the part of the experiment.
        block: number of the block within the stage.
        arms: that run in it.
        variants: number of workload variants that each arm runs.
        patient: names of arms that get further attempts if they fail.
        seed: of the experiment; the order of the block follows from it.
    """

    stage: Stage
    block: int
    arms: tuple[Arm, ...]
    variants: int = 1
    patient: tuple[str, ...] = ()
    seed: int = 0

    @property
    def order(self) -> Random:
        """Draws the order of its trials."""
        return Random(f"{self.seed}/{self.stage}/{self.block}")


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where an experiment stands.

    Attributes:
        stage: of the request that is due, or None when done.
        done: trials told.
        total: trials expected in all; an upper estimate that shrinks when the experiment stops early.
        best: the best ratio proven so far, or None.
        found: comparisons by arm that may be shown while it runs, the control's among them: claims that
            interim analyses have proven, and that no later analysis revokes. Empty if results are judged at
            the end only.
        after: work that follows the last trial, in trials' worth.
        left_s: about what is left takes, where trials so far do not tell it; else None.
        objective: what the ratios compare.
    """

    stage: Stage | None
    done: int
    total: int
    best: Ratio | None = None
    found: Mapping[str, Comparison] = {}
    after: float = 0.0
    left_s: float | None = None
    objective: Objective = "throughput"


class Experiment(Protocol[Row]):
    """A pure planner, whose requests come to rows of a kind."""

    def ask(self) -> Request | None:
        """The trial to run now, the same until `tell` has its record; None when the experiment is done."""
        ...

    def tell(self, row: Row, /) -> None:
        """Takes the record of the requested trial. A stored record may be handed over without asking.

        Raises:
            UsageError: it is not the one that is due.
        """
        ...

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        """The block that is due, partly told or not, and blocks that will follow.

        A later block is foreseen as if no arm dropped out or left until then, and no interim analysis ended
        the experiment. So it may have more trials than `ask` will name, never fewer.

        Args:
            most: number of blocks.
        """
        ...

    @property
    def progress(self) -> Progress:
        """Where it stands."""
        ...


class Conversation:
    """Turns `Steps` into ask and tell."""

    def __init__(self, steps: Steps[None]) -> None:
        self._steps = steps
        self._due: Request | None = None
        self._started = False
        self.trials = 0

    def ask(self) -> Request | None:
        """The request that is due, or None when the steps are through."""
        if not self._started:
            self._started = True
            self._due = next(self._steps, None)
        return self._due

    def tell(self, trial: Trial) -> None:
        """Sends the trial to the steps and notes the next request."""
        due = self.ask()
        if due is None or (trial.arm, trial.stage, trial.block, trial.variant) != (
            due.arm,
            due.stage,
            due.block,
            due.variant,
        ):
            expected = (
                "no further trial" if due is None else f"{due.stage} block {due.block} of {due.arm.name!r}"
            )
            raise UsageError(
                f"a trial of {trial.arm.name!r} ({trial.stage} block {trial.block}) does not belong here: "
                f"the plan expects {expected}",
                hint="a campaign can be resumed only with the plan, seed and version it was started with",
            )
        self.trials += 1
        try:
            self._due = self._steps.send(trial)
        except StopIteration:
            self._due = None
