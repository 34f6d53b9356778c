"""CPU: the server's processors are busy, so statements wait for their turn. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_BUSY = 0.5


def find(evidence: Evidence) -> Finding | None:
    """A machine short of processor time, if flushlab sees the machine."""
    machine = evidence.pressure
    if machine is None or machine.cpu_pressure_share is None:
        return None
    if machine.cpu_pressure_share < _BUSY:
        return None
    running = evidence.after.number("threads_running")
    seen = [
        Seen(
            f"tasks waited for a processor {machine.cpu_pressure_share:.0%} of the time (/proc/pressure/cpu)"
        )
    ]
    if running is not None and evidence.cpus:
        text = f"{running:,.0f} connections at work on {evidence.cpus} processors"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Threads_running'"))
    return Finding(
        name="cpu",
        title="the machine is short of processor time",
        share=evidence.time.within(machine.cpu_pressure_share, "statement", "reading"),
        waits=("statement", "reading"),
        seen=tuple(seen),
        advice="Find who uses it (top, pidstat); fewer, larger statements take less of it.",
    )
