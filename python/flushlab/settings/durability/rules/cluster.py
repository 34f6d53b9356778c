"""cluster: what the other nodes of a Galera cluster hold.

That they restore a node is Galera's design; nobody has measured it here, and the texts say so. What all nodes
together keep is unknown at any policy: acknowledged commits were lost when synced nodes failed in quick
succession.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation


def _find(situation: Situation) -> Iterator[Effect]:
    others = _others(situation)
    if others == 0:
        text = "no other node has the data: only backups and replicas do"
        yield Effect(on="node_loss", level="at_risk", text=text)
        yield Effect(on="cluster_loss", level="at_risk", text=text)
        return
    if others is None:
        text = "it is not known whether another node has the commits: the settings name none"
        yield Effect(on="node_loss", level="unknown", text=text)
    else:
        text = "nothing is lost while one node survives: it has the commits (Galera's design, not measured)"
        yield Effect(on="node_loss", level="nothing_lost", text=text)
    if situation.value("innodb_flush_log_at_trx_commit") in (1, 3):
        text = "commits are synced on each node, but losses were seen where nodes failed in quick succession"
    else:
        text = "acknowledged commits are lost if all nodes fail at once: no node has synced them"
    yield Effect(on="cluster_loss", level="unknown", text=text)


def _others(situation: Situation) -> int | None:
    """How many others there are, or are named: 0 without a provider; None: the only one may be itself."""
    if situation.identity.nodes > 1:
        return situation.identity.nodes - 1
    if not situation.is_on("wsrep_on") or str(situation.value("wsrep_provider") or "none").lower() == "none":
        return 0
    address = str(situation.value("wsrep_cluster_address") or "").partition("://")[2].partition("?")[0]
    named = len([one for one in address.split(",") if one.strip()])
    return named - 1 if named > 1 else None


CLUSTER = Rule(
    name="cluster",
    source="https://galeracluster.com/library/documentation/crash-recovery.html; "
    "https://jepsen.io/blog/2026-03-16-mariadb-galera-cluster-12.1.2",
    find=_find,
)
