from __future__ import annotations

import math
from random import Random

import pytest

from flushlab.plan.plan import crossed
from flushlab.record import FactorEffect
from flushlab.statistics import critical_value, factor_effects

ARMS = crossed(["binlog", "flush 2"])
Table = dict[str, dict[int, float]]


def table(random: Random, effects: dict[str, float], blocks: int, noise: float) -> Table:
    """Scores of the base, its control and the arms; an arm's is what its factors and their products give."""
    levels = [random.gauss(0, 0.3) for _ in range(blocks)]
    means = {arm: _mean(factors, effects) for factors, arm in ARMS.items()} | {"control": 0.0}
    return {
        arm: {b: mean + levels[b] + random.gauss(0, noise) for b in range(blocks)}
        for arm, mean in means.items()
    }


def _mean(factors: tuple[str, ...], effects: dict[str, float]) -> float:
    known = [effects.get(name, 0.0) for name in factors]
    return sum(known) + (effects.get("together", 0.0) if len(factors) == 2 else 0.0)


def by_name(found: tuple[FactorEffect, ...]) -> dict[str, FactorEffect]:
    return {one.name: one for one in found}


def test_a_main_effect_is_the_mean_over_the_other_factors_levels() -> None:
    # By hand: flush 2 gains 1.1 without the binary log and 1.3 with it; the log costs a tenth without it.
    arms = {"base": 1.0, "binlog": 0.9, "flush 2": 1.1, "binlog + flush 2": 0.9 * 1.3}
    scores = {arm: {b: math.log(value) + b for b in range(3)} for arm, value in arms.items()}
    found = by_name(factor_effects(scores, ARMS))
    assert list(found) == ["binlog", "flush 2", "binlog × flush 2"]
    assert found["flush 2"].ratio.estimate == pytest.approx(math.sqrt(1.1 * 1.3))
    assert found["binlog"].ratio.estimate == pytest.approx(math.sqrt(0.9 * (0.9 * 1.3 / 1.1)))
    assert found["binlog × flush 2"].ratio.estimate == pytest.approx(1.3 / 1.1)
    assert found["binlog × flush 2"].verdict == "more together"


def test_three_factors_have_seven_effects_and_means_over_all_others() -> None:
    arms = crossed(["a", "b", "c"])
    gains = {"a": 0.1, "b": 0.2, "c": -0.3}
    scores = {
        arm: {
            b: sum(gains[one] for one in factors) + (0.4 if {"a", "c"} <= {*factors} else 0.0) + b
            for b in (0, 1)
        }
        for factors, arm in arms.items()
    }
    found = {
        name: math.log(one.ratio.estimate) for name, one in by_name(factor_effects(scores, arms)).items()
    }
    assert found == pytest.approx(
        {"a": 0.3, "b": 0.2, "c": -0.1, "a × b": 0.0, "a × c": 0.4, "b × c": 0.0, "a × b × c": 0.0}, abs=1e-9
    )


def test_with_few_blocks_the_interval_is_that_of_one_variance_for_all_arms() -> None:
    scores = table(Random(1), {}, 4, 0.05)
    effects = factor_effects(scores, ARMS)
    widths = [math.log(one.ratio.high / one.ratio.low) for one in effects]
    assert widths[1] == pytest.approx(widths[0])
    assert widths[2] == pytest.approx(2 * widths[0]), "an interaction weighs each arm twice as much"
    cells = [[*own.values()] for own in scores.values()]
    rows, columns = [sum(row) / 4 for row in cells], [sum(c) / 5 for c in zip(*cells, strict=True)]
    mean = sum(rows) / 5
    left = sum((cells[a][b] - rows[a] - columns[b] + mean) ** 2 for a in range(5) for b in range(4))
    sigma = math.sqrt(left / 12)
    assert widths[0] == pytest.approx(2 * critical_value(0.05, 3, 12, 0.0) * sigma * math.sqrt(0.25 * 4 / 4))


@pytest.mark.parametrize("blocks", [4, 12])
def test_intervals_of_all_effects_hold_at_once_as_often_as_advertised(blocks: int) -> None:
    random, missed, campaigns = Random(blocks), 0, 800
    effects = {"binlog": -0.1, "flush 2": 0.15, "together": 0.05}
    truth = {"binlog": -0.075, "flush 2": 0.175, "binlog × flush 2": 0.05}
    for _ in range(campaigns):
        found = factor_effects(table(random, effects, blocks, 0.03), ARMS, twin="control")
        missed += any(not one.ratio.low <= math.exp(truth[one.name]) <= one.ratio.high for one in found)
    error = math.sqrt(0.05 * 0.95 / campaigns)
    assert missed / campaigns == pytest.approx(0.05, abs=4 * error)


def test_the_control_narrows_what_rests_on_the_base() -> None:
    random, narrower = Random(3), 0
    for _ in range(50):
        scores = table(random, {}, 20, 0.03)
        (with_it, alone) = (factor_effects(scores, ARMS, twin=twin)[1] for twin in ("control", ""))
        narrower += with_it.ratio.half_width < alone.ratio.half_width
    assert narrower >= 30


def test_only_blocks_with_every_combination_count() -> None:
    scores = table(Random(4), {}, 6, 0.03)
    del scores["flush 2"][2]
    assert {one.blocks for one in factor_effects(scores, ARMS)} == {5}
    scores["binlog"] = {0: 1.0}
    assert factor_effects(scores, ARMS) == ()
    del scores["binlog + flush 2"]
    assert factor_effects(scores, ARMS) == ()
