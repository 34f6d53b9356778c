"""binlog-written: log_bin, judged by how much the binary log grew.

Sound: each commit of the workload changed rows, and the workload does not switch its session's logging off.
A filter (binlog_ignore_db) that leaves these commits out is just such a setting without effect.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.effects.evidence import Evidence, Finding

LEAST_BINLOG_BYTES_PER_COMMIT = 50
"""The headers of the events that a transaction takes at the least (GTID, one statement, XID) are longer."""

_FEWEST_COMMITS = 100


def binlog_not_written(evidence: Evidence) -> Iterator[Finding]:
    """ON, and no bytes in it though rows were changed."""
    commits, written = evidence.commits or 0, evidence.written("binlog")
    if (
        evidence.is_set("log_bin", "ON")
        and not in_redo(evidence)
        and commits >= _FEWEST_COMMITS
        and written is not None
        and written < commits
    ):
        yield Finding(
            setting="log_bin",
            value="ON",
            seen=f"the binary log grew by {written:,} bytes for {commits:,} commits",
        )


def in_redo(evidence: Evidence) -> bool:
    """The binary log is a part of the redo log (MariaDB since 12.3): sync_binlog is then ignored."""
    return evidence.is_set("binlog_storage_engine", "innodb")
