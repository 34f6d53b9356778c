from __future__ import annotations

import time
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flushlab.record import Comparison, Ratio
from flushlab.statistics import InterimAnalyses, critical_value, exceedance, held, shift_for_power
from flushlab.statistics.limits import FAMILY, upper_bound


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


@settings(deadline=None, max_examples=50)
@given(blocks=st.integers(2, 100), alpha=st.floats(0.001, 0.2))
def test_an_analysis_spends_late_and_never_less_than_what_it_adds(blocks: int, alpha: float) -> None:
    analyses = InterimAnalyses.planned(blocks, alpha)
    assert analyses.blocks[-1] == blocks
    levels = [analyses.alpha_at(b) for b in analyses.blocks]
    spent = [alpha * (b / blocks) ** 3 for b in analyses.blocks]
    added = [now - before for before, now in zip([0.0, *spent], spent, strict=False)]
    assert all(least <= level * (1 + 1e-6) for least, level in zip(added, levels, strict=True))
    assert levels == sorted(levels)
    assert levels[-1] <= alpha * (1 + 1e-6)


def missed(shares: list[float], limits: list[float]) -> list[float]:
    """Probability that a random walk is beyond its limit at each share and was not before, on a fine grid."""
    found, place, inside, before = list[float](), np.zeros(1), np.ones(1), 0.0
    for share, limit in zip(shares, limits, strict=True):
        grid = np.linspace(-limit, limit, 2001) * share**0.5
        step = (share - before) ** 0.5
        reached = np.exp(-0.5 * ((grid[:, None] - place) / step) ** 2) @ inside / step / (2 * np.pi) ** 0.5
        weights = np.full(grid.size, grid[1] - grid[0])
        weights[[0, -1]] /= 2
        found.append(float(inside.sum() - reached @ weights))
        place, inside, before = grid, reached * weights, share
    return found


@pytest.mark.parametrize(
    ("schedule", "seen", "spent"),
    [
        ((10,), (10,), (1.0,)),
        ((5, 10), (5, 10), (0.125, 1.0)),
        ((4, 8, 10), (4, 8, 10), (0.064, 0.512, 1.0)),
        ((4, 8, 10), (4, 6), (0.064, 1.0)),
        ((4, 8, 10), (3,), (1.0,)),
    ],
)
def test_an_analysis_adds_the_misses_that_its_share_of_alpha_leaves(
    schedule: tuple[int, ...], seen: tuple[int, ...], spent: tuple[float, ...]
) -> None:
    """Up to the share t of the blocks alpha t³ is spent, all of it where the schedule is cut short."""
    analyses = InterimAnalyses(blocks=schedule, alpha=0.04)
    levels = [analyses.alpha_at(blocks) / FAMILY for blocks in seen]
    limits = [NormalDist().inv_cdf(1 - level / 2) for level in levels]
    added = missed([blocks / schedule[-1] for blocks in seen], limits)
    due = [0.04 / FAMILY * (now - before) for before, now in zip((0.0, *spent), spent, strict=False)]
    assert added == pytest.approx(due, rel=1e-3)


def test_a_twentieth_may_miss_by_default() -> None:
    assert InterimAnalyses.planned(2).alpha_at(2) == pytest.approx(0.05)
    assert InterimAnalyses(blocks=(2,)).alpha_at(2) == pytest.approx(0.05)


@pytest.mark.parametrize("blocks", [5, 40])
def test_intervals_of_all_analyses_together_miss_as_often_as_alpha_says(blocks: int) -> None:
    analyses, alike = InterimAnalyses.planned(blocks, 0.05), 4
    sums = np.random.default_rng(1).standard_normal((20_000, alike, blocks)).cumsum(axis=2)
    beyond = np.zeros(20_000, dtype=bool)
    for seen in analyses.blocks:
        level = 1 - (1 - analyses.alpha_at(seen)) ** (1 / alike)
        limit = NormalDist().inv_cdf(1 - level / 2)
        beyond |= (abs(sums[:, :, seen - 1]) / seen**0.5 > limit).any(axis=1)
    assert beyond.mean() == pytest.approx(0.05, abs=0.006)


@settings(deadline=None, max_examples=50)
@given(blocks=st.integers(4, 100), data=st.data())
def test_a_schedule_cut_short_spends_what_is_left(blocks: int, data: st.DataObject) -> None:
    analyses = InterimAnalyses.planned(blocks)
    cut = data.draw(st.integers(3, blocks).filter(lambda b: b not in analyses.blocks) | st.just(blocks))
    before = max((b / blocks for b in analyses.blocks if b < cut), default=0.0)
    assert 0.05 * (1 - before**3) <= analyses.alpha_at(cut) * (1 + 1e-6)
    assert analyses.alpha_at(cut) <= 0.05 * (1 + 1e-6)


def test_there_are_at_most_four_analyses_and_none_before_the_third_block() -> None:
    assert InterimAnalyses.planned(16).blocks == (4, 8, 12, 16)
    assert InterimAnalyses.planned(5).blocks == (3, 4, 5)
    assert InterimAnalyses.planned(3).blocks == (3,)
    assert InterimAnalyses.planned(2).blocks == (2,)


def analysis(low: float, high: float) -> Comparison:
    ratio = Ratio(estimate=(low * high) ** 0.5, low=low, high=high)
    return Comparison(arm="a", ratio=ratio, blocks=5, verdict=ratio.verdict, detectable=0.1)


def test_the_last_analysis_tells_how_far_it_came_and_its_estimate_lies_in_the_interval() -> None:
    last = Comparison(
        arm="a", ratio=Ratio(estimate=1.6, low=1.0, high=2.0), blocks=9, verdict="faster", detectable=0.3
    )
    found = held([analysis(1.05, 1.5), last])
    assert (found.blocks, found.detectable, found.ratio.estimate) == (9, 0.3, 1.5)
    below = Ratio(estimate=1.02, low=1.0, high=1.4)
    last = Comparison(arm="a", ratio=below, blocks=9, verdict="faster", detectable=0.3)
    assert held([analysis(1.05, 1.5), last]).ratio.estimate == 1.05
    assert held([last]) == last


def test_intervals_that_touch_do_not_contradict_each_other() -> None:
    found = held([analysis(1.05, 1.2), analysis(1.2, 1.3)])
    assert (found.contradicted, found.ratio.low, found.ratio.high) == (False, 1.2, 1.2)


def test_analyses_together_are_the_intersection_of_their_intervals() -> None:
    found = held([analysis(0.9, 1.3), analysis(1.05, 1.5), analysis(0.98, 1.2)])
    assert (found.ratio.low, found.ratio.high) == (1.05, 1.2)
    assert (found.verdict, found.contradicted) == ("faster", False)
    assert found.ratio.low <= found.ratio.estimate <= found.ratio.high


def test_a_verdict_stays_when_the_last_analysis_is_wide() -> None:
    found = held([analysis(1.3, 1.5), analysis(0.5, 2.6)])
    assert found.verdict == "faster"
    assert (found.ratio.low, found.ratio.high) == (1.3, 1.5)


def test_analyses_that_exclude_each_other_are_spanned_and_said() -> None:
    found = held([analysis(1.05, 1.1), analysis(0.8, 0.95), analysis(0.9, 0.92)])
    assert found.contradicted
    assert (found.ratio.low, found.ratio.high) == (0.8, 1.1)
    assert found.verdict == "no difference found"


def test_what_is_contradicted_never_narrows_again() -> None:
    assert held([analysis(1.05, 1.1), analysis(1.2, 1.3), analysis(1.06, 1.07)]).ratio.high == 1.3


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
