"""Blocks: every arm once per round, in random order, the base twice.

Sits in `experiment`; pure. `run_block` is the round that all experiments share. `Sheet` keeps the scores, so
that the ratio of the objective and the second one, such as of p99 latency, come from the same cells. `Blocks`
compares given arms over a number of rounds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from flushlab.errors import MeasurementError
from flushlab.experiment.protocol import SECOND, BlockAhead, Objective, Request, Steps, is_stalled, scores
from flushlab.record import BASE, CONTROL, Arm, Stage, Trial

YOURS = "yours"
"""Name of the arm that runs the user's own settings, where the base had to be raised to the floor."""

ATTEMPTS = 3
"""How often one cell is tried when the base fails."""

DISCARDED_ATTEMPTS = 2
"""Most trials of a cell if they are discarded. A cell that is disturbed again has the mean of its attempts;
`undisturbed` decides whether it counts."""


class Round(NamedTuple):
    """What one block gave.

    Attributes:
        measured: trials per arm, complete ones only: for each workload variant the one that was measured, or
            all of its attempts if every one was disturbed.
        out: arms that cannot go on, with the reason.
        hints: the way out for those that one is known for.
    """

    measured: dict[str, tuple[Trial, ...]]
    out: dict[str, str]
    hints: dict[str, str]


def run_block(ahead: BlockAhead, *, spare: Callable[[], float] = lambda: math.inf) -> Steps[Round]:
    """Runs every arm once per workload variant, in random order.

    A discarded trial is repeated at the end of the same block, up to `DISCARDED_ATTEMPTS` trials in all. A
    refused, failed or invalid trial drops its arm. Two kinds of arms get the attempts of a discarded trial
    instead: arms that are patient (the base), and arms whose server found too little memory, because the
    machine may have more memory later. A trial is repeated only if `spare` trials remain beyond the cells
    that are due.
    """
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
    """The error that ends an experiment whose base cannot be measured; the message begins with the reason.

    Args:
        reason: as in `Round.out`.
        hint: as in `Round.hints`.
    """
    why = reason.removeprefix("failed: ").rstrip()
    return MeasurementError(
        f"{why}\nThat was the base: without its result there is nothing to compare with.", hint=hint
    )


Scores = Mapping[str, Mapping[int, float]]
"""Score of each arm in each block; as in `flushlab.statistics`, which takes too long to load for this."""

GOOD_BLOCKS = 3
"""Blocks without disturbed cells that are enough to do without the others."""


class Sheet:
    """Scores by arm and block.

    Args:
        arms: that are scored.
        objective: what is compared.
    """

    def __init__(self, arms: Iterable[str], objective: Objective) -> None:
        self.objective = objective
        self._cells: dict[Objective, dict[str, dict[int, float]]] = {
            one: {} for one in (objective, SECOND[objective])
        }
        self._disturbed: set[tuple[str, int]] = set()
        self.machines: dict[int, str] = {}
        """Machine of the fleet that ran each block; empty names without a fleet."""
        self.stalled: set[str] = set()
        """Arms that committed nothing in some block."""
        for arm in arms:
            self.admit(arm)

    @property
    def measures(self) -> tuple[Objective, ...]:
        """The scores of the arms: the objective, then what is compared besides."""
        return tuple(self._cells)

    @property
    def arms(self) -> tuple[str, ...]:
        """Those that are scored."""
        return tuple(self._cells[self.objective])

    @property
    def next_block(self) -> int:
        """Number of a block that nothing was recorded in."""
        blocks = (block for cells in self._cells[self.objective].values() for block in cells)
        return 1 + max(blocks, default=-1)

    def admit(self, arm: str) -> None:
        """Enters an arm."""
        for cells in self._cells.values():
            cells[arm] = {}

    def record(self, arm: str, block: int, trials: Sequence[Trial]) -> None:
        """Takes the trials of one cell, unless they ran on another machine than the block's first cell.

        Raises:
            MeasurementError: as `objective.score`.
        """
        names = {trial.machine for trial in trials}
        if names != {self.machines.setdefault(block, trials[0].machine)}:
            return
        for by, scored in scores(trials, self.objective).items():
            self._cells[by][arm][block] = scored
        if is_stalled(trials):
            self.stalled.add(arm)
        if is_disturbed(trials):
            self._disturbed.add((arm, block))

    def scores(
        self, by: Objective, base: str, *, arms: Collection[str] | None = None, since: int = 0
    ) -> Scores:
        """Scores without the cells that were disturbed, as far as it can be done without them.

        Args:
            by: one of `measures`.
            base: what the others are compared with; always among them.
            arms: the others, if not all.
            since: number of the first block.
        """
        cells = {
            arm: {block: one for block, one in own.items() if block >= since}
            for arm, own in self._cells[by].items()
            if arms is None or arm == base or arm in arms
        }
        return undisturbed(cells, self._disturbed, base)


