from __future__ import annotations

import math
from collections.abc import Collection
from random import Random
from typing import Any

import numpy as np
import pytest

from flushlab.statistics import compare, contrasts, critical_value, shift_for_power
from flushlab.statistics.comparison import OWN_BLOCKS, RESOLUTION

Table = dict[str, dict[int, float]]


def table(random: Random, arms: dict[str, float], blocks: int, noise: float, drift: float = 0.3) -> Table:
    levels = [random.gauss(0, drift) for _ in range(blocks)]
    return {a: {b: e + levels[b] + random.gauss(0, noise) for b in range(blocks)} for a, e in arms.items()}


def test_two_arms_are_a_paired_t_interval() -> None:
    logs = {"base": {0: 1.0, 1: 1.1, 2: 0.9}, "arm": {0: 1.2, 1: 1.35, 2: 1.05}}
    (found,) = compare(logs, "base")
    differences = [0.2, 0.25, 0.15]
    half = 4.302653 * 0.05 / math.sqrt(3)  # t(0.975, 2), standard deviation 0.05
    assert math.log(found.ratio.estimate) == pytest.approx(sum(differences) / 3)
    assert math.log(found.ratio.high / found.ratio.low) == pytest.approx(2 * half, rel=1e-4)
    assert found.verdict == "faster"
    assert found.blocks == 3


def test_a_drift_shared_by_a_block_does_not_widen_the_interval() -> None:
    calm = table(Random(1), {"base": 0.0, "arm": 0.1}, 5, 0.02, drift=0.0)
    shift = [0.0, 3.0, -2.0, 1.0, 5.0]
    stormy = {arm: {b: y + shift[b] for b, y in cells.items()} for arm, cells in calm.items()}
    (one,), (other,) = compare(calm, "base"), compare(stormy, "base")
    assert (one.ratio.low, one.ratio.high) == pytest.approx((other.ratio.low, other.ratio.high))


def by_least_squares(scores: Table, arms: list[str]) -> tuple[Any, Any, float, int]:
    """Estimates of arms against the base, their covariance, the deviation of a score, degrees of freedom."""
    cells = [(arm, block, y) for arm in ("base", *arms) for block, y in scores[arm].items()]
    blocks = sorted({block for _, block, _ in cells})
    design = np.array(
        [[one == arm for one in arms] + [one == block for one in blocks] for arm, block, _ in cells], float
    )
    values = np.array([y for _, _, y in cells])
    fitted = np.linalg.lstsq(design, values)[0]
    df = len(cells) - len(arms) - len(blocks)
    sigma = math.sqrt(float(((values - design @ fitted) ** 2).sum()) / df)
    covariance = np.linalg.inv(design.T @ design) * sigma**2
    return fitted[: len(arms)], covariance[: len(arms), : len(arms)], sigma, df


@pytest.mark.parametrize("missing", [[], [("b", 1)], [("b", 1), ("base", 4), ("a", 0), ("c", 3)]])
def test_estimates_errors_and_intervals_are_those_of_least_squares(missing: list[tuple[str, int]]) -> None:
    scores = table(Random(2), {"base": 0.0, "a": 0.1, "b": -0.1, "c": 0.0}, 6, 0.05)
    for arm, block in missing:
        del scores[arm][block]
    estimate, covariance, sigma, df = by_least_squares(scores, ["a", "b", "c"])
    error = np.sqrt(np.diag(covariance))
    correlations = covariance / np.outer(error, error)
    least = min(float(correlations[i, j]) for i in range(3) for j in range(i))
    found = contrasts(scores, "base")
    assert found is not None
    assert (found.arms, found.df) == (("a", "b", "c"), df)
    assert found.sigma == pytest.approx(sigma)
    assert found.correlation == pytest.approx(least)
    assert list(found.estimate) == pytest.approx(list(estimate))
    assert list(found.error) == pytest.approx(list(error))
    for alpha in (0.05, 0.01):
        limit = critical_value(alpha, 3, df, math.floor(least * 20 + 1e-6) / 20)
        compared = compare(scores, "base", alpha=alpha)
        lows = [math.log(one.ratio.low) for one in compared]
        highs = [math.log(one.ratio.high) for one in compared]
        assert lows == pytest.approx(list(estimate - limit * error))
        assert highs == pytest.approx(list(estimate + limit * error))
        powers = [math.log1p(one.detectable) for one in compared]
        assert powers == pytest.approx(list(shift_for_power(limit, df) * error))


