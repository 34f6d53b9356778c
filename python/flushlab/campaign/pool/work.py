"""Work: what runs trials and crashes, here or on a machine of a fleet. Sits in `campaign.pool`; pure."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from flushlab.experiment.protocol import Request
from flushlab.progress import Progress
from flushlab.record import CrashRow, Trial
from flushlab.spec.parts import ServerSpec, ServersSpec

RunTrial = Callable[[Request], Trial]
CrashRows = Generator[CrashRow, None, None]


class CrashTask(msgspec.Struct, frozen=True, kw_only=True, tag="crashes"):
    """Crashes of one configuration, by their numbers."""

    arm: str
    numbers: tuple[int, ...]


RunCrashes = Callable[[CrashTask], CrashRows]


class Composed(Protocol):
    """What knows the arms that `best` is composed of; empty as long as there is none."""

    best_of: tuple[str, ...]


Enter = Callable[[bytes, Composed, Progress], AbstractContextManager[RunTrial | RunCrashes]]
"""From JSON of a request, on a machine of the fleet: what runs its trials or crashes. A function of a module,
so that its name can travel."""


class Placed(Protocol):
    """What names the disk of its data, as `StorageSpec` does."""

    @property
    def disk(self) -> str | None: ...


def root_for(server: ServerSpec | ServersSpec, *placed: Placed) -> str:
    """What of a campaign needs root on each machine, in words; empty if nothing does."""
    if any(one.disk is not None for one in placed):
        return "a slow disk"
    return "a network latency" if server.network_latency is not None else ""
