"""XA transactions: prepared, and nobody ends them. Pure.

They keep their row locks, hold purge up, and survive a restart. MySQL from 8.0.29 on lets go of the
connection at XA PREPARE, others when it ends: INNODB_TRX and InnoDB's monitor then have no thread for it.
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK
from flushlab.units import counted

_OLD_S = 5
"""A transaction manager that works ends them within a second."""


def find(evidence: Evidence) -> Finding | None:
    """Prepared transactions that are old, if there are any."""
    left = [one for one in evidence.transactions.values() if one.is_left and one.age_s >= _OLD_S]
    if not left:
        return None
    oldest_s, alone = max(one.age_s for one in left), sum(not one.thread for one in left)
    locks = counted(sum(one.rows_locked for one in left), "row lock")
    many, xids = len(left) > 1, evidence.after.xids
    names = [Seen(f"XID: {'; '.join(xids[:3])}{' and others' if len(xids) > 3 else ''}", "XA RECOVER")]
    who = f"{len(left)} XA transactions" if many else "an XA transaction"
    return Finding(
        name="xa_transactions",
        title=f"{who} {'were' if many else 'was'} left prepared: row locks until XA COMMIT or XA ROLLBACK",
        share=evidence.time.within(1.0, ROW_LOCK),
        waits=(ROW_LOCK,),
        unmeasured=f"{who} {'have' if many else 'has'} been prepared for {oldest_s:,} s, with {locks}",
        shows_in=("row_locks",),
        is_proven=False,
        seen=(
            Seen(
                f"{len(left)} prepared, {alone} of them without a connection; the oldest for {oldest_s:,} s,"
                f" with {locks} and {counted(sum(one.rows_modified for one in left), 'changed row')}",
                "SELECT * FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 20",
            ),
            *(names if xids else ()),
        ),
        advice=(
            "XA RECOVER lists them by XID, which the transaction manager chose. Ask that manager for the"
            " outcome of each, then end it: XA COMMIT or XA ROLLBACK with its XID. A restart of the server"
            " leaves them as they are."
        ),
    )
