"""Connections: made anew for each piece of work, or kept asleep by the hundred. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_MANY_PER_S = 10.0


def find(evidence: Evidence) -> Finding | None:
    """Connection churn, or a server near its limit of connections."""
    rate, questions = evidence.per_s("connections"), evidence.per_s("questions")
    churns = bool(rate and questions and rate > _MANY_PER_S and questions / rate < 20)
    most, now = evidence.after.variable("max_connections"), evidence.after.number("threads_connected")
    is_full = bool(most and now and now > 0.8 * most)
    if not churns and not is_full:
        return None
    seen = []
    if churns and rate and questions:
        text = f"{rate:,.0f} new connections/s, {questions / rate:.1f} statements each"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Connections'"))
    if is_full and now:
        running = evidence.after.number("threads_running")
        work = "" if running is None else f", {running:,.0f} of them at work"
        text = f"{now:,.0f} of {most:,} connections are in use{work}"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Threads_%'"))
    return Finding(
        name="connections",
        title="connections come and go" if churns else "nearly all connections are in use",
        seen=tuple(seen),
        advice=(
            "Keep connections in a pool: a new one costs round trips and a login."
            if churns
            else "Use smaller pools. Few connections work at the same time, so throughput stays the same."
        ),
    )
