"""Protocol: what a campaign may ask of the servers that it runs on. Sits in `campaign.pool`.

What has a body in `ServerPool` is true of any servers unless their kind says otherwise; what is abstract is
the least that a new kind has to tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeVar

from flushlab.campaign.data import Data
from flushlab.campaign.facts import Resources
from flushlab.campaign.loop import check_other_load
from flushlab.campaign.pool.room import NoVolumes, Volumes
from flushlab.campaign.pool.running_server import has_all
from flushlab.campaign.pool.work import Enter, RunTrial
from flushlab.campaign.request import ArmGroup, BenchRequest, CampaignRequest, SeriesRequest, TuneRequest
from flushlab.campaign.scheduling import Capacity
from flushlab.campaign.watcher import Watcher
from flushlab.errors import UsageError
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.plan.plan import Plan
from flushlab.process.running import publish_status
from flushlab.progress import Progress
from flushlab.record import (
    Arm,
    CrashRow,
    Launch,
    Machine,
    OtherLoad,
    ServerIdentity,
    Storage,
    Trial,
    Value,
    Warning,
)
from flushlab.server import Server
from flushlab.settings.admission import parse_settings
from flushlab.settings.candidates import Candidate, raise_to_floor
from flushlab.settings.catalog import load_catalog
from flushlab.settings.fit import Scaled
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import BenchSpec, CompareSpec, SeriesSpec, TuneSpec
from flushlab.spec.parts import FileSpec, RemoteAccess, ServerSpec, ServersSpec
from flushlab.store import Store
from flushlab.trial.measurement import Draft, measure
from flushlab.trial.runner import ArmRunner
from flushlab.trial.sliced import SLICE_S, SlicedRunner
from flushlab.workload.parse import on_data
from flushlab.workload.protocol import Timing, Workload

if TYPE_CHECKING:
    from flushlab.campaign.pool.sandboxes import SandboxPool

S = TypeVar("S", ServerSpec, ServersSpec, ServerSpec | ServersSpec)
CampaignSpec = TuneSpec | SeriesSpec | CompareSpec
"""A specification that names servers."""
PlaceOf = Callable[[Arm], str]
"""Arms with the same place differ only in settings that a running server takes, or in their load."""


class UserSettings(NamedTuple):
    """The user's option file, and the settings that the user's data bring along.

    Attributes:
        original: as they are.
        here: as this machine can hold them.
        scaled: what differs.
        warnings: on what differs.
    """

    original: Mapping[str, Value] = {}
    here: Mapping[str, Value] = {}
    scaled: tuple[Scaled, ...] = ()
    warnings: tuple[Warning, ...] = ()


class UserFiles(NamedTuple):
    """What is asked of the user's option files.

    Attributes:
        asked: the memory, and whether to scale.
        data: the user's data, or None.
        connections: that the workload opens.
        server: its name in messages; empty if there is only one; None: files are not named either.
    """

    asked: FileSpec
    data: Data | None
    connections: int
    server: str | None = None


class Search(NamedTuple):
    """What candidates of a tuning are looked for with.

    Attributes:
        base: settings of the base, raised to the floor.
        seen: settings that a server with the base has.
        floor: the lowest floor that candidates may have.
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


class Work(NamedTuple):
    """The trials of a campaign, and all that is needed to run them here or elsewhere.

    Attributes:
        request: of the campaign.
        here: opens what runs them on this machine.
        there: the same on another machine, from the stored request.
        ahead: blocks that the experiment foresees.
        best_of: arms that `best` is composed of.
        store, campaign_id: where the campaign is kept.
        watcher: told what happens.
        root_for: words for what of it needs root; empty if nothing does.
    """

    request: CampaignRequest
    here: Callable[[], AbstractContextManager[RunTrial]]
    there: Enter
    ahead: Callable[[int], Sequence[BlockAhead]]
    best_of: Callable[[], tuple[str, ...]]
    store: Store
    campaign_id: str
    watcher: Watcher
    root_for: str = ""


class CrashWork(NamedTuple):
    """The crashes of a campaign, and all that machines of a fleet need to run them.

    Attributes:
        request: of the campaign.
        there: opens what runs them on a machine, from the stored request.
        ahead: crashes that the experiment foresees.
        watcher: told what happens.
        root_for: words for what of it needs root; empty if nothing does.
    """

    request: CampaignRequest
    there: Enter
    ahead: Callable[[int], Sequence[BlockAhead]]
    watcher: Watcher
    root_for: str = ""


class OnEach(NamedTuple):
    """A single run that every machine of a fleet does.

    Attributes:
        request: what is asked for.
        there: opens what runs it on a machine, from the request.
        watcher: told what happens.
        root_for: words for what of it needs root; empty if nothing does.
    """

    request: BenchRequest
    there: Enter
    watcher: Watcher
    root_for: str = ""


