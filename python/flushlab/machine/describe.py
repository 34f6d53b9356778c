"""Describe: the record of the machine that was measured."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from flushlab.machine.cgroup import cpu_quota, group_of_self, memory_bytes, thread_headroom, usable_cpus
from flushlab.machine.mounts import file_system_of
from flushlab.record import DiskEmulation, Machine


def parse_cpu_model(text: str) -> str:
    keys = ("model name", "Model", "cpu model", "cpu")
    names = (re.search(rf"^{key}\s*: (.+)$", text, re.MULTILINE) for key in keys)
    return next((" ".join(name[1].split()) for name in names if name), "unknown")


def cpu_count() -> int:
    group = group_of_self("cpu")
    return usable_cpus(len(os.sched_getaffinity(0)), None if group is None else cpu_quota(group))


def threads_left() -> int | None:
    group = group_of_self("pids")
    limits = [None if group is None else thread_headroom(group)]
    with suppress(OSError, ValueError, IndexError):  # /proc/loadavg counts the threads that there are
        most = int(Path("/proc/sys/kernel/threads-max").read_text())
        there = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
        limits.append(max(0, most - there))
    return min((limit for limit in limits if limit is not None), default=None)


def describe(data_root: Path, slow_disk: DiskEmulation | None = None) -> Machine:
    under = file_system_of(data_root)
    return msgspec.structs.replace(
        describe_client(),
        is_client=False,
        filesystem=under.filesystem,
        device=under.device.name if under.device else None,
        scheduler=under.device.scheduler if under.device else None,
        volatile_cache=under.device.volatile_cache if under.device else None,
        slow_disk=slow_disk,
    )


def describe_client() -> Machine:
    return Machine(
        cpu_model=parse_cpu_model(Path("/proc/cpuinfo").read_text()),
        cpu_count=cpu_count(),
        memory_bytes=memory_bytes(),
        kernel=platform.release(),
        is_client=True,
    )


_SECTOR_BYTES = 512
"""Of the kernel's counters, whatever the disk has."""


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one kind in a window.

    Attributes:
        per_s: completed per second.
        mean_ms: from queueing to completion; None if there were none.
        bytes_per_s: read or written; None for flushes.
    """

    per_s: float
    mean_ms: float | None = None
    bytes_per_s: float | None = None


class DiskUse(msgspec.Struct, frozen=True, kw_only=True):
    """One disk in a window.

    Attributes:
        disk: name, such as `nvme0n1`.
        reads, writes: requests.
        flushes: of the disk's cache; None before Linux 5.5.
        utilisation: share of the time with a request under way, 0 to 1.
        queue: mean number of requests under way.
    """

    disk: str
    reads: Requests
    writes: Requests
    flushes: Requests | None
    utilisation: float
    queue: float


class DiskCounters(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float
    disks: Mapping[str, tuple[int, ...]]


def disk_counters() -> DiskCounters:
    try:
        text = Path("/proc/diskstats").read_text()
    except OSError:
        text = ""
    return DiskCounters(at_s=time.monotonic(), disks=parse_diskstats(text))


def parse_diskstats(text: str) -> dict[str, tuple[int, ...]]:
    rows = (line.split() for line in text.splitlines())
    return {row[2]: tuple(map(int, row[3:])) for row in rows if len(row) >= 14}


def disk_use(first: DiskCounters, last: DiskCounters, disk: str) -> DiskUse | None:
    before, after, seconds = first.disks.get(disk), last.disks.get(disk), last.at_s - first.at_s
    if before is None or after is None or seconds <= 0:
        return None
    grown = [new - old for old, new in zip(before, after, strict=False)]
    if min(grown[:8]) < 0:
        return None
    return DiskUse(
        disk=disk,
        reads=_requests(grown[0], grown[3], seconds, grown[2]),
        writes=_requests(grown[4], grown[7], seconds, grown[6]),
        flushes=_requests(grown[15], grown[16], seconds) if len(grown) > 16 else None,
        utilisation=min(1.0, max(0, grown[9]) / 1000 / seconds),
        queue=max(0, grown[10]) / 1000 / seconds,
    )


def _requests(count: int, total_ms: int, seconds: float, sectors: int | None = None) -> Requests:
    return Requests(
        per_s=count / seconds,
        mean_ms=total_ms / count if count else None,
        bytes_per_s=None if sectors is None else sectors * _SECTOR_BYTES / seconds,
    )
