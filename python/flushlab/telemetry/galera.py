"""Galera: replication, conflicts and flow control, as each node of a cluster reports them.

Telemetry layer. Counters are differences over the window. The server's averages are since its start (or since
FLUSH STATUS, which flushlab never sends). The average of the receive queue is converted to an average over
the window, because its number of samples is known. The other averages stay as the server reports them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.record import NodeActivity
from flushlab.server.protocol import Server

ANSWER_S = 10.0
"""Longest wait for an answer of a node: the node, or its disk, may be frozen."""

Status = Mapping[str, float]
"""The numbers of a node's wsrep status, by their names in lower case, and `wsrep_slave_threads`."""


def snapshot(server: Server) -> tuple[Status, ...]:
    """The status of every node, empty for one that is dead; none where the server is no cluster.

    Raises:
        ServerError: a node does not answer.
    """
    if len(server.nodes) == 1:
        return ()
    return tuple(_status(node) if node.alive() else {} for node in server.nodes)


def between(before: Sequence[Status], after: Sequence[Status], seconds: float) -> tuple[NodeActivity, ...]:
    """What the nodes did between two snapshots, of which they are in both.

    Args:
        before, after: as `snapshot` gives them.
        seconds: between them.
    """
    pairs = zip(before, after, strict=True)
    return tuple(_activity(number, *pair, seconds) for number, pair in enumerate(pairs, 1) if all(pair))


def _status(node: Server) -> dict[str, float]:
    rows = node.query("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'", answer_s=ANSWER_S)
    rows += node.query("SHOW GLOBAL VARIABLES LIKE 'wsrep\\_slave\\_threads'", answer_s=ANSWER_S)
    return numbers(rows)


def numbers(rows: Sequence[tuple[object, ...]]) -> dict[str, float]:
    """The rows whose value is a number, by their names in lower case."""
    found: dict[str, float] = {}
    for name, value in rows:
        try:
            found[str(name).lower()] = float(str(value))
        except ValueError:
            continue
    return found


def _activity(number: int, before: Status, after: Status, seconds: float) -> NodeActivity:
    def counted(name: str) -> int:
        return max(0, round(after.get(name, 0.0) - before.get(name, 0.0)))

    paused_s = counted("wsrep_flow_control_paused_ns") / 1e9
    return NodeActivity(
        node=number,
        commits=counted("wsrep_local_commits"),
        received=counted("wsrep_received"),
        cert_failures=counted("wsrep_local_cert_failures"),
        bf_aborts=counted("wsrep_local_bf_aborts"),
        paused_share=min(1.0, paused_s / seconds) if seconds > 0 else 0.0,
        pauses_asked=counted("wsrep_flow_control_sent"),
        recv_queue_avg=_mean_queue(before, after),
        recv_queue_end=round(after.get("wsrep_local_recv_queue", 0.0)),
        deps_distance=after.get("wsrep_cert_deps_distance"),
        apply_window=after.get("wsrep_apply_window"),
        commit_window=after.get("wsrep_commit_window"),
        appliers=round(after["wsrep_slave_threads"]) if "wsrep_slave_threads" in after else None,
    )


def _mean_queue(before: Status, after: Status) -> float | None:
    """The receive queue's mean over the window; the server's own is over all that it ever received."""
    average, received = "wsrep_local_recv_queue_avg", "wsrep_received"
    if not {average, received} <= before.keys() & after.keys() or after[received] <= before[received]:
        return None
    waited = after[average] * after[received] - before[average] * before[received]
    return max(0.0, waited / (after[received] - before[received]))
