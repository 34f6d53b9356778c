"""Pending I/O: reads, writes or syncs that InnoDB asked for stand in a queue, as its monitor tells. Pure.

Not seen on a live server: SHOW ENGINE INNODB STATUS is not asked for it.
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_MANY = 16
"""Below, a queue is what any disk has."""
_SQL = "SHOW ENGINE INNODB STATUS  -- FILE I/O"


def find(evidence: Evidence) -> Finding | None:
    """A long queue."""
    most = max(evidence.monitors, key=lambda one: sum(one.pending.values()), default=None)
    if most is None or sum(most.pending.values()) < _MANY:
        return None
    return Finding(
        name="pending_io",
        title="InnoDB's reads, writes or syncs stand in a queue",
        seen=tuple(Seen(f"{count:,} {kind} pending", _SQL) for kind, count in most.pending.items()),
        advice="Look at the disk's latency and queue (iostat -x 1) at the same time.",
    )
