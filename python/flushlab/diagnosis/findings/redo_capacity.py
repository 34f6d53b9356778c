"""Redo capacity: the redo log is nearly full, so pages are flushed in a hurry and writers wait. Pure.

InnoDB flushes faster from about 3/4 of the log on, and lets writers wait at a mark, `Redo.limit`. Only an
age at that mark is evidence of waits. A single age, as files may have it, does not tell for how long.
"""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK
from flushlab.units import format_size

_NEAR = 0.7
_AT = 0.95
"""Of the mark: writers that wait there begin and end in steps."""
_ENOUGH = 3
"""Samples below which no part of the window is known."""


_MOST_OF_FILES = 512 << 30
"""MySQL before 8.0.30 does not start with log files that have as much together
(https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html#sysvar_innodb_log_file_size)."""


def find(evidence: Evidence) -> Finding | None:
    """A checkpoint age near the log's capacity, if it was seen."""
    capacity = evidence.after.redo.capacity
    limit = evidence.after.redo.limit or 0.0
    ages = evidence.checkpoint_ages
    if not ages or not limit:
        return None
    near = sum(age > _NEAR * limit for age in ages) / len(ages)
    if near < 0.1:
        return None
    size, highest, part = capacity or int(limit), max(ages) / limit, waiting_part(evidence)
    share = evidence.time.within(part, "statement", "commit", delays=(ROW_LOCK, PROCESSOR)) if part else None
    return Finding(
        name="redo_capacity",
        title=f"the redo log was filled to {highest:.0%} of the mark at which writers wait: "
        + ("they wait for page flushing" if part else "pages are flushed in a hurry"),
        share=share,
        waits=("statement", "commit"),
        seen=(
            Seen(
                f"checkpoint age up to {format_size(max(ages))}, {highest:.0%} of the"
                f" {format_size(int(limit))} at which writers wait"
                + (f", above {_NEAR:.0%} in {near:.0%} of {len(ages)} samples" if len(ages) > 1 else ""),
                "SHOW GLOBAL STATUS LIKE 'Innodb_%lsn'; -- MariaDB: LIKE 'Innodb_checkpoint%'",
            ),
        ),
        advice="A larger redo log spreads page flushing over more time; recovery after a crash takes longer.",
        changes=changes(evidence, _larger(evidence, 8 * size)),
    )


def waiting_part(evidence: Evidence) -> float:
    """Part of the window in which the checkpoint's age was at the mark; 0 for too few samples."""
    ages, limit = evidence.checkpoint_ages, evidence.after.redo.limit
    if len(ages) < _ENOUGH or not limit:
        return 0.0
    return sum(age >= _AT * limit for age in ages) / len(ages)


def _larger(evidence: Evidence, size: int) -> dict[str, int]:
    """The setting of this server's version, for a log of that size."""
    if "innodb_redo_log_capacity" in evidence.after.variables:
        return {"innodb_redo_log_capacity": size}
    files = evidence.after.variable("innodb_log_files_in_group") or 1
    return {"innodb_log_file_size": min(size, _MOST_OF_FILES - (files << 20)) // files}
