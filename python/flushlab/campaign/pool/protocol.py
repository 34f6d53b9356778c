"""Protocol: what a campaign may ask of the servers that it runs on. Sits in `campaign.pool`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from flushlab.build import Progress
from flushlab.campaign.data import Data
from flushlab.campaign.facts import Resources
from flushlab.campaign.request import ArmGroup, SeriesRequest, TuneRequest
from flushlab.campaign.scheduling import Capacity
from flushlab.campaign.volumes import Volumes
from flushlab.campaign.watcher import Watcher
from flushlab.plan.plan import Plan
from flushlab.record import Arm, Launch, Machine, ServerIdentity, Storage, Value, Warning
from flushlab.settings.candidates import Candidate
from flushlab.settings.catalog import Catalog
from flushlab.settings.fit import Scaled
from flushlab.settings.floor import Floor
from flushlab.spec.parts import DataSpec, FileSpec, RemoteAccess, ServerSpec, ServersSpec, StorageSpec
from flushlab.trial import ArmRunner, StandingRunner
from flushlab.workload import Timing, Workload

if TYPE_CHECKING:
    from flushlab.campaign.pool.sandboxes import SandboxPool

S = TypeVar("S", ServerSpec, ServersSpec, ServerSpec | ServersSpec)
PlaceOf = Callable[[Arm], str]
"""Arms with the same place differ only in settings that a running server takes, or in their load."""


class Placed(Protocol):
    """A specification that names servers."""

    @property
    def server(self) -> ServerSpec | ServersSpec:
        """Servers that flushlab starts."""
        ...

    @property
    def storage(self) -> StorageSpec:
        """Where their data directories lie."""
        ...

    @property
    def remote(self) -> RemoteAccess:
        """The access to somebody's own server."""
        ...

    @property
    def data(self) -> DataSpec:
        """The user's data."""
        ...


class UserSettings(NamedTuple):
    """The user's option file, and the settings that the user's data bring along.

    Attributes:
        theirs: as they are.
        here: as this machine can hold them.
        scaled: what differs.
        warnings: on what differs.
    """

    theirs: Mapping[str, Value] = {}
    here: Mapping[str, Value] = {}
    scaled: tuple[Scaled, ...] = ()
    warnings: tuple[Warning, ...] = ()


class Search(NamedTuple):
    """What candidates of a tuning are looked for with.

    Attributes:
        base: settings of the base, raised to the floor.
        seen: settings that a server with the base has.
        floor: the weakest guarantees that are accepted.
        keep: settings that stay as they are.
        memory: that the server may use, such as `2G`; None: not said.
        steady_state: windows outlast the redo log.
        launch: arguments of the servers.
    """

    base: Mapping[str, Value]
    seen: Mapping[str, Value]
    floor: Floor
    keep: Sequence[str]
    memory: str | None
    steady_state: bool
    launch: Launch


class Use(NamedTuple):
    """What a campaign does on its servers.

    Attributes:
        workloads: of the arms, those of the same tables and statements once.
        database: of the user's transactions, or None.
        arms: settings of each.
        connections: at once, at most.
        lasts_s: about so many seconds; None: not known.
    """

    workloads: Sequence[Workload]
    database: str | None
    arms: Sequence[Mapping[str, Value]]
    connections: int
    lasts_s: float | None


class RunnerInput(NamedTuple):
    """What a runner needs to know of a campaign.

    Attributes:
        workloads: variants of the base's workload.
        timing: of warm-up and window.
        launch: arguments of the servers.
        database: of the user's transactions, or None.
        data: the user's data, or None.
        outlast_redo: windows go on until they outlast the redo log.
    """

    workloads: tuple[Workload, ...]
    timing: Timing
    launch: Launch
    database: str | None = None
    data: Data | None = None
    outlast_redo: bool = False


