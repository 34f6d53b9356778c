"""Dispatch: which block of a campaign runs on which machine of a fleet.

Sits in `campaign.fleet`, on the driver; pure. Blocks, or crashes, are numbers here. A machine runs one
at a time. The machine with the fewest finished blocks gets the next one, so that the machines contribute
evenly. The block of a lost machine runs elsewhere. A straggler's block is given to an idle machine too, and
the first copy counts. A block that nobody waits for any more is cancelled.

Where blocks choose what later blocks confirm, half of the machines choose and the others confirm: what was
chosen for its luck on one machine is not confirmed by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

STRAGGLER = 2.0
"""A block that takes longer than this many medians is given to another machine too."""
KNOWN_BLOCKS = 2
"""Finished blocks of a kind without which nobody knows how long such a block takes."""

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
