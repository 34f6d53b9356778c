"""Commits: the counters of a server that have the transactions that it committed. Pure.

MySQL without a binary log has only `Handler_commit`, which statements within transactions and transactions
that only read raise as well. MariaDB has `Innodb_max_trx_id`: a transaction takes a number when it begins to
write and one when it commits. It grew by 100 for 50 updates and by 0 for 50 reads (10.11.19, 11.8.9).
"""

from __future__ import annotations

from collections.abc import Mapping

COUNTERS: Mapping[str, float] = {
    "wsrep_local_commits": 1.0,
    "binlog_commits": 1.0,
    "binlog_cache_use": 1.0,
    "innodb_max_trx_id": 0.5,
    "handler_commit": 1.0,
}
"""Transactions per count, the best counter first."""
WITH_READS = "handler_commit"


def commits_by_words(counter: str) -> str:
    """A counter as people read it."""
    if counter == "innodb_max_trx_id":
        return "half of the growth of Innodb_max_trx_id"
    name = counter if counter.startswith("wsrep") else counter.capitalize()
    return f"{name}, which counts statements and reads, too" if counter == WITH_READS else name
