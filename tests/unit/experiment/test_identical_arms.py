"""The analysis of identical servers (benchmarks/identical_arms.py) finds the variances that were put in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from flushlab.record import Arm, Ratio, Slice
from tests.scripts import script
from tests.unit.records import trial

ARMS = ("base", "control", "one", "two")
BLOCK, SLICE = 0.03, 0.08
"""Standard deviations of an instance's block and of a slice."""
BLOCKS, ROUNDS = 12, 3


@pytest.fixture(scope="module")
def arms() -> Any:
    return script("benchmarks/identical_arms.py")


def campaign(
    arms: Any, chance: np.random.Generator, instance: float, noise: float = 1.0, missed: bool = False
) -> Any:
    """One whose instances differ with this standard deviation, beside a drift that they share."""
    drift = chance.normal(0, 0.2, (BLOCKS, ROUNDS)).cumsum().reshape(BLOCKS, ROUNDS) / 5
    slices = {}
    for arm in ARMS:
        effect = chance.normal(0, instance) if instance else 0.0
        own = chance.normal(0, noise * BLOCK, (BLOCKS, 1)) + chance.normal(0, noise * SLICE, (BLOCKS, ROUNDS))
        rates = 50_000 * np.exp(drift + effect + own)
        slices[arm] = [
            (block, number, round(float(rates[block, number]) * 0.2), 0.2)
            for block in range(BLOCKS)
            for number in range(ROUNDS)
        ]
    low = 1.01 if missed else 0.99
    ratios = {arm: Ratio(estimate=low + 0.01, low=low, high=low + 0.02) for arm in ARMS[1:]}
    return arms.Campaign(server="s", duration=60.0, seed=0, ratios=ratios, slices=slices, others="")


def found(arms: Any, instance: float, campaigns: int, seed: int, noise: tuple[float, ...] = (1.0,)) -> Any:
    chance = np.random.default_rng(seed)
    made = [campaign(arms, chance, instance, noise[n % len(noise)]) for n in range(campaigns)]
    return arms.components([arms.layout(one) for one in made])


def test_the_variances_that_were_put_in_are_found(arms: Any) -> None:
    result = found(arms, 0.02, 300, 1)
    assert result.low < 0.02**2 < result.high
    assert math.sqrt(result.instance) == pytest.approx(0.02, rel=0.1)
    assert math.sqrt(result.block) == pytest.approx(math.sqrt(BLOCK**2 + SLICE**2 / ROUNDS), rel=0.05)
    assert math.sqrt(result.slice) == pytest.approx(SLICE, rel=0.05)
    error = 2 * result.block / BLOCKS
    assert result.halves == pytest.approx(0.02**2 / (0.02**2 + error), abs=0.1)


def test_without_a_variance_between_instances_its_interval_has_0(arms: Any) -> None:
    results = [found(arms, 0.0, 20, seed, noise=(1.0, 1.0, 3.0)) for seed in range(40)]
    assert sum(one.low <= 0 <= one.high for one in results) >= 34
    assert abs(float(np.mean([one.instance for one in results]))) < 1e-4
    assert abs(float(np.mean([one.halves for one in results]))) < 0.1


def test_an_interval_has_the_variance_as_often_as_it_says(arms: Any) -> None:
    results = [found(arms, 0.02, 20, seed, noise=(0.5, 1.0)) for seed in range(40)]
    assert sum(one.low <= 0.02**2 <= one.high for one in results) >= 33


def test_rounds_that_an_arm_lacks_count_for_none(arms: Any) -> None:
    whole = campaign(arms, np.random.default_rng(2), 0.0)
    whole.slices["one"].pop(0)
    whole.slices["two"][:] = [row for row in whole.slices["two"] if row[0] != 5]
    made = arms.layout(whole)
    assert made.blocks.shape == (len(ARMS), BLOCKS - 1)
    assert made.slices[0].shape == (len(ARMS), ROUNDS - 1)
    assert made.seconds == pytest.approx((ROUNDS * (BLOCKS - 1) - 1) * 0.2)


def test_instances_that_differ_make_long_comparisons_miss(arms: Any) -> None:
    error = BLOCK**2 + SLICE**2 / ROUNDS
    assert arms.implied(0.0, error, 12, ARMS, campaigns=400) < 0.09
    short, long = (arms.implied(0.01**2, error, blocks, ARMS, campaigns=400) for blocks in (12, 200))
    assert short < long and long > 0.2


def test_slices_of_trials_that_count_are_kept(arms: Any) -> None:
    slices = (
        Slice(round=0, start_s=0.0, seconds=0.20004, events=90),
        Slice(round=1, start_s=1.0, seconds=0.5, events=1, dropped=True),
    )
    arm = Arm(name="base", settings={})
    trials = [
        trial(arm=arm, block=3, slices=slices),
        trial(arm=arm, block=4, outcome="failed", slices=slices),
    ]
    assert arms.rows(iter(trials)) == {"base": [(3, 0, 90, 0.2)]}


def test_a_report_counts_comparisons_with_their_exact_interval(arms: Any) -> None:
    chance = np.random.default_rng(3)
    made = [campaign(arms, chance, 0.0, missed=number == 0) for number in range(20)]
    first, second, third = arms.report(made)
    assert first.startswith(
        "s, 60 s: 1 of 20 comparisons have an interval without 1: 5.0% [0.1%, 24.9%]; 3 of 60"
    )
    assert second.startswith("  standard deviation of a rate: between instances 0.")
    assert "60 s" in third and "180 s" in third and "600 s" in third
