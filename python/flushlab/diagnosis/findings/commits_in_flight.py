"""Commits in flight: transactions stand between prepare and commit, as InnoDB's monitor tells. Pure.

There they wait for the syncs of redo log and binary log, or for the commits before them. Not seen on a live
server: SHOW ENGINE INNODB STATUS is not asked for it.
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_LONG_S = 1
_MANY = 3


def find(evidence: Evidence) -> Finding | None:
    """Several that are there for a second or longer."""
    every = [[age for age in one.committing if age >= _LONG_S] for one in evidence.monitors]
    most = max(every, key=len, default=[])
    if len(most) < _MANY:
        return None
    return Finding(
        name="commits_in_flight",
        title="commits take seconds",
        seen=(
            Seen(
                f"{len(most)} transactions are prepared but not committed, for up to {max(most)} s",
                "SHOW ENGINE INNODB STATUS  -- ACTIVE (PREPARED)",
            ),
        ),
        advice=(
            "Look at the disk's sync latency, at the age of the checkpoint and at replicas at the same time:"
            " each of these can delay a commit."
        ),
    )
