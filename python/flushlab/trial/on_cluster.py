"""Caveats on a window of a Galera cluster, from the counters of its nodes. Pure.

Four findings, each with its numbers and the setting that affects it:

- flow control that paused the writers;
- conflicts between nodes;
- nodes that were still behind when the window ended;
- transactions that changed nothing, so that no node received them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flushlab.record import LoadResult, NodeActivity, Warning

DEADLOCK = 1213
"""ER_LOCK_DEADLOCK: what a client sees of a lost conflict, too."""
LEAST_PAUSED_SHARE = 0.01
LEAST_CONFLICT_SHARE = 0.001
"""Of the transactions; below, it explains no difference that an interval could show."""
LEAST_REPLICATED_SHARE = 0.9
"""Of the load's transactions; those on the way at both ends of a window are fewer than the rest."""
BEHIND_S = 0.1
"""A queue that takes so long to apply, at the rate of the window, is more than what is always on its way."""


def findings(
    nodes: Sequence[NodeActivity], load: LoadResult | None, seconds: float, *, whole: bool = True
) -> Iterator[Warning]:
    """What stands out.

    Args:
        nodes: of the cluster; nothing is found of none.
        load: what the load engine saw, or None.
        seconds: length of the window.
        whole: no node died in it.
    """
    if nodes:
        yield from _paused(nodes)
        yield from _conflicts(nodes, load)
        yield from _behind(nodes, seconds)
        if whole:  # what a dead node had committed, nobody tells
            yield from _empty(nodes, load)


def _paused(nodes: Sequence[NodeActivity]) -> Iterator[Warning]:
    writers = [node for node in nodes if node.commits] or nodes
    share = max(node.paused_share for node in writers)
    if share < LEAST_PAUSED_SHARE:
        return
    asked = [node for node in nodes if node.pauses_asked]
    slow = max(asked or nodes, key=lambda node: (node.pauses_asked, node.recv_queue_avg or 0.0))
    appliers = "" if slow.appliers is None else f" (wsrep_slave_threads is {slow.appliers})"
    queue = (
        "" if slow.recv_queue_avg is None else f", with {slow.recv_queue_avg:,.0f} write sets in its queue"
    )
    text = (
        f"flow control paused writers {share:.0%} of the time: node {slow.node} asked for it "
        f"{slow.pauses_asked:,} times{queue}, so its applier is the bound{appliers}"
    )
    yield Warning("flow-control", text, "wsrep_slave_threads")


def _conflicts(nodes: Sequence[NodeActivity], load: LoadResult | None) -> Iterator[Warning]:
    failed = sum(node.cert_failures for node in nodes)
    aborted = sum(node.bf_aborts for node in nodes)
    commits = sum(node.commits for node in nodes)
    lost = failed + aborted
    if not lost or lost < LEAST_CONFLICT_SHARE * (commits + lost):
        return
    seen = sum(error.count for error in load.errors if error.errno == DEADLOCK) if load is not None else 0
    told = f"; the load saw error {DEADLOCK} {seen:,} times" if seen else ""
    text = (
        f"{lost / (commits + lost):.1%} of the transactions lost a conflict between nodes: {failed:,} in "
        f"certification, {aborted:,} to a transaction that was applied{told}. One node that takes all writes "
        "has none"
    )
    yield Warning("node-conflicts", text)


def _behind(nodes: Sequence[NodeActivity], seconds: float) -> Iterator[Warning]:
    for node in nodes:
        rate = node.received / seconds if seconds > 0 else 0.0
        if rate and node.recv_queue_end > BEHIND_S * rate:
            text = (
                f"node {node.node} had {node.recv_queue_end:,} write sets still to apply when the window "
                f"ended ({node.recv_queue_end / rate:.1f} s of them): the rate leaves that work out"
            )
            yield Warning("node-behind", text, "wsrep_slave_threads")


def _empty(nodes: Sequence[NodeActivity], load: LoadResult | None) -> Iterator[Warning]:
    commits = (load.commits or 0) if load is not None else 0
    replicated = sum(node.commits for node in nodes)
    if 0 < replicated < LEAST_REPLICATED_SHARE * commits:
        text = (
            f"the cluster replicated {replicated:,} of {commits:,} transactions: the others changed no row "
            "(rows that were inserted through a cluster have gaps between their AUTO_INCREMENT ids)"
        )
        yield Warning("changed-nothing", text)
