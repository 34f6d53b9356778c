"""Page flushing: dirty pages are at their limit, and writers wait for free ones. Pure."""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.findings.redo_capacity import waiting_part
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK

_NEAR = 0.9


def find(evidence: Evidence) -> Finding | None:
    """Dirty pages near their limit at both ends of the window."""
    try:
        limit = float(evidence.variable("innodb_max_dirty_pages_pct")) / 100
    except ValueError:
        return None
    shares = [one.dirty for one in (evidence.before, evidence.after)]
    dirty = [share for share in shares if share is not None]
    if len(dirty) < 2 or limit <= 0 or min(dirty) < _NEAR * limit or evidence.seconds <= 0:
        return None
    free = evidence.grew("innodb_buffer_pool_wait_free")
    flushed = evidence.per_s("innodb_buffer_pool_pages_flushed")
    capacity = evidence.after.variable("innodb_io_capacity")
    seen = [
        Seen(
            f"{dirty[-1]:.0%} of the buffer pool is dirty, innodb_max_dirty_pages_pct is {limit:.0%}",
            "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'",
        ),
        Seen(
            f"{free / evidence.seconds:,.1f} waits/s for a free page",
            "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_wait_free'",
        ),
    ]
    if flushed is not None and capacity:
        text = f"{flushed:,.0f} pages/s are flushed, innodb_io_capacity is {capacity:,}"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_flushed'"))
    # A disk that does not get that far gains nothing from more of it, nor does a server that goes beyond.
    most = max(capacity or 0, evidence.after.variable("innodb_io_capacity_max") or 0)
    is_slower = capacity and flushed is not None and 0.8 * capacity <= flushed <= 1.2 * most
    for_pages = free / max(1.0, (evidence.commits or 0.0) * evidence.seconds)
    for_redo = waiting_part(evidence)
    waits = ("statement", "commit") if for_redo > for_pages else ("statement",)
    delays = {"commit", "reading", ROW_LOCK, PROCESSOR}
    return Finding(
        name="page_flushing",
        title="page flushing does not keep up: dirty pages are at their limit"
        + (f", and innodb_io_capacity={capacity} holds flushing back" if is_slower else ""),
        share=evidence.time.within(max(for_pages, for_redo), *waits, delays=tuple(delays - {*waits})),
        waits=waits,
        shows_in=("redo_capacity",),
        seen=tuple(seen),
        advice=(
            "Pages are changed faster than they are written. Raise innodb_io_capacity as far as the disk can"
            " write; a larger pool and a larger redo log let a page change more often before it is written."
        ),
        changes=changes(
            evidence,
            {
                "innodb_io_capacity": 4 * capacity,
                "innodb_io_capacity_max": max(
                    8 * capacity, evidence.after.variable("innodb_io_capacity_max") or 0
                ),
            },
        )
        if is_slower and capacity
        else (),
    )
