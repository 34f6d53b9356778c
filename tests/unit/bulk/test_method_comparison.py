"""Ratios of the method comparison."""

from __future__ import annotations

import pytest

from flushlab.bulk.choice import _ratio
from flushlab.bulk.filled import Step


def step(rate: float, ratio: float | None = 1.0) -> Step:
    return Step(name="", rows=0, seconds=1.0, rows_per_s=rate, ratio=ratio, bound_by="", why="")


@pytest.mark.parametrize(
    ("rate", "before", "ratio"),
    [(50.0, [], 1.0), (50.0, [20.0], 2.5), (50.0, [0.0], None), (0.0, [5.0], 0.0)],
)
def test_a_method_is_compared_with_the_one_before(
    rate: float, before: list[float], ratio: float | None
) -> None:
    assert _ratio(rate, [step(one) for one in before]) == ratio


def test_a_method_behind_one_without_rows_has_no_times() -> None:
    assert (step(50.0, None).times, step(50.0, 2.5).times) == ("", "2.5×")
