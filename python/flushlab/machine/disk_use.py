"""Disk use: requests, their mean time and the queue of each disk between two moments.

Machine layer; /proc/diskstats (the kernel's Documentation/admin-guide/iostats.rst). Anybody may read it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

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
    """Counters of all disks at one moment; only differences mean something.

    Attributes:
        at_s: monotonic clock.
        disks: the fields of a line from the fourth on, by name.
    """

    at_s: float
    disks: Mapping[str, tuple[int, ...]]


def disk_counters() -> DiskCounters:
    """The counters now; none where the kernel does not tell."""
    try:
        text = Path("/proc/diskstats").read_text()
    except OSError:
        text = ""
    return DiskCounters(at_s=time.monotonic(), disks=parse_diskstats(text))


def parse_diskstats(text: str) -> dict[str, tuple[int, ...]]:
    """The fields of each disk and partition, by name."""
    rows = (line.split() for line in text.splitlines())
    return {row[2]: tuple(map(int, row[3:])) for row in rows if len(row) >= 14}


def disk_use(first: DiskCounters, last: DiskCounters, disk: str) -> DiskUse | None:
    """A disk from `first` to `last`; None if it was not there all the time, or its counters were set back."""
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
