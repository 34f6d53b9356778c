"""Commits: the transactions that a server committed, by its counters. Pure.

The one definition for `doctor`, `watch` and own load. What the counters grew by, for each transaction of 6
connections (MySQL 8.0.15, MariaDB 10.11.19):

| | Binlog_commits | Binlog_cache_use | Innodb_max_trx_id | Handler_commit | Handler_rollback |
|---|---|---|---|---|---|
| update by autocommit | 1 | 1 | 2 | 1, with a binary log 2 | 0 |
| update and COMMIT | 1 | 1 | 2 | 2, with a binary log 4 | 0 |
| update and ROLLBACK | 0 | 1 | 2 | 1, with a binary log 2 | 1, with a binary log 2 |
| read and ROLLBACK | 0 | 0 | 0 | 1 | 1 |
| insert with a duplicate key | 0 | 0 | 1 | 0 | 1 |
| larger than max_binlog_cache_size | 0 | 1 | 2 | 0 | 2 |
| read | 0 | 0 | 0 | 1 | 0 |

Without a binary log, MariaDB's ROLLBACK of an update differs from its commit in the redo log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flushlab.telemetry.live.status import ServerStatus

COUNTERS: Mapping[str, float] = {
    "wsrep_local_commits": 1.0,
    "binlog_commits": 1.0,
    "binlog_cache_use": 1.0,
    "innodb_max_trx_id": 0.5,
    "handler_commit": 1.0,
}
"""Transactions per count, the best counter first."""
WITH_READS, WITH_ROLLBACKS = "handler_commit", "innodb_max_trx_id"
_CACHED = "binlog_cache_use"
COUNTED = (*COUNTERS, "com_rollback", "handler_rollback", "innodb_log_writes")
"""Status variables that `committed` asks for."""


def commits_counter(status: ServerStatus) -> str:
    """The status variable that counts the commits of a server's own clients: the transactions of the binary
    log, where there is one; else the best of InnoDB's. A MariaDB replica may apply without logging."""
    variables = status.variables
    if variables.get("wsrep_on", "").upper() in ("ON", "1"):
        return "wsrep_local_commits"
    applies = status.number("slaves_running") and variables.get("log_slave_updates", "").upper() == "OFF"
    if variables.get("log_bin", "").upper() in ("ON", "1") and not applies:
        return "binlog_commits" if status.number("binlog_commits") is not None else _CACHED
    return WITH_ROLLBACKS if status.number(WITH_ROLLBACKS) is not None else WITH_READS


def committed(counter: str, growth: Callable[[str], float | None], after: ServerStatus) -> float | None:
    """Transactions that were committed; None if the server does not have the counter.

    Args:
        counter: by `commits_counter`.
        growth: of a status variable.
        after: with the settings.
    """
    if (grown := growth(counter)) is None:
        return None
    commits = grown * COUNTERS.get(counter, 1.0)
    if counter == _CACHED:  # a ROLLBACK of a transaction that wrote is counted once more for the binary log
        asked = growth("com_rollback") or 0.0
        commits -= max(0.0, min(asked, (growth("handler_rollback") or 0.0) - asked))
    if counter == WITH_ROLLBACKS and (most := _most_written(growth, after)):
        commits = min(commits, most)
    every = growth(WITH_READS)
    return max(0.0, commits if every is None else min(commits, every))


def _most_written(growth: Callable[[str], float | None], after: ServerStatus) -> float:
    """Commits that the writes of the redo log can have had, one of each connection at most; 0 if that is not
    known. MariaDB writes at a commit, and not at a ROLLBACK."""
    writes_at_commit = after.variables.get("innodb_flush_log_at_trx_commit", "0") != "0"
    return (
        (growth("innodb_log_writes") or 0.0) * (after.number("threads_connected") or 0.0) * writes_at_commit
    )


def commits_by_words(counter: str) -> str:
    """A counter as people read it."""
    if counter == WITH_ROLLBACKS:
        return "half of the growth of Innodb_max_trx_id, which counts transactions that are rolled back, too"
    name = counter if counter.startswith("wsrep") else counter.capitalize()
    return f"{name}, which counts statements and reads, too" if counter == WITH_READS else name
