"""cluster: the data that the other nodes of a Galera cluster hold.

The other nodes restore a crashed node: measured on one machine, in few crashes. The texts give the number of
crashes, and the result raises no floor. The data that all nodes together keep is unknown at any value of
`innodb_flush_log_at_trx_commit`. Commits without a sync are lost; others saw losses of synced commits when
nodes failed in quick succession. docs/results/crash.md has the counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation

ONE_NODE = "measured: lost in 0 of 14 crashes of nodes, so in at most 20 %"
NOT_SYNCED = "measured: in 29 of 30 power cuts, at most 2,398 commits"
BINLOG_BEHIND = "measured: in 11 of 16 power cuts, 1 to 4 commits; sync_binlog is not 1"
SYNCED = "measured: lost in 0 of 18 power cuts of all, 14 at random moments, so in at most 20 % of such"
"""What was counted; the shares are one-sided 95 % bounds, of random moments."""


def _find(situation: Situation) -> Iterator[Effect]:
    others = _others(situation)
    if others == 0:
        text = "no other node has the data: only backups and replicas do"
        yield Effect(on="node_loss", level="at_risk", text=text)
        if situation.value("innodb_flush_log_at_trx_commit") not in (1, 3):
            text = (
                "a node gets the commits that it lost from the others; if all fail at once, nobody has them"
            )
        yield Effect(on="cluster_loss", level="at_risk", text=text)
        return
    if others is None:
        text = "it is not known whether another node has the commits: the settings name none"
        yield Effect(on="node_loss", level="unknown", text=text)
    else:
        text = f"nothing is lost while one node survives: it has the commits ({ONE_NODE})"
        yield Effect(on="node_loss", level="nothing_lost", text=text)
    if situation.value("innodb_flush_log_at_trx_commit") not in (1, 3):
        text = (
            f"acknowledged commits are lost if all nodes fail at once: no node has synced them ({NOT_SYNCED})"
        )
    elif situation.has_binlog and situation.value("sync_binlog") != 1:
        text = (
            f"the last commits are lost if all nodes fail at once: no binary log has them ({BINLOG_BEHIND})"
        )
    else:
        text = (
            f"commits are synced on each node ({SYNCED}), but losses were seen where nodes failed in quick"
            " succession"
        )
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
