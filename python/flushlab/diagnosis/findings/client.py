"""Clients: writers wait for their client's next statement. Pure."""

from __future__ import annotations

import msgspec

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
    share = evidence.time.share("client", delays=(ROW_LOCK,))
    if share is not None and evidence.time.pauses:
        seen.append(Seen("pauses of a second or longer are not among them, so no bound can be computed"))
        share = msgspec.structs.replace(share, proportional=False)
    return Finding(
        name="client",
        title="writers wait for their clients: round trips and the application's own work",
        share=share,
        waits=("client",),
        seen=tuple(seen),
        advice=(
            "Send fewer and larger statements (rows per INSERT, procedures, pipelining), or run more clients."
            " No setting of the server shortens this time."
        ),
    )