class ServerPool(Protocol):
    """Servers that a campaign runs on."""

    # -- which servers, and where

    @property
    def identity(self) -> ServerIdentity:
        """Flavor, version and number of nodes."""
        ...

    @property
    def name(self) -> str:
        """Flavor and exact version: `mariadb@11.8.3`."""
        ...

    @property
    def key(self) -> str:
        """A campaign that is resumed must find the same: the binary, or the version and the address."""
        ...

    @property
    def catalog(self) -> Catalog:
        """Types and meaning of settings."""
        ...

    @property
    def storage(self) -> Storage:
        """The storage that durability is judged by."""
        ...

    @property
    def folder(self) -> Path:
        """Where this machine's disk is watched."""
        ...

    def machine(self) -> Machine:
        """This machine."""
        ...

    # -- how a campaign names its servers in what it stores

    @property
    def access(self) -> RemoteAccess:
        """The access to somebody's own server, without its account; empty for those that flushlab starts."""
        ...

    @property
    def database(self) -> str | None:
        """The database that the access names, or None."""
        ...

    def settled(self, server: S) -> S:
        """What was asked for, with the exact version."""
        ...

    # -- settings

    def parse(self, settings: Mapping[str, Value]) -> dict[str, Value]:
        """Settings as the server takes them.

        Raises:
            UsageError: the server does not have one, or does not take its value.
        """
        ...

    def require_taken(self, settings: Mapping[str, Value]) -> None:
        """Asks the binary about values that only it can judge.

        Raises:
            UsageError: it refuses one.
        """
        ...

    def hidden_options(self, names: Iterable[str], values: Mapping[str, Value]) -> frozenset[str]:
        """Those of the names that the server takes as options, though none of its variables is called so."""
        ...

    def user_settings(
        self, file: FileSpec, data: Data | None, connections: int, watcher: Watcher
    ) -> UserSettings:
        """The user's option file and what the data bring along, as this machine can hold them.

        Raises:
            UsageError, StorageError: a file cannot be read, or does not fit and must not be scaled.
        """
        ...

    def files_alike(
        self,
        files: Sequence[Path | None],
        asked: FileSpec,
        data: Data | None,
        connections: int,
        server: str | None,
        watcher: Watcher,
    ) -> Mapping[Path | None, UserSettings]:
        """The same of several option files, scaled by the same factor.

        Args:
            files: None: no option file.
            asked: the memory, and whether to scale.
            data: the user's data, or None.
            connections: that the workload opens.
            server: its name in messages; empty if there is only one; None: files are not named either.
            watcher: told what was scaled.
        """
        ...

    def settings(
        self, base: Mapping[str, Value], launch: Launch, watcher: Watcher, also: Iterable[str] = ()
    ) -> dict[str, Value]:
        """All catalogued settings as a server with this base has them, and further ones by name.

        Raises:
            UsageError: the server refuses the base.
        """
        ...

    def persisted(self) -> Mapping[str, str] | None:
        """What SET PERSIST has stored on somebody's own server; None: not known."""
        ...

    def guarding(self, given: Iterable[str]) -> dict[str, Value]:
        """Settings that decide what the server keeps and that are there already, without the given ones."""
        ...

    def lift(
        self, settings: Mapping[str, Value], floor: Floor, keep: Iterable[str], launch: Launch
    ) -> tuple[dict[str, Value], tuple[str, ...]]:
        """What raises settings to a floor, and why each.

        Raises:
            BelowFloor: nothing does, or only a restart of a server that must not be restarted.
        """
        ...

    def may_be_below(self, given: Mapping[str, Value]) -> bool:
        """Whether the user's own settings, of which these were given, may be measured below the floor."""
        ...

    def candidates(self, search: Search) -> tuple[tuple[Candidate, ...], tuple[Warning, ...]]:
        """What may be tried, and notes on what is left out."""
        ...

    def reduced(self, plan: Plan, values: Mapping[str, Value]) -> tuple[Plan, tuple[Warning, ...]]:
        """The plan with a base that the servers can have, and notes on what is left out of it."""
        ...

    @property
    def restarts(self) -> bool:
        """Whether a server may be restarted, or another one started, for an arm."""
        ...

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        """Warnings on figures of these servers.

        Args:
            changed: names of settings that arms change.
        """
        ...

    # -- scheduling

    @property
    def steady_state(self) -> bool:
        """Whether windows may outlast the redo log."""
        ...

    @property
    def longer_windows(self) -> str:
        """What lets windows outlast the redo log, in words that follow "need"."""
        ...

    def launch(self, each: int, together: int) -> Launch:
        """Arguments of the servers.

        Args:
            each: connections of one arm, at most.
            together: connections of all arms of a campaign.
        """
        ...

    def capacity(self, request: TuneRequest, workloads: Sequence[Workload]) -> Capacity:
        """How many arms of a tuning stand side by side, and why not more.

        Raises:
            UsageError: arms have to take turns, and the load cannot be paused.
        """
        ...

    def groups(
        self, request: SeriesRequest, base: Workload, workloads: Mapping[str, Workload]
    ) -> tuple[ArmGroup, ...]:
        """How the arms of a series are measured: as many as possible in turns, the others on fresh servers.

        Args:
            request: the series.
            base: the base's workload.
            workloads: those of the arms that run, by name.

        Raises:
            UsageError: arms have to take turns, and the load cannot be paused.
        """
        ...

    def turns(self, places: int = 0) -> str:
        """How arms take turns, in words that follow "arms".

        Args:
            places: servers, or clusters, that arms share.
        """
        ...

    def say_warnings(self, notes: Sequence[Warning], watcher: Watcher) -> None:
        """Says warnings that may keep somebody from running a tuning."""
        ...

    def say_turns(self, some: str, watcher: Watcher) -> None:
        """Says how arms of a tuning take turns.

        Args:
            some: why not all of them stand at once; empty: they do.
            watcher: takes the line.
        """
        ...

    # -- running

    def reaching(self, workload: Workload, database: str | None) -> Workload:
        """The workload as it reaches a server.

        Raises:
            UsageError: it cannot.
        """
        ...

    def crashable(self) -> SandboxPool:
        """The servers as those that may be crashed.

        Raises:
            UsageError: they are somebody's own.
        """
        ...

    def used(self, use: Use, progress: Progress) -> AbstractContextManager[None]:
        """Inside, a campaign may run on the servers; what that changes of them is undone.

        Raises:
            UsageError, ServerError: something of it is not permitted, or not possible.
        """
        ...

    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        """Runs trials.

        Raises:
            UsageError: the workload is not for these servers.
        """
        ...

    def standing(self, runner_of: Callable[[Arm], ArmRunner], seed: int, place_of: PlaceOf) -> StandingRunner:
        """Runs trials in turns, on servers that stand."""
        ...

    def other(self, server: str, progress: Progress) -> ServerPool:
        """Servers of another build, beside these.

        Raises:
            BuildNotFound: there is no such build.
        """
        ...

    def volumes(self, progress: Progress) -> Volumes:
        """Data roots and disks of arms that have their own; a context manager."""
        ...

    @property
    def recovers(self) -> bool:
        """Whether servers may be killed to measure their recovery."""
        ...

    # -- a dry run

    def resources(self, arms: Sequence[Mapping[str, Value]], data_bytes: int | None, stand: int) -> Resources:
        """What a campaign takes of this machine.

        Args:
            arms: settings of each.
            data_bytes: of the tables, about; None: not known.
            stand: servers, or clusters, at once.
        """
        ...

    def writes(self, arms: Sequence[Mapping[str, Value]], data_root: str | None) -> dict[str, str]:
        """What a campaign writes besides its records, by place; data directories go to `data_root`."""
        ...
