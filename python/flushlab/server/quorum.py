"""Quorum: whether nodes of a cluster that runs take writes, and are in step, in words. Sits in `server`."""

from __future__ import annotations

from flushlab.errors import ServerError
from flushlab.server.protocol import Server

_ANSWER_S = 5.0
"""A node that has not answered by then is called frozen; on a busy machine a second is no reason."""


def quorum_problem(server: Server) -> str:
    """Which nodes of a cluster are dead, frozen or without a quorum; empty if none is, or if it is alone."""
    if len(server.nodes) == 1:
        return ""
    words = _of_nodes(server)
    lost = any("no quorum" in one for one in words)
    if words and not lost:  # those that are left may be about to notice
        words = _of_nodes(server)
        lost = any("no quorum" in one for one in words)
    return ("the cluster lost its quorum: " if lost else "") + ", ".join(words)


def not_in_step(
    node: Server,
    name: str,
    *,
    nodes: int | None = None,
    queues_empty: bool = False,
    answer_s: float | None = None,
) -> str:
    """What a node still waits for; empty if it is in step.

    Args:
        node: of a cluster.
        name: its name.
        nodes: expected size of the cluster; None: any.
        queues_empty: whether it is to have applied what it received.
        answer_s: longest wait for its answer; for ever if None.

    Raises:
        ServerError: it does not answer.
    """
    rows = node.query(
        "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_state_comment',"
        " 'wsrep_cluster_status', 'wsrep_cluster_size', 'wsrep_local_recv_queue')",
        answer_s=answer_s,
    )
    facts = {str(key).lower(): str(value) for key, value in rows}
    if facts["wsrep_cluster_status"] != "Primary":
        return f"{name} has no quorum"
    if nodes is not None and int(facts["wsrep_cluster_size"]) != nodes:
        return f"{name} sees {facts['wsrep_cluster_size']} of {nodes} nodes"
    if facts["wsrep_local_state_comment"] != "Synced":
        return f"{name} is {facts['wsrep_local_state_comment']}"
    if queues_empty and int(facts["wsrep_local_recv_queue"]):
        return f"{name} has {facts['wsrep_local_recv_queue']} write sets to apply"
    return ""


def _of_nodes(server: Server) -> list[str]:
    found = ((number, _of_node(node)) for number, node in enumerate(server.nodes, 1))
    return [f"node {number} {trouble}" for number, trouble in found if trouble]


def _of_node(node: Server) -> str:
    if not node.alive():
        return "died" if node.storage.visible else "does not answer"
    try:
        rows = node.query("SHOW GLOBAL STATUS LIKE 'wsrep\\_cluster\\_%'", answer_s=_ANSWER_S)
    except ServerError:
        return "does not answer"
    facts = {str(name).lower(): str(value) for name, value in rows}
    if facts.get("wsrep_cluster_status") == "Primary":
        return ""
    return "has no quorum"
