"""Stamped: copies of a file, each behind pt-stalk's line `TS 1767225600.001 2026-01-01 00:00:00`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flushlab.diagnosis.files.told import lines

_STAMP = re.compile(r"TS (\d{1,12}(?:\.\d{1,9})?)(?: .*)?")


def stamped(text: str) -> Iterator[tuple[float, list[str]]]:
    """Each copy with its Unix time."""
    at_s: float | None = None
    copy: list[str] = []
    for line in lines(text):
        if (match := _STAMP.fullmatch(line)) is not None:
            if at_s is not None:
                yield at_s, copy
            at_s, copy = float(match[1]), []
        else:
            copy.append(line)
    if at_s is not None:
        yield at_s, copy
