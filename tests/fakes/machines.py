"""Machines of a fleet that are threads of this process: for tests, and for measuring the driver alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue

from flushlab.campaign.fleet.machines import Ended, Event, Failed, Joined, Lost, Opening, Stopped, Task
from flushlab.campaign.pool.work import CrashTask
from flushlab.errors import FlushlabError
from flushlab.record import CrashRow, Trial


class ThreadMachines:
    """Implements `Machines`.

    Args:
        names: of the machines.
        run: runs a block on a machine; a `FlushlabError` fails the block.
        crash: runs crashes on a machine; likewise.
    """

    def __init__(
        self,
        names: Iterable[str],
        run: Callable[[str, Task], Sequence[Trial]] = lambda *_: (),
        crash: Callable[[str, CrashTask], Sequence[CrashRow]] = lambda *_: (),
    ) -> None:
        self._names = [*names]
        self._run, self._crash = run, crash
        self._events = SimpleQueue[Event]()
        self._gone: set[str] = set()
        self.dismissed = list[str]()
        """Machines that were dismissed, in that order."""
        self.ended = list[int]()
        """Blocks whose ends `wait` has returned, or will return."""
        self.cancelled: set[str] = set()
        """Machines that run a block which was cancelled."""

    def open(self, opening: Opening) -> tuple[str, ...]:
        return tuple(self._names)

    def submit(self, machine: str, number: int, task: Task | CrashTask) -> None:
        threading.Thread(target=self._work, args=(machine, number, task), daemon=True).start()

    def _work(self, machine: str, number: int, task: Task | CrashTask) -> None:
        event: Event
        try:
            rows = self._crash(machine, task) if isinstance(task, CrashTask) else self._run(machine, task)
            event = Ended(machine, number, rows)
        except FlushlabError as error:
            event = Failed(machine, number, error)
        except Exception as error:  # noqa: BLE001  a worker that dies
            event = Lost(machine, repr(error))
        if machine in self.cancelled:
            self.cancelled.remove(machine)
            event = Stopped(machine, number)
        if machine not in self._gone:
            self._events.put(event)
            self.ended.append(number)

    def lose(self, machine: str, reason: str = "the node died") -> None:
        """The machine disappears with its block."""
        self._gone.add(machine)
        self._events.put(Lost(machine, reason))

    def join(self, machine: str) -> None:
        """A machine joins, or comes back."""
        self._gone.discard(machine)
        self._events.put(Joined(machine))

    def wait(self, seconds: float) -> Sequence[Event]:
        found = list[Event]()
        deadline = time.monotonic() + seconds
        try:
            found.append(self._events.get(timeout=max(0.0, deadline - time.monotonic())))
            while True:
                found.append(self._events.get_nowait())
        except Empty:
            return found

    def cancel(self, machine: str) -> None:
        self.cancelled.add(machine)

    def dismiss(self, machine: str) -> None:
        self._gone.add(machine)
        self.dismissed.append(machine)

    def rest(self) -> None:
        """They have no servers."""
