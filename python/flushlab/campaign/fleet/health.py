"""Health: whether a machine is fit for a campaign, and still measures what it measured at first.

Sits in `campaign.fleet`; pure. What is measured is judged by base and control only, never by an arm, so that
taking a machine out does not favor any arm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from flushlab.campaign.fleet.worker import MachineFacts
from flushlab.experiment.protocol import score
from flushlab.fleet.status import CLOCK_S
from flushlab.record import BASE, CONTROL, Trial
from flushlab.units import format_seconds, format_size

SLOWER = 3.0
"""The base of a broken machine is this many times slower than in the machine's first blocks."""
FIRST_BLOCKS = 3
CONTROL_FACTOR = 2.0
"""Base and control run the same settings: one faster than the other by this factor is no noise of a sound
machine."""
MEMORY_SHARE = 0.9
"""Machines of one kind differ by what their firmware takes."""


@dataclass
class Health:
    _first: dict[str, list[float]] = field(default_factory=dict)

    def doubt(self, kind: str, trials: Iterable[Trial]) -> str:
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


def problems(name: str, there: MachineFacts, here: MachineFacts, root_for: str = "") -> Iterator[str]:
    if there.flushlab != here.flushlab:
        yield f"machine {name} has flushlab {there.flushlab}, and this one {here.flushlab}"
        return
    if there.cpu_count < here.cpu_count:
        yield (
            f"machine {name} has {there.cpu_count} processors, and the one that decides the settings"
            f" {here.cpu_count}"
        )
    if there.memory_bytes < MEMORY_SHARE * here.memory_bytes:
        yield (
            f"machine {name} has {format_size(there.memory_bytes)} of memory, and the one that decides the"
            f" settings {format_size(here.memory_bytes)}"
        )
    if root_for and not there.is_root:
        yield f"machine {name} runs flushlab without root, which {root_for} needs"
    off_s = there.now_s - here.now_s
    if abs(off_s) > CLOCK_S:
        yield f"the clock of machine {name} is {format_seconds(abs(off_s))} {'fast' if off_s > 0 else 'slow'}"
