from __future__ import annotations

import time
from typing import Any

import pytest

from flushlab.statistics import critical_value, exceedance, shift_for_power


@pytest.fixture
def stats() -> Any:
    """scipy.stats takes seconds to load, which only the worker that runs these tests needs to spend."""
    from scipy import stats

    return stats


# C. W. Dunnett, Biometrics 20 (1964), two-sided 5 % table, 1 to 6 arms.
TABLE = {
    5: (2.57, 3.03, 3.29, 3.48, 3.62, 3.73),
    10: (2.23, 2.57, 2.76, 2.89, 2.99, 3.07),
    20: (2.09, 2.38, 2.54, 2.65, 2.73, 2.80),
}


@pytest.mark.parametrize(("df", "row"), TABLE.items())
def test_critical_values_are_those_of_dunnetts_table(df: int, row: tuple[float, ...]) -> None:
    assert [critical_value(0.05, arms, df) for arms in range(1, 7)] == pytest.approx(row, abs=0.0065)


@pytest.mark.parametrize("alpha", [0.05, 1e-2, 1e-4])
@pytest.mark.parametrize("df", [1, 2, 4, 30, 200])
def test_one_arm_is_students_t(alpha: float, df: int, stats: Any) -> None:
    assert critical_value(alpha, 1, df) == pytest.approx(stats.t.isf(alpha / 2, df), rel=2e-4)


def test_exceedance_agrees_with_the_multivariate_t_distribution(stats: Any) -> None:
    shape = [[1.0 if i == j else 0.5 for j in range(3)] for i in range(3)]
    inside = stats.multivariate_t.cdf(
        [2.5] * 3, shape=shape, df=6, lower_limit=[-2.5] * 3, random_state=1, maxpts=200_000
    )
    assert exceedance(2.5, 3, 6) == pytest.approx(1 - inside, abs=2e-4)


def test_independent_contrasts_need_a_wider_limit_than_correlated_ones() -> None:
    assert critical_value(0.05, 4, 8, 0.0) > critical_value(0.05, 4, 8, 0.5) > critical_value(0.05, 4, 8, 0.9)


@pytest.mark.parametrize(("limit", "df"), [(2.228, 10), (4.3, 2), (3.0, 40), (40.0, 3)])
def test_shift_for_power_is_the_noncentral_t_quantile(limit: float, df: int, stats: Any) -> None:
    assert stats.nct.sf(limit, df, shift_for_power(limit, df, 0.8)) == pytest.approx(0.8, abs=1e-4)


def test_a_critical_value_takes_less_than_50_ms() -> None:
    took = []
    for _ in range(20):  # whoever shares the processor's caches makes it slower now and then
        critical_value.cache_clear()
        started = time.process_time()
        critical_value(0.0123, 7, 11)
        took.append(time.process_time() - started)
    assert min(took) < 0.05
