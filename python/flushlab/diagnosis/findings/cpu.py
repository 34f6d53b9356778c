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
    # Until a thread has read its next statement, its state is that of the client's turn.
    waits: tuple[str, ...] = ("statement", "reading")
    part = machine.cpu_pressure_share
    waiting = evidence.host.cpu_waiting if evidence.host is not None else None
    if waiting is not None:
        waits = ("statement", "reading", "commit", "client")
        part = waiting / max(sum(evidence.time.connections.get(one, 0.0) for one in waits), 1e-9)
    running = evidence.after.number("threads_running")
    seen = [
        Seen(
            f"tasks waited for a processor {machine.cpu_pressure_share:.0%} of the time (/proc/pressure/cpu)"
        )
    ]
    if waiting is not None:
        seen.append(Seen(f"{waiting:.1f} threads of the server waited for one, on average (schedstat)"))
    if running is not None and evidence.cpus:
        text = f"{running:,.0f} connections at work on {evidence.cpus} processors"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Threads_running'"))
    return Finding(
        name="cpu",
        title="the machine is short of processor time",
        share=evidence.time.within(part, *waits),
        waits=waits,
        seen=tuple(seen),
        advice="Find who uses it (top, pidstat); fewer, larger statements take less of it.",
    )
