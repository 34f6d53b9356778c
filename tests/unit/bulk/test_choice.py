"""Ranges, and what is taken where nothing is tried."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.bulk.choice import Possible, first_method, split
from flushlab.bulk.tables import sampled_rows

POSSIBLE = Possible(
    load_data=True, prepared=True, indexes_may_wait=True, connections=4, fixed=False, packet_bytes=1 << 20
)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 64))
def test_ranges_hold_every_row_once(first: int, rows: int, parts: int) -> None:
    ranges = split(first, first + rows, parts)
    assert sum(one.end - one.first for one in ranges) == rows
    assert [one.first for one in ranges[1:]] == [one.end for one in ranges[:-1]]
    assert len({one.id for one in ranges}) == len(ranges) <= parts


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_sampled_rows_have_both_ends_and_none_twice(first: int, rows: int) -> None:
    found = sampled_rows(first, first + rows, 100)
    assert (found[0], found[-1]) == (first, first + rows - 1)
    assert len(set(found)) == len(found) == min(rows, 100)


def test_rows_go_as_inserts_where_load_data_is_not_allowed() -> None:
    assert first_method(POSSIBLE, 2).kind == "load-data"
    assert first_method(msgspec.structs.replace(POSSIBLE, load_data=False), 2).kind == "insert"


@pytest.mark.parametrize("load_data", [True, False])
def test_a_small_packet_makes_smaller_batches(load_data: bool) -> None:
    small = msgspec.structs.replace(POSSIBLE, load_data=load_data, packet_bytes=4096)
    assert first_method(small, 1).packet_bytes == 4096
