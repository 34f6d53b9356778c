"""Nodes: what the nodes of a cluster have after a crash, each and as one. Sits in `crashed`.

The cluster as one is judged by what its nodes agree on: an acknowledged commit must be there, whichever node
answered it. Nodes that differ are no state that a cluster may be in, whatever each of them has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from flushlab.crashed import judge
from flushlab.crashed.acks import TABLE, Note
from flushlab.crashed.judge import Commits, RecoveredServer
from flushlab.crashed.recovered_server import CANNOT_NOW, AcksTable, dies, look, said
from flushlab.errors import MeasurementError, ServerDied, ServerError
from flushlab.record import Crash, CrashNode, CrashPoint, NodeWay, Value
from flushlab.server import Sandbox
from flushlab.server.control import StatementFailed
from flushlab.server.galera.cluster import Cluster
from flushlab.server.sandbox import failures

_POLL_S = 0.05
_TOGETHER_S = 60.0
_TOLD = 3
_STATUS = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_state_comment', 'wsrep_cluster_status',"
    " 'wsrep_cluster_size', 'wsrep_local_recv_queue')"
)
_TRANSFERS: Mapping[str, NodeWay] = {
    "IST completed on joiner": "ist",
    "SST completed on joiner": "sst",
    "State transfer required": "sst",
}
"""What the joiner's log says, the first one that it does; the scripts of all methods word it like that."""


class NotBack(Exception):
    """A cluster does not come back; in the servers' words."""


def require_alike(cluster: Cluster, settings: Mapping[str, Value]) -> None:
    """Refuses a cluster whose nodes do not all have the first one's settings, with a MeasurementError."""
    if different := cluster.differences(settings):
        raise MeasurementError(f"the nodes' settings differ: {different[0]}")


class Seen(msgspec.Struct, frozen=True):
    """What a node has.

    Attributes:
        number: of the node, from 1.
        recovered: its rows and tables; no `commits` if these cannot be read.
        checksum: of the acknowledgement table.
    """

    number: int
    recovered: RecoveredServer
    checksum: int | None


def way_back(said: str) -> NodeWay:
    """How a node that was started again came to have what the others have, by its log since then."""
    return next((way for words, way in _TRANSFERS.items() if words in said), "none")


def await_together(nodes: Sequence[Sandbox]) -> None:
    """Waits until these nodes alone are a cluster with a quorum and have applied all.

    Raises:
        ServerError: they are not within a minute.
    """
    deadline = time.monotonic() + _TOGETHER_S
    while apart := [why for node in nodes if (why := _apart(node, len(nodes)))]:
        if time.monotonic() > deadline:
            raise ServerError(f"the remaining nodes did not form a cluster: {'; '.join(apart)}")
        time.sleep(_POLL_S)


def _apart(node: Sandbox, size: int) -> str:
    facts = {str(name).lower(): str(value) for name, value in node.query(_STATUS, answer_s=_TOGETHER_S)}
    if facts["wsrep_cluster_status"] != "Primary":
        return f"{node.name} has no quorum"
    if int(facts["wsrep_cluster_size"]) != size:
        return f"{node.name} sees {facts['wsrep_cluster_size']} nodes"
    if facts["wsrep_local_state_comment"] != "Synced" or int(facts["wsrep_local_recv_queue"]):
        return f"{node.name} is behind"
    return ""


def see(cluster: Cluster, acks: AcksTable, *, only: Sequence[int] = ()) -> list[Seen]:
    """What nodes of a cluster have; all if none are named: then they have applied what they received.

    A node that cannot read its tables, or dies of it, is seen so.

    Raises:
        ServerError: one does not answer in time.
        NoSpace: it has died for want of that.
    """
    if not only:
        with suppress(ServerDied):  # which one it is shows when it is asked
            cluster.settled()
    return [
        _seen(number, node, acks)
        for number, node in enumerate(cluster.nodes, 1)
        if not only or number in only
    ]


def _seen(number: int, node: Sandbox, acks: AcksTable) -> Seen:
    try:
        return Seen(number, look(node, acks)._replace(binlog=None), _checksum(node, acks))
    except ServerError as error:
        if isinstance(error, StatementFailed):
            if error.errno in CANNOT_NOW:
                raise
        elif not isinstance(error, ServerDied) and not dies(node):
            raise
        if node.was_killed:
            raise failures.killed(f"node {number}") from error
        text = said(error.message) if isinstance(error, ServerDied) else error.message
        return Seen(
            number, RecoveredServer(None, extra=[f"node {number} cannot read its tables: {text}"]), None
        )


def _checksum(node: Sandbox, acks: AcksTable) -> int | None:
    ((_, found),) = node.query(f"CHECKSUM TABLE {acks.database}.{TABLE} EXTENDED")
    return None if found is None else int(found)


def as_one(
    point: CrashPoint,
    notes: Sequence[Note],
    crashed_ns: int,
    seen: Sequence[Seen],
    nodes: Sequence[CrashNode],
    others: Sequence[Crash] = (),
) -> Crash:
    """What became of a cluster.

    Args:
        notes: of the commits that were acknowledged before it.
        seen: every node, once the cluster is whole again.
        nodes: how each came back; its outcome is filled in here.
        others: what else was judged on the way, such as the nodes that stayed before the others came back.
    """
    judged = [judge.judge(point, notes, crashed_ns, one.recovered) for one in seen]
    found = max(judged, key=lambda crash: (crash.outcome == "inconsistent", crash.lost))
    reasons = list(found.reasons)
    read = [one for one in seen if one.recovered.commits is not None]
    if differ := len({_essence(one) for one in read}) > 1:
        told = ", ".join(f"node {one.number} has {_total(one.recovered.commits)} commits" for one in read)
        reasons.append(f"the nodes differ: {told}")
    reasons += [reason for other in others for reason in other.reasons][:_TOLD]
    worse = [other for other in others if other.outcome != "kept"]
    inconsistent = differ or any(crash.outcome == "inconsistent" for crash in (*judged, *worse))
    lost = max(crash.lost for crash in (*judged, *worse))
    return msgspec.structs.replace(
        found,
        outcome="inconsistent" if inconsistent else "lost" if lost else "kept",
        lost=lost,
        lost_s=max(crash.lost_s for crash in (*judged, *worse)),
        reasons=tuple(reasons),
        nodes=tuple(
            msgspec.structs.replace(node, outcome=crash.outcome, lost=crash.lost)
            for node, crash in zip(nodes, judged, strict=True)
        ),
    )


def _essence(seen: Seen) -> tuple[tuple[tuple[int, Commits], ...], int | None]:
    return tuple(sorted((seen.recovered.commits or {}).items())), seen.checksum


def _total(commits: Mapping[int, Commits] | None) -> int:
    return sum(one.number for one in (commits or {}).values())
