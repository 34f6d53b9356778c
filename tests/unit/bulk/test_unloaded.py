"""Rows that are loaded in slices and then the rest: every row once, whatever is tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.bulk.choice import Unloaded, split
from flushlab.bulk.filled import LoadMethod
from flushlab.bulk.native import Counts, Range


def method(connections: int) -> LoadMethod:
    return LoadMethod(kind="load-data", connections=connections, batch_rows=1, packet_bytes=1024)


class Server:
    """Takes rows, ten thousand a second."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.before: list[int] = []

    def load(self, _method: LoadMethod, ranges: tuple[Range, ...], before: Counts) -> Counts:
        assert ranges
        self.before.append(before.committed)
        new = [row for one in ranges for row in range(one.first, one.end)]
        self.rows += new
        return Counts(seconds=len(new) / 10_000, rows=len(new), committed=len(new), notes={"a": 1})


@given(st.integers(1_000, 20_000), st.integers(1, 8), st.lists(st.sampled_from([1, 2, 4, 8]), max_size=12))
def test_every_row_is_loaded_once_whatever_is_tried(rows: int, parts: int, tried: list[int]) -> None:
    server = Server()
    unloaded = Unloaded(split(0, rows, parts), server.load)
    for connections in tried:
        unloaded.slice(method(connections))
    unloaded.rest(method(1))
    assert sorted(server.rows) == list(range(rows))
    assert server.before == sorted(server.before) and len(server.before) == len(tried) + 1


def test_the_rest_is_loaded_in_eight_pieces_and_the_way_may_change_after_each() -> None:
    server = Server()
    unloaded = Unloaded(split(0, 40_000, 4), server.load)
    unloaded.slice(method(1))
    rates: list[float] = []

    def after(now: LoadMethod, rate: float) -> LoadMethod:
        rates.append(rate)
        return method(2) if len(rates) == 3 else now

    assert unloaded.watched(method(1), after) == method(2)
    assert rates == [pytest.approx(10_000)] * len(rates) and 7 <= len(rates) <= 10
    assert sorted(server.rows) == list(range(40_000))


def test_a_slice_is_a_fortieth_of_the_rows_shared_by_the_connections() -> None:
    server = Server()
    unloaded = Unloaded(split(0, 40_000, 4), server.load)
    assert unloaded.slice(method(1)) == (1000, 0.1)
    assert unloaded.slice(method(4)) == (1000, 0.1)
    assert server.rows[1000:] == [
        *range(10_000, 10_250),
        *range(20_000, 20_250),
        *range(30_000, 30_250),
        *range(1000, 1250),
    ]
    assert server.before == [0, 1000]


def test_slices_that_take_the_last_rows_leave_no_rest() -> None:
    server = Server()
    unloaded = Unloaded(split(0, 40_000, 4), server.load)

    def after(now: LoadMethod, _rate: float) -> LoadMethod:
        while len(server.rows) > 30_000 and unloaded.slices:
            unloaded.slice(method(1))
        return now

    unloaded.watched(method(4), after)
    assert sorted(server.rows) == list(range(40_000)) and unloaded.slices == 0
