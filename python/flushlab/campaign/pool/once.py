"""Once: a single run of a workload, without a campaign. Sits in `campaign.pool`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from flushlab.build import Progress
from flushlab.campaign.data import Data
from flushlab.campaign.watcher import Watcher
from flushlab.record import Trial
from flushlab.spec.kinds import BenchSpec
from flushlab.spec.parts import DataSpec
from flushlab.workload import Timing, Workload


class Once(NamedTuple):
    """A single run.

    Attributes:
        spec: what was asked for.
        workload: what writes.
        timing: of warm-up and window.
        data: the user's data, or None.
    """

    spec: BenchSpec
    workload: Workload
    timing: Timing
    data: Data | None


class OncePool(Protocol):
    """A server for a single run."""

    def once(self, asked: Once, watcher: Watcher) -> Trial:
        """The record of the run.

        Raises:
            UsageError: settings or a workload that the server does not take.
            LoadInterrupted: Ctrl-C in the window; it has what was measured until then.
        """
        ...


class OnceTarget(Protocol):
    """The server of a single run, before it is looked for."""

    def require_files(self, memory: str | None, *sources: object) -> None:
        """Refuses option files, or a limit of memory, that mean nothing there."""
        ...

    def require_load(self, workload: Workload) -> None:
        """Refuses a workload that the server cannot have."""
        ...

    def open_data(self, data: DataSpec, workload: str, progress: Progress) -> Data | None:
        """The user's data, or None."""
        ...

    def open(self, progress: Progress) -> AbstractContextManager[OncePool]:
        """The server."""
        ...
