"""Work: the trials or crashes of a campaign, and what runs them, here or on a machine of a fleet.

Sits in `campaign.pool`; pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from flushlab.campaign.request import BenchRequest, CampaignRequest
from flushlab.campaign.watcher import Watcher
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.progress import Progress
from flushlab.record import CrashRow, Trial
from flushlab.spec.parts import ServerSpec, ServersSpec
from flushlab.store import Store

RunTrial = Callable[[Request], Trial]
CrashRows = Generator[CrashRow, None, None]


class CrashTask(msgspec.Struct, frozen=True, kw_only=True, tag="crashes"):
    arm: str
    numbers: tuple[int, ...]


RunCrashes = Callable[[CrashTask], CrashRows]


class Composed(Protocol):
    """What knows the arms that `best` is composed of; empty as long as there is none."""

    best_of: tuple[str, ...]


Enter = Callable[[Any, Composed, Progress], AbstractContextManager[RunTrial | RunCrashes]]
"""From a request, on a machine of the fleet: what runs its trials or crashes. A function of a module, so that
its name can travel."""


class Placed(Protocol):
    """What names the disk of its data, as `StorageSpec` does."""

    @property
    def disk(self) -> str | None: ...


def root_for(server: ServerSpec | ServersSpec, *placed: Placed) -> str:
    if any(one.disk is not None for one in placed):
        return "a slow disk"
    return "a network latency" if server.network_latency is not None else ""


class Work(NamedTuple):
    """`ahead`: blocks or crashes that are foreseen; `store`: keeps blocks that arrive before their turn."""

    request: CampaignRequest | BenchRequest
    there: Enter
    watcher: Watcher
    root_for: str = ""
    ahead: Callable[[int], Sequence[BlockAhead]] = lambda _: ()
    best_of: Callable[[], tuple[str, ...]] = tuple
    store: Store | None = None
    campaign_id: str = ""


class Fleet(Protocol):
    """Machines that run the trials of a campaign.

    Its methods raise a UsageError if a machine cannot run what is asked for.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Of the machines that are claimed, or foreseen."""
        ...

    def rest(self) -> None:
        """Ends the servers on them; they stay claimed."""
        ...

    def trials(self, work: Work) -> AbstractContextManager[RunTrial]:
        """What runs the campaign's trials on them."""
        ...

    def crashes(self, work: Work) -> AbstractContextManager[Callable[[Request], CrashRow]]:
        """What runs the campaign's crashes on them."""
        ...

    def each(self, work: Work) -> Mapping[str, Trial | str]:
        """What each of them has measured, by name, or why it has nothing."""
        ...
