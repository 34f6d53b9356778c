"""Machine: what the figures were measured on."""

from __future__ import annotations

import msgspec

from flushlab.record.fault import DiskEmulation


class DiskLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on the data root's device.

    Attributes:
        write_iops: the limit that was asked for, in writes/s.
        measured_write_iops: 4 KiB direct writes/s, one after the other, that the limited disk really gave.
        way: `cgroup-v1` or `cgroup-v2`.
        measured_syncs_per_s: 4 KiB overwrites each followed by fdatasync; about half of the former on a disk
            with a volatile cache, where the flush is an operation of its own.
    """

    write_iops: int
    measured_write_iops: float
    way: str
    measured_syncs_per_s: float | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that flushlab ran on.

    Attributes:
        cpu_model: as the kernel names it.
        cpu_count: usable by this process.
        memory_bytes: usable: the smaller of physical memory and the cgroup's limit.
        kernel: release string.
        is_client: only the load came from there. The server's host cannot be seen; file system and device are
            unknown.
        filesystem: of the data root; empty if unknown.
        device: block device of the data root, or None.
        scheduler: I/O scheduler of that device, or None.
        volatile_cache: the device reports a volatile write cache; None if unknown.
        disk_limit: the limit in force, or None.
        slow_disk: the disk that was emulated, or None.
    """

    cpu_model: str
    cpu_count: int
    memory_bytes: int
    kernel: str
    is_client: bool = False
    filesystem: str = ""
    device: str | None = None
    scheduler: str | None = None
    volatile_cache: bool | None = None
    disk_limit: DiskLimit | None = None
    slow_disk: DiskEmulation | None = None
