"""Run delay: how long the threads of a process waited for a processor.

Machine layer; the second number of /proc/PID/task/TID/schedstat, in nanoseconds (sched-stats in the kernel's
documentation). Any user may read it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def run_delays(pid: int) -> dict[int, float]:
    """Seconds of each thread of a process since it began; empty if they cannot be seen."""
    found = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, ValueError, IndexError):
                found[int(thread.name)] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    return found


def waiting(before: dict[int, float], after: dict[int, float], seconds: float) -> float | None:
    """Mean number of threads that waited for a processor; None if none was there all of the time."""
    both = before.keys() & after.keys()
    if not both or seconds <= 0:
        return None
    return sum(max(0.0, after[one] - before[one]) for one in both) / seconds
