"""Remote: the user's own running server, or all nodes of a cluster; nothing is started.

Sits in `campaign.pool`; implements `ServerPool`. Arms alternate in slices on the server, which is never
restarted. Reading needs no permission; `remote_use.py` has what takes --allow-writes and
--allow-set-global, and undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from flushlab.campaign.data import Data
from flushlab.campaign.facts import EXTERNAL, Resources
from flushlab.campaign.loop import check_other_load
from flushlab.campaign.pool import own_load, remote_use
from flushlab.campaign.pool.protocol import CampaignSpec, Once, PlaceOf, RunnerInput, Search, ServerPool, Use
from flushlab.campaign.pool.remote_use import Load
from flushlab.campaign.pool.room import paper_root
from flushlab.campaign.pool.running_server import raise_running, tried, without_restarts
from flushlab.campaign.pool.sandboxes import SandboxPool
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
from flushlab.plan.plan import Plan
from flushlab.progress import Progress
from flushlab.record import Arm, Launch, Machine, ServerIdentity, Storage, Trial, Value, Warning
from flushlab.server.remote.login import Address, addresses_of
from flushlab.server.remote.put_back import require_kept
from flushlab.server.remote.server import RemoteGroup, open_group
from flushlab.server.sql import persisted
from flushlab.settings.candidates import Candidate, propose
from flushlab.settings.catalog import load_catalog
from flushlab.settings.floor import Floor
from flushlab.spec.option import flag
from flushlab.spec.parts import DataSpec, RemoteAccess, ServerSpec, ServersSpec, WorkloadSpec
from flushlab.trial.runner import ArmRunner, RemoteRunner
from flushlab.trial.sliced import CLUSTER_SLICE_S, SlicedRunner
from flushlab.workload.options import EngineOptions, reaching, seeded
from flushlab.workload.parse import on_data
from flushlab.workload.protocol import OwnLoad, Workload
from flushlab.workload.sql import TxnWorkload
from flushlab.workload.tables import OltpWorkload, UpsertWorkload

NOTHING = Resources(
    pool_bytes=0,
    memory_bytes=0,
    available_memory_bytes=0,
    data_bytes=None,
    disk_bytes=0,
    free_disk_bytes=0,
    servers=0,
)
"""Of this machine."""


@dataclass(frozen=True)
class RemoteTarget:
    """A running server, before it is reached.

    Attributes:
        addresses: of the server, or of nodes of its cluster.
        named_database: the database of the user's transactions, or None.
        access: the permissions.
        server: the servers that flushlab would start, as a command without any has them.
    """

    addresses: tuple[Address, ...]
    named_database: str | None
    access: RemoteAccess
    server: ServerSpec | ServersSpec

    @property
    def on_fleet(self) -> str:
        """No fleet runs the blocks."""
        return ""

    @property
    def needed_fleet(self) -> str:
        """Nor drives the load."""
        return ""

    @property
    def driven_by(self) -> tuple[str, ...]:
        """This machine drives the load."""
        return ()

    @classmethod
    def of(
        cls,
        access: RemoteAccess,
        database: str | None = None,
        workload: WorkloadSpec | None = None,
        server: ServerSpec | ServersSpec | None = None,
    ) -> RemoteTarget:
        """The server that an address names.

        Args:
            access: the address and the permissions.
            database: of the user's transactions; the DSN's if None.
            workload: what writes; how it reaches the server is a matter of the DSN.
            server: see the attribute.

        Raises:
            UsageError: no address, or an option of the load that does not go with one.
        """
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
        """The same: a plan's server is one that flushlab would start."""
        return self

    def resuming(self, earlier: CampaignSpec, fleet: str = "", clients: tuple[str, ...] = ()) -> RemoteTarget:
        """The server of a campaign that goes on.

        Raises:
            UsageError: the campaign ran on servers that flushlab starts.
        """
        if not earlier.remote.place:
            raise UsageError("the campaign runs on servers that flushlab starts", hint="give --resume alone")
        return self

    def require_files(self, memory: str | None, *sources: object) -> None:
        """Refuses option files: the server has its own.

        Raises:
            UsageError: one is given.
        """
        if file := next((source for source in sources if source), None):
            raise UsageError(
                f"{file} cannot be compared on your own server: it has an option file of its own",
                hint="name the settings: NAME=VALUE",
            )

    def require_load(self, workload: Workload) -> None:
        """Nothing: the number of nodes is not known yet."""

    def open_data(self, data: DataSpec, workloads: Iterable[str], progress: Progress) -> Data | None:
        """None: the server has its own."""
        return None

    def fitting(self, data: Data | None, files: Iterable[Path | str | None], progress: Progress) -> Self:
        """The server that is named."""
        return self

    @contextmanager
    def open(self, progress: Progress) -> Iterator[RemotePool]:
        """The server, with all nodes of its cluster.

        Raises:
            UsageError: it is not all of a cluster.
            ServerError: it does not answer, or its cluster is not in step.
        """
        with open_group(self.addresses) as server:
            yield RemotePool(server, self)

    def look(self, progress: Progress) -> AbstractContextManager[RemotePool]:
        """The server in a dry run, which only reads it."""
        return self.open(progress)


