"""Unloaded: what is left of a table's rows, loaded in slices as long as ways are tried, then in pieces.

Sits in `bulk`. Nothing that was tried is loaded twice: slices are rows that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from flushlab.bulk.filled import LoadMethod
from flushlab.bulk.native import Counts, Range

_SLICE_SHARE = 1 / 40
_MOST_SLICE_ROWS = 50_000
_PIECES = 8
"""Of what is left once ways have been tried: so often it is seen whether the load keeps its rate."""

LoadsRanges = Callable[[LoadMethod, tuple[Range, ...], Counts], Counts]
"""Loads ranges in a way, with the counts of what was loaded before."""


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

    @property
    def slices(self) -> int:
        """Whole slices that are left."""
        return rows_of(list(self._left.values())) // max(1, self._slice_rows)

    def slice(self, way: LoadMethod) -> tuple[int, float]:
        """Loads the next slice; rows and seconds."""
        return self._next(way, self._slice_rows)

    def watched(self, way: LoadMethod, after: Callable[[LoadMethod, float], LoadMethod]) -> LoadMethod:
        """Loads all that is left in pieces; the way of the last one.

        Args:
            way: of the first one.
            after: says how to go on, from the way so far and its rows a second.
        """
        each = -(-rows_of(list(self._left.values())) // _PIECES)
        while rows_of(list(self._left.values())) > each:
            rows, seconds = self._next(way, each)
            way = after(way, rows / seconds)
        self.rest(way)
        return way

    def _next(self, way: LoadMethod, rows: int) -> tuple[int, float]:
        most_first = sorted(self._left.values(), key=lambda one: one.first - one.end)
        each = -(-rows // way.connections)
        ranges = tuple(
            msgspec.structs.replace(one, end=min(one.first + each, one.end))
            for one in most_first[: way.connections]
            if one.first < one.end
        )
        counts = self._take(way, ranges)
        return counts.committed, counts.seconds

    def rest(self, way: LoadMethod) -> None:
        """Loads all that is left, if anything is."""
        if ranges := tuple(one for one in self._left.values() if one.first < one.end):
            self._take(way, ranges)

    def _take(self, way: LoadMethod, ranges: tuple[Range, ...]) -> Counts:
        counts = self._load(way, ranges, self._counts)
        for one in ranges:
            self._left[one.id] = msgspec.structs.replace(self._left[one.id], first=one.end)
        self._counts = self._counts.plus(counts)
        return counts


def rows_of(ranges: Sequence[Range]) -> int:
    """Rows in all of them."""
    return sum(one.end - one.first for one in ranges)
