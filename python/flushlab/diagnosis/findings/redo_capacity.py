"""Redo capacity: the redo log is nearly full, so pages are flushed in a hurry and writers wait. Pure.

InnoDB flushes faster from about 3/4 of the log on, and lets writers wait at about 7/8; sync flushing was seen
from 83 % on (percona/pmm 5648). A single age, as files may have it, tells that the log is full, and not for
how long.
"""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK
from flushlab.units import format_size

_NEAR = 0.7
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
    size = capacity or int(limit)
    share = None
    if len(ages) >= _ENOUGH:
        share = evidence.time.within(near, "statement", "commit", delays=(ROW_LOCK, PROCESSOR))
    return Finding(
        name="redo_capacity",
        title="the redo log is nearly full: "
        + ("pages are flushed in a hurry" if share is None else "writers wait for page flushing"),
        share=share,
        waits=("statement", "commit"),
        seen=(
            Seen(
                f"checkpoint age up to {format_size(max(ages))}, {max(ages) / limit:.0%} of the"
                f" {format_size(int(limit))} at which writers wait"
                + (f", above {_NEAR:.0%} in {near:.0%} of {len(ages)} samples" if len(ages) > 1 else ""),
                "SHOW GLOBAL STATUS LIKE 'Innodb_%lsn'; -- MariaDB: LIKE 'Innodb_checkpoint%'",
            ),
        ),
        advice="A larger redo log spreads page flushing over more time; recovery after a crash takes longer.",
        changes=changes(evidence, _larger(evidence, 8 * size)),
    )


def _larger(evidence: Evidence, size: int) -> dict[str, int]:
    """The setting of this server's version, for a log of that size."""
    if "innodb_redo_log_capacity" in evidence.after.variables:
        return {"innodb_redo_log_capacity": size}
    files = evidence.after.variable("innodb_log_files_in_group") or 1
    return {"innodb_log_file_size": min(size, _MOST_OF_FILES - (files << 20)) // files}
