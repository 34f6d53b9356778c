"""Source: /proc/stat, as pt-stalk copies it once a second. Pure."""

from __future__ import annotations

import re

from flushlab.diagnosis.files.stamped import stamped
from flushlab.diagnosis.files.told import CpuTime, Source, Told

_ALL = re.compile(r"cpu(?:\s+\d{1,18}){8,10}\s*")
_ONE = re.compile(r"cpu\d{1,5} .*")
_STEAL = 7


def parse(text: str) -> Told:
    """The processors' time at each moment."""
    found = []
    for _, lines in stamped(text):
        whole = next((line for line in lines if _ALL.fullmatch(line)), None)
        if whole is not None:
            jiffies = [int(part) for part in whole.split()[1:9]]
            cpus = sum(_ONE.fullmatch(line) is not None for line in lines)
            found.append(CpuTime(cpus=cpus, steal=jiffies[_STEAL], total=sum(jiffies)))
    return Told(cpu_times=tuple(found))


SOURCE = Source(name="/proc/stat", marks=("\ncpu0 ",), parse=parse)
