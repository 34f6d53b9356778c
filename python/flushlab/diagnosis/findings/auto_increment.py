"""Auto-increment: statements wait for a table's counter, or for LOCK TABLES within InnoDB. Pure.

Waits for these locks are in INNODB_TRX, but not among the counted waits for rows.
"""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, wait
from flushlab.diagnosis.waits import ROW_LOCK

INTERLEAVED = 2
_MODE = "SELECT @@GLOBAL.innodb_autoinc_lock_mode"


def find(evidence: Evidence) -> Finding | None:
    """Transactions that wait for a lock where no row lock is waited for."""
    waiting = [one for one in evidence.transactions.values() if one.waits]
    ends = [one.row_lock_waiters for one in (evidence.before, evidence.after)]
    counted = evidence.grew("innodb_row_lock_waits") or evidence.grew("innodb_row_lock_time")
    if not waiting or ends[1] is None or any(ends) or counted:
        return None
    mode = evidence.after.variable("innodb_autoinc_lock_mode")
    has_rows = evidence.variable("binlog_format").upper() == "ROW" or evidence.is_off("log_bin")
    share = evidence.time.share(ROW_LOCK)
    return Finding(
        name="auto_increment",
        title="statements wait for a table's auto-increment counter, or for a lock on the whole table",
        share=share,
        waits=(ROW_LOCK,),
        unmeasured=f"{wait(len(waiting), 'transaction')} for a table's lock" if share is None else "",
        seen=(
            Seen(
                f"{len(waiting)} transactions waited for a lock other than a row lock",
                "SELECT * FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'",
            ),
            *([] if mode is None else [Seen(f"innodb_autoinc_lock_mode={mode}", _MODE)]),
        ),
        advice="INSERT … SELECT and LOAD DATA hold the counter until they end: use smaller statements.",
        changes=changes(evidence, {"innodb_autoinc_lock_mode": INTERLEAVED})
        if mode not in (None, INTERLEAVED) and has_rows
        else (),
    )
