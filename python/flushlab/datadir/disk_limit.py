"""Disk limit: a slow disk on a fast machine, by limiting the writes per second of chosen processes.

Datadir layer; used for `--disk-iops`. A control group is set to so many write operations per second on the
data root's disk (cgroup v1 `blkio.throttle.write_iops_device`, cgroup v2 `io.max` with `wiops=`); servers
are attached to it. The limit is believed only after a child in the group has measured it.

What is limited, and what is not:

- Every write that an attached process itself sends to the disk: direct I/O, and buffered pages that its own
  fsync, fdatasync or O_DSYNC writes out. On a disk with a volatile cache the flush counts too, so one
  synchronous write is two operations. A limit of 120 then gives about 55 fdatasync/s (measured on Linux
  6.18, ext4 on virtio). Both rates are in the record.
- Not limited in cgroup v1: pages that the kernel's own threads write back later, and the file
  system's journal; these belong to the root group. In cgroup v2 writeback is charged to the group whose
  memory it is (kernel documentation, cgroup-v2, "Writeback") if the memory controller is on there too.
- In cgroup v2 an attached process leaves the group that it was in, and that group's memory and CPU limits.

Other processes, and the disk itself, are untouched.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal, Self

import msgspec

from flushlab.datadir import write_probe
from flushlab.datadir.data_root import DataRoot
from flushlab.errors import HarnessError, UsageError
from flushlab.machine import file_system_of, ownership
from flushlab.machine.cgroup import group_of_self
from flushlab.process import RunRecord, passing_folder, reap, run_record
from flushlab.record import DiskLimit

PROBE_SECONDS = 2.0
"""Length of each of the two measurements; 20 limiter slices (the kernel's slice is 0.1 s)."""

BELIEVED = (0.5, 1.3)
"""Range of measured / requested rate within which a limit is accepted. Other load on the disk lowers the
measured rate; without a limit in force, the rate is far above the range."""


class Hierarchy(msgspec.Struct, frozen=True, kw_only=True):
    """The control group hierarchy that limits block devices.

    Attributes:
        way: interface of the limit.
        top: folder that groups are made in; attached processes go back to it.
    """

    way: Literal["cgroup-v1", "cgroup-v2"]
    top: Path

    def enable(self) -> None:
        """Makes the limit's file appear in new groups; nothing to do in v1."""
        if self.way == "cgroup-v2" and "io" not in (self.top / "cgroup.subtree_control").read_text().split():
            (self.top / "cgroup.subtree_control").write_text("+io")

    def limit(self, group: Path, disk_number: tuple[int, int], write_iops: int) -> None:
        """Limits the processes in `group` to `write_iops` on the disk."""
        disk = f"{disk_number[0]}:{disk_number[1]}"
        if self.way == "cgroup-v1":
            (group / "blkio.throttle.write_iops_device").write_text(f"{disk} {write_iops}")
        else:
            (group / "io.max").write_text(f"{disk} wiops={write_iops}")


class LimitedDisk:
    """A limit in force; a context manager that removes it at the end.

    A limit that is never removed stays for its processes, because a kept sandbox needs it. Once these
    processes and the limit's maker have ended, the next `limit_disk` removes it.
    """

    def __init__(self, hierarchy: Hierarchy, group: Path, record: DiskLimit) -> None:
        self._hierarchy = hierarchy
        self._group = group
        self._record = record

    def another(self, data_root: DataRoot) -> LimitedDisk:
        """One more limit, with the writes/s of this one for itself: a node of a cluster has its own disk.

        The caller removes it. A HarnessError if the system makes no more of them.
        """
        try:
            group = make_group(self._hierarchy, _disk_number(data_root), self._record.write_iops)
        except OSError as error:
            raise HarnessError(f"the disk cannot be limited once more: {error.strerror}") from error
        return LimitedDisk(self._hierarchy, group, self._record)

    @property
    def record(self) -> DiskLimit:
        """What was asked for and what was measured."""
        return self._record

    @property
    def group(self) -> Path:
        """The control group's folder."""
        return self._group

    def attach(self, pid: int) -> None:
        """Limits a process, all its threads and what it starts from now on; a HarnessError if it cannot."""
        try:
            (self._group / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            message = f"process {pid} cannot be attached to the disk limit: {error.strerror}"
            raise HarnessError(message) from error

    def remove(self) -> None:
        """Lifts the limit from what is attached, and removes it. Does nothing if it is removed already."""
        _remove(self._group, self._hierarchy.top)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def limit_disk(data_root: DataRoot, write_iops: int) -> LimitedDisk:
    """Makes a limit on the disk under `data_root`, in force for what is attached to it, and measures it.

    Takes about four seconds. Limits that a killed run left behind are cleared away first.

    Args:
        data_root: parent of the servers' data directories.
        write_iops: write operations per second.

    Raises:
        UsageError: a limit below 1, no root rights, or a data root without a block device of its own.
        HarnessError: the system cannot limit the disk, or the measured rate is not the requested one.
    """
    if write_iops < 1:
        raise UsageError(f"a disk limit of {write_iops} writes/s is too small: the minimum is 1")
    disk_number = _disk_number(data_root)
    if os.geteuid() != 0:
        raise UsageError(
            f"limiting the disk to {write_iops} writes/s needs root; flushlab runs as user {os.geteuid()}",
            hint="run flushlab as root (servers still run as an unprivileged user), or remove --disk-iops",
        )
    hierarchy = find_hierarchy()
    reap()
    try:
        group = make_group(hierarchy, disk_number, write_iops)
    except OSError as error:
        raise HarnessError(
            f"the disk cannot be limited by {hierarchy.way} at {hierarchy.top}: {error.strerror}",
            hint="inside a container the io controller is often not delegated; try on the host",
        ) from error
    try:
        record = _measure(hierarchy, group, data_root.path, write_iops)
    except BaseException:
        _remove(group, hierarchy.top)
        raise
    return LimitedDisk(hierarchy, group, record)


def find_hierarchy() -> Hierarchy:
    """The hierarchy that can limit block devices here: v1's blkio where it is mounted, else v2 with io."""
    old = group_of_self("blkio")
    if old is not None and old.version == 1:
        return Hierarchy(way="cgroup-v1", top=old.top)
    new = group_of_self("io")
    if new is not None and "io" in (new.top / "cgroup.controllers").read_text().split():
        return Hierarchy(way="cgroup-v2", top=new.top)
    raise HarnessError(
        "the disk cannot be limited: neither cgroup v1 blkio nor cgroup v2 with the io controller is mounted",
        hint="mount one of them, or remove --disk-iops",
    )


def make_group(hierarchy: Hierarchy, disk_number: tuple[int, int], write_iops: int) -> Path:
    """A new limited group, written down as this process's; no process is in it."""
    hierarchy.enable()
    token = ownership.new_token()
    group = hierarchy.top / f"flushlab-{token}"
    run_record.claim(msgspec.structs.replace(RunRecord.mine(group.name), cgroup=str(group)))
    group.mkdir()  # its name is the proof that it is ours: a control group holds no files of anybody's
    try:
        hierarchy.limit(group, disk_number, write_iops)
    except BaseException:
        _remove(group, hierarchy.top)
        raise
    return group


def judge(write_iops: int, measured: float) -> None:
    """Raises HarnessError unless `measured` writes/s are near enough to the `write_iops` asked for."""
    low, high = BELIEVED
    if not low * write_iops <= measured <= high * write_iops:
        raise HarnessError(
            f"the disk was limited to {write_iops} writes/s, but {measured:.0f} writes/s were measured:"
            f" outside {low} to {high} times the limit",
            hint="the limit is not in force on this file system"
            if measured > write_iops
            else "the disk is slower than that, or busy",
        )


def _disk_number(data_root: DataRoot) -> tuple[int, int]:
    under = file_system_of(data_root.path)
    if under.device is None:
        why = "it is in memory" if under.in_memory else "its block device is unknown"
        raise UsageError(
            f"the data root {data_root.path} cannot be limited: it is on {under.filesystem}, and {why}",
            hint="choose a folder on ext4, XFS or btrfs with --data-root",
        )
    return under.device.disk_number


def _measure(hierarchy: Hierarchy, group: Path, folder: Path, write_iops: int) -> DiskLimit:
    command = [sys.executable, "-I", write_probe.__file__]
    try:
        with passing_folder(folder, "write-probe") as own:
            done = subprocess.run(
                [*command, str(own / "file"), str(group / "cgroup.procs"), str(PROBE_SECONDS)],
                capture_output=True, text=True, check=False, timeout=60 + 20 * PROBE_SECONDS,
            )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"the disk limit could not be measured in {error.timeout:.0f} s") from error
    except OSError as error:
        raise HarnessError(f"the disk limit could not be measured: {error}") from error
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise HarnessError(f"the disk limit could not be measured: {reason[0]}")
    rates = json.loads(done.stdout)
    judge(write_iops, rates["direct"])
    return DiskLimit(
        write_iops=write_iops,
        measured_write_iops=round(rates["direct"], 1),
        measured_syncs_per_s=round(rates["synced"], 1),
        way=hierarchy.way,
    )


def _remove(group: Path, top: Path) -> None:
    """Moves what is inside back to the top, then removes the group; a process may fork meanwhile."""
    deadline = time.monotonic() + 10
    while True:
        for pid in _pids(group):
            try:
                (top / "cgroup.procs").write_text(pid)
            except ProcessLookupError:
                continue
        try:
            group.rmdir()
        except FileNotFoundError:
            run_record.remove(group.name)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise HarnessError(f"the disk limit {group} cannot be removed: {error.strerror}") from error
            time.sleep(0.01)
        else:
            run_record.remove(group.name)
            return


def _pids(group: Path) -> list[str]:
    try:
        return (group / "cgroup.procs").read_text().split()
    except FileNotFoundError:
        return []
