"""Unloaded: what is left of a table's rows, loaded in slices as long as ways are tried, then the rest.

Sits in `bulk`. Nothing that was tried is loaded twice: slices are rows that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from flushlab.bulk.filled import Way
from flushlab.bulk.native import Counts, Loaded, Range

_SLICE_SHARE = 1 / 40
_MOST_SLICE_ROWS = 50_000

LoadsRanges = Callable[[Way, tuple[Range, ...], Counts], Loaded]
"""Loads ranges in a way; the counts are those of what was loaded before."""


class Unloaded:
    """Rows that are not loaded yet.

    Args:
        ranges: of one table.
        load: loads some of them.
    """

    def __init__(self, ranges: Sequence[Range], load: LoadsRanges) -> None:
        self._left = {one.id: one for one in ranges}
        self._load = load
        self._slice_rows = min(round(rows_of(ranges) * _SLICE_SHARE), _MOST_SLICE_ROWS)
        self._counts = Counts()

    def slice(self, way: Way) -> tuple[int, float]:
        """Loads the next slice; rows and seconds."""
        most_first = sorted(self._left.values(), key=lambda one: one.first - one.end)
        each = -(-self._slice_rows // way.connections)
        ranges = tuple(
            msgspec.structs.replace(one, end=min(one.first + each, one.end))
            for one in most_first[: way.connections]
        )
        counts = self._take(way, ranges).counts
        return counts.committed, counts.seconds

    def rest(self, way: Way) -> Loaded:
        """Loads all that is left; what was loaded in all, with what the rest was seen to cost."""
        loaded = self._take(way, tuple(one for one in self._left.values() if one.first < one.end))
        return msgspec.structs.replace(loaded, counts=self._counts)

    def _take(self, way: Way, ranges: tuple[Range, ...]) -> Loaded:
        loaded = self._load(way, ranges, self._counts)
        for one in ranges:
            self._left[one.id] = msgspec.structs.replace(self._left[one.id], first=one.end)
        self._counts = self._counts.plus(loaded.counts)
        return loaded


def rows_of(ranges: Sequence[Range]) -> int:
    """Rows in all of them."""
    return sum(one.end - one.first for one in ranges)
