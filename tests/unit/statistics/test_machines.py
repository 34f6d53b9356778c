from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats

from flushlab.statistics import RatioTable, compare, factor_effects

Scores = dict[str, dict[int, float]]


def measured(
    blocks: Mapping[str, int], gains: Mapping[str, Mapping[str, float]], noise: float = 0.02, seed: int = 1
) -> tuple[Scores, dict[int, str]]:
    """Scores of so many blocks on each machine, with each arm's log ratio there."""
    draws = np.random.default_rng(seed)
    scores: Scores = {name: {} for name in ("base", *gains)}
    machines: dict[int, str] = {}
    for machine, count in blocks.items():
        speed = draws.normal() * 0.5
        for block in range(len(machines), len(machines) + count):
            machines[block] = machine
            scores["base"][block] = speed + draws.normal() * noise
            for arm, gain in gains.items():
                scores[arm][block] = speed + gain[machine] + draws.normal() * noise
    return scores, machines


TWO = {"a": {"m1": math.log(1.6), "m2": math.log(0.8)}}
FOUR = dict.fromkeys(("m1", "m2", "m3", "m4"), 4)
EVERYWHERE = {
    "quick": dict.fromkeys(FOUR, math.log(1.5)),
    "moody": {"m1": 0.6, "m2": 0.1, "m3": 0.5, "m4": -0.1},
}


def test_the_interval_is_students_of_the_machines_means() -> None:
    scores, machines = measured(FOUR, EVERYWHERE, noise=0.0)
    moody = {one.arm: one for one in RatioTable(scores, machines).compare("base")}["moody"]
    values = list(EVERYWHERE["moody"].values())
    mean, error = np.mean(values), stats.sem(values)
    limit = stats.t.ppf(1 - (1 - math.sqrt(0.95)) / 2, 3)  # two arms at once: Šidák
    assert moody.ratio.estimate == pytest.approx(math.exp(mean))
    assert moody.ratio.low == pytest.approx(math.exp(mean - limit * error))
    assert moody.ratio.high == pytest.approx(math.exp(mean + limit * error))
    assert moody.verdict == "no difference found", "it gains on these blocks and may lose on the next machine"
    of_blocks = {one.arm: one for one in compare(scores, "base")}["moody"]
    assert of_blocks.verdict == "faster"
    assert moody.blocks == 16


