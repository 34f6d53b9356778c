"""Purge lag: old row versions pile up behind an old snapshot or slow purge. Pure.

Searches go through rows that are deleted but not purged: pages per row tell what that costs.
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_LONG = 1_000_000
_GROWING = 10_000
_PAGES_PER_ROW = 20.0
"""A search of a B-tree reads about five pages; a write, with its indexes and undo log, some more."""
_ROWS = tuple(f"innodb_rows_{name}" for name in ("read", "inserted", "updated", "deleted"))
_SQL = {
    True: "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'",
    False: "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'",
}


def find(evidence: Evidence) -> Finding | None:
    """A long history list, or one that grows behind an old transaction."""
    length, before = evidence.after.history_length, evidence.before.history_length
    if length is None:
        return None
    oldest = max((one.age_s for one in evidence.transactions.values()), default=0)
    is_growing = length >= _GROWING and length > (before or 0) and oldest >= evidence.seconds
    if length < _LONG and not is_growing:
        return None
    rows, pages = sum(map(evidence.grew, _ROWS)), evidence.grew("innodb_buffer_pool_read_requests")
    per_row = pages / max(1.0, rows)
    seen = [
        Seen(
            f"history list length {length:,.0f}{_growth(evidence)}",
            _SQL["innodb_history_list_length" in evidence.after.status],
        )
    ]
    if per_row > _PAGES_PER_ROW:
        text = f"{per_row:,.0f} pages are read per row; a search takes about five"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'"))
    return Finding(
        name="purge_lag",
        title="old row versions pile up: purge does not keep up",
        share=evidence.time.within(1.0 - _PAGES_PER_ROW / max(per_row, _PAGES_PER_ROW), "statement"),
        waits=("statement",),
        seen=tuple(seen),
        advice="End long transactions and snapshots (backups, reports); then innodb_purge_threads.",
    )


def _growth(evidence: Evidence) -> str:
    """Growth in the window, if there is one."""
    before, after = evidence.before.history_length, evidence.after.history_length
    if before is None or after is None or not evidence.seconds:
        return ""
    return f", {after - before:+,.0f} in {evidence.seconds:.0f} s"
