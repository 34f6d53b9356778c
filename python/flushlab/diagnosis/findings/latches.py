"""Latches: threads wait for each other inside InnoDB, as its monitor tells. Pure.

Not seen on a live server: SHOW ENGINE INNODB STATUS is not asked for it.
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, wait
from flushlab.diagnosis.longest import LONG_S

_MANY = 5
_LONG_S = 1.0
_SHOWN = 3
_SQL = "SHOW ENGINE INNODB STATUS  -- SEMAPHORES"


def find(evidence: Evidence) -> Finding | None:
    """Many threads in a queue, or one that has waited for long."""
    most = max(evidence.monitors, key=lambda one: sum(latch.waiting for latch in one.latches), default=None)
    if most is None or not most.latches:
        return None
    waiting = sum(one.waiting for one in most.latches)
    longest_s = max(one.longest_s for one in most.latches)
    if waiting < _MANY and longest_s < _LONG_S:
        return None
    seen = [
        Seen(f"{one.waiting} for {one.name}, {_at_most(one.longest_s)}", _SQL)
        for one in most.latches[:_SHOWN]
    ]
    return Finding(
        name="latches",
        title=f"{wait(waiting, 'thread')} for latches inside InnoDB",
        unmeasured=f"threads wait for InnoDB's latches, for up to {longest_s:,.0f} s"
        if longest_s >= LONG_S
        else "",
        seen=tuple(seen),
        advice=(
            "Use fewer connections at the same time. The name of the latch shows what is contended:"
            " an index, the adaptive hash index, the buffer pool, the redo log."
        ),
    )


def _at_most(seconds: float) -> str:
    return f"up to {seconds:.0f} s" if seconds >= _LONG_S else "less than 1 s each"
