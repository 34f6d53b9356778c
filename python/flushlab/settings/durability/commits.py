"""Commits: durability rules of flush policies, the binary log, engines and clusters. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.guarantee import Effect, Situation, on_crashes, rule

_REDO_DISABLED = "the whole data directory may be lost: the redo log is disabled"
_WITH_A_LOG = {"innodb", "rocksdb", "tokudb", "ndb", "ndbcluster", "columnstore", "s3"}
_EMPTY = {"memory", "heap", "blackhole"}

ONE_NODE = "measured: lost in 0 of 14 crashes of nodes, so in at most 20 %"
NOT_SYNCED = "measured: in 29 of 30 power cuts, at most 2,398 commits"
BINLOG_BEHIND = "measured: in 11 of 16 power cuts, 1 to 4 commits; sync_binlog is not 1"
SYNCED = "measured: lost in 0 of 18 power cuts of all, 14 at random moments, so in at most 20 % of such"
"""Counts of crashes on one machine; the shares are one-sided 95 % bounds, of random moments."""


@rule(
    "flush-policy",
    "https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html"
    "#sysvar_innodb_flush_log_at_trx_commit; "
    "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-system-variables",
)
def flush_policy(situation: Situation) -> Iterator[Effect]:
    lost = f"about {situation.window_s:g} s of acknowledged commits may be lost (not a strict bound)"
    if situation.policy == 0:
        yield Effect("process_crash", "window", lost, situation.window_s)
    else:
        yield Effect("process_crash", "nothing_lost", "nothing is lost: commits are in the log file")
    if situation.policy in (1, 3):
        kept = "nothing is lost if the device honors flushes: commits are synced"
        yield from on_crashes("nothing_lost", kept)
    else:
        yield from on_crashes("window", lost, situation.window_s)


@rule(
    "binlog-sync",
    "https://dev.mysql.com/doc/refman/8.0/en/replication-options-binary-log.html#sysvar_sync_binlog; "
    "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/"
    "binary-log-group-commit-and-innodb-flushing-performance",
)
def binlog_sync(situation: Situation) -> Iterator[Effect]:
    """Recovery rolls back what is prepared in the engine and missing from the binary log.

    That is the last commit group alone: each group's prepare syncs the commit records of those before it, so
    that these stay committed though the binary log lacks them (docs/results/crash.md). Commit records that no
    later commit syncs are synced in the background, once in the flush interval.
    """
    window_s = situation.window_s
    if not situation.has_binlog:
        yield Effect("binlog", "nothing_lost", "no binary log")
    elif situation.binlog_in_innodb and situation.policy in (1, 3):
        yield Effect("binlog", "nothing_lost", "nothing is lost: it is part of the redo log")
    elif situation.binlog_in_innodb:
        yield Effect("binlog", "window", f"about {window_s:g} s of its end may be lost", window_s)
    elif situation.value("sync_binlog") == 1:
        yield Effect("binlog", "nothing_lost", "nothing is lost: synced after every commit group")
    else:
        unbounded = "with no bound in seconds: the operating system decides when it is written"
        yield Effect("binlog", "unknown", f"its end may be lost, {unbounded}")
        if situation.policy != 3:
            why = "because the binary log lacks them (sync_binlog is not 1)"
            rolled_back = f"the last acknowledged commits may be rolled back, {why}"
            yield from on_crashes("window", rolled_back, window_s)


@rule("redo-disabled", "https://dev.mysql.com/worklog/task/?id=13795", flavor="mysql", since=(8, 0, 21))
def redo_disabled(situation: Situation) -> Iterator[Effect]:
    if not situation.launch.redo_enabled:
        yield Effect("process_crash", "at_risk", _REDO_DISABLED)
        yield from on_crashes("at_risk", _REDO_DISABLED)


@rule(
    "engine",
    "https://dev.mysql.com/doc/refman/8.0/en/myisam-storage-engine.html; "
    "https://mariadb.com/kb/en/aria-storage-engine/ (tables of users are not transactional)",
)
def engine(situation: Situation) -> Iterator[Effect]:
    """Tables that name no engine have the default one, which may have no log to recover from."""
    name = str(situation.value("default_storage_engine") or "InnoDB")
    if name.lower() in _WITH_A_LOG:
        return
    text = f"tables that name no engine are {name}, which has no redo log: they may be damaged or lose rows"
    if name.lower() in _EMPTY:
        text = f"tables that name no engine are {name}: their rows are gone"
    yield Effect("process_crash", "at_risk", text)
    yield from on_crashes("at_risk", text)


@rule(
    "cluster",
    "https://galeracluster.com/library/documentation/crash-recovery.html; "
    "https://jepsen.io/blog/2026-03-16-mariadb-galera-cluster-12.1.2",
)
def cluster(situation: Situation) -> Iterator[Effect]:
    """The data that the other nodes of a Galera cluster hold; docs/results/crash.md has the counts.

    The other nodes restore a crashed node: measured on one machine, in few crashes, so it raises no floor.
    The data that all nodes together keep is unknown at any value of `innodb_flush_log_at_trx_commit`. Commits
    without a sync are lost; others saw losses of synced commits when nodes failed in quick succession.
    """
    others, is_synced = _others(situation), situation.policy in (1, 3)
    if others == 0:
        text = "no other node has the data: only backups and replicas do"
        yield Effect("node_loss", "at_risk", text)
        if not is_synced:
            text = (
                "a node gets the commits that it lost from the others; if all fail at once, nobody has them"
            )
        yield Effect("cluster_loss", "at_risk", text)
        return
    if others is None:
        text = "it is not known whether another node has the commits: the settings name none"
        yield Effect("node_loss", "unknown", text)
    else:
        text = f"nothing is lost while one node survives: it has the commits ({ONE_NODE})"
        yield Effect("node_loss", "nothing_lost", text)
    if not is_synced:
        why = f"no node has synced them ({NOT_SYNCED})"
        text = f"acknowledged commits are lost if all nodes fail at once: {why}"
    elif situation.has_binlog and situation.value("sync_binlog") != 1:
        why = f"no binary log has them ({BINLOG_BEHIND})"
        text = f"the last commits are lost if all nodes fail at once: {why}"
    else:
        but = "but losses were seen where nodes failed in quick succession"
        text = f"commits are synced on each node ({SYNCED}), {but}"
    yield Effect("cluster_loss", "unknown", text)


def _others(situation: Situation) -> int | None:
    """Number of other nodes, or of other addresses: 0 without a provider; None: the only address may be the
    node's own."""
    if situation.identity.nodes > 1:
        return situation.identity.nodes - 1
    if not situation.is_on("wsrep_on") or str(situation.value("wsrep_provider") or "none").lower() == "none":
        return 0
    address = str(situation.value("wsrep_cluster_address") or "").partition("://")[2].partition("?")[0]
    named = len([one for one in address.split(",") if one.strip()])
    return named - 1 if named > 1 else None
