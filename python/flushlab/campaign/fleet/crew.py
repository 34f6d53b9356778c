"""Crew: the machines that are left to a campaign, and what becomes of the others.

Sits in `campaign.fleet`, on the driver. What runs on them is its users': blocks (`runner.py`) or crashes
(`crashes.py`), by numbers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from flushlab.campaign.fleet.dispatch import Dispatch
from flushlab.campaign.fleet.machines import CrashTask, Event, Failed, Joined, Lost, Machines, Stopped, Task
from flushlab.campaign.watcher import Watcher
from flushlab.errors import FlushlabError, MeasurementError, UsageError
from flushlab.units import format_seconds

POLL_S = 1.0
"""Longest wait for an event: stragglers are looked for this often."""
MOST_LOST = 3
"""What so many machines were lost with is lost because of itself."""
REJOIN_S = 60.0
"""Longest wait for a machine where none is left."""
_JOIN = "add machines with `flushlab fleet join`, then resume the campaign"


@dataclass
class Crew:
    """The machines of a campaign.

    Attributes:
        machines: open.
        watcher: told what becomes of them.
        name_of: name of what runs, by its number; empty: nobody waits for it.
        clock: in seconds.
        dispatch: which machine runs what.
    """

    machines: Machines
    watcher: Watcher
    name_of: Callable[[int], str]
    clock: Callable[[], float] = time.monotonic
    dispatch: Dispatch = field(default_factory=Dispatch)
    _lost: Counter[int] = field(default_factory=Counter)
    _alone_since_s: float | None = None
    _why_out: FlushlabError | str = ""

    @property
    def size(self) -> int:
        """How many machines are left."""
        return len(self.dispatch.machines)

    def joins(self, *machines: str) -> None:
        """Machines are open."""
        for machine in machines:
            self.dispatch.joins(machine)
        self.watcher.spreads(self.size)

    def start(self, task_of: Callable[[int], Task | CrashTask]) -> None:
        """Stops what nobody waits for, and starts what is due on the machines that are free."""
        for machine in self.dispatch.cancelled():
            self.machines.cancel(machine)
        for machine, number in self.dispatch.assign(self.clock()):
            self.machines.submit(machine, number, task_of(number))

    def arrived(self) -> Iterator[Event]:
        """What machines have brought; waits a moment for it. What becomes of machines is seen to meanwhile.

        Raises:
            UsageError: no machine can run the campaign.
            MeasurementError: something was lost on several.
        """
        for event in self.machines.wait(POLL_S):
            if not self._sees_to(event):
                yield event

    def has(self, machine: str) -> bool:
        """Whether a machine is left."""
        return machine in self.dispatch.machines

    def take_out(self, machine: str, why: str, error: FlushlabError | None = None) -> None:
        """Leaves a machine out from now on; another one runs what it ran.

        Args:
            machine: lost, or not to be trusted.
            why: in words.
            error: the same, if it is one that a user can mend.

        Raises:
            MeasurementError: what it ran was lost on several machines.
        """
        self._why_out = error or f"{machine}: {why}"
        number = self.dispatch.leaves(machine)
        self.watcher.spreads(self.size)
        self.machines.dismiss(machine)
        name = "" if number is None else self.name_of(number)
        goes_on = f"; again on another one: {name}" if name else ""
        self.watcher.warn(f"machine {machine} is taken out: {why}{goes_on}")
        if number is None or not name:
            return
        self._lost[number] += 1
        if self._lost[number] >= MOST_LOST:
            if error is not None:
                raise error
            raise MeasurementError(
                f"{name}: lost {MOST_LOST} times, the last time on {self._why_out}",
                hint="the logs of its worker are in Ray's session folder on that machine",
            )

    def require_machines(self) -> None:
        """Waits some time for a machine where none is left, unless the last one said why it cannot.

        Raises:
            FlushlabError: what the last one said.
            MeasurementError: no machine has joined.
        """
        if self.dispatch.machines:
            self._alone_since_s = None
            return
        if isinstance(self._why_out, FlushlabError):
            raise self._why_out
        now = self.clock()
        if self._alone_since_s is None:
            self._alone_since_s = now
            self.watcher.warn(f"no machine is left; waiting {format_seconds(REJOIN_S)} for one")
        elif now - self._alone_since_s > REJOIN_S:
            raise MeasurementError(f"no machine of the fleet is left: {self._why_out}", hint=_JOIN)

    def _sees_to(self, event: Event) -> bool:
        """Whether an event is about a machine alone, and is seen to."""
        if isinstance(event, Joined):
            self.joins(event.machine)
            self.watcher.say(f"machine {event.machine} has joined")
        elif not self.has(event.machine):
            pass  # it was taken out in the meantime
        elif isinstance(event, Stopped):
            self.dispatch.stopped(event.machine)
        elif isinstance(event, Lost):
            self.take_out(event.machine, event.reason)
        elif isinstance(event, Failed):
            error = event.failure.error(event.machine)
            if isinstance(error, UsageError):
                raise error
            self.take_out(event.machine, event.failure.message, error)
        else:
            return False
        return True
