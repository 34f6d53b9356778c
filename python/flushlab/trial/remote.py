"""The remote runner: arms of a server that runs already, which is neither started nor killed.

Sits in `trial`. Whoever opened the server closes it; `standing.StandingRunner` switches its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from flushlab.datadir import Volume
from flushlab.errors import MeasurementError
from flushlab.record import Arm, Stage, Trial, Value
from flushlab.server.remote.group import RemoteGroup
from flushlab.settings.catalog import Catalog
from flushlab.trial.protocol import Running
from flushlab.trial.switching import Switching
from flushlab.workload import Timing, Workload


@dataclass(frozen=True)
class RemoteRunner:
    """Everything of a trial on a running server that is not its arm; see `protocol.ArmRunner`.

    Attributes:
        server: the server, or all nodes of its cluster.
        catalog: types and meaning of settings.
        workloads: the variants that a block may run, as they reach the server.
        timing: of warm-up and window.
        progress: takes a line at a time.
    """

    server: RemoteGroup
    catalog: Catalog
    workloads: tuple[Workload, ...]
    timing: Timing
    progress: Callable[[str], None]

    @property
    def outlast_redo(self) -> bool:
        """Never: turns are short."""
        return False

    def with_arm(self, workload: Workload, timing: Timing, volume: Volume | None) -> Self:
        """The same runner for an arm with a workload and a timing of its own."""
        assert volume is None, "a running server stays where it is"
        return replace(self, workloads=(workload,), timing=timing)

    def say(self, line: str) -> None:
        """Reports progress."""
        self.progress(line)

    def load(self, settings: Mapping[str, Value]) -> None:
        """Nothing: the server has its data."""

    def prepare(self, arm: Arm, *, variant: int = 0) -> None:
        """Nothing: the campaign has made the tables that were missing."""

    def start(self, arm: Arm, *, variant: int = 0) -> Running:
        """The server, as it is."""
        return self.server

    def switching(self, server: Running, started: Mapping[str, Value]) -> Switching:
        """Its settings; whatever the server has of those that change, the first arm sets anew."""
        before = self.server.before
        return Switching(self.server, {}, dict(before), dict.fromkeys(before))

    def is_lost(self) -> bool:
        """Whether the server does not answer."""
        return not self.server.alive()

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        """Never: arms of a running server take turns."""
        raise AssertionError("arms of a running server take turns")

    def recovery_s(self, arm: Arm) -> float:
        """Never: the server is not killed.

        Raises:
            MeasurementError: always.
        """
        raise MeasurementError(f"{self.server.name} is not flushlab's own, and is never killed")

    def close(self) -> None:
        """Nothing: the server goes on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
