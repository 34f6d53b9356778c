"""memory: a sync of a file in memory makes nothing durable.

Sound: the file system's type is the kernel's own word.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.effects.evidence import Evidence, Finding


def syncs_in_memory(evidence: Evidence) -> Iterator[Finding]:
    """Sync policies of logs that lie in memory."""
    policy = evidence.number("innodb_flush_log_at_trx_commit")
    if policy in (1, 3) and "redo" in evidence.in_memory:
        yield Finding(
            setting="innodb_flush_log_at_trx_commit",
            value=policy,
            seen="the redo log is in memory, where a sync makes nothing durable",
        )
    period = evidence.number("sync_binlog")
    if period and evidence.is_set("log_bin", "ON") and "binlog" in evidence.in_memory:
        yield Finding(
            setting="sync_binlog",
            value=period,
            seen="the binary log is in memory, where a sync makes nothing durable",
        )
