"""Health: whether a machine of a fleet still measures what it measured at first.

Sits in `campaign.fleet`; pure. The rules look at base and control only, never at an arm, so that taking a
machine out does not favor any arm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from flushlab.experiment.blocks import BASE, CONTROL
from flushlab.experiment.objective import score
from flushlab.record import Trial

SLOWER = 3.0
"""The base of a broken machine is this many times slower than in the machine's first blocks."""
FIRST_BLOCKS = 3
DOUBTS = 2
"""Bad blocks in a row that take a machine out."""
CONTROL_FACTOR = 2.0
"""Base and control run the same settings: one faster than the other by this factor is no noise of a sound
machine."""


@dataclass
class Health:
    """Evidence of a machine's blocks. One bad block may be chance; two in a row are the machine."""

    _first: dict[str, list[float]] = field(default_factory=dict)
    _doubts: int = 0

    @property
    def is_broken(self) -> bool:
        """Whether the latest blocks were all bad."""
        return self._doubts >= DOUBTS

    def doubt(self, kind: str, trials: Iterable[Trial]) -> str:
        """Why a block does not look like the machine's others; empty if it does.

        Args:
            kind: blocks of one kind are measured in the same way.
            trials: of the block.
        """
        why = self._why(kind, trials)
        self._doubts = self._doubts + 1 if why else 0
        return why

    def _why(self, kind: str, trials: Iterable[Trial]) -> str:
        cells: dict[str, list[Trial]] = {BASE: [], CONTROL: []}
        for trial in trials:
            if trial.arm.name in cells and trial.outcome == "measured" and (trial.result or 0.0) > 0:
                cells[trial.arm.name].append(trial)
        if not cells[BASE]:
            return ""
        base = score(cells[BASE])
        if cells[CONTROL]:
            apart = math.exp(abs(score(cells[CONTROL]) - base))
            if apart >= CONTROL_FACTOR:
                return f"base and control, which are the same, differ by a factor of {apart:.1f}"
        first = self._first.setdefault(kind, [])
        slower = math.exp(median(first) - base) if first else 1.0
        if slower >= SLOWER:
            return f"the base runs {slower:.1f} times slower than in the machine's first blocks"
        if len(first) < FIRST_BLOCKS:
            first.append(base)
        return ""
