from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from flushlab.plan.plan import crossed
from flushlab.record import FactorEffect
from flushlab.statistics import Effects, critical_value, estimate_effects, factor_effects, shift_for_power
from flushlab.statistics.comparison import OWN_BLOCKS


def screened(effects: list[list[float]], offset: float, runs: int, noise: float, seed: int = 1) -> Effects:
    random = Random(seed)
    candidates = len(effects[0])
    on = np.zeros((runs, candidates), dtype=bool)
    for column in range(candidates):
        picked = [True] * (runs // 2) + [False] * (runs - runs // 2)
        random.shuffle(picked)
        on[:, column] = picked
    context = np.array([run % 2 for run in range(runs)])
    scores = np.array(
        [
            7 + offset * context[r] + float(on[r] @ np.array(effects[context[r]])) + random.gauss(0, noise)
            for r in range(runs)
        ]
    )
    return estimate_effects(on, context, np.arange(runs) // 4, scores, contexts=2)


def test_effects_and_the_foundations_offset_are_recovered() -> None:
    found = screened([[0.1, 0.0, -0.2], [0.1, 0.0, -0.2]], offset=0.3, runs=64, noise=0.02)
    assert found.mean == pytest.approx(np.array([[0.1, 0.0, -0.2]] * 2), abs=0.03)
    assert found.offset[1] == pytest.approx(0.3, abs=0.04)
    assert found.noise == pytest.approx(0.02, rel=0.8)


def test_an_effect_that_the_disk_hides_on_the_base_shows_on_the_faster_foundation() -> None:
    found = screened([[0.0, 0.0], [0.2, 0.0]], offset=0.3, runs=64, noise=0.03)
    assert found.mean[1, 0] > 0.12
    assert found.mean[0, 0] < 0.08


def test_fewer_runs_than_candidates_give_a_caveat_not_nonsense() -> None:
    found = screened([[0.0] * 20] * 2, offset=0.0, runs=8, noise=0.05)
    assert np.abs(found.mean).max() < 0.2
    assert (found.sd > np.abs(found.mean) * 0.5).all()


def test_errors_are_about_as_large_as_the_deviations_say() -> None:
    deviates = []
    for seed in range(150):
        found = screened([[0.05, 0.0, 0.0, 0.0, -0.05]] * 2, offset=0.2, runs=24, noise=0.04, seed=seed)
        truth = np.array([[0.05, 0.0, 0.0, 0.0, -0.05]] * 2)
        deviates.append(((found.mean - truth) / found.sd).ravel())
    assert 0.6 < np.concatenate(deviates).std() < 1.4


def on_machines(effects: list[list[float]], runs: int, seed: int = 1) -> tuple[Effects, Effects]:
    """Effects from the runs of several machines: told which ran where, and not told."""
    random, candidates, machines = Random(seed), len(effects[0]), len(effects)
    trials = runs * machines
    on = np.array([[random.random() < 0.5 for _ in range(candidates)] for _ in range(trials)])
    machine = np.arange(trials) % machines
    scores = np.array(
        [7 + float(on[r] @ np.array(effects[machine[r]])) + random.gauss(0, 0.02) for r in range(trials)]
    )
    given = on, np.zeros(trials, dtype=int), np.arange(trials) // machines, scores
    return estimate_effects(*given, contexts=1, machine=machine), estimate_effects(*given, contexts=1)


def test_an_effect_that_depends_on_the_machine_is_known_less_well_and_takes_nothing_from_the_others() -> None:
    steady, moody = 0.2, [0.4, -0.3, 0.1, 0.0]
    told, not_told = on_machines([[steady, one, 0.0] for one in moody], runs=12)
    assert told.mean[0] == pytest.approx([steady, np.mean(moody), 0.0], abs=0.04)
    assert told.sd[0, 1] > 2 * np.std(moody, ddof=1) / 2 * 0.8
    assert told.sd[0, 1] > told.mean[0, 1], "it is not chosen"
    assert max(told.sd[0, 0], told.sd[0, 2]) < 0.06
    assert not_told.sd[0, 1] < told.sd[0, 1] / 3
    assert told.noise < not_told.noise / 3


def test_where_machines_agree_their_number_changes_little() -> None:
    told, not_told = on_machines([[0.1, 0.0, -0.1]] * 4, runs=12)
    assert told.mean == pytest.approx(not_told.mean, abs=0.01)
    assert told.sd == pytest.approx(not_told.sd, rel=0.5)


def test_one_machine_is_as_none() -> None:
    (told, not_told) = on_machines([[0.1, 0.0]], runs=24)
    assert all((one == other).all() for one, other in zip(told[:4], not_told[:4], strict=True))


def test_what_no_trial_had_is_not_known() -> None:
    on = np.array([[row % 2 == 0, False] for row in range(24)])
    scores = 7 + 0.1 * on[:, 0] + np.array([0.01 * (-1) ** (row // 2) for row in range(24)])
    found = estimate_effects(
        on, np.zeros(24, dtype=int), np.arange(24) // 4, scores, contexts=1, machine=np.arange(24) % 3
    )
    assert found.mean[0, 1] == 0
    assert found.sd[0, 1] >= 0.04


def test_a_machine_that_had_the_base_alone_says_nothing_of_effects() -> None:
    random = Random(1)
    on = np.array([[random.random() < 0.5 for _ in range(2)] for _ in range(40)] + [[False, False]] * 4)
    scores = np.array([7 + 0.3 * row[0] + random.gauss(0, 0.02) for row in on])
    given = on, np.zeros(44, dtype=int), np.arange(44) // 4, scores
    told = estimate_effects(*given, contexts=1, machine=np.array([0] * 40 + [1] * 4))
    not_told = estimate_effects(*given, contexts=1)
    assert told.mean == pytest.approx(not_told.mean, abs=0.01)
    assert told.sd == pytest.approx(not_told.sd, rel=0.5)


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
