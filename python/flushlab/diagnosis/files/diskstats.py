"""Source: /proc/diskstats, as pt-stalk copies it once a second. Pure."""

from __future__ import annotations

import re

from flushlab.diagnosis.files.stamped import stamped
from flushlab.diagnosis.files.told import Source, Told
from flushlab.machine.disk_use import DiskCounters

_ROW = re.compile(r"\s*\d{1,9}\s+\d{1,9}\s+(\S{1,64})((?:\s+\d{1,20}){11,20})\s*")


def parse(text: str) -> Told:
    """The counters of each moment."""
    found = []
    for at_s, lines in stamped(text):
        rows = [match for line in lines if (match := _ROW.fullmatch(line)) is not None]
        disks = {row[1]: tuple(map(int, row[2].split())) for row in rows}
        if disks:
            found.append(DiskCounters(at_s=at_s, disks=disks))
    return Told(disks=tuple(found))


SOURCE = Source(name="/proc/diskstats", marks=("TS ",), parse=parse)