def test_more_blocks_of_the_same_machines_say_nothing_of_the_next() -> None:
    few, many = (measured(dict.fromkeys(FOUR, count), EVERYWHERE, noise=0.001, seed=2) for count in (2, 50))
    widths = [
        {one.arm: one.ratio.half_width for one in RatioTable(*both).compare("base", family=2)}["moody"]
        for both in (few, many)
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


@pytest.mark.parametrize("names", [(), ("m1",), ("m1", "m2")])
def test_below_three_machines_it_is_the_comparison_of_the_blocks(names: tuple[str, ...]) -> None:
    scores, machines = measured(
        dict.fromkeys(names or ("",), 4),
        EVERYWHERE | {"quick": dict.fromkeys((*names, ""), 0.4), "moody": dict.fromkeys((*names, ""), 0.1)},
    )
    known = machines if names else {}
    found = RatioTable(scores, known).compare("base", alpha=0.1, family=3)
    for one, other in zip(found, compare(scores, "base", alpha=0.1, family=3), strict=True):
        assert one.ratio.low == pytest.approx(other.ratio.low)
        assert one.ratio.high == pytest.approx(other.ratio.high)
        assert one.detectable == pytest.approx(other.detectable)


@pytest.mark.parametrize("blocks", [4, 8])
def test_of_two_machines_the_faster_one_counts_no_more_than_the_slower(blocks: int) -> None:
    scores, machines = measured(dict.fromkeys(("m1", "m2"), blocks), TWO)
    faster = {
        arm: {block: one + math.log(10) * (machines[block] == "m2") for block, one in cells.items()}
        for arm, cells in scores.items()
    }
    for one, other in zip(
        RatioTable(scores, machines).compare("base"),
        RatioTable(faster, machines).compare("base"),
        strict=True,
    ):
        assert one.ratio.estimate == pytest.approx(other.ratio.estimate)
        assert one.ratio.high == pytest.approx(other.ratio.high)
    assert 1.1 < one.ratio.estimate < 1.3, "1.6 on one, 0.8 on the other"


def test_effects_on_two_machines_do_not_depend_on_which_is_faster() -> None:
    scores, machines = measured({"m1": 8, "m2": 8}, {**TWO, "f": {"m1": 0.1, "m2": 0.2}, "both": TWO["a"]})
    faster = {
        arm: {block: one + math.log(10) * (machines[block] == "m2") for block, one in cells.items()}
        for arm, cells in scores.items()
    }
    arms = {(): "base", ("a",): "a", ("f",): "f", ("a", "f"): "both"}
    one, other = (RatioTable(found, machines).effects(arms) for found in (scores, faster))
    assert [x.ratio.estimate for x in one] == pytest.approx([x.ratio.estimate for x in other])


def test_a_machine_that_lost_most_of_its_blocks_counts_as_one_machine() -> None:
    scores, machines = measured({"m1": 1, "m2": 9, "m3": 9, "m4": 9}, EVERYWHERE, noise=0.0)
    moody = {one.arm: one for one in RatioTable(scores, machines).compare("base")}["moody"]
    assert moody.ratio.estimate == pytest.approx(math.exp(np.mean(list(EVERYWHERE["moody"].values()))))


def test_an_arm_that_ran_on_one_machine_alone_has_no_interval_over_machines() -> None:
    scores, machines = measured(FOUR, EVERYWHERE)
    scores["quick"] = {block: one for block, one in scores["quick"].items() if machines[block] == "m1"}
    assert [one.arm for one in RatioTable(scores, machines).compare("base")] == ["moody"]
    assert list(RatioTable(scores, machines).over_machines("base")) == ["moody"]


def test_the_arm_whose_ratio_depends_on_the_machine_is_named_with_its_ratios() -> None:
    scores, machines = measured(FOUR, EVERYWHERE)
    over = RatioTable(scores, machines).over_machines("base")
    assert over["moody"].unstable
    assert over["moody"].between_share > 0.9
    assert over["moody"].slowest.machine == "m4"
    assert over["moody"].slowest.ratio.estimate == pytest.approx(math.exp(-0.1), rel=0.05)
    assert over["moody"].better_on == ("m1", "m2", "m3")
    assert [(one.machine, one.blocks) for one in over["moody"].ratios] == [(name, 4) for name in FOUR]
    assert not over["quick"].unstable
    assert over["quick"].between_share < 0.5
    assert over["quick"].better_on == tuple(FOUR)


def test_two_machines_show_their_difference_too() -> None:
    scores, machines = measured({"m1": 4, "m2": 4}, {"a": {"m1": 0.5, "m2": 0.1}})
    assert RatioTable(scores, machines).over_machines("base")["a"].unstable
    assert RatioTable(scores).over_machines("base") == {}, "there is one machine"


def test_of_single_blocks_nothing_is_known_within_a_machine() -> None:
    scores, machines = measured(dict.fromkeys(FOUR, 1), EVERYWHERE)
    assert RatioTable(scores, machines).over_machines("base") == {}
    assert len(RatioTable(scores, machines).compare("base")) == 2


def test_a_stalled_arm_lends_its_variance_to_no_other() -> None:
    scores, machines = measured(
        FOUR, {"quick": dict.fromkeys(FOUR, 0.5), "stalled": dict.fromkeys(FOUR, 0.0)}
    )
    scores["stalled"][5] -= 20
    with_it = RatioTable(scores, machines, ["stalled"]).over_machines("base")["quick"]
    del scores["stalled"]
    without = RatioTable(scores, machines).over_machines("base", family=2)["quick"]
    assert with_it == without


def test_effects_of_crossed_factors_are_over_machines_too() -> None:
    gains = {
        "a": dict.fromkeys(FOUR, 0.4),
        "b": {"m1": 0.6, "m2": 0.0, "m3": 0.5, "m4": -0.2},
        "a+b": {"m1": 1.0, "m2": 0.4, "m3": 0.9, "m4": 0.2},
    }
    scores, machines = measured(FOUR, gains)
    arms = {(): "base", ("a",): "a", ("b",): "b", ("a", "b"): "a+b"}
    a, b, both = RatioTable(scores, machines).effects(arms)
    assert (a.verdict, b.verdict, both.verdict) == ("faster", "no difference found", "no difference found")
    assert math.log(a.ratio.estimate) == pytest.approx(0.4, abs=0.03)
    assert b.blocks == 16
    assert RatioTable(scores).effects(arms) == factor_effects(scores, arms)
    assert {one.factors: one.verdict for one in factor_effects(scores, arms)}["b",] == "faster"
