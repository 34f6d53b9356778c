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
from flushlab.server.cluster import require_size
from flushlab.server.external import External
from flushlab.settings.catalog import Catalog, load_catalog
from flushlab.trial import Preparation, TrialRunner
from flushlab.units import format_latency, parse_latency
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
    external: External | None = None
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


class Place(Protocol):
    """Where servers are to run, as the arguments of `open_target`."""

    @property
    def basedir(self) -> str | None:
        """The server installed there, or None."""
        ...

    @property
    def data_root(self) -> str | None:
        """Where data directories go, or None."""
        ...

    @property
    def disk_iops(self) -> int | None:
        """Most writes/s of the disk, or None."""
        ...

    @property
    def disk(self) -> str | None:
        """The profile of a disk of its own, or None."""
        ...

    @property
    def cluster(self) -> int | None:
        """Nodes of a Galera cluster, or None."""
        ...

    @property
    def latency_s(self) -> float | None:
        """Between them, or None."""
        ...


class StoredPlace(Place, Protocol):
    """The same of a stored request."""

    @property
    def build(self) -> str:
        """Name of the build, exact version."""
        ...

    @property
    def external(self) -> str:
        """Where somebody's own server is; empty if flushlab starts them."""
        ...


@contextmanager
def open_target(
    server: str,
    *,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    disk_iops: int | None = None,
    disk: str | None = None,
    cluster: int | None = None,
    latency_s: float | None = None,
    progress: Progress = silent,
) -> Iterator[Target]:
    """Finds the build (obtains it if needed), opens the data root, makes the disk slow if asked to.

    Raises:
        BuildNotFound, StorageError, HarnessError: as their makers say.
        UsageError: no cluster of that size can be made of the build.
    """
    for reaped in reap():
        progress(f"cleaned up after an earlier run: {reaped}")
    build = find_build(server, basedir=Path(basedir) if basedir else None, progress=progress)
    nodes = nodes_of(cluster, build)
    if nodes > 1:
        galera_for(build, progress)  # found out here, not after the data are made
    if latency_s is not None:
        require_wire(latency_s)
    with open_volume(Path(data_root) if data_root else None, disk_iops, disk, progress) as volume:
        yield Target(build, load_catalog(), volume, nodes=nodes, latency_s=latency_s or 0.0)


def target_of(
    earlier: StoredPlace | None, asked: Place, own: Own | None, server: str, progress: Progress
) -> AbstractContextManager[Target]:
    """What a campaign runs on; of one that goes on, what it ran on.

    Args:
        earlier: the request of the campaign that goes on, or None.
        asked: where a new one is to run.
        own: somebody's own server, as it was named now, or None.
        server: a build.
        progress: told what takes long.

    Raises:
        UsageError: it ran on somebody's own server that is not named again, or on none.
    """
    if earlier is not None:
        require_same_place(earlier.external, own)
    if own is not None:
        return external_target(own)
    place = earlier or asked
    return open_target(
        earlier.build if earlier else server,
        basedir=place.basedir,
        data_root=place.data_root,
        disk_iops=place.disk_iops,
        disk=place.disk,
        cluster=place.cluster,
        latency_s=place.latency_s,
        progress=progress,
    )


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


def paper_target(
    server: str,
    *,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    cluster: int | None = None,
    latency_s: float | None = None,
) -> Target:
    """A target that is only looked at: nothing is fetched, made, limited or cleaned up.

    Raises:
        BuildNotFound: the build is not installed.
    """
    build = find_build(server, basedir=Path(basedir) if basedir else None, get=False)
    root = paper_root(Path(data_root) if data_root else home_path() / "run")
    return Target(
        build,
        load_catalog(),
        Volume(root),
        on_paper=True,
        nodes=nodes_of(cluster, build),
        latency_s=latency_s or 0.0,
    )


def paper_root(path: Path) -> DataRoot:
    """The data root as it would be: what its folder, or the nearest one above that there is, lies on."""
    path = path.expanduser().absolute()
    standing = next(folder for folder in (path, *path.parents) if folder.is_dir())
    return DataRoot(path=standing, storage=storage_of(standing))


def absolute(path: Path | str | None) -> str | None:
    """A path as a stored request keeps it, since a campaign may be resumed from another folder."""
    return str(Path(path).expanduser().absolute()) if path else None


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


def latency_of(text: str | None, cluster: int | None) -> float | None:
    """Seconds of `--network-latency`.

    Raises:
        UsageError: it is no latency, or there are no nodes to be between.
    """
    if text is None:
        return None
    if cluster is None:
        raise UsageError("--network-latency is between the nodes of a cluster", hint="add --cluster 3")
    return parse_latency(text)


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
