"""binlog-sync: recovery rolls back what is prepared in the engine and missing from the binary log.

That is the last commit group alone: each group's prepare syncs the commit records of those before it, so that
these stay committed though the binary log lacks them (docs/results/crash.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes


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
