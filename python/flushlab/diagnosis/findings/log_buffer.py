"""Log buffer: statements wait until the redo log buffer has room. Pure.

Innodb_log_waits counts statements that found no room. Before MySQL 8.0, InnoDB writes the buffer as soon as
half of it is full (log_flush_margin in log0log.cc): statements wait for these writes, and Innodb_log_waits
stays. Ratios of Innodb_log_writes to other counters mislead (MySQLTuner issue 938); the size of a write
against the buffer's does not.
"""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK
from flushlab.units import format_size

_FULL = 0.4
"""Mean write, as part of the buffer, from which a full buffer is written: half of it, less a margin."""


def find(evidence: Evidence) -> Finding | None:
    """Waits for room in the log buffer, if there were any."""
    if evidence.seconds <= 0:
        return None
    size = evidence.after.variable("innodb_log_buffer_size") or 0
    busy = _busy(evidence)
    waits, seen = evidence.grew("innodb_log_waits"), []
    if waits:
        text = f"{waits / evidence.seconds:,.1f} waits/s"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb_log_waits'"))
    if not waits and busy is not None and (full := _full(evidence, size)):
        waits, mean = full
        text = f"{waits / evidence.seconds:,.1f} writes/s of {format_size(mean)}: the buffer was full"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb%log_writ%'"))
    if not waits:
        return None
    if busy is not None:
        seen.append(Seen(f"the redo log was written or synced in {100 * busy:.0f}% of the time", _FILES))
    part = waits / max(1.0, (evidence.commits or 0.0) * evidence.seconds)
    # Whoever waits for room waits for a write of the redo log: no longer than there were any.
    within = min(part, 1.0 if busy is None else busy)
    return Finding(
        name="log_buffer",
        title="statements wait for room in the redo log buffer",
        share=evidence.time.within(within, "statement", "commit", delays=(ROW_LOCK,)),
        waits=("statement", "commit"),
        seen=(*seen, Seen(evidence.sized("innodb_log_buffer_size"))),
        advice="A buffer that holds the redo of the transactions in flight ends these waits.",
        changes=changes(evidence, {"innodb_log_buffer_size": max(64 << 20, 4 * size)}),
    )


_FILES = "SELECT * FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME LIKE '%innodb_log%'"


def _full(evidence: Evidence, size: int) -> tuple[float, int] | None:
    """Writes of a full buffer and their mean bytes; None for smaller ones and where a thread writes."""
    identity = evidence.identity
    if identity.flavor == "mysql" and identity.version >= (8, 0):
        return None
    writes, written = evidence.delta("innodb_log_writes"), evidence.delta("innodb_os_log_written")
    if not writes or not written or not size or written / writes < _FULL * size:
        return None
    return writes, round(written / writes)


def _busy(evidence: Evidence) -> float | None:
    """Part of the time in which the redo log was written or synced, at most; None if nobody tells."""
    before, after = evidence.before.files.get("redo"), evidence.after.files.get("redo")
    if before is None or after is None or before.write_s is None or after.write_s is None:
        return None
    seconds = after.write_s - before.write_s + after.sync_s - before.sync_s
    return min(1.0, max(0.0, seconds) / evidence.seconds)
