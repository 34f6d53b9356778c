"""Blocks: every arm once per round, in random order, the base twice.

Sits in `experiment`; pure. `run_block` is the round that all experiments share. `Sheet` keeps the scores, so
that the ratio of the objective and the second one, such as of p99 latency, come from the same cells. `Blocks`
compares given arms over a number of rounds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from flushlab.errors import MeasurementError
from flushlab.experiment.protocol import SECOND, BlockAhead, Objective, Request, Steps, is_stalled, scores
from flushlab.record import BASE, CONTROL, Arm, Stage, Trial

if TYPE_CHECKING:
    from flushlab.statistics import RatioTable


YOURS = "yours"

ATTEMPTS = 3
"""How often one cell is tried when the base fails."""

DISCARDED_ATTEMPTS = 2
"""Most trials of a cell if they are discarded. A cell that is disturbed again has the mean of its attempts;
`undisturbed` decides whether it counts."""


class Round(NamedTuple):
    """The results of one block.

    Attributes:
        measured: trials per arm, complete ones only: for each workload variant the one that was measured, or
            all of its attempts if every one was disturbed.
    """

    measured: dict[str, tuple[Trial, ...]]
    out: dict[str, str]
    hints: dict[str, str]


def run_block(ahead: BlockAhead, *, spare: Callable[[], float] = lambda: math.inf) -> Steps[Round]:
    """A discarded trial is repeated at the end of the same block. A refused, failed or invalid one drops its
    arm, unless the arm is patient (the base) or its server found too little memory, which the machine may
    have later."""
    arms, variants = ahead.arms, ahead.variants
    cells = [(arm, variant) for arm in arms for variant in range(variants)]
    ahead.order.shuffle(cells)
    queue = deque((arm, variant, 1) for arm, variant in cells)
    measured: dict[str, dict[int, tuple[Trial, ...]]] = {arm.name: {} for arm in arms}
    disturbed: dict[tuple[str, int], tuple[Trial, ...]] = {}
    out: dict[str, str] = {}
    hints: dict[str, str] = {}
    while queue:
        arm, variant, attempt = queue.popleft()
        if arm.name in out:
            continue
        beside = (arm, *(other for other, theirs, _ in queue if theirs == variant and other.name not in out))
        trial = yield Request(arm=arm, stage=ahead.stage, block=ahead.block, variant=variant, beside=beside)
        if trial.hint:
            hints[arm.name] = trial.hint
        if trial.outcome == "discarded" and trial.result is not None:
            disturbed[arm.name, variant] = (*disturbed.get((arm.name, variant), ()), trial)
        attempts = disturbed.get((arm.name, variant), ())
        can_repeat = spare() > len(queue)
        enough = attempt >= DISCARDED_ATTEMPTS or not can_repeat
        if trial.outcome == "measured":
            measured[arm.name][variant] = (trial,)
        elif trial.outcome == "discarded" and trial.result is not None and enough:
            measured[arm.name][variant] = attempts
        elif trial.outcome == "discarded" or trial.lacked_memory or arm.name in ahead.patient:
            if attempt < ATTEMPTS and can_repeat:
                queue.append((arm, variant, attempt + 1))
            elif trial.outcome != "discarded":
                out[arm.name] = f"{trial.outcome}: {trial.reason}"
        else:
            out[arm.name] = f"{trial.outcome}: {trial.reason}"
        if BASE in out:
            break  # nothing that the others yield could be compared
    complete = {
        name: tuple(trial for variant in range(variants) for trial in trials[variant])
        for name, trials in measured.items()
        if len(trials) == variants and name not in out
    }
    return Round(complete, out, hints)


def no_base(reason: str, hint: str | None) -> MeasurementError:
    why = reason.removeprefix("failed: ").rstrip()
    return MeasurementError(
        f"{why}\nThat was the base: without its result there is nothing to compare with.", hint=hint
    )


GOOD_BLOCKS = 3
"""Blocks without disturbed cells that are enough to do without the others."""


class Sheet:
    def __init__(self, objective: Objective, arms: Iterable[str] = ()) -> None:
        self.objective = objective
        self.measures = tuple(dict.fromkeys((objective, SECOND[objective])))
        self.arms = dict.fromkeys(arms)
        self.machines: dict[int, str] = {}
        self.stalled: set[str] = set()
        self._cells: dict[tuple[Objective, str], dict[int, float]] = {}
        self._disturbed: set[tuple[str, int]] = set()

    @property
    def next_block(self) -> int:
        return 1 + max(self.machines, default=-1)

    def admit(self, arm: str) -> None:
        self.arms[arm] = None

    def record(self, arm: str, block: int, trials: Sequence[Trial]) -> None:
        """Takes the trials of one cell, unless they ran on another machine than the block's first cell."""
        names = {trial.machine for trial in trials}
        if names != {self.machines.setdefault(block, trials[0].machine)}:
            return
        self.admit(arm)
        for by, scored in scores(trials, self.objective).items():
            self._cells.setdefault((by, arm), {})[block] = scored
        if is_stalled(trials):
            self.stalled.add(arm)
        if is_disturbed(trials):
            self._disturbed.add((arm, block))

    def table(
        self,
        base: str,
        by: Objective | None = None,
        *,
        arms: Collection[str] | None = None,
        since: int = 0,
    ) -> RatioTable:
        """Leaves out disturbed cells if enough of every arm are left. A machine that is never quiet is
        measured as it is; the rule depends on the other load, never on results."""
        from flushlab.statistics import RatioTable  # takes long to load, and a fleet's machines do without it

        cells = {
            arm: {
                block: one
                for block, one in self._cells.get((by or self.objective, arm), {}).items()
                if block >= since
            }
            for arm in self.arms
            if arms is None or arm == base or arm in arms
        }
        left = {
            arm: {block: one for block, one in own.items() if (arm, block) not in self._disturbed}
            for arm, own in cells.items()
        }
        shared = (
            len(left[arm].keys() & left[base].keys())
            for arm in cells
            if len(cells[arm].keys() & cells[base].keys()) >= GOOD_BLOCKS
        )
        is_enough = min(shared, default=0) >= GOOD_BLOCKS
        return RatioTable(left if is_enough else cells, self.machines, frozenset(self.stalled))


