"""Memory: how much there is for this process, and how much is free now."""

from __future__ import annotations

from pathlib import Path

from flushlab.machine.cgroup import group_of_self, memory_headroom_bytes, memory_limit_bytes


def parse_meminfo(text: str) -> dict[str, int]:
    """Name -> bytes, from /proc/meminfo; lines that are not in kB are left out."""
    facts = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB":
            facts[words[0].rstrip(":")] = int(words[1]) * 1024
    return facts


def memory_bytes() -> int:
    """Memory that this process can use at most: the smaller of physical memory and the cgroup's limit."""
    physical = parse_meminfo(Path("/proc/meminfo").read_text())["MemTotal"]
    group = group_of_self("memory")
    limit = None if group is None else memory_limit_bytes(group)
    return physical if limit is None else min(physical, limit)


def available_memory_bytes() -> int:
    """Memory usable now without swapping: the smaller of MemAvailable and the cgroup's headroom."""
    available = parse_meminfo(Path("/proc/meminfo").read_text())["MemAvailable"]
    group = group_of_self("memory")
    headroom = None if group is None else memory_headroom_bytes(group)
    return available if headroom is None else min(available, headroom)
