"""Remote: the user's own running server, or all nodes of a cluster; nothing is started.

Sits in `campaign.pool`; implements `ServerPool`. Arms alternate in slices on the server, which is never
restarted. Reading needs no permission; `remote_use.py` has what takes --allow-writes and
--allow-set-global, and undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from flushlab.campaign.data import Data
from flushlab.campaign.facts import Resources
from flushlab.campaign.loop import check_other_load
from flushlab.campaign.pool import own_load, remote_use
from flushlab.campaign.pool.protocol import CampaignSpec, Once, PlaceOf, RunnerInput, S, ServerPool, Use
from flushlab.campaign.pool.remote_use import Load, RemoteUse
from flushlab.campaign.pool.room import paper_root
from flushlab.campaign.pool.settings import OwnServerSettings
from flushlab.campaign.request import ArmGroup, SeriesRequest, TuneRequest
from flushlab.campaign.scheduling import (
    BESIDE_MOST,
    LEAST_SERVERS,
    Capacity,
    grouped,
    kept_running_group,
    shared_s,
)
from flushlab.campaign.watcher import Watcher
from flushlab.errors import UsageError
from flushlab.machine import describe_client, home_path
from flushlab.progress import Progress
from flushlab.record import Arm, Machine, Trial, Value
from flushlab.server.remote.login import Address, addresses_of
from flushlab.server.remote.put_back import require_kept
from flushlab.server.remote.server import RemoteGroup, open_group
from flushlab.spec.kinds import CompareSpec
from flushlab.spec.option import flag
from flushlab.spec.parts import DataSpec, RemoteAccess, ServerSpec, ServersSpec, WorkloadSpec
from flushlab.trial.runner import ArmRunner, RemoteRunner
from flushlab.trial.sliced import CLUSTER_SLICE_S, SlicedRunner
from flushlab.workload.options import EngineOptions, reaching, seeded, threads_of
from flushlab.workload.parse import on_data
from flushlab.workload.protocol import OwnLoad, Workload
from flushlab.workload.sql import TxnWorkload
from flushlab.workload.tables import OltpWorkload, UpsertWorkload


@dataclass(frozen=True)
class RemoteTarget:
    """`server`: what flushlab would start, as a command without any has it."""

    addresses: tuple[Address, ...]
    named_database: str | None
    access: RemoteAccess
    server: ServerSpec | ServersSpec

    fleet: ClassVar[str] = ""
    clients: ClassVar[tuple[str, ...]] = ()
    on_fleet: ClassVar[bool] = False

    @classmethod
    def of(
        cls,
        access: RemoteAccess,
        database: str | None = None,
        workload: WorkloadSpec | None = None,
        server: ServerSpec | ServersSpec | None = None,
    ) -> RemoteTarget:
        for name in ("ssl_mode", "ssl_ca"):
            if workload is not None and name in workload.options:
                raise UsageError(
                    f"{flag(name)} is for servers that flushlab starts, but {access.named_by} names a running"
                    " server",
                    hint="set ssl-mode and ssl-ca in the group [flushlab] of the option file, or in the DSN",
                )
        addresses = addresses_of(access)
        return cls(addresses, database or addresses[0].database or None, access, server or ServerSpec())

    def planned(self, server: str | None, cluster: int | None) -> RemoteTarget:
        return self

    def resuming(self, earlier: CampaignSpec, fleet: str = "", clients: tuple[str, ...] = ()) -> RemoteTarget:
        if not earlier.remote.place:
            raise UsageError("the campaign runs on servers that flushlab starts", hint="give --resume alone")
        return self

    def require_files(self, memory: str | None, *sources: object) -> None:
        if file := next((source for source in sources if source), None):
            raise UsageError(
                f"{file} cannot be compared on your own server: it has an option file of its own",
                hint="name the settings: NAME=VALUE",
            )

    def require_load(self, workload: Workload) -> None:
        """Nothing: the number of nodes is not known yet."""

    def open_data(self, data: DataSpec, workloads: Iterable[str], progress: Progress) -> Data | None:
        return None

    def fitting(self, data: Data | None, files: Iterable[Path | str | None], progress: Progress) -> Self:
        return self

    @contextmanager
    def open(self, progress: Progress, *, dry_run: bool = False) -> Iterator[RemotePool]:
        with open_group(self.addresses) as server:
            yield RemotePool(server, self, dry_run)


@dataclass(frozen=True)
class RemotePool(ServerPool):
    server: RemoteGroup
    target: RemoteTarget
    dry_run: bool = False

    slice_s: ClassVar[float] = CLUSTER_SLICE_S

    @cached_property
    def settings(self) -> OwnServerSettings:
        server = self.server
        return OwnServerSettings(
            identity=server.identity,
            key=f"{server.identity.version_text} at {server.name}",
            storage=server.storage,
            folder=paper_root(home_path() / "run").path,
            server=server,
        )

    def machine(self) -> Machine:
        return describe_client()

    def settled(self, spec: S) -> S:
        nodes = self.server.name.replace(", ", ",")
        access = msgspec.structs.replace(
            self.target.access,
            dsn=f"mysql://USER:PASSWORD@{nodes}",
            allow_writes=not (isinstance(spec, CompareSpec) and spec.own_load),
            allow_set_global=True,
        )
        data = msgspec.structs.replace(spec.data, database=self.target.named_database)
        return msgspec.structs.replace(spec, remote=access, data=data)

    # -- how arms are measured

    def capacity(self, request: TuneRequest, workloads: Sequence[Workload]) -> Capacity:
        if not all(one.slice_s is not None and isinstance(one, EngineOptions) for one in workloads):
            raise UsageError(
                f"{workloads[0].name} cannot be paused, and candidates alternate in slices on your own"
                " server",
                hint="your own server takes sysbench's workloads, upsert and txn:FILE, without --profile",
            )
        each = sum(map(threads_of, workloads))
        loads = min(BESIDE_MOST, remote_use.free_connections(self.server) // each)
        if loads < LEAST_SERVERS:
            remote_use.require_connections(self.server, LEAST_SERVERS * each)
        return Capacity(loads)

    def groups(
        self, request: SeriesRequest, base: Workload, workloads: Mapping[str, Workload]
    ) -> tuple[ArmGroup, ...]:
        if base.slice_s is None:
            raise UsageError(
                f"{base.name} cannot be paused, and arms alternate in slices on your own server",
                hint="remove --profile, --hdr-log and --per-second",
            )
        names = [arm.name for arm in request.running]
        if not names:
            return ()
        most = max(map(threads_of, (base, *(workloads[name] for name in names))))
        loads = remote_use.free_connections(self.server) // most
        slice_s = max(self.slice_s, base.slice_s, *(workloads[name].slice_s or 0.0 for name in names))
        together = [name for name in request.together if name in names]
        groups = list(grouped(dict.fromkeys(names, slice_s), together, max(loads - 2, 1)))
        seconds = shared_s(request, len(names), len(groups))
        return tuple(kept_running_group(request, one, seconds, slice_s, 1) for one in groups)

    # -- running

    def used(self, use: Use, progress: Progress) -> AbstractContextManager[None]:
        loads = [
            driving(workload, self.server, use.database)
            for workload in use.workloads
            if not isinstance(workload, OwnLoad)
        ]
        asked = RemoteUse(self.server, self.target.access, loads, use, progress)
        if not self.dry_run:
            return asked.begun()
        asked.require_possible(writes=asked.access.allow_writes or bool(asked.lacks_writes()))
        return nullcontext()

    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        workloads = tuple(self.reaching(one, asked.database) for one in asked.workloads)
        if any(isinstance(workload, OwnLoad) for workload in workloads):
            return own_load.runner(workloads, asked.timing, progress, self.server)
        return RemoteRunner(workloads, asked.timing, progress, server=self.server)

    def reaching(self, workload: Workload, database: str | None) -> Workload:
        return workload if isinstance(workload, OwnLoad) else driving(workload, self.server, database)

    def sliced(self, runner_of: Callable[[Arm], ArmRunner], seed: int, place_of: PlaceOf) -> SlicedRunner:
        return SlicedRunner(runner_of, seed, lambda _: self.server.name, slice_s=self.slice_s)

    def once(self, asked: Once, watcher: Watcher) -> Trial:
        spec, server, say = asked.spec, self.server, watcher.say
        if spec.wait_for_quiet:
            check_other_load(home_path(), watcher, wait=True)
        given = self.settings.parse(spec.base.settings)
        load = driving(asked.workload, server, self.target.named_database, spec.seed)
        use = Use([load], self.target.named_database, [given], load.threads, spec.duration)
        with RemoteUse(server, self.target.access, [load], use, say).begun(once=True):
            say(f"running the workload {load.name} on {server.identity.title} at {server.name}")
            trial = asked.measured(server, load, given, server.name)
            for node in server.nodes:
                if node.made and node.alive():
                    require_kept(node)
        return msgspec.structs.replace(trial, warnings=(*self.settings.warnings(), *trial.warnings))

    def takes(
        self, spec: CampaignSpec, arms: Sequence[Mapping[str, Value]], data_bytes: int | None, at_once: int
    ) -> tuple[Resources, dict[str, str]]:
        adds_load = not (isinstance(spec, CompareSpec) and spec.own_load)
        return Resources(servers=0), remote_use.foreseen(self.server, arms, adds_load=adds_load)


def driving(
    workload: Workload, server: RemoteGroup, database: str | None = None, seed: int | None = None
) -> Load:
    """Draws of its own: rows that are set to what an earlier run has set them to cost next to nothing."""
    if not isinstance(workload, OltpWorkload | UpsertWorkload | TxnWorkload):
        raise UsageError(
            f"{workload.name} is for servers that flushlab starts",
            hint="your own server takes sysbench's workloads, upsert and txn:FILE",
        )
    address = server.address
    found = reaching(workload, address.transport, address.ssl_mode, address.ssl_ca)
    load = seeded(on_data(found, database) if database else found, seed)
    assert isinstance(load, OltpWorkload | UpsertWorkload | TxnWorkload), "what the engine drives"
    return load
