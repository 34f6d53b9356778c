"""Start: a sandbox by the name of its build, with settings as people give them; kept sandboxes and clusters
by their own names, as `flushlab server start` and `stop` take them. Sits in `server`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flushlab.build import find_build
from flushlab.datadir import DataRoot, own_disk, require_fault_disk, slow_disk_in
from flushlab.errors import StartFailed, UsageError
from flushlab.progress import Progress, silent
from flushlab.server.galera.bootstrap import BootstrapChoice
from flushlab.server.galera.cluster import Cluster, kept_clusters, node_names, start_server
from flushlab.server.sandbox import kept
from flushlab.server.sandbox.log import refusal
from flushlab.server.sandbox.sandbox import Sandbox
from flushlab.server.sandbox.spec import SandboxSpec
from flushlab.settings.admission import parse_settings
from flushlab.spec.build import build, taking
from flushlab.spec.commands import StartSpec
from flushlab.undo import undo_all

SANDBOX, CLUSTER = "sandbox:", "cluster:"


def is_kept(server: str) -> bool:
    return server.startswith((SANDBOX, CLUSTER))


def attach(server: str) -> Sandbox | Cluster:
    if server.startswith(CLUSTER):
        return Cluster.attach(server.removeprefix(CLUSTER))
    return Sandbox.attach(server.removeprefix(SANDBOX))


@taking(
    StartSpec,
    kept="The server outlives Python, until `flushlab server stop NAME`.",
    progress="Takes a line at a time.",
)
def sandbox(*, kept: bool = False, progress: Progress = silent, **given: Any) -> Sandbox | Cluster:
    """Starts a private server or cluster; as a context manager it ends with the context.

    The arguments are those of `flushlab server start` under the same names; `server` may also be
    `sandbox:NAME` or `cluster:NAME`, which run already.

    Returns:
        The server: `endpoint` is its address, `query` runs a statement, `apply` changes settings.

    Raises:
        UsageError: an unknown setting, or one that the server refuses; a name that is taken; no such disk, or
            no root.
        BuildNotFound, StartFailed, StorageError: the server could not be started.
        HarnessError: the disk cannot be made, or is not as slow as it should be.
    """
    spec = build(StartSpec, given)
    if is_kept(spec.server):
        if spec.disk is not None:
            raise UsageError(f"{spec.server} is already running, on its own disk", hint="remove --disk")
        return attach(spec.server)
    if spec.name is not None:
        require_unused(spec.name)
    if own_disk(spec.disk) is not None:
        require_fault_disk()
    basedir = Path(spec.basedir) if spec.basedir else None
    found = find_build(spec.server, basedir=basedir, progress=progress)
    nodes = spec.cluster or 1
    settings = parse_settings(spec.settings, found.flavor, found.version, nodes=nodes)
    root = DataRoot.open(Path(spec.data_root) if spec.data_root else None)
    if spec.cluster is not None and spec.port is not None:
        raise UsageError(
            "--port is for one server: each node of a cluster has an address of its own", hint="remove it"
        )
    try:
        return start_server(
            SandboxSpec(
                found,
                settings=settings,
                data_root=root,
                slow_disk=slow_disk_in(root, spec.disk),
                name=spec.name,
                kept=kept,
                port=spec.port,
                nodes=nodes,
            ),
            progress,
        )
    except StartFailed as error:
        if error.refusal is None:
            raise
        raise refusal(error.refusal, found) from error


def restart_kept(name: str) -> tuple[Sandbox | Cluster, BootstrapChoice | None] | None:
    """Starts a stopped or dead one; with the bootstrap node of a cluster none of whose nodes ran."""
    if name in kept_clusters():
        cluster = Cluster.attach(name, stopped=True)
        if cluster.alive():
            require_unused(name)
        for node in cluster.nodes:
            kept.require_disk(node.name, name)
        return cluster, cluster.start_again()
    if any(one.saved.name == name for one in kept.statuses()):
        sandbox = Sandbox.attach(name, stopped=True)
        if sandbox.alive():
            require_unused(name)
        kept.require_disk(name)
        sandbox.start_again()
        return sandbox, None
    return None


def require_unused(name: str) -> None:
    found = []
    for one in kept.statuses():
        cluster = one.saved.membership.cluster if one.saved.membership is not None else None
        if cluster is not None and one.saved.name == name:
            raise UsageError(f"{name} is a node of the cluster {cluster}", hint="choose another name")
        if name in (cluster, one.saved.name):
            found.append(one)
    if not found:
        return
    what = "sandbox" if found[0].saved.membership is None else "cluster"
    if not any(one.pid is not None or one.elsewhere for one in found):
        raise UsageError(
            f"a {what} named {name!r} already exists; it is stopped, and its data are kept",
            hint=f"start it as it was: flushlab server start --name {name}; or choose another name",
        )
    raise UsageError(
        f"a {what} named {name!r} already exists and runs",
        hint=f"choose another name, or remove it and its data: flushlab server stop {name}",
    )


def stop(name: str, *, keep_data: bool = False) -> list[Path]:
    """Stops a cluster's first node last; returns folders that flushlab cannot prove to be its own."""
    cluster, sandbox_name = name.removeprefix(CLUSTER), name.removeprefix(SANDBOX)
    names = [sandbox_name] if name.startswith(SANDBOX) else node_names(cluster) or [cluster]
    for one in () if keep_data else kept.statuses():
        if one.saved.name == sandbox_name and one.saved.membership is not None:
            cluster = one.saved.membership.cluster
            raise UsageError(
                f"{sandbox_name} is a node of the cluster {cluster}, and its data are the cluster's",
                hint=f"stop it with --keep-data, or the cluster: flushlab server stop {cluster}",
            )
    end: Callable[[str], list[Path] | None] = kept.halt if keep_data else kept.stop
    left: list[Path] = []
    undo_all(partial(lambda one: left.extend(end(one) or []), one) for one in reversed(names))
    return left


def stopped_names() -> list[str]:
    members = [(one.saved.name, one.saved.membership) for one in kept.statuses()]
    clusters = dict.fromkeys(member.cluster for _, member in members if member is not None)
    return [*clusters, *(name for name, member in members if member is None)]
