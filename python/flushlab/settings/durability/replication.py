"""Replication: whether replicas still agree with the server after it crashed. Pure, part of no floor."""

from __future__ import annotations

from flushlab.settings.durability.guarantee import Guarantee, Replication
from flushlab.settings.durability.rule import Situation

_SOURCE = (
    "replication: https://bugs.mysql.com/bug.php?id=70659",
    "replication: https://mariadb.com/docs/server/server-usage/storage-engines/innodb/binary-log-group-commit-and-innodb-flushing-performance",
)
_SEMI_SYNC = (
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
)


def replication(situation: Situation, os_crash: Guarantee) -> Replication:
    """What replicas of this server are worth after it crashed.

    Consistent only when engine and binary log are both synced at every commit: otherwise one of them can be
    ahead of the other after a crash of the operating system, and replicas have read the one that is gone.
    """
    if not situation.has_binlog:
        return Replication(level="not_applicable", text="no binary log, so no replicas")
    if any(situation.is_on(name) for name in _SEMI_SYNC):
        return Replication(level="unknown", text="semi-synchronous replication: no rule covers it")
    flush = situation.value("innodb_flush_log_at_trx_commit")
    if situation.binlog_in_innodb:
        return _in_innodb(flush, os_crash)
    if flush in (1, 3) and situation.value("sync_binlog") == 1:
        return _both_synced(os_crash)
    when = "even a killed server" if flush == 0 else "a crash of the operating system"
    after = "any crash" if flush == 0 else "an OS crash"
    ahead = "the binary log" if situation.value("sync_binlog") == 1 else "a replica"
    return Replication(
        level="may_diverge",
        text=f"{when} may leave {ahead} ahead of this server: rebuild replicas after {after}",
        because=_SOURCE,
    )


def _both_synced(os_crash: Guarantee) -> Replication:
    if os_crash.level == "nothing_lost":
        return Replication(
            level="consistent", text="replicas stay consistent after any crash", because=_SOURCE
        )
    if os_crash.level == "unknown":
        return Replication(level="unknown", text="what survives a crash is unknown, so replicas may diverge")
    return Replication(
        level="may_diverge",
        text="this server can lose commits that replicas have: rebuild replicas after an OS crash",
    )


def _in_innodb(flush: object, os_crash: Guarantee) -> Replication:
    because = ("replication: https://jira.mariadb.org/browse/MDEV-34705",)
    if flush == 1 and os_crash.level == "nothing_lost":
        return Replication(
            level="consistent",
            text="binary log and engine share one log: replicas stay consistent",
            because=because,
        )
    return Replication(
        level="may_diverge",
        text="this server can lose commits that replicas have: rebuild replicas after an OS crash",
        because=because,
    )
