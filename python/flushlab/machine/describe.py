"""Describe: the record of the machine that was measured."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import msgspec

from flushlab.machine.cgroup import cpu_quota, group_of_self, memory_bytes, thread_headroom, usable_cpus
from flushlab.machine.mounts import file_system_of
from flushlab.record import DiskEmulation, Machine


def parse_cpu_model(text: str) -> str:
    """The processor's name from the text of /proc/cpuinfo; `unknown` where it has none (most ARM)."""
    for key in ("model name", "Model", "cpu model", "cpu"):
        found = re.search(rf"^{key}\s*: (.+)$", text, re.MULTILINE)
        if found:
            return " ".join(found[1].split())
    return "unknown"


def cpu_count() -> int:
    """Processors that this process can keep busy: its affinity, or the cgroup's quota if that is less."""
    group = group_of_self("cpu")
    return usable_cpus(len(os.sched_getaffinity(0)), None if group is None else cpu_quota(group))


def threads_left() -> int | None:
    """How many more threads its control group and the kernel let this process start; None: unknown."""
    group = group_of_self("pids")
    limits = [None if group is None else thread_headroom(group), _kernel_threads_left()]
    return min((limit for limit in limits if limit is not None), default=None)


def _kernel_threads_left() -> int | None:
    """Of kernel.threads-max; /proc/loadavg counts the threads that there are (proc(5))."""
    try:
        most = int(Path("/proc/sys/kernel/threads-max").read_text())
        there = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None
    return max(0, most - there)


def describe(data_root: Path, slow_disk: DiskEmulation | None = None) -> Machine:
    """This machine, with the file system and device under `data_root` (an existing path)."""
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
    """This machine, from which the load on the user's own server comes."""
    return Machine(
        cpu_model=parse_cpu_model(Path("/proc/cpuinfo").read_text()),
        cpu_count=cpu_count(),
        memory_bytes=memory_bytes(),
        kernel=platform.release(),
        is_client=True,
    )
