"""Protocol: the machines of a fleet, as the runner on the driver sees them. Sits in `campaign.fleet`.

`ThreadMachines` is the fake: every machine is a thread of this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol

import msgspec

from flushlab import errors
from flushlab.campaign.pool.work import CrashTask, Enter
from flushlab.campaign.request import BenchRequest, CampaignRequest
from flushlab.errors import FlushlabError, HarnessError
from flushlab.experiment.protocol import BlockAhead
from flushlab.record import CrashRow, Trial


class Task(msgspec.Struct, frozen=True, kw_only=True, tag="block"):
    """A block for a machine.

    Attributes:
        block: all that runs.
        best_of: arms that the arm `best` is composed of.
    """

    block: BlockAhead
    best_of: tuple[str, ...] = ()


class Opening(NamedTuple):
    """What a machine needs before its first block.

    Attributes:
        enter: opens the servers of the campaign's kind.
        plan: JSON of the request.
        root_for: words for what of it needs root; empty if nothing does.
        request: whose builds, files and data machines need; None: none are needed. It does not travel.
    """

    enter: Enter
    plan: bytes
    root_for: str = ""
    request: CampaignRequest | BenchRequest | None = None

    def at(self, plan: bytes) -> Opening:
        """What travels to a machine, with the request as it is there."""
        return Opening(self.enter, plan, self.root_for)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error on a machine: class, message and hint; a traceback does not travel."""

    kind: str
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """The failure that an error is; one that is not flushlab's own is a fault of the harness."""
        if not isinstance(error, FlushlabError):
            return cls(kind=HarnessError.__name__, message=f"{type(error).__name__}: {error}")
        return cls(kind=type(error).__name__, message=error.message, hint=error.hint)

    def error(self, machine: str) -> FlushlabError:
        """The error, with the machine's name."""
        kind = getattr(errors, self.kind, FlushlabError)
        found = FlushlabError(f"machine {machine}: {self.message}", hint=self.hint)
        if isinstance(kind, type) and issubclass(kind, FlushlabError):
            found.__class__ = kind
        return found


class Ended(NamedTuple):
    """A machine has run its block."""

    machine: str
    block: int
    trials: tuple[Trial, ...]


class Crashed(NamedTuple):
    """A machine has run its crashes."""

    machine: str
    block: int
    rows: tuple[CrashRow, ...]


class Stopped(NamedTuple):
    """A machine has left a block that was cancelled."""

    machine: str
    block: int


class Failed(NamedTuple):
    """A machine could not run its block, which no record can hold."""

    machine: str
    block: int
    failure: Failure


class Lost(NamedTuple):
    """A machine is gone."""

    machine: str
    reason: str


class Joined(NamedTuple):
    """A further machine is open."""

    machine: str


Event = Ended | Crashed | Stopped | Failed | Lost | Joined


class Machines(Protocol):
    """Machines, each with what runs the blocks of one campaign."""

    def open(self, opening: Opening) -> tuple[str, ...]:
        """Opens every machine; returns their names.

        Raises:
            FlushlabError: a machine cannot run the campaign.
        """
        ...

    def submit(self, machine: str, number: int, task: Task | CrashTask) -> None:
        """Starts a block, or some crashes, on a machine, which runs none; `wait` has its end."""
        ...

    def cancel(self, machine: str) -> None:
        """Nobody waits for the block that a machine runs: it stops before its next trial. `wait` has that."""
        ...

    def wait(self, seconds: float) -> Sequence[Event]:
        """What has happened; waits at most so long for the first event."""
        ...

    def dismiss(self, machine: str) -> None:
        """Ends what runs on a machine; nothing more is heard of it. It may be lost already."""
        ...

    def rest(self) -> None:
        """Ends the servers on all machines, and blocks that still run; no further block is submitted."""
        ...

    def close(self) -> None:
        """Ends what runs on all machines, without waiting for blocks."""
        ...


class ThreadMachines:
    """Machines that are threads of this process: for tests, and for measuring the driver alone.

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
        self.rested = self.closed = False

    def open(self, opening: Opening) -> tuple[str, ...]:
        return tuple(self._names)

    def submit(self, machine: str, number: int, task: Task | CrashTask) -> None:
        threading.Thread(target=self._work, args=(machine, number, task), daemon=True).start()

    def _work(self, machine: str, number: int, task: Task | CrashTask) -> None:
        event: Event
        try:
            if isinstance(task, CrashTask):
                event = Crashed(machine, number, tuple(self._crash(machine, task)))
            else:
                event = Ended(machine, number, tuple(self._run(machine, task)))
        except FlushlabError as error:
            event = Failed(machine, number, Failure.of(error))
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
        self.rested = True

    def close(self) -> None:
        self.closed = True
