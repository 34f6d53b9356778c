"""Target: the build, the catalog and the volume that trials run on.

Sits in `campaign`; `bench`, `compare`, `tune` and `series` open one each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from flushlab.build import Progress, find_build, silent
from flushlab.build.build import Build
from flushlab.build.galera import galera_for, require_galera_flavor
from flushlab.campaign.data import Data
from flushlab.campaign.external import Own, opened, require_same_place
from flushlab.datadir import DataRoot, Snapshots, Volume, open_volume, storage_of
from flushlab.errors import UsageError
from flushlab.machine import home_path
from flushlab.process import reap
from flushlab.process.wire import require_wire
from flushlab.record import ServerIdentity, Warning
from flushlab.server.galera.cluster import require_size
from flushlab.server.remote.group import RemoteGroup
from flushlab.settings.catalog import Catalog, load_catalog
from flushlab.spec.parts import ServerSpec, ServersSpec, StorageSpec
from flushlab.trial import Preparation, TrialRunner
from flushlab.units import format_latency
from flushlab.workload import Timing, Workload, on_data

_SPARE_CONNECTIONS = 50
_DEFAULT_MAX_CONNECTIONS = 151


@dataclass(frozen=True)
class Target:
    """What trials run on.

    Attributes:
        build: the server.
        catalog: types and meaning of settings.
        volume: where data directories go.
        on_paper: it is only looked at: nothing may be started or written.
        nodes: of the Galera cluster that is started of the build; 1: a server alone.
        latency_s: between them, there and back; 0: as on loopback.
        external: somebody's own server, which takes the place of those that are started; the build and the
            volume only stand for it.
        own: what that server was named by, and what it may be used for.
    """

    build: Build
    catalog: Catalog
    volume: Volume
    on_paper: bool = False
    nodes: int = 1
    latency_s: float = 0.0
    external: RemoteGroup | None = None
    own: Own | None = None

    @property
    def identity(self) -> ServerIdentity:
        """Which server the build will be."""
        if self.external is not None:
            return self.external.identity
        build = self.build
        return ServerIdentity(
            flavor=build.flavor,
            version=build.version,
            version_text=build.version_text,
            build_id=build.id,
            nodes=self.nodes,
        )


class Placed(Protocol):
    """A specification that says where servers run."""

    @property
    def server(self) -> ServerSpec | ServersSpec:
        """Which, and of how many nodes."""
        ...

    @property
    def storage(self) -> StorageSpec:
        """Where data directories lie."""
        ...


class Stored(Protocol):
    """A stored request."""

    @property
    def spec(self) -> Placed:
        """What was asked for."""
        ...

    @property
    def external(self) -> str:
        """Where somebody's own server is; empty if flushlab starts them."""
        ...


@contextmanager
def open_target(
    server: ServerSpec | ServersSpec, storage: StorageSpec | None = None, progress: Progress = silent
) -> Iterator[Target]:
    """Finds the build (obtains it if needed), opens the data root, makes the disk slow if asked to.

    Raises:
        BuildNotFound, StorageError, HarnessError: as their makers say.
        UsageError: no cluster of that size can be made of the build.
    """
    storage = storage or StorageSpec()
    for reaped in reap():
        progress(f"cleaned up after an earlier run: {reaped}")
    build = find_build(server.build, basedir=_path(server.basedir), progress=progress)
    nodes = nodes_of(server.cluster, build)
    if nodes > 1:
        galera_for(build, progress)  # found out here, not after the data are made
    if server.latency_s is not None:
        require_wire(server.latency_s)
    with open_volume(_path(storage.data_root), storage.disk_iops, storage.disk, progress) as volume:
        yield Target(build, load_catalog(), volume, nodes=nodes, latency_s=server.latency_s or 0.0)


def target_of(
    earlier: Stored | None, asked: Placed, own: Own | None, progress: Progress
) -> AbstractContextManager[Target]:
    """What a campaign runs on; of one that goes on, what it ran on.

    Args:
        earlier: the request of the campaign that goes on, or None.
        asked: where a new one is to run.
        own: somebody's own server, as it was named now, or None.
        progress: told what takes long.

    Raises:
        UsageError: it ran on somebody's own server that is not named again, or on none.
    """
    if earlier is not None:
        require_same_place(earlier.external, own)
    if own is not None:
        return external_target(own)
    spec = earlier.spec if earlier is not None else asked
    return open_target(spec.server, spec.storage, progress)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