def test_arms_that_ran_beside_other_cells_of_the_base_are_no_part_of_dunnetts_limit() -> None:
    """Groups of 1 and 3 arms: their intervals hold with 0.95^(1/4) and 0.95^(3/4), which are independent."""
    scores = table(Random(5), {"base": 0.0, "a": 0.1, "b": 0.0, "c": 0.0}, 6, 0.05)
    for arms, correlation in (("a",), 0.5), (("a", "b", "c"), 0.5):
        own = {"base": scores["base"], **{arm: scores[arm] for arm in arms}}
        found = contrasts(own, "base")
        assert found is not None
        limit = critical_value(1 - 0.95 ** (len(arms) / 4), len(arms), found.df, correlation)
        compared = compare(own, "base", family=4)
        half = [math.log(one.ratio.high / one.ratio.low) / 2 for one in compared]
        assert half == pytest.approx(list(limit * found.error))


@pytest.mark.parametrize("with_twin", [False, True])
def test_with_many_blocks_an_interval_is_students_from_residuals_enlarged_by_their_weights(
    with_twin: bool,
) -> None:
    scores = table(Random(4), {"base": 0.0, "arm": 0.1, "other": 0.0, "twin": 0.0}, 12, 0.05)
    del scores["base"][3], scores["twin"][5]
    twin = "twin" if with_twin else ""
    blocks = [b for b in range(12) if b != 3 and not (with_twin and b == 5)]
    own = np.array([math.exp(scores["arm"][b]) for b in blocks])
    bases = [scores["base"], scores["twin"]] if with_twin else [scores["base"]]
    base = np.array([sum(math.exp(one[b]) for one in bases) / len(bases) for b in blocks])
    ratio = own.sum() / base.sum()
    residuals = (own - ratio * base) / (1 - base / base.sum())
    error = math.sqrt((residuals**2).sum()) / own.sum()
    df = len(blocks) - 1
    limit = critical_value(1 - 0.95 ** (1 / 3), 1, df)
    found = compare(scores, "base", twin=twin)[0]
    assert math.log(found.ratio.estimate) == pytest.approx(math.log(ratio))
    assert math.log(found.ratio.high) == pytest.approx(math.log(ratio) + limit * error)
    assert math.log(found.ratio.low) == pytest.approx(math.log(ratio) - limit * error)
    assert math.log1p(found.detectable) == pytest.approx(shift_for_power(limit, df) * error)
    assert found.blocks == 11


@pytest.mark.parametrize("blocks", [3, 12])
def test_figures_without_any_noise_have_an_interval_of_a_millionth_and_more(blocks: int) -> None:
    scores = {arm: {b: y + 0.1 * b for b in range(blocks)} for arm, y in (("base", 1.0), ("arm", 1.2))}
    (found,) = compare(scores, "base")
    df = blocks - 1
    error = RESOLUTION * math.sqrt((2 if blocks < OWN_BLOCKS else 1) / blocks)
    assert math.log(found.ratio.high) - 0.2 == pytest.approx(critical_value(0.05, 1, df) * error, rel=1e-4)


def test_a_ratio_stays_within_sense() -> None:
    scores = {"base": {0: 0.0, 1: 0.0}, "arm": {0: 0.0, 1: 90.0}}
    (found,) = compare(scores, "base")
    assert (found.ratio.low, found.ratio.high) == (math.exp(-50), math.exp(50))


def test_missing_cells_give_the_estimates_of_least_squares() -> None:
    # Arm b misses block 1. By hand for an additive table without noise: effects are exact.
    effects, levels = {"base": 0.0, "a": 0.2, "b": -0.1}, [1.0, 2.0, 4.0, 3.0]
    scores = {arm: {b: effects[arm] + levels[b] for b in range(4)} for arm in effects}
    del scores["b"][1]
    found = contrasts(scores, "base")
    assert found is not None
    assert list(found.estimate) == pytest.approx([0.2, -0.1])
    assert found.blocks == (4, 3)
    assert found.df == 11 - 3 - 4 + 1


def test_a_missing_cell_widens_only_by_what_is_lost() -> None:
    scores = table(Random(3), {"base": 0.0, "a": 0.0, "b": 0.0}, 6, 0.05)
    del scores["b"][2]
    found = contrasts(scores, "base")
    assert found is not None
    assert found.error[1] > found.error[0]
    assert 0.3 < found.correlation < 0.5


