"""Dispatch: which block of a campaign runs on which machine of a fleet, and what becomes of the machines.

Sits in `campaign.fleet`, on the driver; without Ray. Blocks, or crashes, are numbers here. A machine runs one
at a time. The machine with the fewest finished blocks gets the next one, so that the machines contribute
evenly. The block of a lost machine runs elsewhere. A straggler's block is given to an idle machine too, and
the first copy counts. A block that nobody waits for any more is cancelled.

Where blocks choose what later blocks confirm, half of the machines choose and the others confirm: what was
chosen for its luck on one machine is not confirmed by it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

from flushlab.campaign.fleet.machines import Ended, Failed, Joined, Lost, Machines, Stopped, Task
from flushlab.campaign.pool.work import CrashTask
from flushlab.campaign.watcher import Watcher
from flushlab.errors import FlushlabError, MeasurementError, UsageError
from flushlab.units import format_seconds
from flushlab.workload.generators import named

STRAGGLER = 2.0
"""A block that takes longer than this many medians is given to another machine too."""
KNOWN_BLOCKS = 2
"""Finished blocks of a kind without which nobody knows how long such a block takes."""
POLL_S = 1.0
"""Longest wait for an event: stragglers are looked for this often."""
MOST_LOST = 3
"""A block that so many machines were lost with is lost because of itself."""
REJOIN_S = 60.0
"""Longest wait for a machine where none is left."""
_JOIN = "add machines with `flushlab fleet join`, then resume the campaign"

Role = Literal["any", "select", "confirm"]


class WantedBlock(NamedTuple):
    number: int
    kind: str = ""
    role: Role = "any"


@dataclass
class _Machine:
    done: int = 0
    block: int | None = None
    since_s: float = 0.0
    cancelled: bool = False


@dataclass
class Dispatch:
    _machines: dict[str, _Machine] = field(default_factory=dict)
    _wanted: dict[int, WantedBlock] = field(default_factory=dict)
    _ended: set[int] = field(default_factory=set)
    _tried: dict[int, set[str]] = field(default_factory=dict)
    _seconds: dict[str, list[float]] = field(default_factory=dict)
    _selecting: set[str] = field(default_factory=set)

    @property
    def machines(self) -> tuple[str, ...]:
        return tuple(self._machines)

    def runs(self, block: int) -> tuple[str, ...]:
        return tuple(name for name, one in self._machines.items() if one.block == block and not one.cancelled)

    def joins(self, machine: str) -> None:
        assert machine not in self._machines, machine
        self._machines[machine] = _Machine(done=min((one.done for one in self._machines.values()), default=0))

    def selected(self, machines: Iterable[str]) -> None:
        self._selecting.update(machines)

    def leaves(self, machine: str) -> int | None:
        block = self._machines.pop(machine).block
        if block is not None:
            self._tried.setdefault(block, set()).add(machine)
        return block

    def wants(self, blocks: Iterable[WantedBlock]) -> None:
        self._wanted = {one.number: one for one in blocks}

    def again(self, block: int, *, elsewhere_than: str = "") -> None:
        self._ended.discard(block)
        if elsewhere_than:
            self._tried.setdefault(block, set()).add(elsewhere_than)

    def ended(self, machine: str, now_s: float) -> bool:
        """The block of a machine has ended.

        Returns:
            Whether it counts: no copy ended before, and the block is still wanted.
        """
        state = self._machines[machine]
        block = self.stopped(machine)
        state.done += 1
        counts = block in self._wanted and block not in self._ended
        if counts:
            self._ended.add(block)
            self._seconds.setdefault(self._wanted[block].kind, []).append(now_s - state.since_s)
        return counts

    def stopped(self, machine: str) -> int:
        one = self._machines[machine]
        block, one.block, one.cancelled = one.block, None, False
        assert block is not None, machine
        return block

    def cancelled(self) -> tuple[str, ...]:
        found = [
            (name, one)
            for name, one in self._machines.items()
            if one.block is not None
            and not one.cancelled
            and (one.block not in self._wanted or one.block in self._ended)
        ]
        for _, one in found:
            one.cancelled = True
        return tuple(name for name, _ in found)

    def assign(self, now_s: float) -> list[tuple[str, int]]:
        free = [name for name, one in self._machines.items() if one.block is None]
        free.sort(key=lambda name: self._machines[name].done)
        found = list[tuple[str, int]]()
        for block in self._due(now_s):
            if not free:
                break
            machine = self._chosen(free, block)
            if machine is None:
                continue
            free.remove(machine)
            self._machines[machine].block, self._machines[machine].since_s = block, now_s
            found.append((machine, block))
        return found

    def _due(self, now_s: float) -> Sequence[int]:
        left = [number for number in sorted(self._wanted) if number not in self._ended]
        waiting = [number for number in left if not self.runs(number)]
        return [*waiting, *(number for number in left if self._is_late(number, now_s))]

    def _is_late(self, number: int, now_s: float) -> bool:
        machines, known = self.runs(number), self._seconds.get(self._wanted[number].kind, [])
        if len(machines) != 1 or len(known) < KNOWN_BLOCKS:
            return False
        return now_s - self._machines[machines[0]].since_s > STRAGGLER * median(known)

    def _chosen(self, free: Sequence[str], block: int) -> str | None:
        fit = self._fit_for(self._wanted[block].role)
        left = fit - self._tried.get(block, set()) or fit
        return next((name for name in free if name in left), None)

    def _fit_for(self, role: Role) -> set[str]:
        """Machines that choose are fixed with the first such block, and confirm only where no other is
        left."""
        here = set(self._machines)
        if role == "select":
            if not here & self._selecting:
                self._selecting.update([*self._machines][: max(1, len(here) // 2)])
            return here & self._selecting
        return here - self._selecting or here if role == "confirm" else here


@dataclass
class Crew:
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
        return len(self.dispatch.machines)

    def joins(self, *machines: str) -> None:
        for machine in machines:
            self.dispatch.joins(machine)
        self.watcher.spreads(self.size)

    def start(self, task_of: Callable[[int], Task | CrashTask]) -> None:
        for machine in self.dispatch.cancelled():
            self.machines.cancel(machine)
        for machine, number in self.dispatch.assign(self.clock()):
            self.machines.submit(machine, number, task_of(number))

    def arrived(self) -> Iterator[Ended]:
        for event in self.machines.wait(POLL_S):
            if isinstance(event, Joined):
                self.joins(event.machine)
                self.watcher.say(f"machine {event.machine} has joined")
            elif event.machine not in self.dispatch.machines:
                continue  # it was taken out in the meantime
            elif isinstance(event, Stopped):
                self.dispatch.stopped(event.machine)
            elif isinstance(event, Lost):
                self.take_out(event.machine, event.reason)
            elif isinstance(event, Failed):
                error = named(event.machine, event.error)
                if isinstance(error, UsageError):
                    raise error
                self.take_out(event.machine, event.error.message, error)
            else:
                yield event

    def take_out(self, machine: str, why: str, error: FlushlabError | None = None) -> None:
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
