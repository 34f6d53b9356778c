"""Stop: kept sandboxes and clusters by their names, as `flushlab server stop` does. Sits in `server`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from flushlab.errors import UsageError
from flushlab.server.galera.cluster import node_names
from flushlab.server.sandbox import kept
from flushlab.server.start import CLUSTER, SANDBOX
from flushlab.undo import undo_all


def stop(name: str, *, keep_data: bool = False) -> list[Path]:
    """Stops a kept sandbox or cluster in an orderly way and removes it.

    A cluster's first node goes last: it has every transaction, and the cluster is bootstrapped from it.

    Args:
        name: of the sandbox, the cluster or, if its data are kept, one node; `sandbox:NAME` or `cluster:NAME`
            where there are both.
        keep_data: keep the data; `flushlab server start --name NAME` starts the server again.

    Returns:
        Folders that flushlab cannot prove to be its own, and so left.

    Raises:
        UsageError: there is none of that name here; lists those that there are.
        HarnessError: a server survived SIGKILL.
        StorageError: its folders cannot be removed.
    """
    names = _named(name)
    if not keep_data:
        _require_no_node(name.removeprefix(SANDBOX))
    end: Callable[[str], list[Path] | None] = kept.halt if keep_data else kept.stop
    left: list[Path] = []
    undo_all(partial(lambda one: left.extend(end(one) or []), one) for one in reversed(names))
    return left


def stopped_names() -> list[str]:
    """What `stop` takes: kept clusters, and kept sandboxes that are no nodes."""
    members = [(one.saved.name, one.saved.membership) for one in kept.statuses()]
    clusters = dict.fromkeys(member.cluster for _, member in members if member is not None)
    alone = [name for name, member in members if member is None]
    both = clusters.keys() & {*alone}
    return [
        *(f"{CLUSTER}{name}" if name in both else name for name in clusters),
        *(f"{SANDBOX}{name}" if name in both else name for name in alone),
    ]


def _named(name: str) -> list[str]:
    """The sandboxes that a name stands for. Earlier versions let a sandbox and a cluster share one."""
    if name.startswith(SANDBOX):
        return [name.removeprefix(SANDBOX)]
    nodes = node_names(name.removeprefix(CLUSTER))
    if nodes and not name.startswith(CLUSTER) and any(one.saved.name == name for one in kept.statuses()):
        raise UsageError(
            f"there are both a sandbox and a cluster named {name}",
            hint=f"say which: flushlab server stop {SANDBOX}{name}, or {CLUSTER}{name}",
        )
    return nodes or [name]


def _require_no_node(name: str) -> None:
    for one in kept.statuses():
        if one.saved.name == name and one.saved.membership is not None:
            cluster = one.saved.membership.cluster
            raise UsageError(
                f"{name} is a node of the cluster {cluster}, and its data are the cluster's",
                hint=f"stop it with --keep-data, or the cluster: flushlab server stop {cluster}",
            )
