"""CPU quota: the server's control group has used up its processor time for the period. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_OFTEN = 0.1


def find(evidence: Evidence) -> Finding | None:
    """Throttled periods, if the server's control group has a quota and is in sight."""
    host = evidence.host
    if host is None or host.cpu_quota is None or (host.cpu_throttled_share or 0.0) < _OFTEN:
        return None
    share = host.cpu_throttled_share or 0.0
    return Finding(
        name="cpu_quota",
        title="the server's control group is out of processor time",
        share=evidence.time.within(share, "statement", "reading", "commit"),
        seen=(
            Seen(
                f"throttled in {share:.0%} of the periods, at {host.cpu_quota:.1f} of {host.cpus} processors"
                " (cpu.stat)"
            ),
        ),
        advice="Raise the limit of the container or service (cpu.max, CPUQuota=); bursts are cut off too.",
    )
