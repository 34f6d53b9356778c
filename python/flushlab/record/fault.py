"""Faults of disks: what crashes, and how slow a disk is."""

from __future__ import annotations

from typing import Literal

import msgspec


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What crashes, and how much a crash may tear.

    Attributes:
        kind: `process`: what the operating system has stays; there is no image of it, since a process can be
            killed on the disk itself. `os`: what reached the disk stays. `power`: what was written before
            the last flush stays, and any of what followed may. `lying-disk`: as `power`, but the last flushes
            were not done. `torn`: all writes stay but the last one of more than `tear` bytes, which is cut.
        tear: bytes that the disk writes whole or not at all, 512 or 4,096; None: it tears no write.
        lying_flushes: how many flushes a lying disk has not done.
    """

    kind: Literal["process", "os", "power", "lying-disk", "torn"]
    tear: Literal[512, 4096] | None = 512
    lying_flushes: int = 0


class RequestLatency(msgspec.Struct, frozen=True, kw_only=True):
    """How long one kind of request takes.

    Attributes:
        p50_us: median.
        p99_us: 99th percentile; the same as the median if it never varies.
    """

    p50_us: float
    p99_us: float


class DiskProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How slow a disk is.

    Attributes:
        name: the words that were given for it, like `gp3`.
        flush: of a flush of its cache; None: at once.
        write: of a write.
        read: of a read.
        iops: reads and writes per second; None: no limit.
        bytes_per_s: read and written.
    """

    name: str
    flush: RequestLatency | None = None
    write: RequestLatency | None = None
    read: RequestLatency | None = None
    iops: float | None = None
    bytes_per_s: float | None = None


class DiskEmulation(msgspec.Struct, frozen=True, kw_only=True):
    """A slow disk as it was measured: overwrites of 4 KiB, each with an fdatasync, one after the other.

    Attributes:
        profile: the requested speed.
        asked_sync_us_p50: the median that follows from it.
        measured_sync_us_p50, measured_sync_us_p99: what was measured.
        fastest_sync_us_p50: the median before it was made slow.
    """

    profile: DiskProfile
    asked_sync_us_p50: float
    measured_sync_us_p50: float
    measured_sync_us_p99: float
    fastest_sync_us_p50: float
