"""Pressure: how much others disturb the machine, in a measured window and while flushlab has nothing to do.

Machine layer. A trial samples at both ends of its window; `between` gives the shares by which a
block may be discarded:

- processor time that the hypervisor stole;
- time in which some task waited for a processor or for I/O (pressure stall information, the kernel's
  Documentation/accounting/psi.rst).

Time is stolen only from a processor that somebody wants. So a sample of an idle machine shows none of the
steal that the load will suffer: `watch` wants every processor, under SCHED_IDLE. Its threads give way to all
other tasks (sched(7)).
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, get_args

import msgspec

from flushlab.machine.describe import cpu_count
from flushlab.machine.mounts import file_system_of, read_or_empty
from flushlab.record import OtherLoad

MOST_THREADS = 8
"""So many processors show what is stolen; wanting more of them would say no more."""

Resource = Literal["cpu", "io", "memory"]


class MachineSample(msgspec.Struct, frozen=True, kw_only=True):
    """Counters at one moment; only differences mean something. `stalled_us` is None without PSI."""

    at_s: float
    busy_s: float = 0.0
    steal_s: float
    total_s: float
    own_s: float = 0.0
    disk_s: float | None = None
    stalled_us: Mapping[Resource, int | None] = {}


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the time between two samples, 0 to 1.

    Attributes:
        steal_share: of all processors' time.
        cpu_pressure_share, io_pressure_share, memory_pressure_share: of the wall time; None without PSI.
    """

    steal_share: float
    cpu_pressure_share: float | None
    io_pressure_share: float | None
    memory_pressure_share: float | None


def parse_cpu_line(text: str) -> tuple[int, int, int]:
    """(busy, steal, total) in jiffies from the text of /proc/stat; busy is without I/O wait.

    proc(5): user nice system idle iowait irq softirq steal guest guest_nice. Guest time is part of user time
    already, so the total is the first eight.
    """
    line = next(line for line in text.splitlines() if line.startswith("cpu "))
    user, nice, system, idle, iowait, irq, softirq, steal = [*map(int, line.split()[1:9]), 0][:8]
    busy = user + nice + system + irq + softirq
    return busy, steal, busy + idle + iowait + steal


def parse_stalled_us(text: str) -> int | None:
    found = re.search(r"^some .*\btotal=(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else None


def sample(disk: str | None = None) -> MachineSample:
    tick = os.sysconf("SC_CLK_TCK")
    busy_s, steal_s, total_s = (count / tick for count in parse_cpu_line(Path("/proc/stat").read_text()))
    disk_s = None
    with suppress(OSError, IndexError):
        disk_s = parse_disk_s(Path("/sys/class/block", disk, "stat").read_text()) if disk else None
    return MachineSample(
        at_s=time.monotonic(),
        busy_s=busy_s,
        steal_s=steal_s,
        total_s=total_s,
        own_s=time.process_time(),
        disk_s=disk_s,
        # absent before Linux 4.20; reading fails with EOPNOTSUPP where PSI is compiled in but off
        stalled_us={
            resource: parse_stalled_us(read_or_empty(Path("/proc/pressure", resource)))
            for resource in get_args(Resource)
        },
    )


def between(first: MachineSample, last: MachineSample) -> Pressure:
    assert last.at_s >= first.at_s, "samples are given in the order in which they were taken"

    def stalled(resource: Resource) -> float | None:
        before, after = first.stalled_us.get(resource), last.stalled_us.get(resource)
        if before is None or after is None:
            return None
        return _share(after - before, (last.at_s - first.at_s) * 1e6)

    return Pressure(
        steal_share=_share(last.steal_s - first.steal_s, last.total_s - first.total_s),
        cpu_pressure_share=stalled("cpu"),
        io_pressure_share=stalled("io"),
        memory_pressure_share=stalled("memory"),
    )


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0


def watch(seconds: float, data_root: Path) -> OtherLoad:
    device = file_system_of(data_root).device
    disk = device.disk if device else None
    with _wanting_processors():
        first = sample(disk)
        time.sleep(seconds)
        last = sample(disk)
    return taken(first, last)


def taken(first: MachineSample, last: MachineSample) -> OtherLoad:
    seconds = last.at_s - first.at_s
    busy_s, steal_s = last.busy_s - first.busy_s, last.steal_s - first.steal_s
    others_s = busy_s - (last.own_s - first.own_s)
    known = first.disk_s is not None and last.disk_s is not None
    return OtherLoad(
        seconds=seconds,
        cpu_share=_share(others_s, last.total_s - first.total_s),
        steal_share=_share(steal_s, busy_s + steal_s),
        disk_share=_share((last.disk_s or 0.0) - (first.disk_s or 0.0), seconds) if known else None,
    )


def parse_disk_s(text: str) -> float:
    return int(text.split()[9]) / 1000


@contextmanager
def _wanting_processors() -> Iterator[None]:
    enough, count = threading.Event(), min(cpu_count(), MOST_THREADS)
    with ThreadPoolExecutor(count) as pool:
        for _ in range(count):
            pool.submit(_want_processor, enough)
        try:
            yield
        finally:
            enough.set()


def _want_processor(enough: threading.Event) -> None:
    try:
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        return  # a sandbox forbids it: at the usual priority it would disturb what it looks at
    work = bytes(1 << 16)  # hashed without the interpreter's lock
    while not enough.is_set():
        hashlib.sha256(work)
