"""Source: `df -k`, as pt-stalk prints it: on which device the data are. Pure."""

from __future__ import annotations

import re

from flushlab.diagnosis.files.told import Source, Told

_ROW = re.compile(r"^(\S{1,200})\s+\d+\s+\d+\s+\d+\s+\d{1,3}%\s+(/.{0,500}?)\s*$", re.MULTILINE)


def parse(text: str) -> Told:
    """The device of each mount point."""
    return Told(devices={match[2]: match[1] for match in _ROW.finditer(text)})


SOURCE = Source(name="df", marks=("/dev/",), parse=parse)
