"""Clients: writers wait for their client's next statement. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK


def find(evidence: Evidence) -> Finding | None:
    """The client's turns of connections that write, if they are seen."""
    waiting = evidence.time.connections.get("client", 0.0)
    if not waiting:
        return None
    rate = evidence.per_s("questions")
    seen = [
        Seen(
            f"{waiting:.1f} of {evidence.time.total:.1f} busy writers wait for the client's next statement",
            "SELECT COMMAND, COUNT(*) FROM information_schema.PROCESSLIST WHERE TIME < 1 GROUP BY COMMAND",
        )
    ]
    if rate is not None:
        seen.append(Seen(f"{rate:,.0f} statements/s", "SHOW GLOBAL STATUS LIKE 'Questions'"))
    return Finding(
        name="client",
        title="writers wait for their clients: round trips and the application's own work",
        share=evidence.time.share("client", delays=(ROW_LOCK,)),
        waits=("client",),
        seen=tuple(seen),
        advice=(
            "Send fewer and larger statements (rows per INSERT, procedures, pipelining), or run more clients."
            " No setting of the server shortens this time."
        ),
    )
