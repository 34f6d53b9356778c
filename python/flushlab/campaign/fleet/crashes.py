"""Crashes: gives the loop of a crash campaign its rows, in the order in which machines bring them.

Sits in `campaign.fleet`, on the driver. A crash is judged by itself, so rows need no order: the loop takes
and stores each as it arrives. Each machine makes its own recording, as a resumed campaign does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from flushlab.campaign.fleet.dispatch import WantedBlock
from flushlab.campaign.fleet.machines import Ended
from flushlab.campaign.fleet.runner import FleetRunner
from flushlab.campaign.pool.work import CrashTask
from flushlab.experiment.protocol import Request
from flushlab.record import CrashRow
from flushlab.units import counted

MOST_AT_ONCE = 4
"""Crashes that travel together: a machine judges two side by side."""
MOST_AHEAD = 1_000_000


@dataclass(kw_only=True)
class FleetCrashes(FleetRunner):
    _tasks: dict[int, CrashTask] = field(default_factory=dict)
    _planned: set[tuple[str, int]] = field(default_factory=set)
    _rows: deque[CrashRow] = field(default_factory=deque)

    def run(self, request: Request) -> CrashRow:
        while not self._rows:
            self._plan()
            self._step()
        return self._rows.popleft()

    def _plan(self) -> None:
        new = dict[str, list[int]]()
        for one in self.ahead(MOST_AHEAD):
            crash = one.arms[0].name, one.block
            if crash not in self._planned:
                self._planned.add(crash)
                new.setdefault(crash[0], []).append(one.block)
        crashes = sum(map(len, new.values()))
        at_once = min(MOST_AT_ONCE, max(1, crashes // (2 * max(1, self.size))))
        for arm, numbers in new.items():
            for first in range(0, len(numbers), at_once):
                self._tasks[self._next] = CrashTask(arm=arm, numbers=tuple(numbers[first : first + at_once]))
                self._next += 1
        self._dispatch.wants(WantedBlock(number, task.arm) for number, task in self._tasks.items())

    def _task(self, number: int) -> CrashTask:
        return self._tasks[number]

    def _name_of(self, number: int) -> str:
        task = self._tasks.get(number)
        return "" if task is None else f"{counted(len(task.numbers), 'crash')} of {task.arm}"

    def _arrived(self, event: Ended) -> None:
        rows = [
            msgspec.structs.replace(row, crash=msgspec.structs.replace(row.crash, machine=event.machine))
            for row in event.rows
            if isinstance(row, CrashRow)
        ]
        why = ""
        if rows and all(row.crash.outcome == "unknown" for row in rows):
            why = next((reason for row in rows for reason in row.crash.reasons), "nothing could be judged")
        if not self._runs_elsewhere(event, why, self._name_of(event.number)):
            del self._tasks[event.number]
            self._rows += rows
