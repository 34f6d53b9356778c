"""Source: /proc/meminfo, as pt-stalk copies it. Pure."""

from __future__ import annotations

import re

from flushlab.diagnosis.files.told import Source, Told

_TOTAL = re.compile(r"^MemTotal:\s+(\d{1,15}) kB\s*$", re.MULTILINE)


def parse(text: str) -> Told:
    """The machine's memory."""
    match = _TOTAL.search(text)
    return Told(memory_bytes=int(match[1]) * 1024 if match else 0)


SOURCE = Source(name="/proc/meminfo", marks=("MemTotal:",), parse=parse)
