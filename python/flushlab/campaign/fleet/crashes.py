"""Crashes: gives the loop of a crash campaign its rows, while machines crash the configurations.

    experiment.ahead -> a few crashes at a time -> Dispatch -> Machines -> rows in any order -> the loop

Sits in `campaign.fleet`, on the driver. A crash is judged by itself, so rows need no order: the loop takes
and stores each as it arrives. Each machine makes its own recording, as a resumed campaign does. kill -9 of
the driver, or the loss of a machine, costs the crashes that run there.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from flushlab.campaign.fleet.dispatch import Crew, WantedBlock
from flushlab.campaign.fleet.machines import Ended, Machines
from flushlab.campaign.pool.work import CrashTask
from flushlab.campaign.watcher import Watcher
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.record import CrashRow
from flushlab.units import counted

MOST_AT_ONCE = 4
"""Crashes that travel together: a machine judges two side by side."""
DOUBTS = 2
"""Tasks in a row of which nothing could be judged; then the machine is taken out."""
MOST_AHEAD = 1_000_000


@dataclass
class FleetCrashes:
    machines: Machines
    names: Iterable[str]
    ahead: Callable[[int], Iterable[BlockAhead]]
    watcher: Watcher
    clock: Callable[[], float] = time.monotonic
    _tasks: dict[int, CrashTask] = field(default_factory=dict)
    _planned: set[tuple[str, int]] = field(default_factory=set)
    _next: int = 0
    _rows: deque[CrashRow] = field(default_factory=deque)
    _doubts: Counter[str] = field(default_factory=Counter)
    _doubted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._crew = Crew(self.machines, self.watcher, self._name_of, self.clock)
        self._dispatch = self._crew.dispatch
        self._crew.joins(*self.names)

    def run(self, request: Request) -> CrashRow:
        while not self._rows:
            self._plan()
            self._crew.start(self._tasks.__getitem__)
            for event in self._crew.arrived():
                self._arrived(event)
            if not self._rows:
                self._crew.require_machines()
        return self._rows.popleft()

    def _plan(self) -> None:
        new = dict[str, list[int]]()
        for one in self.ahead(MOST_AHEAD):
            crash = one.arms[0].name, one.block
            if crash not in self._planned:
                self._planned.add(crash)
                new.setdefault(crash[0], []).append(one.block)
        if new:
            crashes, machines = sum(map(len, new.values())), max(1, self._crew.size)
            at_once = min(MOST_AT_ONCE, max(1, crashes // (2 * machines)))
            for arm, numbers in new.items():
                for first in range(0, len(numbers), at_once):
                    self._tasks[self._next] = CrashTask(
                        arm=arm, numbers=tuple(numbers[first : first + at_once])
                    )
                    self._next += 1
        self._dispatch.wants(WantedBlock(number, task.arm) for number, task in self._tasks.items())

    def _arrived(self, event: Ended) -> None:
        if not self._dispatch.ended(event.machine, self.clock()):
            return
        rows = [
            msgspec.structs.replace(row, crash=msgspec.structs.replace(row.crash, machine=event.machine))
            for row in event.rows
            if isinstance(row, CrashRow)
        ]
        if not self._are_doubtful(event, rows):
            del self._tasks[event.number]
            self._rows += rows

    def _are_doubtful(self, event: Ended, rows: Sequence[CrashRow]) -> bool:
        """Crashes of which none could be judged run again elsewhere: it may be the machine's fault."""
        if not rows or any(row.crash.outcome != "unknown" for row in rows):
            self._doubts[event.machine] = 0
            return False
        why = next((reason for row in rows for reason in row.crash.reasons), "nothing could be judged")
        self._doubts[event.machine] += 1
        alone = self._crew.size == 1
        if not alone and self._doubts[event.machine] >= DOUBTS:
            self._crew.take_out(event.machine, why)
        if alone or event.number in self._doubted:
            return False
        self._doubted.add(event.number)
        self._dispatch.again(event.number, elsewhere_than=event.machine)
        self.watcher.say(
            f"{self._name_of(event.number)} again on another machine, after {event.machine}: {why}"
        )
        return True

    def _name_of(self, number: int) -> str:
        task = self._tasks.get(number)
        return "" if task is None else f"{counted(len(task.numbers), 'crash')} of {task.arm}"
