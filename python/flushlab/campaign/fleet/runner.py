"""Runner: keeps the machines of a fleet at work; what each of the two kinds of campaign adds is beside it.

    experiment.ahead -> Dispatch -> Machines -> trials in order (`trials.py`), or crashes (`crashes.py`)

Sits in `campaign.fleet`, on the driver; without Ray. A machine is taken out if it is lost or fails, or if its
results are doubted twice in a row. The loss of a machine, or kill -9 of the driver, costs what runs there.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from flushlab.campaign.fleet.dispatch import Dispatch
from flushlab.campaign.fleet.machines import Ended, Event, Failed, Joined, Lost, Machines, Stopped, Task
from flushlab.campaign.pool.work import CrashTask
from flushlab.campaign.watcher import Watcher
from flushlab.errors import FlushlabError, MeasurementError, UsageError
from flushlab.experiment.protocol import BlockAhead
from flushlab.units import format_seconds
from flushlab.workload.generators import named

POLL_S = 1.0
"""Longest wait for an event: stragglers are looked for this often."""
DOUBTS = 2
"""A machine that is doubted so often in a row is taken out."""
MOST_LOST = 3
"""A block that so many machines were lost with is lost because of itself."""
REJOIN_S = 60.0
"""Longest wait for a machine where none is left."""


@dataclass(kw_only=True)
class FleetRunner(ABC):
    machines: Machines
    names: Iterable[str]
    ahead: Callable[[int], Sequence[BlockAhead]]
    watcher: Watcher
    clock: Callable[[], float] = time.monotonic
    _dispatch: Dispatch = field(default_factory=Dispatch)
    _next: int = 0
    _lost: Counter[int] = field(default_factory=Counter)
    _doubts: Counter[str] = field(default_factory=Counter)
    _doubted: set[int] = field(default_factory=set)
    _alone_since_s: float | None = None
    _why_out: FlushlabError | str = ""

    def __post_init__(self) -> None:
        self._join(*self.names)

    @abstractmethod
    def _task(self, number: int) -> Task | CrashTask: ...

    @abstractmethod
    def _name_of(self, number: int) -> str:
        """Empty if nobody waits for it any more."""

    @abstractmethod
    def _arrived(self, event: Ended) -> None:
        """The first copy of a block that is waited for."""

    @property
    def size(self) -> int:
        return len(self._dispatch.machines)

    def _join(self, *machines: str) -> None:
        for machine in machines:
            self._dispatch.joins(machine)
        self.watcher.spreads(self.size)

    def _step(self) -> None:
        """A MeasurementError if no machine is left, or a block was lost on several."""
        self._require_machines()
        for machine in self._dispatch.cancelled():
            self.machines.cancel(machine)
        for machine, number in self._dispatch.assign(self.clock()):
            self.machines.submit(machine, number, self._task(number))
        for event in self.machines.wait(POLL_S):
            self._learn(event)

    def _learn(self, event: Event) -> None:
        if isinstance(event, Joined):
            self._join(event.machine)
            self.watcher.say(f"machine {event.machine} has joined")
        elif event.machine not in self._dispatch.machines:
            return  # it was taken out in the meantime
        elif isinstance(event, Stopped):
            self._dispatch.stopped(event.machine)
        elif isinstance(event, Lost):
            self._take_out(event.machine, event.reason)
        elif isinstance(event, Failed):
            error = named(event.machine, event.error)
            if isinstance(error, UsageError):
                raise error
            self._take_out(event.machine, event.error.message, error)
        elif self._dispatch.ended(event.machine, self.clock()):
            self._arrived(event)

    def _take_out(self, machine: str, why: str, error: FlushlabError | None = None) -> None:
        self._why_out = error or f"{machine}: {why}"
        number = self._dispatch.leaves(machine)
        self.watcher.spreads(self.size)
        self.machines.dismiss(machine)
        name = "" if number is None else self._name_of(number)
        goes_on = f"; again on another one: {name}" if name else ""
        self.watcher.warn(f"machine {machine} is taken out: {why}{goes_on}")
        if number is None or not name:
            return
        self._lost[number] += 1
        if self._lost[number] >= MOST_LOST:
            raise error or MeasurementError(
                f"{name}: lost {MOST_LOST} times, the last time on {self._why_out}",
                hint="the logs of its worker are in Ray's session folder on that machine",
            )

    def _runs_elsewhere(self, event: Ended, why: str, name: str) -> bool:
        """Whether what has ended runs again, once, since `why` may be its machine's fault."""
        machine = event.machine
        self._doubts[machine] = self._doubts[machine] + 1 if why else 0
        if not why or self.size == 1:
            return False
        if self._doubts[machine] >= DOUBTS:
            del self._doubts[machine]
            self._take_out(machine, why)
        if event.number in self._doubted:
            return False
        self._doubted.add(event.number)
        self._dispatch.again(event.number, elsewhere_than=machine)
        self.watcher.say(f"{name} again on another machine, after {machine}: {why}")
        return True

    def _require_machines(self) -> None:
        if self._dispatch.machines:
            self._alone_since_s = None
            return
        if isinstance(self._why_out, FlushlabError):
            raise self._why_out
        now = self.clock()
        if self._alone_since_s is None:
            self._alone_since_s = now
            self.watcher.warn(f"no machine is left; waiting {format_seconds(REJOIN_S)} for one")
        elif now - self._alone_since_s > REJOIN_S:
            raise MeasurementError(
                f"no machine of the fleet is left: {self._why_out}",
                hint="add machines with `flushlab fleet join`, then resume the campaign",
            )
