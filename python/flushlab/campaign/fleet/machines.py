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
    block: BlockAhead
    best_of: tuple[str, ...] = ()


class Opening(NamedTuple):
    enter: Enter
    request: CampaignRequest | BenchRequest | None = None
    root_for: str = ""


class Ended(NamedTuple):
    machine: str
    number: int
    rows: Sequence[Trial] | Sequence[CrashRow]


class Stopped(NamedTuple):
    machine: str
    number: int


class Failed(NamedTuple):
    machine: str
    number: int
    error: FlushlabError


class Lost(NamedTuple):
    machine: str
    reason: str


class Joined(NamedTuple):
    machine: str


Event = Ended | Stopped | Failed | Lost | Joined


def own_error(error: BaseException) -> FlushlabError:
    """An error that is not flushlab's own is a fault of the harness."""
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