@dataclass(frozen=True)
class RemotePool(ServerPool):
    """A running server on which arms alternate in slices.

    Attributes:
        server: the server, or all nodes of its cluster.
        target: what it was named by.
    """

    server: RemoteGroup
    target: RemoteTarget

    restarts: ClassVar[bool] = False
    slice_s: ClassVar[float] = CLUSTER_SLICE_S

    # -- which server, and where

    @cached_property
    def identity(self) -> ServerIdentity:
        """As the server tells."""
        return self.server.identity

    @property
    def key(self) -> str:
        """Version and address."""
        return f"{self.identity.version_text} at {self.server.name}"

    @property
    def storage(self) -> Storage:
        """Not visible, unless the server is on this machine."""
        return self.server.storage

    @property
    def folder(self) -> Path:
        """Where flushlab keeps its files."""
        return paper_root(home_path() / "run").path

    def machine(self) -> Machine:
        """This machine, from which the load comes."""
        return describe_client()

    @property
    def access(self) -> RemoteAccess:
        """The address without its account, and the flags that name the account; with all permissions."""
        nodes = self.server.name.replace(", ", ",")
        return msgspec.structs.replace(
            self.target.access,
            dsn=f"mysql://USER:PASSWORD@{nodes}",
            allow_writes=True,
            allow_set_global=True,
        )

    @property
    def database(self) -> str | None:
        """The database of the user's transactions, or None."""
        return self.target.named_database

    # -- settings

    def require_taken(self, settings: Mapping[str, Value]) -> None:
        """Nothing: the binary is not here."""

    def settings(
        self, base: Mapping[str, Value], launch: Launch, watcher: Watcher, also: Iterable[str] = ()
    ) -> dict[str, Value]:
        """The settings of the server, whatever the base."""
        return self.has(also)

    def has(self, also: Iterable[str] = ()) -> dict[str, Value]:
        """The settings of the server."""
        names = load_catalog().names(self.identity.flavor, self.identity.version)
        return self.server.read_back({*names, *also})

    def persisted(self) -> Mapping[str, str] | None:
        """What SET PERSIST has stored; None: not known."""
        return persisted(self.server.query, self.identity)

    def raise_to_floor(
        self, settings: Mapping[str, Value], floor: Floor, keep: Iterable[str], launch: Launch
    ) -> tuple[dict[str, Value], tuple[str, ...]]:
        """What raises settings to a floor while the server runs; see `running_server.raise_running`."""
        return raise_running(settings, self.has(settings), floor, self.identity, keep)

    def candidates(self, search: Search) -> tuple[tuple[Candidate, ...], tuple[Warning, ...]]:
        """What may be tried while the server runs. How much memory it may have, only its pool tells."""
        seen, identity = search.seen, self.identity
        pool = seen.get("innodb_buffer_pool_size")

        def proposed(keep: Iterable[str]) -> tuple[Candidate, ...]:
            return propose(
                identity,
                base={**seen, **search.base},
                floor=search.floor,
                storage=self.storage,
                launch=search.launch,
                memory_bytes=pool if isinstance(pool, int) else 0,
                keep=keep,
            )

        every = proposed(search.keep)
        unlike = remote_use.differing(self.server, {name for one in every for name in one.settings})
        possible, notes = tried(every, seen, identity, unlike)
        out = {name for one in every if one not in possible for name in one.settings}
        kept = [*search.keep, *out]  # what is out keeps nothing out
        found, _ = tried(proposed(kept), seen, identity, unlike)
        return found, notes

    def reduced(self, plan: Plan, values: Mapping[str, Value]) -> tuple[Plan, tuple[Warning, ...]]:
        """The plan with a base that needs no restart."""
        return without_restarts(plan, values, self.identity)

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        """The server is not flushlab's own, and slices are short."""
        text = (
            "this is not flushlab's own server: whatever else it does affects the results, and its host"
            " cannot be seen"
        )
        later = "shows later, in background work, which short slices cannot measure"
        catalog = load_catalog()
        names = [name for name in changed if name in catalog]
        return (
            Warning(EXTERNAL, text),
            *(
                Warning("shows-later", f"the effect of {name} {later}", name)
                for name in names
                if catalog.setting(name).needs_steady_state
            ),
        )

    # -- scheduling

    def capacity(self, request: TuneRequest, workloads: Sequence[Workload]) -> Capacity:
        """How many loads of a tuning the server lets in."""
        if not all(one.slice_s is not None and isinstance(one, EngineOptions) for one in workloads):
            raise UsageError(
                f"{workloads[0].name} cannot be paused, and candidates alternate in slices on your own"
                " server",
                hint="your own server takes sysbench's workloads, upsert and txn:FILE, without --profile",
            )
        each = sum(map(_threads_of, workloads))
        loads = min(BESIDE_MOST, remote_use.free_connections(self.server) // each)
        if loads < LEAST_SERVERS:
            remote_use.require_connections(self.server, LEAST_SERVERS * each)
        return Capacity(loads)

    def groups(
        self, request: SeriesRequest, base: Workload, workloads: Mapping[str, Workload]
    ) -> tuple[ArmGroup, ...]:
        """All arms in slices, as many in the same rounds as the server has connections for."""
        if base.slice_s is None:
            raise UsageError(
                f"{base.name} cannot be paused, and arms alternate in slices on your own server",
                hint="remove --profile, --hdr-log and --per-second",
            )
        names = [arm.name for arm in request.running]
        if not names:
            return ()
        most = max(map(_threads_of, (base, *(workloads[name] for name in names))))
        loads = remote_use.free_connections(self.server) // most
        slice_s = max(self.slice_s, base.slice_s, *(workloads[name].slice_s or 0.0 for name in names))
        together = [name for name in request.together if name in names]
        groups = list(grouped(dict.fromkeys(names, slice_s), together, max(loads - 2, 1)))
        seconds = shared_s(request, len(names), len(groups))
        return tuple(kept_running_group(request, one, seconds, slice_s, 1) for one in groups)

    def in_slices(self, places: int = 0) -> str:
        """How arms alternate in slices, in words that follow "arms"."""
        return "alternate in slices on your server"

    # -- running

    def reaching(self, workload: Workload, database: str | None) -> Workload:
        """The workload as it reaches the server, with draws of its own."""
        if isinstance(workload, OwnLoad):
            return workload
        return driving(workload, self.server, database)

    def crashable(self) -> SandboxPool:
        """Never.

        Raises:
            UsageError: always.
        """
        raise UsageError("your own server is never crashed", hint="crash a server that flushlab starts")

    @contextmanager
    def used(self, use: Use, progress: Progress) -> Iterator[None]:
        """A server whose settings change before each slice while a load runs on it; see `remote_use.used`."""
        access = self.target.access
        if any(isinstance(workload, OwnLoad) for workload in use.workloads):
            with own_load.used(self.server, access, use, progress):
                yield
            return
        loads = [driving(workload, self.server, use.database) for workload in use.workloads]
        with remote_use.used(self.server, access, loads, use, progress):
            yield

    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        """Has the server; see `RemoteRunner`."""
        workloads = tuple(self.reaching(one, asked.database) for one in asked.workloads)
        if any(isinstance(workload, OwnLoad) for workload in workloads):
            return own_load.runner(workloads, asked.timing, progress, self.server)
        return RemoteRunner(workloads, asked.timing, progress, server=self.server)

    def sliced(self, runner_of: Callable[[Arm], ArmRunner], seed: int, place_of: PlaceOf) -> SlicedRunner:
        """All arms share the server."""
        return SlicedRunner(runner_of, seed, lambda _: self.server.name, slice_s=self.slice_s)

    # -- a single run

    def once(self, asked: Once, watcher: Watcher) -> Trial:
        """One run on the server as it is; what is changed of it is put back."""
        spec, server = asked.spec, self.server
        if spec.wait_for_quiet:
            check_other_load(home_path(), watcher, wait=True)
        given = self.parse(spec.base.settings)
        load = driving(asked.workload, server, self.database, spec.seed)
        access, say = self.target.access, watcher.say
        remote_use.require_permitted(server, access, [load], [given])
        use = Use([load], self.database, [given], load.threads, spec.duration)
        remote_use.require_usable(server, [load], use, writes=access.allow_writes, progress=say)
        remote_use.warn_of_load(server, spec.duration, say)
        with (
            remote_use.changed(server, [given], say) as changes,
            remote_use.tables(load, server, access, say),
        ):
            for one in changes:
                one.make()
            say(f"running the workload {load.name} on {self.identity.title} at {server.name}")
            trial = asked.measured(server, load, given, server.name)
            for node in server.nodes:
                if node.made and node.alive():
                    require_kept(node)
        return msgspec.structs.replace(trial, warnings=(*self.warnings(), *trial.warnings))

    # -- a dry run

    def resources(
        self, arms: Sequence[Mapping[str, Value]], data_bytes: int | None, at_once: int
    ) -> Resources:
        """Nothing: the server is elsewhere, or runs already."""
        return NOTHING

    def require_usable(self, use: Use, progress: Progress) -> None:
        """Refuses a server that cannot be used so; what is not permitted yet counts as permitted."""
        if any(isinstance(workload, OwnLoad) for workload in use.workloads):
            own_load.require_possible(self.server, use.arms)
            return
        loads = [driving(workload, self.server, use.database) for workload in use.workloads]
        writes = self.target.access.allow_writes or any(
            remote_use.lacks_writes(load, self.server) for load in loads
        )
        remote_use.require_usable(self.server, loads, use, writes=writes, progress=progress)

    def writes(
        self, arms: Sequence[Mapping[str, Value]], data_root: str | None, *, adds_load: bool = True
    ) -> dict[str, str]:
        """What a campaign changes on every node."""
        return remote_use.foreseen(self.server, arms, adds_load=adds_load)


def driving(
    workload: Workload, server: RemoteGroup, database: str | None = None, seed: int | None = None
) -> Load:
    """The workload as it reaches the server, with draws of its own: rows that are set to what an earlier run
    has set them to cost next to nothing.

    Args:
        workload: what writes.
        server: where.
        database: of the user's transactions, or None.
        seed: of the draws; a random one if None.

    Raises:
        UsageError: no load of the engine.
    """
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


def _threads_of(workload: Workload) -> int:
    return workload.threads if isinstance(workload, EngineOptions) else 1
