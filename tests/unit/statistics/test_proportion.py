"""Bounds of Clopper and Pearson."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flushlab.statistics.limits import upper_bound


def test_nothing_seen_bounds_by_the_rule_of_three() -> None:
    assert upper_bound(0, 300) == pytest.approx(0.00994, rel=0.01)
    assert upper_bound(0, 3000) == pytest.approx(0.000998, rel=0.01)


def test_always_seen_bounds_nothing() -> None:
    assert upper_bound(5, 5) == 1.0


@settings(deadline=None)
@given(st.integers(1, 60), st.data())
def test_at_the_bound_so_few_are_seen_in_one_of_twenty(of: int, data: st.DataObject) -> None:
    from scipy.stats import binom  # takes seconds to load

    seen = data.draw(st.integers(0, of - 1))
    assert binom.cdf(seen, of, upper_bound(seen, of)) == pytest.approx(0.05, abs=1e-6)
