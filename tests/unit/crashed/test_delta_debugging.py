"""The smallest part of a set that still breaks something."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from flushlab.crashed.minimise import ddmin


@given(st.integers(1, 60), st.data())
def test_what_is_left_breaks_and_nothing_can_be_left_out(size: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
    found = ddmin(range(size), needed.issubset)
    assert set(found) == needed
    assert found == sorted(found)


def test_of_several_reasons_one_is_found() -> None:
    assert ddmin(range(100), lambda some: 7 in some or 93 in some) in ([7], [93])


def test_a_search_that_is_stopped_still_breaks() -> None:
    asked: list[Sequence[int]] = []

    def breaks(some: Sequence[int]) -> bool:
        asked.append(some)
        return len(asked) <= 5 and 70 in some

    found = ddmin(range(100), breaks)
    assert 70 in found
    assert len(found) < 100
