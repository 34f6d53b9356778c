"""The machine and the server that results were measured on."""

from __future__ import annotations

from typing import Literal

import msgspec


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """`power`: of data written after the last flush, any may stay. `torn`: the last write of more than `tear`
    bytes (512 or 4,096; None: none) is cut."""

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
    slow_disk: DiskEmulation | None = None


class OtherLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What others took of the machine before the first trial; shares are 0 to 1.

    Attributes:
        seconds: how long it was watched.
        cpu_share: of all processors' time, used by other programs.
        steal_share: of the time in which a processor was wanted, taken by the hypervisor.
        disk_share: of the time, in which the data root's disk was busy; None if it cannot be seen.
        waited_s: how long it was waited for until the machine was so quiet.
    """

    seconds: float
    cpu_share: float
    steal_share: float
    disk_share: float | None = None
    waited_s: float = 0.0

    @property
    def words(self) -> str:
        disk = "" if self.disk_share is None else f"disk {self.disk_share:.0%}, "
        return f"others: CPU {self.cpu_share:.0%}, {disk}steal {self.steal_share:.0%}"


Flavor = Literal["mysql", "mariadb"]


def server_name(flavor: str, version: tuple[int, ...]) -> str:
    return "@".join(filter(None, (flavor, ".".join(map(str, version)))))


class ServerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which server answered.

    Attributes:
        flavor: `mysql` or `mariadb`.
        version: as numbers, for example (10, 11, 19); compared as a tuple.
        version_text: as the server prints it, for example `10.11.19-MariaDB-0+deb12u1`.
        build_id: key of the build that it was started from; empty for an external server.
        nodes: of the Galera cluster that answered; 1: it is alone.
    """

    flavor: Flavor
    version: tuple[int, ...]
    version_text: str
    build_id: str = ""
    nodes: int = 1

    @property
    def title(self) -> str:
        return self.name if self.nodes == 1 else f"{self.nodes}-node Galera cluster of {self.name}"

    @property
    def name(self) -> str:
        return server_name(self.flavor, self.version)

    @property
    def persists(self) -> bool:
        """MySQL 8.0.11 was the first generally available server with it
        (https://dev.mysql.com/doc/refman/8.0/en/persisted-system-variables.html)."""
        return self.flavor == "mysql" and self.version >= (8, 0, 11)


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a data directory lies.

    Attributes:
        visible: False for an external server whose host cannot be seen; then nothing else holds.
        filesystem: as the kernel names it (`ext4`, `xfs`, `btrfs`, `zfs`, `tmpfs`, …).
        in_memory: the data directory lies in memory and is gone after an OS crash.
        device: block device name, or None.
        record_size_bytes: largest write that the file system makes atomic, where that is known
            (ZFS recordsize), or None.
        volatile_cache: the device has a volatile write cache, as the kernel tells it; None if unknown.
        redo_on_same_device: redo log and data files lie on one device.
        in_memory_files: settings whose files lie in memory apart from the data directory
            (`innodb_log_group_home_dir`, `log_bin_basename`, …).
    """

    visible: bool = True
    filesystem: str = "unknown"
    in_memory: bool = False
    device: str | None = None
    record_size_bytes: int | None = None
    volatile_cache: bool | None = None
    redo_on_same_device: bool = True
    in_memory_files: tuple[str, ...] = ()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What no server variable shows about how the server runs.

    Attributes:
        arguments: command-line arguments of the server, without secrets.
        preload: LD_PRELOAD of the server's process, or None.
        redo_enabled: status Innodb_redo_log_enabled (MySQL 8.0.21 and later); True elsewhere.
    """

    arguments: tuple[str, ...] = ()
    preload: str | None = None
    redo_enabled: bool = True
