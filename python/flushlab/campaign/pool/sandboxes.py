"""Sandboxes: flushlab starts a fresh server, or a Galera cluster, for each trial, or keeps some running.

Sits in `campaign.pool`; implements `ServerPool`. Arms of clusters that differ only in what a running node
takes share a cluster, and switch its settings between slices (docs/decisions/0026-slices-on-clusters.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import msgspec

from flushlab.build import find_build
from flushlab.build.build import Build
from flushlab.build.choice import Sign, caveats
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.facts import Resources
from flushlab.campaign.loop import check_other_load
from flushlab.campaign.pool.protocol import CampaignSpec, Once, PlaceOf, RunnerInput, S, ServerPool, Use
from flushlab.campaign.pool.room import (
    PaperVolumes,
    Volumes,
    copy_bytes,
    data_bytes_of,
    data_bytes_of_arms,
    room,
)
from flushlab.campaign.pool.settings import SandboxSettings, connection_arguments
from flushlab.campaign.pool.work import Fleet
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
from flushlab.campaign.watcher import Watcher
from flushlab.datadir import Snapshots, Volume
from flushlab.errors import NoMemory, UsageError
from flushlab.machine import available_memory_bytes, home_path
from flushlab.process.running import publish_status
from flushlab.progress import Progress
from flushlab.record import Arm, Launch, Machine, ServerIdentity, Trial, Value
from flushlab.server import SandboxSpec
from flushlab.server.clients import Clients
from flushlab.server.sandbox.log import refusal
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.fit import memory_use, number_of
from flushlab.spec.parts import ServersSpec
from flushlab.trial.runner import ArmRunner, Preparation, TrialRunner, restart_settings
from flushlab.trial.sliced import CLUSTER_SLICE_S, SLICE_S, SlicedRunner
from flushlab.workload.options import seeded, threads_of
from flushlab.workload.parse import on_data
from flushlab.workload.protocol import Workload

_VERSION = re.compile(r"(?:mysql|mariadb)(?:@[0-9.]+)?")
SLOW_DISK = "waiting servers would write beyond the disk's limit"
"""With one disk for all they take writes from the one that is driven; with one for each they have theirs for
nothing while they wait."""
CLUSTERS_MOST = 3
"""Clusters of a tuning that run at once at most, where candidates take a restart: their nodes do not only
wait, they talk to each other."""


@dataclass(frozen=True)
class SandboxPool(ServerPool):
    """`latency_s`: between nodes, there and back; 0: as on loopback. `nodes`: 1 for a server alone."""

    build: Build
    volume: Volume
    nodes: int = 1
    latency_s: float = 0.0
    dry_run: bool = False
    fleet: Fleet | None = None
    clients: Clients | None = None
    signs: tuple[Sign, ...] = ()

    slice_s: ClassVar[float] = SLICE_S
    crashes: ClassVar[int] = 30
    crash_nodes: ClassVar[Literal["all"] | None] = None

    @property
    def settings(self) -> SandboxSettings:
        root = self.volume.data_root
        return SandboxSettings(
            identity=self.identity,
            key=self.build.id,
            storage=root.storage,
            folder=root.path,
            build=self.build,
            root=root,
            latency_s=self.latency_s,
            dry_run=self.dry_run,
            signs=self.signs,
        )

    @property
    def identity(self) -> ServerIdentity:
        return msgspec.structs.replace(self.build.identity, nodes=self.nodes)

    def machine(self) -> Machine:
        return self.volume.machine()

    def settled(self, spec: S) -> S:
        server: Any = spec.server
        if isinstance(server, ServersSpec):
            named = in_full(server.build, self.build.name)
            server = msgspec.structs.replace(server, servers=(named, *server.others))
        else:
            server = msgspec.structs.replace(server, server=self.build.name)
        return msgspec.structs.replace(spec, server=server)

    def tell_caveats(self, progress: Progress) -> None:
        for caveat in caveats(self.signs, self.build):
            progress(f"warning: {caveat}")

    # -- how arms are measured

    def capacity(self, request: TuneRequest, workloads: Sequence[Workload]) -> Capacity:
        if any(workload.slice_s is None for workload in workloads):
            return Capacity(0, f"{request.workload.split(':')[0]} cannot be paused")
        if why := self._why_never(request.spec.storage.disk):
            return Capacity(0, why)
        if request.steady_state:
            return Capacity(0, "some candidates take effect later, in background work")
        data_bytes = data_bytes_of(request.workload, request.spec.workload.options, request.spec.data.dataset)
        return self._kept_running(request, self._room(request.arm_settings, data_bytes))

    def _kept_running(self, request: TuneRequest, held: Capacity) -> Capacity:
        if held.servers >= BESIDE_MOST:
            return Capacity(BESIDE_MOST)
        return held if held.servers >= 2 else Capacity(0, held.why)

    def _room(self, settings: Sequence[Mapping[str, Value]], data_bytes: int | None) -> Capacity:
        return room(settings, self.identity, self.volume.data_root, data_bytes)

    def groups(
        self, request: SeriesRequest, base: Workload, workloads: Mapping[str, Workload]
    ) -> tuple[ArmGroup, ...]:
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
        held = self._room([arm.settings for arm in (request.base, *sliced)], data_bytes)
        own = place_of(request.base, base, self.identity)
        places = {arm.name: place_of(arm, workloads[arm.name], self.identity) for arm in sliced}
        united = [name for name in request.together if name in places]
        why |= dict.fromkeys(self._without_room(places, own, united, held), held.why)
        arms = [name for name in places if not why[name]]
        slices = slices_of(request, base, workloads, arms, self.slice_s)
        together = [name for name in request.together if name in slices]
        groups = list(self._grouped(slices, together, places, own, held))
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
        return SLOW_DISK if any(one is not None for one in disks) else ""

    def _why_fresh(
        self,
        arm: BoundArm,
        request: SeriesRequest,
        base: Workload,
        workload: Workload,
        data_bytes: int | None,
    ) -> str:
        if base.slice_s is None or workload.slice_s is None:
            cannot = request.base if base.slice_s is None else arm
            return f"{cannot.workload.name.split(':')[0]} cannot be paused"
        if why := self._why_never(request.spec.storage.disk, arm.disk):
            return why
        pool = number_of(Configuration(request.base.settings, self.identity), "innodb_buffer_pool_size")
        fits = data_bytes is not None and data_bytes < pool
        catalog = load_catalog()
        for setting in (catalog.setting(name) for name in arm.changes if name in catalog):
            if setting.needs_steady_state and not (fits and setting.group == "doublewrite"):
                return f"{setting.name} shows its effect later, in background work"
        return ""

    def _without_room(
        self, places: Mapping[str, str], own: str, united: Sequence[str], held: Capacity
    ) -> Sequence[str]:
        if held.servers < LEAST_SERVERS:
            return list(places)
        return united if held.servers - 2 < len(united) else []

    def _grouped(
        self,
        slices: Mapping[str, float],
        together: Sequence[str],
        places: Mapping[str, str],
        own: str,
        held: Capacity,
    ) -> Iterator[tuple[str, ...]]:
        return grouped(slices, together, held.servers - 2)

    def _shared(self, names: Sequence[str], places: Mapping[str, str], own: str) -> int:
        return 0

    # -- running

    def used(self, use: Use, progress: Progress) -> AbstractContextManager[None]:
        return nullcontext()

    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        data = asked.data
        preparation = Preparation(
            build=self.build,
            data_root=self.volume.below,
            dataset=data.dataset if data else None,
            database=data.database if data else "",
            snapshots=Snapshots(),
            progress=progress,
        )
        return TrialRunner(
            spec=SandboxSpec(
                self.build,
                arguments=asked.launch.arguments,
                clients=self.clients,
                nodes=self.nodes,
                latency_s=self.latency_s,
            ),
            workloads=tuple(self.reaching(one, asked.database) for one in asked.workloads),
            timing=asked.timing,
            progress=progress,
            preparation=preparation,
            volume=self.volume,
            outlast_redo=asked.outlast_redo,
        )

    def reaching(self, workload: Workload, database: str | None) -> Workload:
        return on_data(workload, database) if database else workload

    def sliced(self, runner_of: Callable[[Arm], ArmRunner], seed: int, place_of: PlaceOf) -> SlicedRunner:
        return SlicedRunner(runner_of, seed, place_of if self.nodes > 1 else None, slice_s=self.slice_s)

    def other(self, server: str, progress: Progress) -> Self:
        pool = replace(self, build=find_build(server, get=not self.dry_run, progress=progress))
        pool.tell_caveats(progress)
        return pool

    def volumes(self, progress: Progress) -> Volumes:
        return (PaperVolumes if self.dry_run else Volumes)(self.volume, progress)

    def once(self, asked: Once, watcher: Watcher) -> Trial:
        spec, workload = asked.spec, asked.workload
        given = self.settings.parse(spec.base.settings)
        self.settings.require_taken(given)
        connections = threads_of(workload)
        user = self.settings.of_base(spec.base, asked.data, connections, watcher)
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
                check_other_load(self.settings.folder, watcher, wait=True)
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
            warnings=(*self.settings.warnings(), *user.warnings, *trial.warnings),
            disk=slow.record if slow else None,
        )

    def takes(
        self, spec: CampaignSpec, arms: Sequence[Mapping[str, Value]], data_bytes: int | None, at_once: int
    ) -> tuple[Resources, dict[str, str]]:
        servers = self.nodes * at_once
        configurations = [Configuration(settings, self.identity) for settings in arms]
        copy = copy_bytes(arms, self.identity, data_bytes)
        resources = Resources(
            pool_bytes=max(number_of(one, "innodb_buffer_pool_size") for one in configurations),
            memory_bytes=servers * max(memory_use(one).worst_bytes for one in configurations),
            available_memory_bytes=available_memory_bytes(),
            data_bytes=data_bytes,
            disk_bytes=None if copy is None else (1 + servers) * copy,  # the first is the snapshot
            free_disk_bytes=self.volume.data_root.free_bytes(),
            servers=servers,
        )
        return resources, {
            str(home_path() / "snapshots"): "the prepared data, kept for the next time",
            spec.storage.data_root or str(home_path() / "run"): (
                "data directories of servers, removed as they end"
            ),
        }


@dataclass(frozen=True)
class ClusterPool(SandboxPool):
    slice_s: ClassVar[float] = CLUSTER_SLICE_S
    crashes: ClassVar[int] = 8
    crash_nodes: ClassVar[Literal["all"] | None] = "all"
    """All: nodes that stay would make good what the settings lose."""

    def _kept_running(self, request: TuneRequest, held: Capacity) -> Capacity:
        changed = [one.settings for one in request.candidates]
        changed += [request.raised] if request.yours is not None else []
        if any(restart_settings(one, self.identity) for one in changed):
            servers = min(held.servers, CLUSTERS_MOST)
        else:
            servers = BESIDE_MOST * min(held.servers, 1)
        return Capacity(servers) if servers >= 2 else Capacity(0, held.why)

    def _why_never(self, *disks: str | None) -> str:
        """Only one cluster writes at a time, and each node has a disk of its own."""
        return ""

    def _without_room(
        self, places: Mapping[str, str], own: str, united: Sequence[str], held: Capacity
    ) -> Sequence[str]:
        too_many = len({own, *(places[name] for name in united)}) > held.servers
        return [
            name
            for name, place in places.items()
            if held.servers < (1 if place == own else 2) or (too_many and name in united)
        ]

    def _grouped(
        self,
        slices: Mapping[str, float],
        together: Sequence[str],
        places: Mapping[str, str],
        own: str,
        held: Capacity,
    ) -> Iterator[tuple[str, ...]]:
        return on_places(slices, together, places, own, held.servers - 1)

    def _shared(self, names: Sequence[str], places: Mapping[str, str], own: str) -> int:
        return len({own, *(places[name] for name in names)})

    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        if any(workload.reset == "none" for workload in asked.workloads):
            raise UsageError(
                "--reset none goes on with the last run's data, but each run starts a cluster of its own",
                hint="remove it, or --cluster",
            )
        return super().runner(asked, progress)


def crashable(pool: ServerPool) -> SandboxPool:
    if isinstance(pool, SandboxPool):
        return pool
    raise UsageError("your own server is never crashed", hint="crash a server that flushlab starts")


def in_full(server: str, build: str) -> str:
    """`mysql@8.0.15` where `mysql@8.0` or `mysql` was asked for: tomorrow these may be another version."""
    return build if _VERSION.fullmatch(server) else server
