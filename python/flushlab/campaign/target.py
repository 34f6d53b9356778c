"""Target: the servers that a command names, before one is looked for. Sits in `campaign`,
above `pool` and `fleet`.

`target_of` chooses: servers that flushlab starts, here or on a fleet, or a running one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab.build import find_build
from flushlab.build.build import Build
from flushlab.build.choice import BuildChoice, Sign, candidates, choose
from flushlab.build.galera import galera_for, require_galera_flavor
from flushlab.campaign.data import Data, open_data
from flushlab.campaign.pool.protocol import CampaignSpec
from flushlab.campaign.pool.remote import RemoteTarget
from flushlab.campaign.pool.room import paper_root
from flushlab.campaign.pool.sandboxes import ClusterPool, SandboxPool
from flushlab.campaign.pool.work import root_for
from flushlab.datadir import Volume, open_volume
from flushlab.errors import UsageError
from flushlab.fleet.connect import connected, parse_address
from flushlab.machine import home_path
from flushlab.process import reap
from flushlab.process.network import require_network
from flushlab.progress import Progress, silent
from flushlab.server.galera.cluster import require_size
from flushlab.server.sandbox.base_file import signs as signs_of
from flushlab.server.start import is_kept
from flushlab.spec.kinds import BenchSpec, TuneSpec
from flushlab.spec.parts import (
    DEFAULT_SERVER,
    DataSpec,
    ServerSpec,
    ServersSpec,
    StorageSpec,
    WorkloadSpec,
)
from flushlab.workload import protocol
from flushlab.workload.engine import require_cluster
from flushlab.workload.options import EngineOptions
from flushlab.workload.protocol import Workload


@dataclass(frozen=True)
class NewServers:
    """`is_asked`: the command names the fleet, and not the environment alone; `alone`: why they are not on
    the fleet that the environment names."""

    server: ServerSpec | ServersSpec
    storage: StorageSpec
    fleet: str = ""
    clients: tuple[str, ...] = ()
    is_asked: bool = field(default=True, kw_only=True)
    alone: str = field(default="", kw_only=True)
    signs: tuple[Sign, ...] = field(default=(), kw_only=True)

    @property
    def on_fleet(self) -> bool:
        return bool(self.fleet) and not self.clients

    def planned(self, server: str | None, cluster: int | None) -> NewServers:
        asked = self.server
        assert isinstance(asked, ServerSpec), "a plan has one server"
        nodes = asked.cluster if asked.cluster is not None else cluster
        named = msgspec.structs.replace(asked, server=asked.server or server, cluster=nodes)
        return replace(self, server=named)

    def fitting(
        self, data: Data | None, files: Iterable[Path | str | None], progress: Progress
    ) -> NewServers:
        signs = list(data.dataset.signs()) if data is not None else []
        paths = [Path(one) for one in dict.fromkeys(files) if one is not None]
        signs += [sign for path in paths for sign in signs_of(path)]
        server, told = self.server, data is not None or bool(paths)
        if told and server.basedir is None and not server.named:
            servers = [one for one in candidates() if one[0] == "mariadb" or not server.cluster]
            choice = choose(signs, servers) or BuildChoice(DEFAULT_SERVER)
            progress(choice.line)
            server = server.of(choice.server)
        return replace(self, server=server, signs=tuple(signs))

    def resuming(self, earlier: CampaignSpec, fleet: str = "", clients: tuple[str, ...] = ()) -> NewServers:
        if place := earlier.remote.place:
            raise UsageError(
                f"the campaign runs on your own server, {place}: its password is not stored",
                hint="name the server again, with -h HOST -u USER -p and the permissions",
            )
        if self.clients not in ((), clients):
            drove = f"came from {', '.join(clients)}" if clients else "came from the server's machine"
            raise UsageError(
                f"the load of the campaign {drove}, and cannot come from elsewhere now",
                hint="leave --client out, or start a new campaign",
            )
        alone = self.alone
        if self.on_fleet and not fleet:
            refusal = began_on_one_machine("its blocks")
            alone = fleet_unless(self.fleet if self.is_asked else None, refusal).why_not
        address = (self.fleet if clients or self.on_fleet else "") or fleet
        return NewServers(
            earlier.server, earlier.storage, address if fleet or clients else "", clients, alone=alone
        )

    def require_files(self, memory: str | None, *sources: object) -> None:
        if memory is not None and not any(sources):
            raise UsageError(
                f"--memory {memory} scales an option file, and there is none",
                hint="give one with --base, or set innodb_buffer_pool_size",
            )

    def require_load(self, workload: Workload) -> None:
        if isinstance(workload, EngineOptions):
            require_cluster(workload.cluster_load, self.server.cluster or 1)
        if not self.clients:
            return
        if not isinstance(workload, EngineOptions):
            raise UsageError(
                f"--client drives loads of flushlab's own, and {workload.name.split(':')[0]} runs on the"
                " server's machine",
                hint="use an OLTP workload, upsert or txn:FILE, or remove --client",
            )
        if workload.hdr_log or workload.per_second:
            raise UsageError(
                "--hdr-log and --per-second are not written with --client", hint="remove one of the two"
            )

    def open_data(self, data: DataSpec, workloads: Iterable[str], progress: Progress) -> Data | None:
        return open_data(data, workloads, progress)

    @contextmanager
    def open(self, progress: Progress, *, dry_run: bool = False) -> Iterator[SandboxPool]:
        if self.alone:
            progress(told_alone(self.alone))
        with ExitStack() as stack:
            machines, clients = None, None
            if self.fleet:
                stack.enter_context(connected(parse_address(self.fleet)))
                # Ray is imported only here, once the variables of this fleet are set.
                if self.clients:
                    from flushlab.campaign.fleet.clients import claimed as claimed_clients
                    from flushlab.campaign.fleet.clients import find

                    if dry_run:
                        find(self.clients)
                    else:
                        clients = stack.enter_context(claimed_clients(self.clients, progress))
                elif dry_run:
                    from flushlab.campaign.fleet.ray_machines import foreseen

                    machines = foreseen()
                else:
                    from flushlab.campaign.fleet.ray_machines import claimed

                    root = root_for(self.server, self.storage)
                    machines = stack.enter_context(claimed(progress, root))
            if dry_run:
                build = find_build(self.server.build, basedir=_path(self.server.basedir), get=False)
                paper = Volume(paper_root(_path(self.storage.data_root) or home_path() / "run"))
                pool = replace(_pool(build, paper, self.server, self.signs, progress), dry_run=True)
            else:
                pool = stack.enter_context(open_servers(self.server, self.storage, progress, self.signs))
            yield replace(pool, fleet=machines, clients=clients) if self.fleet else pool


FLEET = "FLUSHLAB_FLEET"
"""Environment variable: the fleet of campaigns that flushlab starts servers for."""


def named_fleet(given: str | None) -> str:
    return given or os.environ.get(FLEET) or ""


class NamedFleet(NamedTuple):
    address: str = ""
    why_not: str = ""


def fleet_unless(given: str | None, *refusals: UsageError | None) -> NamedFleet:
    refusal = next((one for one in refusals if one is not None), None)
    if refusal is None:
        return NamedFleet(named_fleet(given))
    if given:
        raise refusal
    return NamedFleet("", refusal.message if os.environ.get(FLEET) else "")


def told_alone(why_not: str) -> str:
    return f"runs on this machine, not on the fleet of {FLEET}: {why_not}"


def began_on_one_machine(what: str) -> UsageError:
    return UsageError(
        f"the campaign began on this machine alone, and {what} cannot go on elsewhere",
        hint="leave --fleet out, or start a new campaign",
    )


Target = NewServers | RemoteTarget


@contextmanager
def open_servers(
    server: ServerSpec | ServersSpec,
    storage: StorageSpec | None = None,
    progress: Progress = silent,
    signs: tuple[Sign, ...] = (),
) -> Iterator[SandboxPool]:
    storage = storage or StorageSpec()
    for reaped in reap():
        progress(f"cleaned up after an earlier run: {reaped}")
    build = find_build(server.build, basedir=_path(server.basedir), progress=progress)
    if nodes_of(server.cluster, build) > 1:
        galera_for(build, progress)  # found out here, not after the data are made
    if server.latency_s is not None:
        require_network(server.latency_s)
    with open_volume(_path(storage.data_root), storage.disk, progress) as volume:
        yield _pool(build, volume, server, signs, progress)


def _pool(
    build: Build,
    volume: Volume,
    server: ServerSpec | ServersSpec,
    signs: tuple[Sign, ...],
    progress: Progress,
) -> SandboxPool:
    nodes = nodes_of(server.cluster, build)
    pool = (SandboxPool if nodes == 1 else ClusterPool)(
        build, volume, nodes, server.latency_s or 0.0, signs=signs
    )
    pool.tell_caveats(progress)
    return pool


def nodes_of(cluster: int | None, build: Build) -> int:
    if cluster is None:
        return 1
    require_size(cluster)
    require_galera_flavor(build)
    return cluster


def target_of(spec: CampaignSpec | BenchSpec, workload: WorkloadSpec | None = None) -> Target:
    if workload is not None and workload.name == protocol.OWN_LOAD:
        raise protocol.only_compared()
    if spec.remote.named_by:
        return RemoteTarget.of(spec.remote, spec.data.database, workload, spec.server)
    run = spec if isinstance(spec, BenchSpec) else spec.run
    if run.client:
        if isinstance(spec, BenchSpec) and is_kept(spec.server.build):
            raise UsageError(
                f"{spec.server.build} listens on this machine only, so that no --client reaches it",
                hint="bench a server that is started for it, such as --server mariadb",
            )
        return _with_clients(spec, run.client, run.fleet)
    if isinstance(spec, BenchSpec):
        return NewServers(spec.server, spec.storage)
    fleet = fleet_unless(run.fleet, *_not_spread(spec))
    is_asked = bool(run.fleet or not fleet.address)
    return NewServers(spec.server, spec.storage, fleet.address, is_asked=is_asked, alone=fleet.why_not)


def _not_spread(spec: CampaignSpec) -> Iterator[UsageError]:
    if spec.run.wait_for_quiet:
        yield UsageError(
            "--wait-for-quiet looks at this machine alone, and the blocks run on the fleet's",
            hint="leave it out; `flushlab fleet status` shows the load of each machine",
        )
    if not isinstance(spec, TuneSpec) and spec.precision is not None:
        yield UsageError(
            "--precision ends a campaign early, and blocks of several machines are judged at the end",
            hint="leave it out, and say how many blocks with --blocks",
        )


def _with_clients(spec: CampaignSpec | BenchSpec, clients: tuple[str, ...], fleet: str | None) -> NewServers:
    if not (fleet := named_fleet(fleet)):
        raise UsageError(
            "--client names a machine of a fleet, and no fleet is named",
            hint=f"add --fleet ADDRESS or set {FLEET}; `flushlab fleet start` prints it",
        )
    if spec.server.cluster is not None:
        raise UsageError("--client loads one server, not a cluster", hint="remove --cluster or --client")
    names = [name.strip() for words in clients for name in words.split(",")]
    return NewServers(spec.server, spec.storage, fleet, tuple(name for name in names if name))


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
