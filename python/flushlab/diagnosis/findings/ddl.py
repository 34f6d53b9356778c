"""DDL: a statement that alters, builds or rewrites a table runs beside the writers. Pure.

It reads and writes the table beside the writers, and may hold locks of its own. No sample weighs it.
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.lock_holders import DDL
from flushlab.diagnosis.longest import LONG_S
from flushlab.telemetry.live.questions import waits_for_metadata

_LONG_S = 10


def find(evidence: Evidence) -> Finding | None:
    """DDL that takes long, or all of a short window; while it waits for a lock, it does nothing."""
    least_s = min(_LONG_S, max(LONG_S, evidence.seconds - LONG_S))
    every = [
        one
        for one in evidence.longest.values()
        if one.verb in DDL and one.seconds >= least_s and not waits_for_metadata(one.state)
    ]
    if not every:
        return None
    longest = max(every, key=lambda one: one.seconds)
    verb = longest.verb.upper()
    return Finding(
        name="ddl",
        title=f"{verb} of connection {longest.id} runs beside the writers",
        unmeasured=f"{verb} of connection {longest.id} has run for {longest.seconds:,} s",
        is_proven=False,
        seen=tuple(
            Seen(
                f"{one.verb.upper()} of connection {one.id}: {one.state or 'at work'}, for {one.seconds:,} s",
                "SELECT ID, TIME, STATE, INFO FROM information_schema.PROCESSLIST ORDER BY TIME DESC",
            )
            for one in sorted(every, key=lambda one: -one.seconds)[:3]
        ),
        advice=(
            "Watch again once it has ended: only then its share of the disk and the processors is known."
            " Move it to an hour with fewer writes, or use a tool that pauses under load."
        ),
    )
