"""Binary log cache: transactions are larger than it, so they go through a temporary file. Pure."""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen


def find(evidence: Evidence) -> Finding | None:
    """Transactions whose events went through a file, if there were any."""
    spilt, all_of_them = evidence.grew("binlog_cache_disk_use"), evidence.grew("binlog_cache_use")
    if not spilt or not all_of_them:
        return None
    size = evidence.after.variable("binlog_cache_size") or 0
    return Finding(
        name="binlog_cache",
        title="large transactions go through a temporary file on their way to the binary log",
        seen=(
            Seen(
                f"{spilt:,.0f} of {all_of_them:,.0f} transactions were larger than the cache:"
                f" {evidence.sized('binlog_cache_size')}",
                "SHOW GLOBAL STATUS LIKE 'Binlog_cache%'",
            ),
        ),
        advice="Use smaller transactions, or a larger cache; each connection can allocate one cache.",
        changes=changes(evidence, {"binlog_cache_size": max(1 << 20, 8 * size)}),
    )
