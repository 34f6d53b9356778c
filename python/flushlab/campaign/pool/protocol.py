"""Protocol: what a campaign may ask of the servers that it runs on. Sits in `campaign.pool`.

Settings are asked of `ServerPool.settings`; the pool itself places arms, runs and measures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar

from flushlab.campaign.data import Data
from flushlab.campaign.facts import Resources
from flushlab.campaign.pool.room import NoVolumes, Volumes
from flushlab.campaign.pool.settings import ServerSettings
from flushlab.campaign.pool.work import Fleet
from flushlab.campaign.request import ArmGroup, SeriesRequest, TuneRequest
from flushlab.campaign.scheduling import Capacity
from flushlab.campaign.watcher import Watcher
from flushlab.errors import UsageError
from flushlab.process.running import publish_status
from flushlab.progress import Progress
from flushlab.record import Arm, Launch, Machine, Trial, Value
from flushlab.server import Server
from flushlab.spec.kinds import BenchSpec, CompareSpec, SeriesSpec, TuneSpec
from flushlab.trial.measurement import Draft, measure
from flushlab.trial.runner import ArmRunner
from flushlab.trial.sliced import SlicedRunner
from flushlab.workload.protocol import Timing, Workload

S = TypeVar("S", TuneSpec, SeriesSpec, CompareSpec, SeriesSpec | CompareSpec)
CampaignSpec = TuneSpec | SeriesSpec | CompareSpec
PlaceOf = Callable[[Arm], str]
"""Arms with the same place differ only in settings that a running server takes, or in their load."""


class Use(NamedTuple):
    workloads: Sequence[Workload]
    database: str | None
    arms: Sequence[Mapping[str, Value]]
    connections: int
    lasts_s: float | None


class RunnerInput(NamedTuple):
    workloads: tuple[Workload, ...]
    timing: Timing
    launch: Launch
    database: str | None = None
    data: Data | None = None
    outlast_redo: bool = False


class Once(NamedTuple):
    spec: BenchSpec
    workload: Workload
    timing: Timing
    data: Data | None = None

    def measured(self, server: Server, workload: Workload, given: Mapping[str, Value], name: str) -> Trial:
        draft = Draft(arm=Arm(name="bench", settings=given), stage="bench", block=1, variant=0)
        with publish_status("bench", server=name, workload=workload.name):
            return measure(draft, server, workload, self.timing)


class ServerPool(ABC):
    """Servers that a campaign runs on."""

    fleet: Fleet | None = None
    """Machines that run the trials; None: this one."""

    @property
    @abstractmethod
    def settings(self) -> ServerSettings:
        """What the servers are, and which settings they have, take, and may be given."""

    @abstractmethod
    def machine(self) -> Machine:
        """This machine."""

    @abstractmethod
    def settled(self, spec: S) -> S:
        """What was asked for, naming these servers as a campaign stores them: by the exact version, or by the
        address without its account."""

    # -- how arms are measured

    @abstractmethod
    def capacity(self, request: TuneRequest, workloads: Sequence[Workload]) -> Capacity:
        """How many arms of a tuning run side by side, and why not more.

        Raises:
            UsageError: arms have to alternate in slices, and the load cannot be paused.
        """

    @abstractmethod
    def groups(
        self, request: SeriesRequest, base: Workload, workloads: Mapping[str, Workload]
    ) -> tuple[ArmGroup, ...]:
        """How the arms of a series are measured: as many as possible in slices, the others on fresh servers.

        Args:
            request: the series.
            base: the base's workload.
            workloads: those of the arms that run, by name.

        Raises:
            UsageError: arms have to alternate in slices, and the load cannot be paused.
        """

    # -- running

    @abstractmethod
    def used(self, use: Use, progress: Progress) -> AbstractContextManager[None]:
        """Inside, a campaign may run on the servers; what that changes of them is undone. In a dry run,
        nothing is changed, and what is not permitted yet counts as permitted.

        Raises:
            UsageError, ServerError: something of it is not permitted, or not possible.
        """

    @abstractmethod
    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        """Runs trials.

        Raises:
            UsageError: the workload is not for these servers.
        """

    @abstractmethod
    def reaching(self, workload: Workload, database: str | None) -> Workload:
        """The workload as it reaches a server, on the user's data if there are any.

        Raises:
            UsageError: it cannot.
        """

    @abstractmethod
    def sliced(self, runner_of: Callable[[Arm], ArmRunner], seed: int, place_of: PlaceOf) -> SlicedRunner:
        """Runs trials in slices, on servers kept running; arms with the same place share a cluster."""

    def other(self, server: str, progress: Progress) -> ServerPool:
        """A BuildNotFound if there is no such build; a UsageError where these are the user's own."""
        raise UsageError(f"{server} cannot be compared with your own server", hint="name one of them")

    def volumes(self, progress: Progress) -> Volumes:
        """Data roots and disks of arms that have their own; a context manager."""
        return NoVolumes()

    @abstractmethod
    def once(self, asked: Once, watcher: Watcher) -> Trial:
        """The record of a single run.

        Raises:
            UsageError: settings or a workload that the server does not take.
            LoadInterrupted: Ctrl-C in the window; it has what was measured until then.
        """

    @abstractmethod
    def takes(
        self, spec: CampaignSpec, arms: Sequence[Mapping[str, Value]], data_bytes: int | None, at_once: int
    ) -> tuple[Resources, dict[str, str]]:
        """What a campaign takes of this machine, and what it writes besides its records, by place.

        Args:
            spec: of the campaign.
            arms: settings of each.
            data_bytes: of the tables, about; None: not known.
            at_once: servers, or clusters, that run at once.
        """
