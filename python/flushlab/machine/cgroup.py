"""Control groups: limits of a process on memory, processors and disks in cgroup v1 and v2, and what is free.

Machine layer. A limit anywhere between this process's group and the hierarchy's root holds, so every
ancestor that can be seen is asked and the tightest wins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.machine.mounts import Mount, mounts, read_or_empty

Version = Literal[1, 2]

# cgroup v1 has no word for "no limit": it shows a number near 2^63 rounded to pages.
_NO_LIMIT_BYTES = 1 << 60


class ControlGroup(msgspec.Struct, frozen=True, kw_only=True):
    version: Version
    top: Path
    path: Path

    def upwards(self) -> Iterator[Path]:
        yield self.path
        if self.path != self.top:
            for parent in self.path.parents:
                yield parent
                if parent == self.top:
                    return


def parse_membership(text: str) -> dict[str, str]:
    rows = (line.split(":", 2) for line in text.splitlines())
    return {controller: group for _, names, group in rows for controller in names.split(",")}


def locate(controller: str, membership: Mapping[str, str], seen: list[Mount]) -> ControlGroup | None:
    """This process's group for `controller` (`memory`, `cpu`, `blkio`/`io`), or None if there is none.

    A v1 hierarchy that has the controller wins, because a controller is bound to one hierarchy only.
    Inside a container the group's path may not exist below the mount; then the mount itself is the group.
    """
    for mount in seen:
        if mount.filesystem == "cgroup" and controller in mount.options:
            return _group(1, mount, membership.get(controller, "/"))
    for mount in seen:
        if mount.filesystem == "cgroup2":
            return _group(2, mount, membership.get("", "/"))
    return None


def group_of_self(controller: str) -> ControlGroup | None:
    return group_of("self", controller)


def group_of(pid: int | str, controller: str) -> ControlGroup | None:
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    return locate(controller, parse_membership(text), mounts())


def memory_limit_bytes(group: ControlGroup) -> int | None:
    return min((limit for _, limit in _memory_limits(group)), default=None)


def _memory_limits(group: ControlGroup) -> Iterator[tuple[Path, int]]:
    name = "memory.limit_in_bytes" if group.version == 1 else "memory.max"
    for folder in group.upwards():
        if (limit := _number(folder / name)) is not None and limit < _NO_LIMIT_BYTES:
            yield folder, limit


def memory_headroom_bytes(group: ControlGroup) -> int | None:
    of_use, of_cache = (
        ("memory.usage_in_bytes", "total_inactive_file")
        if group.version == 1
        else ("memory.current", "inactive_file")
    )
    headrooms = []
    for folder, limit in _memory_limits(group):
        if (used := _number(folder / of_use)) is not None:
            droppable = _keyed(folder / "memory.stat").get(of_cache, 0)
            headrooms.append(max(0, limit - used + droppable))
    return min(headrooms, default=None)


def parse_meminfo(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def memory_bytes() -> int:
    """Memory that this process can use at most: the smaller of physical memory and the cgroup's limit."""
    return _smaller("MemTotal", memory_limit_bytes)


def available_memory_bytes() -> int:
    return _smaller("MemAvailable", memory_headroom_bytes)


def _smaller(of_machine: str, of_group: Callable[[ControlGroup], int | None]) -> int:
    machine = parse_meminfo(Path("/proc/meminfo").read_text())[of_machine]
    group = group_of_self("memory")
    limit = None if group is None else of_group(group)
    return machine if limit is None else min(machine, limit)


def thread_headroom(group: ControlGroup) -> int | None:
    rooms = []
    for folder in group.upwards():
        limit, used = _number(folder / "pids.max"), _number(folder / "pids.current")
        if limit is not None and used is not None:
            rooms.append(max(0, limit - used))
    return min(rooms, default=None)


