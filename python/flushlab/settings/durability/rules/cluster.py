"""cluster: what the other nodes of a Galera cluster hold."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation


def _find(situation: Situation) -> Iterator[Effect]:
    if not situation.is_on("wsrep_on"):
        text = "no other node holds the data: only backups and replicas do"
        yield Effect(on="node_loss", level="at_risk", text=text)
        yield Effect(on="cluster_loss", level="at_risk", text=text)
        return
    yield Effect(
        on="node_loss", level="nothing_lost", text="the other nodes have the commits and restore the node"
    )
    if situation.value("innodb_flush_log_at_trx_commit") in (1, 3):
        text = "commits are synced on each node, but losses were observed under crashes and partitions"
    else:
        text = "acknowledged commits are lost if all nodes fail at once: no node has synced them"
    yield Effect(on="cluster_loss", level="unknown", text=text)


CLUSTER = Rule(
    name="cluster",
    source="https://galeracluster.com/library/documentation/crash-recovery.html; "
    "https://jepsen.io/blog/2026-03-16-mariadb-galera-cluster-12.1.2",
    find=_find,
)
