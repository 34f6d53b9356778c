"""Full scans: updates and deletes read a whole table for a few rows, and lock each row that they read. Pure.

InnoDB locks every row that a statement searches. performance_schema counts reads and changes
without an index by table. Elsewhere, the counters of all statements and the locks of transactions tell.
"""

from __future__ import annotations

import itertools

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.lock_holders import DDL
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK

_ROWS_PER_CHANGE = 100.0
"""Below, an index would not gain much."""
_MANY_LOCKS = 1000
_SHORT = 0.5
_OWN_ROWS_PER_S = 3000.0
"""That the doctor's own questions read, at most."""
_TABLES = "SELECT * FROM performance_schema.table_io_waits_summary_by_index_usage WHERE INDEX_NAME IS NULL"
_OPEN = "SELECT trx_id, trx_rows_locked, trx_rows_modified FROM information_schema.INNODB_TRX"
_COUNTERS = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_read_rnd_next', 'Handler_update', 'Handler_delete')"
)


def find(evidence: Evidence) -> Finding | None:
    """Changes without an index, if tables or locks tell of any."""
    changed = evidence.grew("handler_update") + evidence.grew("handler_delete")
    read = evidence.grew("handler_read_rnd_next") - _OWN_ROWS_PER_S * evidence.seconds
    if not evidence.time.total or read < _ROWS_PER_CHANGE * max(1.0, changed):
        return None
    tables, locks = _tables(evidence), _locks(evidence)
    if not tables and not locks:
        return None
    of = f" of table {tables[0][2]}" if tables else ""
    seen = [
        Seen(f"{name}: {rows:,} rows read without an index, {changes:,} changed", _TABLES)
        for rows, changes, name in tables[:3]
    ]
    seen += [
        Seen(f"a transaction held {rows:,} row locks and had changed {changes:,}", _OPEN)
        for rows, changes in locks[:1]
    ]
    seen.append(
        Seen(f"{read / max(1.0, changed):,.0f} rows read in table scans for each changed one", _COUNTERS)
    )
    waits, pressure = ("statement", ROW_LOCK), evidence.pressure
    # Clients on the same machine wait for the processors that scans take.
    is_short = pressure is not None and (pressure.cpu_pressure_share or 0.0) >= _SHORT
    clients = ("client",) if is_short else ()
    return Finding(
        name="full_scans",
        title=f"updates or deletes{of} find no index: each reads and locks the whole table",
        share=evidence.time.within(
            1 - changed / read, *waits, delays=("commit", "reading", PROCESSOR, *clients)
        ),
        waits=waits,
        shows_in=("row_locks", "cpu", "client"),
        seen=tuple(seen),
        advice=(
            "Create an index on the columns of the WHERE clause, or the primary key that the table lacks."
            " EXPLAIN of the UPDATE or DELETE shows type ALL until then."
        ),
    )


def _tables(evidence: Evidence) -> list[tuple[int, int, str]]:
    """Rows read and changed without an index, and the table; most reads first."""
    before, after = evidence.before.scans, evidence.after.scans
    if before is None or after is None:
        return []
    grown = [
        (rows - before.get(name, (0, 0))[0], changes - before.get(name, (0, 0))[1], name)
        for name, (rows, changes) in after.items()
    ]
    return sorted((one for one in grown if one[1] > 0 and one[0] >= _ROWS_PER_CHANGE * one[1]), reverse=True)


def _locks(evidence: Evidence) -> list[tuple[int, int]]:
    """Row locks and changed rows of transactions with very many for each change, most locks first.

    An ALTER that copies a table locks its rows, too.
    """
    every = itertools.chain(evidence.transactions.values(), *evidence.looks)
    ddl = {one.id for one in evidence.longest.values() if one.verb in DDL}
    found = {
        (one.rows_locked, one.rows_modified) for one in every if not one.prepared and one.thread not in ddl
    }
    return sorted(
        (one for one in found if one[0] >= max(_MANY_LOCKS, _ROWS_PER_CHANGE * one[1])), reverse=True
    )
