"""CPU quota: the server's control group has used up its processor time for the period. Pure.

A server that is stopped answers nobody, the doctor neither, so the states of connections do not show the
time. The lower end is the time in which all processors were stopped, if they were stopped together. A group
that uses its quota on all processors runs for quota/processors of a period at least; the rest is the upper
end.

No bound comes of it. Background threads use up the same quota, and so do threads that spin for a latch whose
holder is stopped: a larger quota may bring more than in proportion. 14 times as many transactions were seen
with 10 times the processor time (MariaDB 10.11).
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.shares import Share

_OFTEN = 0.1


def find(evidence: Evidence) -> Finding | None:
    """Throttled periods, if the server's control group has a quota and is in sight."""
    host = evidence.host
    if host is None or host.cpu_quota is None or (host.cpu_throttled_share or 0.0) < _OFTEN:
        return None
    throttled = host.cpu_throttled_share or 0.0
    most = throttled * max(0.0, 1.0 - host.cpu_quota / host.cpus)
    least = min(most, host.cpu_stopped_share or 0.0)
    return Finding(
        name="cpu_quota",
        title="the server's control group is out of processor time",
        shows_in=("cpu", "client"),
        share=Share(least, (least + most) / 2, most, proportional=False) if evidence.time.total else None,
        seen=(
            Seen(
                f"throttled in {throttled:.0%} of the periods, stopped for {least:.0%} of the time or more,"
                f" at {host.cpu_quota:.1f} of {host.cpus} processors (cpu.stat)"
            ),
        ),
        advice="Raise the limit of the container or service (cpu.max, CPUQuota=); bursts are cut off too.",
    )
