"""Sandboxes: flushlab starts a fresh server for each trial, or keeps one running for each arm.

Sits in `campaign.pool`; implements `ServerPool`. `clusters.py` has what is different where each of them is a
Galera cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, Self

import msgspec

from flushlab.build import find_build
from flushlab.build.build import Build
from flushlab.build.choice import Sign, caveats
from flushlab.build.inspect import verbose_help
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.data import bytes_of
from flushlab.campaign.facts import Resources
from flushlab.campaign.loop import check_other_load
from flushlab.campaign.pool.protocol import (
    Fleet,
    Once,
    RunnerInput,
    S,
    Search,
    ServerPool,
    UserFiles,
    UserSettings,
    Work,
)
from flushlab.campaign.pool.room import (
    PaperVolumes,
    Volumes,
    copy_bytes,
    data_bytes_of,
    data_bytes_of_arms,
    room,
)
from flushlab.campaign.pool.user_settings import (
    HOW_TO_SCALE,
    called,
    file_settings,
    fit_alike,
    persisted_settings,
)
from flushlab.campaign.pool.work import RunTrial
from flushlab.campaign.request import ArmGroup, SeriesRequest, TuneRequest
from flushlab.campaign.scheduling import (
    BESIDE_MOST,
    LEAST_SERVERS,
    Capacity,
    grouped,
    kept_running_group,
    on_places,
    place_of,
    shared_s,
    slices_of,
)
from flushlab.campaign.several_servers import in_full
from flushlab.campaign.watcher import Watcher
from flushlab.datadir import Snapshots, Volume
from flushlab.errors import NoMemory, StartFailed, UsageError
from flushlab.machine import available_memory_bytes, home_path
from flushlab.process.running import publish_status
from flushlab.progress import Progress
from flushlab.record import Arm, Launch, Machine, OtherLoad, ServerIdentity, Storage, Trial, Value, Warning
from flushlab.server import DataDirectory, Sandbox
from flushlab.server.clients import Clients
from flushlab.server.sandbox.base_file import fit_here, require_taken
from flushlab.server.sandbox.log import refusal
from flushlab.settings.candidates import Candidate, propose
from flushlab.settings.catalog import canonical, load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.fit import as_warnings, lines, memory_use, number_of
from flushlab.settings.option_names import read_help
from flushlab.spec.parts import ServersSpec
from flushlab.trial.runner import ArmRunner, Preparation, TrialRunner, restart_settings
from flushlab.trial.sliced import CLUSTER_SLICE_S
from flushlab.units import counted, format_latency, parse_size
from flushlab.workload.options import EngineOptions, seeded
from flushlab.workload.protocol import Workload

_SPARE_CONNECTIONS = 50
_DEFAULT_MAX_CONNECTIONS = 151
SLOW_DISK = "waiting servers would write beyond the disk's limit"
"""With one disk for all they take writes from the one that is driven; with one for each they have theirs for
nothing while they wait."""


@dataclass(frozen=True)
class SandboxPool(ServerPool):
    """Servers of one build, each alone.

    Attributes:
        build: the server's binaries.
        volume: where data directories go.
        nodes: of each server; a server alone has 1.
        latency_s: between nodes, there and back; 0: as on loopback.
        dry_run: servers that would be started: nothing is fetched or made.
        fleet: machines that the trials run on; None: this one.
        clients: machines that load the servers; None: this one.
        signs: what the user's files say about servers.
    """

    build: Build
    volume: Volume
    nodes: int = 1
    latency_s: float = 0.0
    dry_run: bool = False
    fleet: Fleet | None = None
    clients: Clients | None = None
    signs: tuple[Sign, ...] = ()

    crashes: ClassVar[int] = 30
    """Crashes of a tuning's winner, where nobody says how many."""
    crash_nodes: ClassVar[Literal["all"] | None] = None
    """Nodes that crash at once."""

    # -- which servers, and where

    @property
    def identity(self) -> ServerIdentity:
        """The server that the build will be."""
        return msgspec.structs.replace(self.build.identity, nodes=self.nodes)

    @property
    def key(self) -> str:
        """Of the binary."""
        return self.build.id

    @property
    def storage(self) -> Storage:
        """Of data directories."""
        return self.volume.data_root.storage

    @property
    def folder(self) -> Path:
        """Of data directories."""
        return self.volume.data_root.path

    def machine(self) -> Machine:
        """This machine, with the volume's file system and device."""
        return self.volume.machine()

    def settled(self, server: S) -> S:
        """What was asked for, with the exact version."""
        if isinstance(server, ServersSpec):
            servers = (in_full(server.build, self.build.name), *server.others)
            return msgspec.structs.replace(server, servers=servers)
        return msgspec.structs.replace(server, server=self.build.name)

    def tell_caveats(self, progress: Progress) -> None:
        """Tells what speaks against these servers.

        Raises:
            UsageError: they cannot start on the user's data.
        """
        for caveat in caveats(self.signs, self.build):
            progress(f"warning: {caveat}")

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        """What of the user's files speaks against these servers."""
        return tuple(Warning("other-server", text) for text in caveats(self.signs, self.build))

    # -- settings

    def require_taken(self, settings: Mapping[str, Value]) -> None:
        """Asks the binary about values that only it can judge; see `base_file.require_taken`."""
        require_taken(self.build, settings)

    def hidden_options(self, names: Iterable[str], values: Mapping[str, Value]) -> frozenset[str]:
        """Those of the names that the binary takes as options, though none of its variables is called so."""
        strange = {
            name for name in map(canonical, names) if name not in values and name not in load_catalog()
        }
        return read_help(verbose_help(self.build).text).names & strange if strange else frozenset()

    def files_alike(
        self, files: Sequence[Path | None], of: UserFiles, watcher: Watcher
    ) -> Mapping[Path | None, UserSettings]:
        """The user's option files and what the data bring along, scaled by the same factor."""
        persisted = persisted_settings(of.data, self.identity, watcher)
        theirs = {
            file: {**file_settings(file, self.build, self.identity, watcher), **persisted} for file in files
        }
        fit = partial(
            fit_here,
            identity=self.identity,
            root=self.volume.data_root,
            memory=of.asked.memory,
            exact=of.asked.no_scale,
            connections=of.connections,
            data_bytes=bytes_of(of.data),
        )
        fits = fit_alike(theirs, fit)
        for file, one in fits.items():
            for line in lines(one, HOW_TO_SCALE, file=called(file, of.server)):
                watcher.say(line)
        return {
            file: UserSettings(theirs[file], one.settings, one.scaled, tuple(as_warnings(one)))
            for file, one in fits.items()
        }

    def settings(
        self, base: Mapping[str, Value], launch: Launch, watcher: Watcher, also: Iterable[str] = ()
    ) -> dict[str, Value]:
        """The catalogued settings as a server with this base has them, computed defaults included; in a dry
        run those of the catalog, and for others the binary's own help.

        Raises:
            UsageError: the server refuses the base.
        """
        known = load_catalog().names(self.build.flavor, self.build.version)
        if self.dry_run:
            configuration = Configuration(base, self.identity)
            found = {name: value for name in known if (value := configuration.value(name)) is not None}
            strange = {*also} - {*known}
            told = read_help(verbose_help(self.build).text).values if strange else {}
            return {**found, **{name: told[name] for name in strange if name in told}, **base}
        watcher.say(f"reading {self.build.name}'s settings back")
        try:
            with Sandbox.start(
                self.build,
                settings=base,
                arguments=launch.arguments,
                data=DataDirectory(self.volume.data_root),
                progress=watcher.say,
            ) as server:
                return server.read_back({*known, *also})
        except StartFailed as error:
            if error.refusal is None:
                raise
            raise refusal(error.refusal, self.build) from error

    def candidates(self, search: Search) -> tuple[tuple[Candidate, ...], tuple[Warning, ...]]:
        """What may be tried with the memory that is free, or that the user allows."""
        free = available_memory_bytes()
        found = propose(
            self.identity,
            base={**search.base, **search.seen},
            floor=search.floor,
            storage=self.storage,
            launch=search.launch,
            memory_bytes=free if search.memory is None else min(parse_size(search.memory), free),
            keep=search.keep,
            steady_state=search.steady_state,
        )
        return found, ()

    # -- scheduling

    def launch(self, each: int, together: int) -> Launch:
        """Lets the connections of an arm in."""
        return Launch(arguments=connection_arguments(each))

    def capacity(self, request: TuneRequest, workloads: Sequence[Workload]) -> Capacity:
        """How many servers of a tuning can run side by side, and why not more."""
        storage = request.spec.storage
        if any(workload.slice_s is None for workload in workloads):
            return Capacity(0, f"{request.workload.split(':')[0]} cannot be paused")
        if why := self._why_never(storage.disk):
            return Capacity(0, why)
        if request.steady_state:
            return Capacity(0, "some candidates take effect later, in background work")
        data_bytes = data_bytes_of(request.workload, request.spec.workload.options, request.spec.data.dataset)
        return self._kept_running(request, self._room(request.run, data_bytes))

    def _kept_running(self, request: TuneRequest, found: Capacity) -> Capacity:
        if found.servers >= BESIDE_MOST:
            return Capacity(BESIDE_MOST)
        return found if found.servers >= 2 else Capacity(0, found.why)

    def _room(self, settings: Sequence[Mapping[str, Value]], data_bytes: int | None) -> Capacity:
        return room(settings, self.identity, self.volume.data_root, data_bytes)

    def groups(
        self, request: SeriesRequest, base: Workload, workloads: Mapping[str, Workload]
    ) -> tuple[ArmGroup, ...]:
        """Groups of arms that run side by side, then the others, on fresh servers."""
        data_bytes = data_bytes_of_arms(request)
        why = {
            arm.name: self._why_fresh(arm, request, base, workloads[arm.name], data_bytes)
            for arm in request.running
        }
        if reason := next((why[name] for name in request.together if why[name]), ""):
            what = "combinations of factors" if request.factors else "configurations of all servers"
            words = f"{reason}; all {what} run in the same blocks"
            why |= {name: why[name] or words for name in request.together}
        sliced = [arm for arm in request.running if not why[arm.name]]
        found = self._room([arm.settings for arm in (request.base, *sliced)], data_bytes)
        own = place_of(request.base, base, self.identity)
        places = {arm.name: place_of(arm, workloads[arm.name], self.identity) for arm in sliced}
        united = [name for name in request.together if name in places]
        why |= dict.fromkeys(self._without_room(places, own, united, found), found.why)
        arms = [name for name in places if not why[name]]
        slices = slices_of(request, base, workloads, arms, self.slice_s)
        together = [name for name in request.together if name in slices]
        groups = list(self._grouped(slices, together, places, own, found))
        fresh = {name: reason for name, reason in why.items() if reason}
        seconds = shared_s(request, len(why), len(groups) + bool(fresh))
        kept_running = [
            kept_running_group(request, names, seconds, slices[names[0]], self._shared(names, places, own))
            for names in groups
        ]
        if not fresh:
            return tuple(kept_running)
        alone = ArmGroup(
            arms=tuple(fresh), kept_running=False, blocks=request.blocks, seconds=seconds, why=fresh
        )
        return (*kept_running, alone)

    def _why_never(self, *disks: str | None) -> str:
        """Why no servers run side by side on these slow disks; empty if they can."""
        return SLOW_DISK if any(one is not None for one in disks) else ""

    def _why_fresh(
        self,
        arm: BoundArm,
        request: SeriesRequest,
        base: Workload,
        workload: Workload,
        data_bytes: int | None,
    ) -> str:
        """Why an arm needs fresh servers; empty if it can run beside others."""
        if base.slice_s is None or workload.slice_s is None:
            cannot = request.base if base.slice_s is None else arm
            return f"{cannot.workload.name.split(':')[0]} cannot be paused"
        storage = request.spec.storage
        if why := self._why_never(storage.disk, arm.disk):
            return why
        pool = number_of(Configuration(request.base.settings, self.identity), "innodb_buffer_pool_size")
        fits = data_bytes is not None and data_bytes < pool
        catalog = load_catalog()
        for name in arm.changes:
            setting = catalog.setting(name) if name in catalog else None
            if setting is None or not setting.needs_steady_state:
                continue
            if fits and setting.group == "doublewrite":
                continue
            return f"{name} shows its effect later, in background work"
        return ""

    def _without_room(
        self, places: Mapping[str, str], own: str, united: Sequence[str], found: Capacity
    ) -> Sequence[str]:
        """Arms for which there is no room: each has a server beside those of base and control."""
        if found.servers < LEAST_SERVERS:
            return list(places)
        return united if found.servers - 2 < len(united) else []

    def _grouped(
        self,
        slices: Mapping[str, float],
        together: Sequence[str],
        places: Mapping[str, str],
        own: str,
        found: Capacity,
    ) -> Iterator[tuple[str, ...]]:
        return grouped(slices, together, found.servers - 2)

    def _shared(self, names: Sequence[str], places: Mapping[str, str], own: str) -> int:
        """How many places the arms of a group share; 0: each has one of its own."""
        return 0

    def in_slices(self, places: int = 0) -> str:
        """How arms alternate in slices, in words that follow "arms"."""
        return "run side by side and alternate in slices"

    # -- running

    def crashable(self) -> SandboxPool:
        """These servers."""
        return self

    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        """Starts a server for each arm; see `TrialRunner`."""
        data, volume = asked.data, self.volume
        preparation = Preparation(
            build=self.build,
            data_root=volume.below,
            dataset=data.dataset if data else None,
            database=data.database if data else "",
            snapshots=Snapshots(),
            progress=progress,
        )
        return TrialRunner(
            build=self.build,
            workloads=tuple(self.reaching(one, asked.database) for one in asked.workloads),
            timing=asked.timing,
            progress=progress,
            preparation=preparation,
            data_root=volume.data_root,
            slow_disk=volume.slow_disk,
            outlast_redo=asked.outlast_redo,
            arguments=asked.launch.arguments,
            nodes=self.nodes,
            latency_s=self.latency_s,
            clients=self.clients,
        )

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of the fleet's machines."""
        return () if self.fleet is None else self.fleet.names

    def other(self, server: str, progress: Progress) -> Self:
        """Servers of another build, on the same volume."""
        pool = replace(self, build=find_build(server, get=not self.dry_run, progress=progress))
        pool.tell_caveats(progress)
        return pool

    def volumes(self, progress: Progress) -> Volumes:
        """Data roots and disks of arms that have their own."""
        return (PaperVolumes if self.dry_run else Volumes)(self.volume, progress)

    def trials(self, work: Work) -> AbstractContextManager[RunTrial]:
        """What runs a campaign's trials: this machine, or those of the fleet."""
        return work.here() if self.fleet is None else self.fleet.trials(work)

    def rest(self) -> None:
        """Ends the servers on the fleet's machines."""
        if self.fleet is not None:
            self.fleet.rest()

    def other_load(self, watcher: Watcher, *, wait: bool) -> OtherLoad | None:
        """What others take of this machine; of a fleet, each machine finds that out for itself."""
        return super().other_load(watcher, wait=wait) if self.fleet is None else None

    # -- a single run

    def once(self, asked: Once, watcher: Watcher) -> Trial:
        """One run on a fresh server."""
        spec, workload = asked.spec, asked.workload
        given = self.parse(spec.base.settings)
        self.require_taken(given)
        connections = workload.threads if isinstance(workload, EngineOptions) else 1
        user = self.user_settings(spec.base, asked.data, connections, watcher)
        settings = {**user.here, **given}
        input_ = RunnerInput(
            workloads=(seeded(workload, spec.seed) if spec.seed is not None else workload,),
            timing=asked.timing,
            launch=Launch(arguments=connection_arguments(connections)),
            database=(asked.data.database or None) if asked.data else None,
            data=asked.data,
        )
        with self.runner(input_, watcher.say) as runner:
            runner.load(settings)
            if spec.wait_for_quiet:
                check_other_load(self.folder, watcher, wait=True)
            watcher.say(f"running the workload {workload.name} on {self.identity.title}")
            with publish_status("bench", server=self.identity.title, workload=workload.name):
                trial = runner.run(Arm(name="bench", settings=settings), stage="bench", block=1)
        if trial.lacked_memory:
            raise NoMemory(trial.reason, hint=trial.hint)
        if trial.outcome == "refused":
            raise refusal(trial.reason, self.build)
        slow = self.volume.slow_disk
        return msgspec.structs.replace(
            trial,
            warnings=(*self.warnings(), *user.warnings, *trial.warnings),
            disk=slow.record if slow else None,
        )

    # -- a dry run

    def resources(
        self, arms: Sequence[Mapping[str, Value]], data_bytes: int | None, at_once: int
    ) -> Resources:
        """What the servers take of this machine."""
        servers = self.nodes * at_once
        configurations = [Configuration(settings, self.identity) for settings in arms]
        copy = copy_bytes(arms, self.identity, data_bytes)
        return Resources(
            pool_bytes=max(number_of(one, "innodb_buffer_pool_size") for one in configurations),
            memory_bytes=servers * max(memory_use(one).worst_bytes for one in configurations),
            available_memory_bytes=available_memory_bytes(),
            data_bytes=data_bytes,
            disk_bytes=None if copy is None else (1 + servers) * copy,  # the first is the snapshot
            free_disk_bytes=self.volume.data_root.free_bytes(),
            servers=servers,
        )

    def writes(
        self, arms: Sequence[Mapping[str, Value]], data_root: str | None, *, adds_load: bool = True
    ) -> dict[str, str]:
        """Snapshots and data directories."""
        home = home_path()
        return {
            str(home / "snapshots"): "the prepared data, kept for the next time",
            data_root or str(home / "run"): "data directories of servers, removed as they end",
        }