def is_disturbed(trials: Iterable[Trial]) -> bool:
    """Whether other load disturbed any trial of a cell."""
    return any(trial.outcome == "discarded" for trial in trials)


def undisturbed(scores: Scores, disturbed: Collection[tuple[str, int]], base: str) -> Scores:
    """Scores without the cells that other load disturbed, where enough is left of every arm; else all.

    A machine that is never quiet is the one that is measured then, and intervals widen by what it does. The
    rule asks what others did, never what came out.

    Args:
        scores: by arm and block.
        disturbed: arm and block of cells that were.
        base: what the others are compared with.
    """
    left = {
        arm: {block: one for block, one in cells.items() if (arm, block) not in disturbed}
        for arm, cells in scores.items()
    }
    shared = (
        len(left[arm].keys() & left[base].keys())
        for arm in scores
        if len(scores[arm].keys() & scores[base].keys()) >= GOOD_BLOCKS
    )
    return left if min(shared, default=0) >= GOOD_BLOCKS else scores


class Blocks:
    """Compares given arms and a control with a base: a part of an experiment, which runs its `steps`.

    Args:
        base: the arm that the others are compared with.
        arms: the others; a control is added.
        blocks: number of rounds, at least 2.
        stage: what the trials are filed under.
        seed: of the random order.
        first: number of the first round.
        objective: what is compared.
    """

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
        self._sheet = Sheet(names, objective)
        self.out: dict[str, str] = {}
        """Arms that could not go on, with the reason."""
        self.hints: dict[str, str] = {}
        """The way out for those that one is known for."""
        self.settled: set[str] = set()
        """Arms of which enough is known: whoever runs the rounds puts them here, and they run no more."""
        self.finished = 0
        """Rounds that are done."""

    @property
    def measures(self) -> tuple[Objective, ...]:
        """The scores of the arms: the objective, then what is compared besides."""
        return self._sheet.measures

    @property
    def stalled(self) -> set[str]:
        """Arms that committed nothing in some block."""
        return self._sheet.stalled

    @property
    def machines(self) -> Mapping[int, str]:
        """Machine of the fleet that ran each block."""
        return self._sheet.machines

    def scores(self, by: Objective) -> Scores:
        """Score of each arm in each finished block; the base always stays.

        Arms that are out are left out. Disturbed cells are left out as far as enough other cells remain."""
        left = set(self._sheet.arms) - self.out.keys()
        return self._sheet.scores(by, self._base.name, arms=left)

    @property
    def due(self) -> tuple[Arm, ...]:
        """Arms of the next round; none if there is no further one."""
        if self.finished == self._blocks or self._base.name in self.out:
            return ()
        control = Arm(name=CONTROL, settings=self._base.settings)
        gone = self.out.keys() | self.settled
        return tuple(arm for arm in (self._base, control, *self._arms) if arm.name not in gone)

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        """The next rounds, with all arms that are due now."""
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
        """All rounds."""
        while self.due:
            yield from self.next_round()

    def next_round(self) -> Steps[None]:
        """The round that is due."""
        (ahead,) = self.ahead(1)
        finished = yield from run_block(ahead)
        self.out.update(finished.out)
        self.hints.update(finished.hints)
        for name, trials in finished.measured.items():
            self._sheet.record(name, ahead.block, trials)
        if self._base.name not in self.out:
            self.finished += 1
