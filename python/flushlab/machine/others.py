"""Others: what other programs and the hypervisor take of the machine while flushlab has nothing to do.

Machine layer. Time is stolen only from a processor that somebody wants, so a look at an idle machine sees
none of what the load will suffer. The look therefore wants every processor, under SCHED_IDLE, which gives
way to whatever else is there to run (sched(7)).
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from flushlab.machine.describe import cpu_count
from flushlab.machine.mounts import file_system_of
from flushlab.record import OtherLoad

MOST_THREADS = 8
"""So many processors show what is stolen; wanting more of them would say no more."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters at one moment; only differences mean something.

    Attributes:
        at_s: monotonic clock.
        busy_s, steal_s, total_s: over all processors.
        own_s: of this process.
        disk_s: in which the disk was busy, or None.
    """

    at_s: float
    busy_s: float
    steal_s: float
    total_s: float
    own_s: float
    disk_s: float | None


def watch(seconds: float, data_root: Path) -> OtherLoad:
    """Watches the machine for so long; `data_root` exists, and says which disk is meant."""
    device = file_system_of(data_root).device
    disk = device.disk if device else None
    with _wanting_processors():
        first = _counters(disk)
        time.sleep(seconds)
        last = _counters(disk)
    return between(first, last)


def between(first: Counters, last: Counters) -> OtherLoad:
    """What others took from `first` to `last`."""
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


def parse_cpu_s(text: str, tick: int) -> tuple[float, float, float]:
    """(busy, steal, total) from the text of /proc/stat (proc(5)), in seconds; busy is without I/O wait."""
    line = next(line for line in text.splitlines() if line.startswith("cpu "))
    user, nice, system, idle, iowait, irq, softirq, steal = [*map(int, line.split()[1:9]), 0][:8]
    busy = user + nice + system + irq + softirq
    return busy / tick, steal / tick, (busy + idle + iowait + steal) / tick


def parse_disk_s(text: str) -> float:
    """Seconds with a request under way, from a disk's `stat` (the kernel's Documentation/block/stat.rst)."""
    return int(text.split()[9]) / 1000


def _counters(disk: str | None) -> Counters:
    busy_s, steal_s, total_s = parse_cpu_s(Path("/proc/stat").read_text(), os.sysconf("SC_CLK_TCK"))
    return Counters(
        at_s=time.monotonic(),
        busy_s=busy_s,
        steal_s=steal_s,
        total_s=total_s,
        own_s=time.process_time(),
        disk_s=_disk_s(disk) if disk else None,
    )


def _disk_s(disk: str) -> float | None:
    try:
        return parse_disk_s(Path("/sys/class/block", disk, "stat").read_text())
    except (OSError, IndexError):
        return None


@contextmanager
def _wanting_processors() -> Iterator[None]:
    enough = threading.Event()
    threads = [
        threading.Thread(target=_want_processor, args=(enough,), daemon=True)
        for _ in range(min(cpu_count(), MOST_THREADS))
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        enough.set()
        for thread in threads:
            thread.join()


def _want_processor(enough: threading.Event) -> None:
    try:
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        return  # a sandbox forbids it: at the usual priority it would disturb what it looks at
    work = bytes(1 << 16)  # hashed without the interpreter's lock
    while not enough.is_set():
        hashlib.sha256(work)


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
