"""Log buffer: statements wait until the redo log buffer has room. Pure.

Innodb_log_waits alone tells it; ratios of Innodb_log_writes mislead (MySQLTuner issue 938).
"""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK
from flushlab.units import format_size


def find(evidence: Evidence) -> Finding | None:
    """Waits for room in the log buffer, if there were any."""
    waits = evidence.grew("innodb_log_waits")
    if not waits or evidence.seconds <= 0:
        return None
    part = waits / max(1.0, (evidence.commits or 0.0) * evidence.seconds)
    size = evidence.after.variable("innodb_log_buffer_size") or 0
    return Finding(
        name="log_buffer",
        title="statements wait for room in the redo log buffer",
        share=evidence.time.within(part, "statement", "commit", delays=(ROW_LOCK,)),
        waits=("statement", "commit"),
        seen=(
            Seen(f"{waits / evidence.seconds:,.1f} waits/s", "SHOW GLOBAL STATUS LIKE 'Innodb_log_waits'"),
            Seen(f"innodb_log_buffer_size is {format_size(size)}"),
        ),
        advice="A buffer that holds the redo of the transactions in flight ends these waits.",
        changes=changes(evidence, {"innodb_log_buffer_size": max(64 << 20, 4 * size)}),
    )
