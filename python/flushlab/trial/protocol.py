"""Protocol: what runs trials has in common, wherever the servers come from. Sits in `trial`.

`runner.TrialRunner` starts a server, or a cluster, for an arm; `remote.RemoteRunner` has one that runs
already. `standing.StandingRunner` drives either in turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self

from flushlab.datadir import Volume
from flushlab.record import Arm, Stage, Trial, Value
from flushlab.server import Sandbox
from flushlab.server.galera.cluster import Cluster
from flushlab.server.remote.group import RemoteGroup
from flushlab.settings.catalog import Catalog
from flushlab.trial.switching import Switching
from flushlab.workload import Timing, Workload

Running = Sandbox | Cluster | RemoteGroup


class ArmRunner(Protocol):
    """Everything of a trial that is not its arm; a context manager that ends the servers."""

    @property
    def catalog(self) -> Catalog:
        """Types and meaning of settings."""
        ...

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The variants that a block may run; usually one."""
        ...

    @property
    def timing(self) -> Timing:
        """Of warm-up and window."""
        ...

    @property
    def outlast_redo(self) -> bool:
        """Whether windows go on until they outlast the redo log."""
        ...

    def with_arm(self, workload: Workload, timing: Timing, volume: Volume | None) -> Self:
        """The same runner for an arm with a workload, a timing and a volume of its own, unless None."""
        ...

    def say(self, line: str) -> None:
        """Reports progress."""
        ...

    def load(self, settings: Mapping[str, Value]) -> None:
        """Loads the user's data, unless they are loaded.

        Raises:
            DumpRefused, NoSpace, StorageError: the data cannot be loaded.
        """
        ...

    def prepare(self, arm: Arm, *, variant: int = 0) -> None:
        """Makes the data that a server starts with, unless they are there.

        Raises:
            StartFailed, MeasurementError, NoSpace, StorageError: the data cannot be made.
        """
        ...

    def start(self, arm: Arm, *, variant: int = 0) -> Running:
        """A server that runs with the arm's settings, as far as a start can bring them about.

        Raises:
            StartFailed, NoSpace, StorageError: the server did not become ready.
        """
        ...

    def switching(self, server: Running, started: Mapping[str, Value]) -> Switching:
        """The settings of a server that runs, while arms take turns on it.

        Args:
            server: as `start` returned it.
            started: settings that it was to be started with.
        """
        ...

    def is_lost(self) -> bool:
        """Whether the only server that there is does not answer, which is no arm's fault."""
        ...

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        """Runs one trial.

        Raises:
            NoSpace, StorageError: a place is full, or cannot be read or written.
        """
        ...

    def recovery_s(self, arm: Arm) -> float:
        """Seconds from SIGKILL under load to the first answered query.

        Raises:
            ServerError: the server did not come back.
            MeasurementError: it was not killed under load.
        """
        ...

    def close(self) -> None:
        """Ends the servers."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
