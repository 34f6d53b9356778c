"""CPU: the server's processors are busy, so statements wait for their turn. Pure."""

from __future__ import annotations

import msgspec

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK
from flushlab.units import counted

_BUSY = 0.5


def find(evidence: Evidence) -> Finding | None:
    """A machine short of processor time, if flushlab sees the machine."""
    machine = evidence.pressure
    if machine is None or machine.cpu_pressure_share is None:
        return None
    if machine.cpu_pressure_share < _BUSY:
        return None
    waits = ("statement", "reading", "commit")
    share = evidence.time.share(*waits, delays=(ROW_LOCK, PROCESSOR))
    waiting = evidence.host.cpu_waiting if evidence.host is not None else None
    if share is not None:
        share = share.at_most_all(machine.cpu_pressure_share)
    if share is not None and waiting is not None:
        # Until a thread has read its next statement, its state is that of the client's turn.
        # Threads of readers wait as well: a writer's part is taken to be that of everybody at work.
        part = min(1.0, waiting / max(evidence.time.total + evidence.time.others, 1e-9))
        share = msgspec.structs.replace(share, mid=part, high=max(part, share.high))
    running = evidence.after.number("threads_running")
    seen = [
        Seen(
            f"tasks waited for a processor {machine.cpu_pressure_share:.0%} of the time (/proc/pressure/cpu)"
        )
    ]
    if waiting is not None:
        seen.append(Seen(f"{waiting:.1f} server threads waited for a processor, on average (schedstat)"))
    if running is not None and evidence.cpus:
        text = f"{counted(round(running), 'connection')} at work on {counted(evidence.cpus, 'processor')}"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Threads_running'"))
    return Finding(
        name="cpu",
        title="the machine is short of processor time",
        share=share,
        waits=waits if waiting is None else (*waits, "client"),
        shows_in=("client",) if waiting is not None else (),
        seen=tuple(seen),
        advice="Find the busiest processes (top, pidstat). Fewer, larger statements use less CPU time.",
    )
