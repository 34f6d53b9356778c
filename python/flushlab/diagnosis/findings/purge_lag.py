"""Purge lag: old row versions pile up behind an old snapshot or slow purge. Pure.

Searches go through rows that are deleted but not purged, and lock these too. The cost shows in the pages that
are read per row, and in locks on rows that nobody read. MySQL's manual on TRX_ROWS_LOCKED: it "might include
delete-marked rows that are physically present but not visible to the transaction".
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK

_LONG = 1_000_000
_GROWING = 10_000
_PAGES_PER_ROW = 20.0
"""A search of a B-tree reads about five pages; a write, with its indexes and undo log, some more."""
_ROWS = tuple(f"innodb_rows_{name}" for name in ("read", "inserted", "updated", "deleted"))
_HANDLER = tuple(
    f"handler_{name}"
    for name in (
        "write",
        "update",
        "delete",
        "read_first",
        "read_key",
        "read_next",
        "read_prev",
        "read_rnd_next",
    )
)
"""MariaDB has no others since 10.6."""
_OLD_S = 5
"""Between two looks at transactions: an older one may be seen twice."""
_OPEN = "SELECT trx_id, trx_rows_locked, trx_rows_modified FROM information_schema.INNODB_TRX"
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
    rows, pages = _rows(evidence), evidence.grew("innodb_buffer_pool_read_requests")
    per_row, locked = pages / max(1.0, rows), _locked(evidence)
    part = 1.0 - _PAGES_PER_ROW / max(per_row, _PAGES_PER_ROW)
    seen = [
        Seen(
            f"history list length {length:,.0f}{_growth(evidence)}",
            _SQL["innodb_history_list_length" in evidence.after.status],
        )
    ]
    if per_row > _PAGES_PER_ROW:
        text = f"{per_row:,.0f} pages are read per row; a search takes about five"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'"))
    if locked > rows > 0:
        part = max(part, 1.0 - rows / locked)
        text = f"{locked:,} row locks in {len(evidence.looks)} samples of transactions"
        text += f", but only {rows:,.0f} rows read or changed in the window"
        seen.append(Seen(f"{text}: the other locks are on deleted rows that are not purged", _OPEN))
    # Statements that search for longer hold their locks for longer.
    waits = ("statement", ROW_LOCK)
    return Finding(
        name="purge_lag",
        title="old row versions pile up: purge does not keep up",
        share=evidence.time.within(part, *waits, delays=("reading", PROCESSOR)),
        waits=waits,
        shows_in=("row_locks", "cpu", "client"),
        seen=tuple(seen),
        advice="End long transactions and snapshots (backups, reports); then raise innodb_purge_threads.",
    )


def _rows(evidence: Evidence) -> float:
    """Rows that were read or changed."""
    names = _ROWS if evidence.delta(_ROWS[0]) is not None else _HANDLER
    return sum(map(evidence.grew, names))


def _locked(evidence: Evidence) -> int:
    """Locks on rows of transactions that were seen once, and began in the window."""
    every = (one for look in evidence.looks for one in look)
    return sum(one.rows_locked for one in every if not one.waits and one.age_s < _OLD_S)


def _growth(evidence: Evidence) -> str:
    """Growth in the window, if there is one."""
    before, after = evidence.before.history_length, evidence.after.history_length
    if before is None or after is None or not evidence.seconds:
        return ""
    return f", {after - before:+,.0f} in {evidence.seconds:.0f} s"
