"""Buffer pool: statements wait for a free page, or for pages that are read from disk. Pure."""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.counted import write_statements_per_s
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Change, Finding, Seen
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK

_MOST_OF_MEMORY = 0.7
"""The rest is for connections, the operating system and its page cache."""
_STEP = 128 << 20
"""Size of a chunk by default."""


def find(evidence: Evidence) -> Finding | None:
    """Waits for free pages, or reads in the way of writes."""
    if evidence.seconds <= 0:
        return None
    free, reads = evidence.grew("innodb_buffer_pool_wait_free"), evidence.grew("innodb_buffer_pool_reads")
    commits = (evidence.commits or 0.0) * evidence.seconds
    if not free and (reads < max(commits, evidence.seconds) or write_statements_per_s(evidence) == 0):
        return None
    part = (free + reads) / max(1.0, commits)
    size = evidence.after.variable("innodb_buffer_pool_size") or 0
    seen = []
    if free:
        sql = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_wait_free'"
        seen.append(Seen(f"{free / evidence.seconds:,.1f} waits/s for a free page", sql))
    if reads:
        per_commit = f", {reads / commits:.1f} per commit" if commits else ""
        sql = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'"
        seen.append(Seen(f"{reads / evidence.seconds:,.0f} pages/s read from disk{per_commit}", sql))
    seen.append(Seen(evidence.sized("innodb_buffer_pool_size")))
    return Finding(
        name="buffer_pool",
        title="statements wait for the buffer pool: free pages or pages from disk",
        share=evidence.time.within(part, "statement", delays=("commit", "reading", ROW_LOCK, PROCESSOR)),
        waits=("statement",),
        seen=tuple(seen),
        advice="The pages that writes touch do not fit. Give the pool more of the machine's memory.",
        changes=_larger(evidence, size),
    )


def _larger(evidence: Evidence, size: int) -> tuple[Change, ...]:
    """A pool that the server's machine can hold; none where its memory cannot be seen."""
    room = int(evidence.memory_bytes * _MOST_OF_MEMORY)
    larger = min(4 * size, room) // _STEP * _STEP
    return changes(evidence, {"innodb_buffer_pool_size": larger}) if larger > size > 0 else ()
