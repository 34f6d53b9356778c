"""Protocol: the machines of a fleet, as the runner on the driver sees them. Sits in `campaign.fleet`.

The fake is `ThreadMachines` of the tests: every machine is a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from flushlab.campaign.pool.work import CrashTask, Enter
from flushlab.campaign.request import BenchRequest, CampaignRequest
from flushlab.errors import FlushlabError, HarnessError
from flushlab.experiment.protocol import BlockAhead
from flushlab.record import CrashRow, Trial


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A block for a machine; `best_of` are the arms that the arm `best` is composed of."""

    block: BlockAhead
    best_of: tuple[str, ...] = ()


class Opening(NamedTuple):
    """What a machine needs before its first block.

    Attributes:
        enter: opens the servers of the campaign's kind.
        request: of the campaign; machines need its builds, files and data. None: nothing is needed.
        root_for: words for what of it needs root; empty if nothing does.
    """

    enter: Enter
    request: CampaignRequest | BenchRequest | None = None
    root_for: str = ""


class Ended(NamedTuple):
    """A machine has run its task."""

    machine: str
    number: int
    rows: Sequence[Trial] | Sequence[CrashRow]


class Stopped(NamedTuple):
    """A machine has left a block that was cancelled."""

    machine: str
    number: int


class Failed(NamedTuple):
    """A machine could not run its task, which no record can hold."""

    machine: str
    number: int
    error: FlushlabError


class Lost(NamedTuple):
    """A machine is gone."""

    machine: str
    reason: str


class Joined(NamedTuple):
    """A further machine is open."""

    machine: str


Event = Ended | Stopped | Failed | Lost | Joined


def own_error(error: BaseException) -> FlushlabError:
    """An error of a machine; one that is not flushlab's own is a fault of the harness."""
    return error if isinstance(error, FlushlabError) else HarnessError(f"{type(error).__name__}: {error}")


class Machines(Protocol):
    """Machines, each with what runs the tasks of one campaign."""

    def open(self, opening: Opening) -> tuple[str, ...]:
        """Opens every machine; returns their names.

        Raises:
            FlushlabError: a machine cannot run the campaign.
        """
        ...

    def submit(self, machine: str, number: int, task: Task | CrashTask) -> None:
        """Starts a block, or some crashes, on a machine that runs none; `wait` has its end."""
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
