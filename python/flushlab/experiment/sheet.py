"""Sheet: what the arms of blocks scored, by what is compared and by p99 latency.

Sits in `experiment`; pure. `series`, `compare` and `tune` keep their scores here, so that a ratio of what is
compared and one of p99 latency come from the same cells, by the same statistics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from flushlab.experiment.objective import Objective, is_stalled, scores
from flushlab.record import Trial

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
        self._cells: dict[Objective, dict[str, dict[int, float]]] = {objective: {}, "p99": {}}
        self._disturbed: set[tuple[str, int]] = set()
        self.stalled: set[str] = set()
        """Arms that committed nothing in some block."""
        for arm in arms:
            self.admit(arm)

    @property
    def measures(self) -> tuple[Objective, ...]:
        """What the arms are scored by: what is compared, then p99 latency."""
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
        """Takes the trials of one cell.

        Raises:
            MeasurementError: as `objective.score`.
        """
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
    return any(trial.outcome == "void" for trial in trials)


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
