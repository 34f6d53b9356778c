"""Node: what one node of a Galera cluster did in a window, as frozen facts."""

from __future__ import annotations

import msgspec


class LostNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that died in a window that went on without it.

    Attributes:
        node: number in the cluster, from 1.
        at_s: since the window's beginning; 0 for one that died in the warm-up.
        without_commit_s: the longest stretch without a commit that ended after it had died.
    """

    node: int
    at_s: float
    without_commit_s: float


class NodeActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What one node did in a window, from its own status.

    Attributes:
        node: number in the cluster, from 1; the load goes to the first unless it is spread.
        commits: transactions of its own clients that the cluster took (wsrep_local_commits).
        received: write sets of other nodes (wsrep_received).
        cert_failures: own transactions that lost to one committed elsewhere (wsrep_local_cert_failures).
        bf_aborts: own transactions that an applied one pushed aside (wsrep_local_bf_aborts).
        paused_share: of the window in which flow control let nobody write (wsrep_flow_control_paused_ns).
        pauses_asked: how often this node asked for it (wsrep_flow_control_sent): it could not keep up.
        recv_queue_avg: write sets that waited to be applied, mean over those received in the window
            (wsrep_local_recv_queue_avg); None if it received none.
        recv_queue_end: those that waited when the window ended.
        deps_distance: how many transactions could be applied side by side: the node's own mean since it
            started (wsrep_cert_deps_distance). More appliers (wsrep_slave_threads) than this are idle.
        apply_window, commit_window: write sets applied, or committed, side by side: means since it started.
        appliers: threads that apply, as the server reports them (wsrep_slave_threads).
    """

    node: int
    commits: int = 0
    received: int = 0
    cert_failures: int = 0
    bf_aborts: int = 0
    paused_share: float = 0.0
    pauses_asked: int = 0
    recv_queue_avg: float | None = None
    recv_queue_end: int = 0
    deps_distance: float | None = None
    apply_window: float | None = None
    commit_window: float | None = None
    appliers: int | None = None
