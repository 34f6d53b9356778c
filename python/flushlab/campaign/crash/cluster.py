"""`crash --cluster`: which nodes crash, and what is asked of that. Sits in `campaign.crash`."""

from __future__ import annotations

from typing import Literal, get_args

from flushlab.campaign.crash.load import CrashLoad
from flushlab.errors import UsageError
from flushlab.record import CrashKind, NodesKind
from flushlab.settings.durability import Failure

WHICH: tuple[NodesKind, ...] = get_args(NodesKind)
_LEAST_LEFT = 3
"""Nodes of which one can crash and the others go on."""
_NEVER: tuple[CrashKind, ...] = ("eio", "full")
"""Faults of one disk while the load runs; a cluster has several."""


def which_nodes(nodes: str | None, cluster: int | None, fail: CrashKind) -> NodesKind | Literal[""]:
    """Which nodes crash; none in particular where there is one server.

    Raises:
        UsageError: nodes of no cluster, or a failure that nodes do not have.
    """
    if cluster is None:
        if nodes is not None:
            raise UsageError("--nodes is of a cluster", hint="add --cluster 3")
        return ""
    found = next((one for one in WHICH if one == (nodes or "one")), None)
    if found is None:
        raise UsageError(f"--nodes {nodes!r} is not known", hint=f"there are {', '.join(WHICH)}")
    if cluster < _LEAST_LEFT and found in ("one", "rolling"):
        raise UsageError(
            f"--nodes {found} needs three nodes: when one of two crashes, the other has no quorum",
            hint="use --cluster 3, or --nodes all",
        )
    if fail in _NEVER:
        hint = "use process, os, power, lying-disk or torn"
        raise UsageError(f"--fail {fail} is for one server, not for a cluster", hint=hint)
    return found


def require_ledger_alone(load: CrashLoad) -> None:
    """Refuses what runs without the ledger, or beside it: a cluster is judged by its ledger alone.

    Raises:
        UsageError: something does.
    """
    if load.runs_once:
        what = f"--beside {load.beside_name}" if load.beside else f"--workload {load.name!r}"
        raise UsageError(f"{what} is for one server, not for a cluster", hint="remove --cluster")


def failure_of(which: NodesKind) -> Failure:
    """What the durability model calls it."""
    return "cluster_loss" if which in ("all", "cascade") else "node_loss"