@contextmanager
def external_target(own: Own) -> Iterator[Target]:
    """Somebody's own server, or cluster, as a target: nothing is started.

    Raises:
        UsageError, ServerError: as `external.opened`.
    """
    with opened(own) as server:
        identity = server.identity
        build = Build(
            flavor=identity.flavor,
            version=identity.version,
            version_text=identity.version_text,
            source="external",
            prefix="",
            mysqld="",
            id=f"{identity.version_text} at {server.name}",
        )
        root = msgspec.structs.replace(paper_root(home_path() / "run"), storage=server.storage)
        yield Target(build, load_catalog(), Volume(root), nodes=len(server.nodes), external=server, own=own)


def nodes_of(cluster: int | None, build: Build) -> int:
    """How many nodes `--cluster` asks for; 1 where it is not given.

    Raises:
        UsageError: too few or too many, or no cluster can be made of the build.
    """
    if cluster is None:
        return 1
    require_size(cluster)
    require_galera_flavor(build)
    return cluster


def paper_target(server: ServerSpec | ServersSpec, storage: StorageSpec) -> Target:
    """A target that is only looked at: nothing is fetched, made, limited or cleaned up.

    Raises:
        BuildNotFound: the build is not installed.
    """
    build = find_build(server.build, basedir=_path(server.basedir), get=False)
    root = paper_root(_path(storage.data_root) or home_path() / "run")
    return Target(
        build,
        load_catalog(),
        Volume(root),
        on_paper=True,
        nodes=nodes_of(server.cluster, build),
        latency_s=server.latency_s or 0.0,
    )


def paper_root(path: Path) -> DataRoot:
    """The data root as it would be: what its folder, or the nearest one above that there is, lies on."""
    path = path.expanduser().absolute()
    standing = next(folder for folder in (path, *path.parents) if folder.is_dir())
    return DataRoot(path=standing, storage=storage_of(standing))


def connection_arguments(threads: int) -> tuple[str, ...]:
    """Arguments that let this many connections in, where the default would not."""
    wanted = threads + _SPARE_CONNECTIONS
    return (f"--max-connections={wanted}",) if wanted > _DEFAULT_MAX_CONNECTIONS else ()


def co_located(nodes: int, latency_s: float | None = None) -> tuple[Warning, ...]:
    """What is to be said of a cluster whose nodes are all on this machine."""
    if nodes == 1:
        return ()
    text = (
        f"{nodes} nodes share this machine's processors and disk (co-located): what was measured does"
        " not transfer as it is to nodes that have machines of their own"
    )
    if not latency_s:
        return (Warning("co-located", f"{text}; nor is there a network between them"),)
    there = f"; between them are {format_latency(latency_s * 1e6)} of network, there and back"
    return (Warning("co-located", text + there),)


def trial_runner(
    target: Target,
    workloads: tuple[Workload, ...],
    timing: Timing,
    *,
    arguments: tuple[str, ...],
    data: Data | None = None,
    outlast_redo: bool = False,
    progress: Progress = silent,
) -> TrialRunner:
    """What runs trials on a target; see `TrialRunner`. Workloads run on the user's data if there are any."""
    if target.nodes > 1 and any(workload.reset == "none" for workload in workloads):
        raise UsageError(
            "--reset none goes on with the last run's data, but each run starts a cluster of its own",
            hint="remove it, or --cluster",
        )
    root = target.volume.data_root
    preparation = Preparation(
        build=target.build,
        catalog=target.catalog,
        data_root=target.volume.below,
        dataset=data.dataset if data else None,
        database=data.database if data else "",
        snapshots=Snapshots(),
        progress=progress,
    )
    return TrialRunner(
        build=target.build,
        catalog=target.catalog,
        workloads=tuple(on_data(one, data.database) for one in workloads)
        if data and data.database
        else workloads,
        timing=timing,
        preparation=preparation,
        data_root=root,
        disk_limit=target.volume.disk_limit,
        slow_disk=target.volume.slow_disk,
        outlast_redo=outlast_redo,
        arguments=arguments,
        nodes=target.nodes,
        latency_s=target.latency_s,
        external=target.external,
    )
