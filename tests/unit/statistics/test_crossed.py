from __future__ import annotations

import math
from random import Random

import pytest

from flushlab.plan.plan import crossed
from flushlab.record import FactorEffect
from flushlab.statistics import critical_value, factor_effects, shift_for_power
from flushlab.statistics.comparison import OWN_BLOCKS

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
            b: sum(gains[one] for one in factors)
            + (0.4 if {"a", "c"} <= {*factors} else 0.0)
            + (0.8 if len(factors) == 3 else 0.0)
            + b
            for b in (0, 1)
        }
        for factors, arm in arms.items()
    }
    found = {
        name: math.log(one.ratio.estimate) for name, one in by_name(factor_effects(scores, arms)).items()
    }
    assert found == pytest.approx(
        {"a": 0.5, "b": 0.4, "c": 0.1, "a × b": 0.4, "a × c": 0.8, "b × c": 0.4, "a × b × c": 0.8}, abs=1e-9
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
    limit, error = critical_value(0.05, 3, 12, 0.0), sigma * math.sqrt(0.25 * 4 / 4)
    assert widths[0] == pytest.approx(2 * limit * error)
    assert math.log1p(effects[0].detectable) == pytest.approx(shift_for_power(limit, 12) * error)


def by_sums(rows: list[list[float]], weights: list[float]) -> tuple[float, float]:
    """Weighted logs of sums, and their standard error from the share that each block has in each sum."""
    sums, size = [sum(row) for row in rows], len(rows[0])
    total, squares = sum(map(abs, weights)), 0.0
    for block in range(size):
        shares = [row[block] / whole for row, whole in zip(rows, sums, strict=True)]
        residual = sum(w * share for w, share in zip(weights, shares, strict=True))
        own = sum(abs(w) * share for w, share in zip(weights, shares, strict=True)) / total
        squares += (residual / (1 - own)) ** 2
    estimate = sum(w * math.log(whole) for w, whole in zip(weights, sums, strict=True))
    return estimate, math.sqrt(squares)


@pytest.mark.parametrize(
    ("blocks", "apart", "twin"),
    [
        (12, [], ""),
        (12, [], "control"),
        (4, ["binlog"], ""),
        (4, ["flush 2"], "control"),
        (10, [], "control"),
    ],
)
def test_with_many_blocks_or_a_stall_effects_are_of_sums_with_variances_of_their_own(
    blocks: int, apart: list[str], twin: str
) -> None:
    scores = table(Random(2), {"binlog": -0.1, "together": 0.2}, blocks, 0.05)
    rows = [[math.exp(y) for y in scores[arm].values()] for arm in ARMS.values()]
    if twin and blocks >= OWN_BLOCKS:
        control = [math.exp(y) for y in scores["control"].values()]
        rows[0] = [(one + other) / 2 for one, other in zip(rows[0], control, strict=True)]
    order = list(ARMS)
    assert order == [(), ("binlog",), ("flush 2",), ("binlog", "flush 2")]
    weights = {
        "binlog": [-0.5, 0.5, -0.5, 0.5],
        "flush 2": [-0.5, -0.5, 0.5, 0.5],
        "binlog × flush 2": [1.0, -1.0, -1.0, 1.0],
    }
    limit = critical_value(1 - (1 - 0.01) ** (1 / 3), 1, blocks - 1)
    found = by_name(factor_effects(scores, ARMS, alpha=0.01, apart=apart, twin=twin))
    for name, effect in found.items():
        estimate, error = by_sums(rows, weights[name])
        assert math.log(effect.ratio.estimate) == pytest.approx(estimate)
        assert math.log(effect.ratio.low) == pytest.approx(estimate - limit * error)
        assert math.log(effect.ratio.high) == pytest.approx(estimate + limit * error)
        assert math.log1p(effect.detectable) == pytest.approx(shift_for_power(limit, blocks - 1) * error)
        assert effect.blocks == blocks


def test_the_base_is_alone_where_its_twin_was_seldom_measured() -> None:
    scores = table(Random(2), {}, 12, 0.05)
    scores["control"] = {b: y for b, y in scores["control"].items() if b < OWN_BLOCKS - 1}
    without = {arm: cells for arm, cells in scores.items() if arm != "control"}
    assert factor_effects(scores, ARMS, twin="control") == factor_effects(without, ARMS)


def test_an_arm_outside_the_cross_that_stalled_widens_no_effect() -> None:
    scores = table(Random(2), {}, 4, 0.05)
    calm = factor_effects(scores | {"other": dict(scores["base"])}, ARMS)
    scores["other"] = {b: -7.5 if b == 2 else y for b, y in scores["base"].items()}
    stalled = factor_effects(scores, ARMS, apart=["other"])
    assert stalled == factor_effects({arm: scores[arm] for arm in scores if arm != "other"}, ARMS)
    assert stalled[0].ratio.half_width < 2 * calm[0].ratio.half_width


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