def connection_arguments(threads: int) -> tuple[str, ...]:
    """Arguments that let this many connections in, where the default would not."""
    wanted = threads + _SPARE_CONNECTIONS
    return (f"--max-connections={wanted}",) if wanted > _DEFAULT_MAX_CONNECTIONS else ()


CLUSTERS_MOST = 3
"""Clusters of a tuning that run at once at most, where candidates take a restart: their nodes do not only
wait, they talk to each other."""


@dataclass(frozen=True)
class ClusterPool(SandboxPool):
    """Galera clusters of one build."""

    slice_s: ClassVar[float] = CLUSTER_SLICE_S
    crashes: ClassVar[int] = 8
    crash_nodes: ClassVar[Literal["all"] | None] = "all"
    """All: nodes that stay would make good what the settings lose."""

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        """All nodes are on this machine."""
        return (co_located(self.nodes, self.latency_s), *super().warnings(changed))

    def launch(self, each: int, together: int) -> Launch:
        """Lets the connections of all arms in: each arm keeps its own while others have their slices."""
        return Launch(arguments=connection_arguments(together))

    def _kept_running(self, request: TuneRequest, found: Capacity) -> Capacity:
        changed = [one.settings for one in request.candidates]
        changed += [request.raised] if request.yours is not None else []
        if any(restart_settings(one, self.identity) for one in changed):
            servers = min(found.servers, CLUSTERS_MOST)
        else:
            servers = BESIDE_MOST * min(found.servers, 1)
        return Capacity(servers) if servers >= 2 else Capacity(0, found.why)

    def _why_never(self, *disks: str | None) -> str:
        """Nothing: only one cluster writes at a time, and each node has a disk of its own."""
        return ""

    def _without_room(
        self, places: Mapping[str, str], own: str, united: Sequence[str], found: Capacity
    ) -> Sequence[str]:
        """Arms that need a cluster besides the base's, or that stay together and need more, where so many do
        not fit."""
        too_many = len({own, *(places[name] for name in united)}) > found.servers
        return [
            name
            for name, place in places.items()
            if found.servers < (1 if place == own else 2) or (too_many and name in united)
        ]

    def _grouped(
        self,
        slices: Mapping[str, float],
        together: Sequence[str],
        places: Mapping[str, str],
        own: str,
        found: Capacity,
    ) -> Iterator[tuple[str, ...]]:
        return on_places(slices, together, places, own, found.servers - 1)

    def _shared(self, names: Sequence[str], places: Mapping[str, str], own: str) -> int:
        return len({own, *(places[name] for name in names)})

    def in_slices(self, places: int = 0) -> str:
        """How arms alternate in slices, in words that follow "arms"."""
        return f"alternate in slices on {counted(places, 'cluster') if places else 'clusters'}"

    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        """Starts a cluster for each arm.

        Raises:
            UsageError: the workload goes on with the last run's data.
        """
        if any(workload.reset == "none" for workload in asked.workloads):
            raise UsageError(
                "--reset none goes on with the last run's data, but each run starts a cluster of its own",
                hint="remove it, or --cluster",
            )
        return super().runner(asked, progress)


def co_located(nodes: int, latency_s: float) -> Warning:
    """The warning on a cluster whose nodes are all on this machine.

    Args:
        nodes: how many.
        latency_s: between them, there and back; 0: as on loopback.
    """
    text = (
        f"{nodes} nodes share this machine's processors and disk (co-located): what was measured does"
        " not transfer as it is to nodes that have machines of their own"
    )
    if not latency_s:
        return Warning("co-located", f"{text}; nor is there a network between them")
    there = f"; between them are {format_latency(latency_s * 1e6)} of network, there and back"
    return Warning("co-located", text + there)