def is_disturbed(trials: Iterable[Trial]) -> bool:
    return any(trial.outcome == "discarded" for trial in trials)


class Blocks:
    def __init__(
        self,
        base: Arm,
        arms: tuple[Arm, ...],
        *,
        blocks: int,
        stage: Stage,
        seed: int,
        first: int = 0,
        objective: Objective = "throughput",
    ) -> None:
        assert blocks >= 2
        names = [base.name, CONTROL, *(arm.name for arm in arms)]
        assert len(set(names)) == len(names), f"arms need names of their own: {names}"
        self._base, self._arms = base, arms
        self._blocks, self._stage, self._seed, self._first = blocks, stage, seed, first
        self.sheet = Sheet(objective, names)
        self.out: dict[str, str] = {}
        self.hints: dict[str, str] = {}
        self.settled: set[str] = set()
        """Arms of which enough is known: whoever runs the rounds puts them here, and they run no more."""
        self.finished = 0

    def table(self, by: Objective | None = None) -> RatioTable:
        return self.sheet.table(self._base.name, by, arms=self.sheet.arms.keys() - self.out.keys())

    @property
    def due(self) -> tuple[Arm, ...]:
        if self.finished == self._blocks or self._base.name in self.out:
            return ()
        control = Arm(name=CONTROL, settings=self._base.settings)
        gone = self.out.keys() | self.settled
        return tuple(arm for arm in (self._base, control, *self._arms) if arm.name not in gone)

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        if not self.due:
            return ()
        return tuple(
            BlockAhead(
                stage=self._stage,
                block=self._first + number,
                arms=self.due,
                patient=(self._base.name, CONTROL) if number else (),
                seed=self._seed,
            )
            for number in range(self.finished, min(self._blocks, self.finished + most))
        )

    def steps(self) -> Steps[None]:
        while self.due:
            yield from self.next_round()

    def next_round(self) -> Steps[None]:
        (ahead,) = self.ahead(1)
        finished = yield from run_block(ahead)
        self.out.update(finished.out)
        self.hints.update(finished.hints)
        for name, trials in finished.measured.items():
            self.sheet.record(name, ahead.block, trials)
        if self._base.name not in self.out:
            self.finished += 1
