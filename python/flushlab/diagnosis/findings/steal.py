"""Steal: the hypervisor gives the machine's processors to others. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK

_MUCH = 0.05


def find(evidence: Evidence) -> Finding | None:
    """Stolen processor time, if flushlab sees the machine."""
    machine = evidence.pressure
    if machine is None or machine.steal_share < _MUCH:
        return None
    return Finding(
        name="steal",
        title="the hypervisor takes processor time from this machine",
        share=evidence.time.within(
            machine.steal_share, "statement", "reading", "commit", delays=(ROW_LOCK, PROCESSOR)
        ),
        seen=(Seen(f"{machine.steal_share:.0%} of all processor time was stolen (/proc/stat)"),),
        advice="No setting helps: use a host with fewer neighbors, or an instance with its own processors.",
    )
