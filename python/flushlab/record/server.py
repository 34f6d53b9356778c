"""What a server is, where its data lies and how it was launched: the inputs of the durability rules."""

from __future__ import annotations

from typing import Literal

import msgspec

Flavor = Literal["mysql", "mariadb"]


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
        """Its name; a cluster's with what it is."""
        return self.name if self.nodes == 1 else f"{self.nodes}-node Galera cluster of {self.name}"

    @property
    def name(self) -> str:
        """`mariadb@10.11.19`."""
        return f"{self.flavor}@{'.'.join(map(str, self.version))}"

    @property
    def persists(self) -> bool:
        """Whether it has SET PERSIST; MySQL 8.0.11 was the first generally available server with it
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
