"""Crashes: gives the loop of a crash campaign its rows, while machines crash the configurations.

    experiment.ahead -> a few crashes at a time -> Dispatch -> Machines -> rows in any order -> the loop

Sits in `campaign.fleet`, on the driver. A crash is judged by itself, so rows need no order: the loop takes
and stores each as it arrives. Each machine makes its own recording, as a resumed campaign does. kill -9 of
the driver, or the loss of a machine, costs the crashes that run there.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from flushlab.campaign.fleet.dispatch import Dispatch, Wanted
from flushlab.campaign.fleet.machines import (
    Crashed,
    CrashTask,
    Ended,
    Event,
    Failed,
    Joined,
    Lost,
    Machines,
    Stopped,
)
from flushlab.campaign.watcher import Watcher
from flushlab.errors import FlushlabError, MeasurementError, UsageError
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.record import CrashRow
from flushlab.units import counted

POLL_S = 1.0
"""Longest wait for an event: stragglers are looked for this often."""
REJOIN_S = 60.0
"""Longest wait for a machine where none is left."""
MOST_AT_ONCE = 4
"""Crashes that travel together: a machine judges two side by side."""
MOST_LOST = 3
"""Crashes that so many machines were lost with are lost because of themselves."""
DOUBTS = 2
"""Tasks in a row of which nothing could be judged; then the machine is taken out."""
MOST_AHEAD = 1_000_000


@dataclass
class FleetCrashes:
    """Runs a campaign's crashes on the machines of a fleet.

    Attributes:
        machines: open, with these names.
        ahead: the experiment's: crashes that are to come.
        watcher: told what becomes of machines.
        clock: in seconds.
    """

    machines: Machines
    names: Iterable[str]
    ahead: Callable[[int], Iterable[BlockAhead]]
    watcher: Watcher
    clock: Callable[[], float] = time.monotonic
    _dispatch: Dispatch = field(default_factory=Dispatch)
    _tasks: dict[int, CrashTask] = field(default_factory=dict)
    _planned: set[tuple[str, int]] = field(default_factory=set)
    _next: int = 0
    _rows: deque[CrashRow] = field(default_factory=deque)
    _lost: Counter[int] = field(default_factory=Counter)
    _doubts: Counter[str] = field(default_factory=Counter)
    _doubted: set[int] = field(default_factory=set)
    _alone_since_s: float | None = None
    _why_out: FlushlabError | str = ""

    def __post_init__(self) -> None:
        for name in self.names:
            self._dispatch.joins(name)
        self.watcher.spreads(len(self._dispatch.machines))

    def run(self, request: Request) -> CrashRow:
        """The next crash that has been judged, of whichever configuration.

        Raises:
            UsageError: a machine cannot run the campaign.
            MeasurementError: no machine is left, or the crashes end every machine.
        """
        while not self._rows:
            self._plan()
            self._start()
            for event in self.machines.wait(POLL_S):
                self._note(event)
            self._require_machines()
        return self._rows.popleft()

    def _plan(self) -> None:
        """Makes tasks of the crashes that are new."""
        new = dict[str, list[int]]()
        for one in self.ahead(MOST_AHEAD):
            crash = one.arms[0].name, one.block
            if crash not in self._planned:
                self._planned.add(crash)
                new.setdefault(crash[0], []).append(one.block)
        if new:
            crashes, machines = sum(map(len, new.values())), max(1, len(self._dispatch.machines))
            at_once = min(MOST_AT_ONCE, max(1, crashes // (2 * machines)))
            for arm, numbers in new.items():
                for first in range(0, len(numbers), at_once):
                    self._tasks[self._next] = CrashTask(
                        arm=arm, numbers=tuple(numbers[first : first + at_once])
                    )
                    self._next += 1
        self._dispatch.wants(Wanted(number, task.arm) for number, task in self._tasks.items())

    def _start(self) -> None:
        for machine in self._dispatch.cancelled():
            self.machines.cancel(machine)
        for machine, number in self._dispatch.assign(self.clock()):
            self.machines.submit(machine, number, self._tasks[number])

    def _note(self, event: Event) -> None:
        assert not isinstance(event, Ended), "blocks were not asked for"
        if isinstance(event, Joined):
            self._dispatch.joins(event.machine)
            self.watcher.spreads(len(self._dispatch.machines))
            self.watcher.say(f"machine {event.machine} has joined")
        elif event.machine not in self._dispatch.machines:
            return  # it was taken out in the meantime
        elif isinstance(event, Crashed):
            self._arrived(event)
        elif isinstance(event, Stopped):
            self._dispatch.stopped(event.machine)
        elif isinstance(event, Lost):
            self._take_out(event.machine, event.reason)
        else:
            self._failed(event)

    def _failed(self, event: Failed) -> None:
        error = event.failure.error(event.machine)
        if isinstance(error, UsageError):
            raise error
        self._take_out(event.machine, event.failure.message, error)

    def _arrived(self, event: Crashed) -> None:
        counts = self._dispatch.ended(event.machine, self.clock())
        if not counts:
            return
        if self._is_doubtful(event):
            return
        del self._tasks[event.block]
        for row in event.rows:
            crash = msgspec.structs.replace(row.crash, machine=event.machine)
            self._rows.append(msgspec.structs.replace(row, crash=crash))

    def _is_doubtful(self, event: Crashed) -> bool:
        """Whether crashes run again elsewhere: none could be judged, which may be the machine's fault."""
        judged = [row for row in event.rows if row.crash.outcome != "unknown"]
        if judged or not event.rows:
            self._doubts[event.machine] = 0
            return False
        why = next((reason for row in event.rows for reason in row.crash.reasons), "nothing could be judged")
        self._doubts[event.machine] += 1
        alone = len(self._dispatch.machines) == 1
        if not alone and self._doubts[event.machine] >= DOUBTS:
            self._take_out(event.machine, why)
        if alone or event.block in self._doubted:
            return False
        self._doubted.add(event.block)
        self._dispatch.again(event.block, elsewhere_than=event.machine)
        self.watcher.say(f"{self._name(event.block)} again on another machine, after {event.machine}: {why}")
        return True

    def _name(self, number: int) -> str:
        task = self._tasks[number]
        return f"{counted(len(task.numbers), 'crash')} of {task.arm}"

    def _take_out(self, machine: str, why: str, error: FlushlabError | None = None) -> None:
        self._why_out = error or f"{machine}: {why}"
        number = self._dispatch.leaves(machine)
        self.watcher.spreads(len(self._dispatch.machines))
        self.machines.dismiss(machine)
        runs = number is not None and number in self._tasks
        goes_on = f"; {self._name(number)} again on another one" if runs and number is not None else ""
        self.watcher.warn(f"machine {machine} is taken out: {why}{goes_on}")
        if runs and number is not None:
            self._lost[number] += 1
            if self._lost[number] >= MOST_LOST:
                self._end(f"{self._name(number)} were lost {MOST_LOST} times")

    def _end(self, what: str) -> None:
        if isinstance(self._why_out, FlushlabError):
            raise self._why_out
        raise MeasurementError(
            f"{what}, the last time on {self._why_out}",
            hint="add machines with `flushlab fleet join`, then resume the campaign",
        )

    def _require_machines(self) -> None:
        """Waits some time for a machine where none is left."""
        if self._dispatch.machines or self._rows:
            self._alone_since_s = None
            return
        if isinstance(self._why_out, FlushlabError):
            raise self._why_out
        now = self.clock()
        if self._alone_since_s is None:
            self._alone_since_s = now
        elif now - self._alone_since_s > REJOIN_S:
            raise MeasurementError(
                f"no machine of the fleet is left: {self._why_out}",
                hint="add machines with `flushlab fleet join`, then resume the campaign",
            )
