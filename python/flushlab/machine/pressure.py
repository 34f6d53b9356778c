"""Pressure: how much others disturbed a measured window.

Machine layer. A trial samples at both ends of its window; `between` gives the shares by which a
block may be void: processor time that the hypervisor stole, and time in which some task waited for a
processor or for I/O (pressure stall information, the kernel's Documentation/accounting/psi.rst).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec


class MachineSample(msgspec.Struct, frozen=True, kw_only=True):
    """Counters at one moment; only differences mean something.

    Attributes:
        at_s: monotonic clock.
        steal_jiffies, total_jiffies: over all processors, from /proc/stat.
        cpu_stalled_us, io_stalled_us: time in which some task waited, or None without PSI.
    """

    at_s: float
    steal_jiffies: int
    total_jiffies: int
    cpu_stalled_us: int | None
    io_stalled_us: int | None


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the time between two samples, 0 to 1.

    Attributes:
        steal_share: of all processors' time.
        cpu_pressure_share, io_pressure_share: of the wall time; None without PSI.
    """

    steal_share: float
    cpu_pressure_share: float | None
    io_pressure_share: float | None


def parse_cpu_line(text: str) -> tuple[int, int]:
    """(steal, total) in jiffies from the text of /proc/stat.

    proc(5): user nice system idle iowait irq softirq steal guest guest_nice. Guest time is part of user time
    already, so the total is the first eight.
    """
    line = next(line for line in text.splitlines() if line.startswith("cpu "))
    numbers = [int(word) for word in line.split()[1:9]]
    return (numbers[7] if len(numbers) > 7 else 0), sum(numbers)


def parse_stalled_us(text: str) -> int | None:
    """The `some` line's total in microseconds from the text of /proc/pressure/cpu or io."""
    found = re.search(r"^some .*\btotal=(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else None


def sample() -> MachineSample:
    """The counters now."""
    steal, total = parse_cpu_line(Path("/proc/stat").read_text())
    return MachineSample(
        at_s=time.monotonic(),
        steal_jiffies=steal,
        total_jiffies=total,
        cpu_stalled_us=_stalled_us("cpu"),
        io_stalled_us=_stalled_us("io"),
    )


def between(first: MachineSample, last: MachineSample) -> Pressure:
    """The shares of the time from `first` to `last`, which was taken later."""
    assert last.at_s >= first.at_s, "samples are given in the order in which they were taken"
    jiffies = last.total_jiffies - first.total_jiffies
    wall_us = (last.at_s - first.at_s) * 1e6
    return Pressure(
        steal_share=_share(last.steal_jiffies - first.steal_jiffies, jiffies),
        cpu_pressure_share=_stalled_share(first.cpu_stalled_us, last.cpu_stalled_us, wall_us),
        io_pressure_share=_stalled_share(first.io_stalled_us, last.io_stalled_us, wall_us),
    )


def _stalled_us(resource: str) -> int | None:
    try:
        return parse_stalled_us(Path("/proc/pressure", resource).read_text())
    except OSError:
        # Absent before Linux 4.20; reading fails with EOPNOTSUPP where PSI is compiled in but off.
        return None


def _stalled_share(first: int | None, last: int | None, wall_us: float) -> float | None:
    return None if first is None or last is None else _share(last - first, wall_us)


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