def test_with_many_blocks_an_arm_that_stalls_keeps_its_noise_to_itself() -> None:
    def half_widths(blocks: int) -> dict[str, float]:
        scores = table(Random(5), {"base": 0.0, "calm": 0.0, "stalls": 0.0}, blocks, 0.02)
        random = Random(6)
        scores["stalls"] = {b: y + random.gauss(0, 0.3) for b, y in scores["stalls"].items()}
        return {one.arm: one.ratio.half_width for one in compare(scores, "base")}

    few, many = half_widths(9), half_widths(10)
    assert few["stalls"] == pytest.approx(few["calm"]), "nine blocks share one variance"
    assert many["calm"] < few["calm"] / 4
    assert many["stalls"] > few["stalls"]


def stalling(random: Random, arms: Collection[str], blocks: int) -> tuple[Table, set[str]]:
    """Arms that are alike, each with a window in twenty in which nothing was committed."""
    scores = table(random, dict.fromkeys(arms, 0.0), blocks, 0.05)
    stalls = [(arm, block) for arm in arms for block in range(blocks) if random.random() < 0.05]
    for arm, block in stalls:
        scores[arm][block] = -7.5
    return scores, {arm for arm, _ in stalls}


def test_an_arm_that_stalled_for_a_window_has_a_wide_interval_and_widens_no_other() -> None:
    scores = table(Random(5), {"base": 0.0, "calm": 0.0, "stalls": 0.0}, 5, 0.02)
    scores["stalls"][2] = -7.5
    found = {one.arm: one for one in compare(scores, "base", apart={"stalls"})}
    alone = {
        one.arm: one for one in compare({arm: scores[arm] for arm in ("base", "calm")}, "base", family=2)
    }
    assert found["calm"] == alone["calm"]
    assert found["stalls"].ratio.estimate == pytest.approx(0.8, rel=0.2), "four windows of five"
    assert found["stalls"].ratio.low < 0.5 < 2 < found["stalls"].ratio.high
    assert compare(scores, "base")[0].ratio.high > 10, "its logarithm would spoil what all share"


@pytest.mark.parametrize("blocks", [3, 5, 8])
def test_intervals_hold_for_all_arms_at_once_where_windows_stall(blocks: int) -> None:
    random, missed, campaigns = Random(12), 0, 600
    for _ in range(campaigns):
        scores, stalled = stalling(random, ("base", "control", "a", "b"), blocks)
        missed += any(
            one.verdict != "no difference found"
            for one in compare(scores, "base", twin="control", apart=stalled)
        )
    assert missed <= campaigns * (0.05 + 3 * math.sqrt(0.05 * 0.95 / campaigns))


def test_a_base_that_stalled_leaves_no_arm_a_narrow_interval() -> None:
    scores = table(Random(5), {"base": 0.0, "a": 0.0, "b": 0.0}, 5, 0.02)
    scores["base"][2] = -7.5
    assert all(one.ratio.high / one.ratio.low > 4 for one in compare(scores, "base", apart={"base"}))


def test_intervals_of_unequal_variances_hold_all_at_once() -> None:
    missed, random = 0, Random(8)
    for _ in range(1000):
        scores = table(random, {"base": 0.0, "a": 0.0, "b": 0.0, "c": 0.0}, 12, 0.02)
        scores["c"] = {b: y + random.gauss(0, 0.3) for b, y in scores["c"].items()}
        missed += any(one.verdict != "no difference found" for one in compare(scores, "base"))
    assert missed <= 1000 * (0.05 + 3 * math.sqrt(0.05 * 0.95 / 1000))


def test_an_arm_that_shares_one_block_with_the_base_is_not_judged() -> None:
    scores = {"base": {0: 1.0, 1: 1.1, 2: 1.0}, "arm": {2: 1.3}, "other": {0: 1.2, 1: 1.2, 2: 1.3}}
    assert [c.arm for c in compare(scores, "base")] == ["other"]


def test_one_block_proves_nothing() -> None:
    assert compare({"base": {0: 1.0}, "arm": {0: 2.0}}, "base") == ()


def test_identical_figures_are_no_difference() -> None:
    scores = {"base": {0: 6.9, 1: 6.9}, "arm": {0: 6.9, 1: 6.9}}
    (found,) = compare(scores, "base")
    assert found.verdict == "no difference found"
    assert found.ratio.estimate == 1.0


