"""CPU time of the server, of flushlab with its children, and of everything else."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from flushlab.machine import proc_stat
from flushlab.machine.pressure import parse_cpu_line


class CpuTimes(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds so far.

    Attributes:
        busy_s: of the whole machine, idle and I/O wait left out, steal left out.
        own_s: of flushlab and its ended children.
        server_s: of the server's process, or those of several, or None if it cannot be seen.
    """

    busy_s: float
    own_s: float
    server_s: float | None


def cpu_times(*server_pids: int | None) -> CpuTimes:
    """Of one server, or of several together. Reads /proc/stat, /proc/PID/stat and getrusage."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    servers = [None if pid is None else _process_s(pid) for pid in server_pids]
    return CpuTimes(
        busy_s=busy_s(),
        own_s=sum(usage.ru_utime + usage.ru_stime for usage in own),
        server_s=None if None in servers else sum(one for one in servers if one is not None),
    )


def foreign_share(before: CpuTimes, after: CpuTimes, seconds: float, cpu_count: int) -> float | None:
    """Share of the machine's CPU time that neither the server nor flushlab used; None if unknown."""
    if before.server_s is None or after.server_s is None or seconds <= 0:
        return None
    ours = (after.own_s - before.own_s) + (after.server_s - before.server_s)
    return max(0.0, after.busy_s - before.busy_s - ours) / (seconds * cpu_count)


def wanted_by_others(server_pids: Collection[int | None], seconds: float) -> float | None:
    """Share of the machine's CPU time that others take now, while no load runs; None if it cannot be seen.

    On a machine without idle time, what others take beside a load is what the server does not get, and
    tells more of the server than of them. This does not.

    Args:
        server_pids: of the server, which may be busy with itself; of all nodes of a cluster.
        seconds: how long to watch.
    """
    before, began = cpu_times(*server_pids), time.monotonic()
    time.sleep(seconds)
    return foreign_share(before, cpu_times(*server_pids), time.monotonic() - began, os.cpu_count() or 1)


def busy_s() -> float:
    """CPU seconds of the whole machine so far, idle, I/O wait and steal left out."""
    return parse_cpu_line(Path("/proc/stat").read_text())[0] / os.sysconf("SC_CLK_TCK")


def processes_s(pids: Iterable[int]) -> dict[int, float]:
    """CPU seconds so far of each process that can be seen."""
    return {pid: seconds for pid in pids if (seconds := _process_s(pid)) is not None}


def _process_s(pid: int) -> float | None:
    fields = proc_stat.fields(pid)
    if fields is None:
        return None
    ticks = int(fields[proc_stat.USER_TICKS]) + int(fields[proc_stat.SYSTEM_TICKS])
    return ticks / os.sysconf("SC_CLK_TCK")