class Fleet(Protocol):
    """Machines that run the trials of a campaign."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the machines that are claimed, or foreseen."""
        ...

    def rest(self) -> None:
        """Ends the servers on them; they stay claimed."""
        ...

    def trials(self, work: Work) -> AbstractContextManager[RunTrial]:
        """What runs the campaign's trials on them.

        Raises:
            UsageError: a machine cannot run it.
        """
        ...

    def crashes(self, work: CrashWork) -> AbstractContextManager[Callable[[Request], CrashRow]]:
        """What runs the campaign's crashes on them; errors as of `trials`."""
        ...

    def each(self, work: OnEach) -> Mapping[str, Trial | str]:
        """What each of them has measured, by name, or why it has nothing; errors as of `trials`."""
        ...


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
    data: Data | None = None

    def measured(self, server: Server, workload: Workload, given: Mapping[str, Value], name: str) -> Trial:
        """The record of the run on a server that runs already, with the settings that were given."""
        draft = Draft(arm=Arm(name="bench", settings=given), stage="bench", block=1, variant=0)
        with publish_status("bench", server=name, workload=workload.name):
            return measure(draft, server, workload, self.timing)


class ServerPool(ABC):
    """Servers that a campaign runs on."""

    restarts: ClassVar[bool] = True
    """Whether servers may be restarted, killed or exchanged for an arm: then windows may also outlast the
    redo log, and recovery may be measured."""
    slice_s: ClassVar[float] = SLICE_S
    """Shortest slice, in seconds."""

    # -- which servers, and where

    @property
    @abstractmethod
    def identity(self) -> ServerIdentity:
        """Flavor, version and number of nodes."""

    @property
    @abstractmethod
    def key(self) -> str:
        """A campaign that is resumed must find the same: the binary, or the version and the address."""

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """The storage that durability is judged by."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where this machine's disk is watched."""

    @abstractmethod
    def machine(self) -> Machine:
        """This machine."""

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of the fleet's machines that run the trials; empty: this machine runs them."""
        return ()

    # -- how a campaign names its servers in what it stores

    @property
    def access(self) -> RemoteAccess:
        """The access to the user's own server, without its account; empty for those that flushlab starts."""
        return RemoteAccess()

    @property
    def database(self) -> str | None:
        """The database that the access names, or None."""
        return None

    def settled(self, server: S) -> S:
        """What was asked for, with the exact version."""
        return server

    # -- settings

    def parse(self, settings: Mapping[str, Value]) -> dict[str, Value]:
        """Settings as the server takes them.

        Raises:
            UsageError: the server does not have one, or does not take its value.
        """
        here = self.identity
        return parse_settings(settings, here.flavor, here.version, load_catalog(), nodes=here.nodes)

    @abstractmethod
    def require_taken(self, settings: Mapping[str, Value]) -> None:
        """Asks the binary, if it is here, about values that only it can judge.

        Raises:
            UsageError: it refuses one.
        """

    def hidden_options(self, names: Iterable[str], values: Mapping[str, Value]) -> frozenset[str]:
        """Those of the names that the server takes as options, though none of its variables is called so."""
        return frozenset()

    def user_settings(
        self, asked: FileSpec, data: Data | None, threads: int, watcher: Watcher
    ) -> UserSettings:
        """The user's option file and what the data bring along, as this machine can hold them.

        Raises:
            UsageError, StorageError: a file cannot be read, or does not fit and must not be scaled.
        """
        path = Path(asked.base) if asked.base else None
        return self.files_alike((path,), UserFiles(asked, data, threads), watcher)[path]

    def files_alike(
        self, files: Sequence[Path | None], of: UserFiles, watcher: Watcher
    ) -> Mapping[Path | None, UserSettings]:
        """The same of several option files, scaled by the same factor; None: no option file."""
        return dict.fromkeys(files, UserSettings())

    @abstractmethod
    def settings(
        self, base: Mapping[str, Value], launch: Launch, watcher: Watcher, also: Iterable[str] = ()
    ) -> dict[str, Value]:
        """All catalogued settings as a server with this base has them, and further ones by name.

        Raises:
            UsageError: the server refuses the base.
        """

    def has(self, also: Iterable[str] = ()) -> dict[str, Value]:
        """Catalogued settings that arms have unless they change them, and further ones by name; none for
        servers that are started for an arm."""
        return {}

    def persisted(self) -> Mapping[str, str] | None:
        """What SET PERSIST has stored on the user's own server; None: not known."""
        return None

    def guarding(self, given: Iterable[str]) -> dict[str, Value]:
        """Settings that decide what the server keeps and that are there already, without the given ones."""
        catalog, out = load_catalog(), {*given}
        return {
            name: value
            for name, value in self.has().items()
            if name not in out and name in catalog and catalog.setting(name).durability
        }

    def raise_to_floor(
        self, settings: Mapping[str, Value], floor: Floor, keep: Iterable[str], launch: Launch
    ) -> tuple[dict[str, Value], tuple[str, ...]]:
        """What raises settings to a floor, and why each.

        Raises:
            BelowFloor: nothing does, or only a restart of a server that must not be restarted.
        """
        return raise_to_floor(
            settings, floor, identity=self.identity, storage=self.storage, launch=launch, keep=keep
        )

    def lowest(self, floor: Floor, offer: Floor | None) -> Floor:
        """The lowest floor that trials may run at, so that gains below the user's floor can be offered.

        A server of the user's own never runs below its floor.

        Args:
            floor: the user's floor.
            offer: the lowest floor to offer, as asked for; None: `second`.

        Raises:
            UsageError: an offer below the floor was asked for on a server of the user's own.
        """
        if offer is None:
            offer = Floor.SECOND if self.restarts else floor
        if not offer.at_least(floor) and not self.restarts:
            raise UsageError(
                f"--offer {offer} is below --floor {floor}: flushlab sets nothing below the floor there",
                hint=f"accept less with --floor {offer}, or measure the offer on a sandbox, without --dsn",
            )
        return floor if offer.at_least(floor) else offer

    def may_be_below(self, given: Mapping[str, Value]) -> bool:
        """Whether the user's own settings, of which these were given, may be measured below the floor.

        On the user's own server only if the server has them: flushlab sets nothing below a floor there.
        """
        return self.restarts or has_all(given, self.has(given), self.identity)

    @abstractmethod
    def candidates(self, search: Search) -> tuple[tuple[Candidate, ...], tuple[Warning, ...]]:
        """What may be tried, and notes on what is left out."""

    def reduced(self, plan: Plan, values: Mapping[str, Value]) -> tuple[Plan, tuple[Warning, ...]]:
        """The plan with a base that the servers can have, and notes on what is left out of it."""
        return plan, ()

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        """Warnings on results of these servers, where arms change settings of these names."""
        return ()

    # -- scheduling

    def launch(self, each: int, together: int) -> Launch:
        """Arguments of the servers.

        Args:
            each: connections of one arm, at most.
            together: connections of all arms of a campaign.
        """
        return Launch()

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

    @abstractmethod
    def in_slices(self, places: int = 0) -> str:
        """How arms alternate in slices: words that follow "arms".

        Args:
            places: servers or clusters that the arms share; 0: none.
        """

    # -- running

    def reaching(self, workload: Workload, database: str | None) -> Workload:
        """The workload as it reaches a server, on the user's data if there are any.

        Raises:
            UsageError: it cannot.
        """
        return on_data(workload, database) if database else workload

    @abstractmethod
    def crashable(self) -> SandboxPool:
        """The servers as those that may be crashed.

        Raises:
            UsageError: they are the user's own.
        """

    def used(self, use: Use, progress: Progress) -> AbstractContextManager[None]:
        """Inside, a campaign may run on the servers; what that changes of them is undone.

        Raises:
            UsageError, ServerError: something of it is not permitted, or not possible.
        """
        return nullcontext()

    @abstractmethod
    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        """Runs trials.

        Raises:
            UsageError: the workload is not for these servers.
        """

    def sliced(self, runner_of: Callable[[Arm], ArmRunner], seed: int, place_of: PlaceOf) -> SlicedRunner:
        """Runs trials in slices, on servers kept running; arms with the same place share a cluster."""
        return SlicedRunner(
            runner_of, seed, place_of if self.identity.nodes > 1 else None, slice_s=self.slice_s
        )

    def other(self, server: str, progress: Progress) -> ServerPool:
        """Servers of another build, beside these.

        Raises:
            BuildNotFound: there is no such build.
            UsageError: these are the user's own.
        """
        raise UsageError(f"{server} cannot be compared with your own server", hint="name one of them")

    def volumes(self, progress: Progress) -> Volumes:
        """Data roots and disks of arms that have their own; a context manager."""
        return NoVolumes()

    def trials(self, work: Work) -> AbstractContextManager[RunTrial]:
        """What runs a campaign's trials; its servers live as long as the context."""
        return work.here()

    def rest(self) -> None:
        """Ends the servers on the machines of a fleet, so that this machine is left to what follows."""
        return

    def other_load(self, watcher: Watcher, *, wait: bool) -> OtherLoad | None:
        """What others take of the machine before the first trial; see `check_other_load`."""
        return check_other_load(self.folder, watcher, wait=wait)

    @abstractmethod
    def once(self, asked: Once, watcher: Watcher) -> Trial:
        """The record of a single run.

        Raises:
            UsageError: settings or a workload that the server does not take.
            LoadInterrupted: Ctrl-C in the window; it has what was measured until then.
        """

    # -- a dry run

    def require_usable(self, use: Use, progress: Progress) -> None:
        """Refuses what `used` would, but for lack of a permission; changes nothing.

        Raises:
            UsageError, ServerError: as `used`.
        """
        return

    @abstractmethod
    def resources(
        self, arms: Sequence[Mapping[str, Value]], data_bytes: int | None, at_once: int
    ) -> Resources:
        """What a campaign takes of this machine.

        Args:
            arms: settings of each.
            data_bytes: of the tables, about; None: not known.
            at_once: servers, or clusters, that run at once.
        """

    @abstractmethod
    def writes(
        self, arms: Sequence[Mapping[str, Value]], data_root: str | None, *, adds_load: bool = True
    ) -> dict[str, str]:
        """What a campaign writes besides its records, by place.

        Args:
            arms: settings of each.
            data_root: of data directories, or None.
            adds_load: it makes its load.
        """
