"""Commits: durability rules of flush policies, the binary log, engines and clusters. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.guarantee import Effect, Rule, Situation, on_crashes


def _find(situation: Situation) -> Iterator[Effect]:
    if not situation.has_binlog:
        yield Effect(on="binlog", level="nothing_lost", text="no binary log")
        return
    if situation.binlog_in_innodb:
        yield from _in_innodb(situation)
        return
    if situation.value("sync_binlog") == 1:
        yield Effect(
            on="binlog", level="nothing_lost", text="nothing is lost: synced after every commit group"
        )
        return
    yield Effect(
        on="binlog",
        level="unknown",
        text="its end may be lost, with no bound in seconds: the operating system decides when it is written",
    )
    if situation.value("innodb_flush_log_at_trx_commit") != 3:
        yield from on_crashes(
            "window",
            "the last acknowledged commits may be rolled back, because the binary log lacks them "
            "(sync_binlog is not 1)",
            _window_s(situation),
        )


def _in_innodb(situation: Situation) -> Iterator[Effect]:
    """sync_binlog is ignored there: the binary log is as durable as the redo log."""
    if situation.value("innodb_flush_log_at_trx_commit") in (1, 3):
        yield Effect(on="binlog", level="nothing_lost", text="nothing is lost: it is part of the redo log")
        return
    window_s = _window_s(situation)
    yield Effect(
        on="binlog", level="window", text=f"about {window_s:g} s of its end may be lost", window_s=window_s
    )


def _window_s(situation: Situation) -> float:
    """Commit records that no later commit syncs are synced in the background, once in this time."""
    return float(max(1, int(situation.value("innodb_flush_log_at_timeout") or 0)))


BINLOG_SYNC = Rule(
    name="binlog-sync",
    source="https://dev.mysql.com/doc/refman/8.0/en/replication-options-binary-log.html#sysvar_sync_binlog; "
    "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/"
    "binary-log-group-commit-and-innodb-flushing-performance",
    find=_find,
)


ONE_NODE = "measured: lost in 0 of 14 crashes of nodes, so in at most 20 %"
NOT_SYNCED = "measured: in 29 of 30 power cuts, at most 2,398 commits"
BINLOG_BEHIND = "measured: in 11 of 16 power cuts, 1 to 4 commits; sync_binlog is not 1"
SYNCED = "measured: lost in 0 of 18 power cuts of all, 14 at random moments, so in at most 20 % of such"
"""What was counted; the shares are one-sided 95 % bounds, of random moments."""


def _cluster_find(situation: Situation) -> Iterator[Effect]:
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
    find=_cluster_find,
)


_WITH_A_LOG = {"innodb", "rocksdb", "tokudb", "ndb", "ndbcluster", "columnstore", "s3"}
_EMPTY = {"memory", "heap", "blackhole"}


def _engine_find(situation: Situation) -> Iterator[Effect]:
    engine = str(situation.value("default_storage_engine") or "InnoDB")
    if engine.lower() in _WITH_A_LOG:
        return
    text = f"tables that name no engine are {engine}, which has no redo log: they may be damaged or lose rows"
    if engine.lower() in _EMPTY:
        text = f"tables that name no engine are {engine}: their rows are gone"
    yield Effect(on="process_crash", level="at_risk", text=text)
    yield from on_crashes("at_risk", text)


ENGINE = Rule(
    name="engine",
    source="https://dev.mysql.com/doc/refman/8.0/en/myisam-storage-engine.html; "
    "https://mariadb.com/kb/en/aria-storage-engine/ (tables of users are not transactional)",
    find=_engine_find,
)


def _flush_policy_find(situation: Situation) -> Iterator[Effect]:
    policy = situation.value("innodb_flush_log_at_trx_commit")
    # The background flush looks once a second at most, so that a timeout of 0 is no better than 1.
    window_s = float(max(1, int(situation.value("innodb_flush_log_at_timeout") or 0)))
    lost = f"about {window_s:g} s of acknowledged commits may be lost (not a strict bound)"
    if policy == 0:
        yield Effect(on="process_crash", level="window", text=lost, window_s=window_s)
    else:
        yield Effect(
            on="process_crash", level="nothing_lost", text="nothing is lost: commits are in the log file"
        )
    if policy in (1, 3):
        yield from on_crashes(
            "nothing_lost", "nothing is lost if the device honors flushes: commits are synced"
        )
    else:
        yield from on_crashes("window", lost, window_s)


FLUSH_POLICY = Rule(
    name="flush-policy",
    source="https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html"
    "#sysvar_innodb_flush_log_at_trx_commit; "
    "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-system-variables",
    find=_flush_policy_find,
)


_TEXT = "the whole data directory may be lost: the redo log is disabled"


def _redo_log_find(situation: Situation) -> Iterator[Effect]:
    if not situation.launch.redo_enabled:
        yield Effect(on="process_crash", level="at_risk", text=_TEXT)
        yield from on_crashes("at_risk", _TEXT)


REDO_DISABLED = Rule(
    name="redo-disabled",
    source="https://dev.mysql.com/worklog/task/?id=13795",
    flavor="mysql",
    since=(8, 0, 21),
    find=_redo_log_find,
)
