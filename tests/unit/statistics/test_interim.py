from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flushlab.record import Comparison, Ratio
from flushlab.statistics import InterimAnalyses, held
from flushlab.statistics.limits import FAMILY


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