def test_two_blocks_suffice_when_the_difference_is_plain() -> None:
    scores = {"base": {0: 1.0, 1: 1.01}, "a": {0: 3.0, 1: 3.0}, "control": {0: 1.01, 1: 1.0}}
    assert {c.arm: c.verdict for c in compare(scores, "base")} == {
        "a": "faster",
        "control": "no difference found",
    }


def test_a_comparison_of_one_arm_uses_the_variance_of_all() -> None:
    scores = table(Random(5), {"base": 0.0, "a": 0.1, "b": 0.2, "c": 0.0}, 4, 0.05)
    (only,) = compare(scores, "base", only={"b"})
    everyone = {c.arm: c for c in compare(scores, "base")}
    assert only.ratio.estimate == everyone["b"].ratio.estimate
    shrink = math.log(only.ratio.high / only.ratio.low) / math.log(
        everyone["b"].ratio.high / everyone["b"].ratio.low
    )
    assert shrink == pytest.approx(critical_value(0.05, 1, 9) / critical_value(0.05, 3, 9))


def test_intervals_hold_for_all_arms_at_once_as_often_as_advertised() -> None:
    random, missed, campaigns = Random(7), 0, 3000
    truth = {"base": 0.0, "a": 0.0, "b": 0.2, "c": -0.1}
    for _ in range(campaigns):
        found = compare(table(random, truth, 4, 0.05), "base")
        missed += any(not c.ratio.low <= math.exp(truth[c.arm]) <= c.ratio.high for c in found)
    assert missed / campaigns == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / campaigns))


def test_the_detectable_gain_is_found_in_four_of_five() -> None:
    random, campaigns, noise = Random(11), 2000, 0.05
    limit = critical_value(0.05, 2, 10)
    # With the true noise known, the gain that compare() would call detectable on average.
    gains = [compare(table(random, {"base": 0, "a": 0, "b": 0}, 6, noise), "base")[0] for _ in range(300)]
    gain = math.log1p(sorted(g.detectable for g in gains)[150])
    assert gain > limit * noise * math.sqrt(2 / 6)
    found = sum(
        compare(table(random, {"base": 0, "a": gain, "b": 0}, 6, noise), "base")[0].verdict == "faster"
        for _ in range(campaigns)
    )
    assert found / campaigns == pytest.approx(0.8, abs=0.05)


def test_with_many_blocks_a_ratio_is_that_of_sums_so_that_stalled_blocks_weigh_little() -> None:
    logs = table(Random(9), {"base": 0.0, "arm": 0.1}, 20, 0.02)
    logs["arm"][7], logs["base"][7] = logs["arm"][7] - 12, logs["base"][7] - 9  # next to nothing, of both
    (found,) = compare(logs, "base")
    rates = {arm: [math.exp(y) for y in cells.values()] for arm, cells in logs.items()}
    assert found.ratio.estimate == pytest.approx(sum(rates["arm"]) / sum(rates["base"]))
    assert found.ratio.half_width < 0.02
    assert found.verdict == "faster"


def test_with_many_blocks_the_base_measured_twice_narrows_what_is_compared_with_it() -> None:
    arms = {"base": 0.0, "control": 0.0, "arm": 0.0}
    alone, twice, control, missed, random = 0.0, 0.0, 0.0, 0, Random(10)
    for _ in range(1000):
        scores = table(random, arms, 16, 0.05)
        found = {one.arm: one for one in compare(scores, "base", twin="control")}
        alone += compare(scores, "base")[1].ratio.half_width
        twice += found["arm"].ratio.half_width
        control += found["control"].ratio.half_width
        missed += any(one.verdict != "no difference found" for one in found.values())
    assert twice / alone == pytest.approx(math.sqrt(3 / 4), rel=0.03)
    assert control == pytest.approx(alone, rel=0.03), "the control itself is compared with the base alone"
    assert missed <= 1000 * (0.05 + 3 * math.sqrt(0.05 * 0.95 / 1000))


def test_a_twin_that_was_seldom_measured_is_left_alone() -> None:
    scores = table(Random(11), {"base": 0.0, "control": 0.0, "arm": 0.0}, 12, 0.05)
    without = {"base": scores["base"], "arm": scores["arm"]}
    scores["control"] = {b: y for b, y in scores["control"].items() if b < 9}
    (_, found), (alone,) = (
        compare(scores, "base", family=2, twin="control"),
        compare(without, "base", family=2),
    )
    assert found == alone
