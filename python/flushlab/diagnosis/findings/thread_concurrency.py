"""Thread concurrency: statements queue before InnoDB, which lets only so many in. Pure.

MySQL only: MariaDB has ignored innodb_thread_concurrency since 10.5.5. A statement in this queue
has no state of its own, and no row in INNODB_TRX if its transaction has not begun. Those that execute beyond
the limit are in the queue, or not in InnoDB yet.
"""

from __future__ import annotations

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK

_LIMIT = "innodb_thread_concurrency"
_INSIDE = ("statement", "reading")


def find(evidence: Evidence) -> Finding | None:
    """Statements of writers beyond the limit, if they are more than it on average."""
    limit = evidence.after.variable(_LIMIT)
    if evidence.identity.flavor != "mysql" or not limit:
        return None
    executing = sum(evidence.time.connections.get(one, 0.0) for one in _INSIDE)
    if executing <= limit:
        return None
    share = evidence.time.share(*_INSIDE, delays=(ROW_LOCK,))
    return Finding(
        name="thread_concurrency",
        title=f"statements wait to enter InnoDB, which lets {limit} in",
        share=share and share.part(1 - limit / executing),
        waits=_INSIDE,
        seen=(
            Seen(
                f"{executing:.1f} statements of writers execute on average, and {_LIMIT}={limit}",
                "SHOW ENGINE INNODB STATUS  -- ROW OPERATIONS: queries in queue",
            ),
        ),
        advice=(
            "Remove the limit. If the limit is there to reduce contention, use a smaller connection pool:"
            " it has the same effect without a queue inside the server."
        ),
        changes=changes(evidence, {_LIMIT: 0}),
    )