def cpu_quota(group: ControlGroup) -> float | None:
    quotas = []
    for folder in group.upwards():
        if group.version == 1:
            quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        else:
            quota, period = parse_cpu_max(read_or_empty(folder / "cpu.max"))
        if quota and period and quota > 0 and period > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def parse_cpu_max(text: str) -> tuple[int | None, int | None]:
    """Quota and period in microseconds of a v2 `cpu.max` text: `max 100000`, `150000 100000`."""
    quota, _, period = text.strip().partition(" ")
    return (int(quota), int(period)) if quota.isdecimal() and period else (None, None)


class CpuPeriods(msgspec.Struct, frozen=True):
    quota: float
    all: int
    throttled: int
    throttled_s: float = 0.0


def cpu_periods(group: ControlGroup) -> CpuPeriods | None:
    found = []
    for folder in group.upwards():
        quota = cpu_quota(msgspec.structs.replace(group, top=folder, path=folder))
        facts = _keyed(folder / "cpu.stat")
        if quota is not None and "nr_periods" in facts:
            waited_s = facts.get("throttled_time", 0) / 1e9 + facts.get("throttled_usec", 0) / 1e6
            throttled = facts.get("nr_throttled", 0)
            found.append(CpuPeriods(quota, facts["nr_periods"], throttled, waited_s))
    return min(found, key=lambda periods: periods.quota, default=None)


IoKind = Literal["riops", "wiops", "rbps", "wbps"]
_IO_FILES: Mapping[IoKind, tuple[str, str, str, str]] = {
    "riops": ("read_iops", "io_serviced", "Read", "rios"),
    "wiops": ("write_iops", "io_serviced", "Write", "wios"),
    "rbps": ("read_bps", "io_service_bytes", "Read", "rbytes"),
    "wbps": ("write_bps", "io_service_bytes", "Write", "wbytes"),
}
"""By kind: file of the limit and file of the use in v1, the word there, and the word in io.stat of v2."""


class IoLimit(msgspec.Struct, frozen=True, kw_only=True):
    kind: IoKind
    per_s: int
    used: int
    folder: Path


def io_limits(group: ControlGroup, disk_number: tuple[int, int]) -> tuple[IoLimit, ...]:
    disk = f"{disk_number[0]}:{disk_number[1]}"
    found = []
    for folder in group.upwards():
        limits = parse_io_max(read_or_empty(folder / "io.max"), disk)
        used = parse_io_max(read_or_empty(folder / "io.stat"), disk)
        for kind, (limit, use, word, key) in _IO_FILES.items():
            if group.version == 1:
                per_s = _of_disk(read_or_empty(folder / f"blkio.throttle.{limit}_device"), disk)
                counts = (read_or_empty(folder / f"blkio.throttle.{use}{end}") for end in ("_recursive", ""))
                count = _of_disk(next(filter(None, counts), ""), f"{disk} {word}")
            else:
                per_s, count = limits.get(kind), used.get(key)
            if per_s is not None and count is not None:
                found.append(IoLimit(kind=kind, per_s=per_s, used=count, folder=folder))
    return tuple(found)


def parse_io_max(text: str, disk: str) -> dict[str, int]:
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == disk:
            pairs = (pair.partition("=") for pair in rest.split())
            return {key: int(value) for key, _, value in pairs if value.isdecimal()}
    return {}


def _of_disk(text: str, begin: str) -> int | None:
    found = re.search(rf"^{begin} (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else None


def usable_cpus(allowed: int, quota: float | None) -> int:
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def _group(version: Version, mount: Mount, group: str) -> ControlGroup:
    top = Path(mount.point)
    inside = group.removeprefix(mount.root) if mount.root != "/" else group
    path = top / inside.lstrip("/")
    return ControlGroup(
        version=version, top=top, path=path if ".." not in path.parts and path.is_dir() else top
    )


def _number(path: Path) -> int | None:
    try:
        return int(read_or_empty(path))
    except ValueError:
        return None


def _keyed(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in read_or_empty(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
