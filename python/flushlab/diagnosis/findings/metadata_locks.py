"""Metadata locks: statements wait for a table that DDL, a backup or LOCK TABLES holds. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK


def find(evidence: Evidence) -> Finding | None:
    """Time in waits for metadata locks, if there is any."""
    waiting = evidence.time.connections.get("metadata lock", 0.0)
    if not waiting:
        return None
    return Finding(
        name="metadata_locks",
        title="writers wait for a table lock: DDL, a backup or LOCK TABLES",
        share=evidence.time.share("metadata lock", delays=(ROW_LOCK,)),
        waits=("metadata lock",),
        seen=(
            Seen(
                f"{waiting:.1f} writers wait for a metadata or table lock, on average",
                "SELECT ID, STATE FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for%'",
            ),
        ),
        advice="End the statement or idle transaction that holds the table; give DDL a lock_wait_timeout.",
    )
