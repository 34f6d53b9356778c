"""Tuning on servers kept running: the same planner, with many short blocks of few servers."""

from __future__ import annotations

import re

import pytest

from flushlab.errors import BudgetTooSmall
from flushlab.experiment.simulated import run_to_end
from flushlab.experiment.tune import Tune
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import Trial
from flushlab.settings.floor import Floor
from tests.unit.experiment.test_tune import effect, plan, simulated


def tuned(
    *,
    side_by_side: int,
    seed: int = 1,
    noise: float = 0.05,
    budget_s: float = 300.0,
    floor: Floor = Floor.SECOND,
) -> tuple[Tune, list[Trial]]:
    asked = plan(
        budget_trials=None,
        budget_s=budget_s,
        floor=floor,
        side_by_side=side_by_side,
        startup_s=3.0,
        trial_s=1.2,
        seed=seed,
    )
    tune, told = Tune(asked), list[Trial]()
    server = simulated(effect(flush2=1.6, a=1.25), noise=noise, seed=seed, trial_s=1.2, startup_s=3.0)
    while (request := tune.ask()) is not None:
        assert len(request.beside) <= side_by_side
        told.append(server.run(request))
        tune.tell(told[-1])
    assert server.spent_s <= budget_s
    return tune, told


def winner(tune: Tune) -> FrontierPoint:
    found = tune.result().winner
    assert found is not None
    return found


@pytest.mark.parametrize("side_by_side", [2, 3, 8])
def test_as_many_servers_run_as_there_is_room_for_and_the_same_is_found(side_by_side: int) -> None:
    tune, told = tuned(side_by_side=side_by_side, budget_s=330.0 if side_by_side == 2 else 300.0)
    assert winner(tune).settings["flush"] == 2
    assert winner(tune).ratio.low < 1.6 * 1.25 * 1.01
    assert winner(tune).ratio.high > 1.6 * 0.99
    control = tune.result().control
    assert control is not None and control.verdict == "no difference found"
    confirmed = {trial.arm.name for trial in told if trial.stage == "confirm"}
    assert {"base", "control", winner(tune).arm} <= confirmed


def test_what_may_be_bought_is_tried_in_groups_too_where_few_servers_fit() -> None:
    _, told = tuned(side_by_side=2, budget_s=600.0, floor=Floor.RELAXED)
    assert {"flush=2", "flush=0"} <= {trial.arm.name for trial in told if trial.stage == "screen"}


def test_every_block_that_chooses_or_proves_has_the_base_in_it() -> None:
    _, told = tuned(side_by_side=3)
    for stage in ("screen", "confirm"):
        blocks = {trial.block for trial in told if trial.stage == stage}
        assert blocks == {trial.block for trial in told if trial.stage == stage and trial.arm.name == "base"}


def test_a_setting_bought_in_a_duel_wins_over_a_free_one_of_another_duel() -> None:
    """They never ran in the same block: what is known of both is their ratio to the base."""
    tune, _ = tuned(side_by_side=2, budget_s=330.0)
    strict, second = tune.result().frontier
    assert strict.settings == {"a": 1}
    assert {"flush": 2, "a": 1}.items() <= second.settings.items()
    assert second.versus_safer is not None
    assert second.versus_safer.ratio.low < 1.6 < second.versus_safer.ratio.high


@pytest.mark.parametrize("floor", [Floor.SECOND, Floor.RELAXED])
def test_the_smallest_budget_that_is_accepted_is_enough_for_the_last_group(floor: Floor) -> None:
    facts = {"floor": floor, "side_by_side": 2, "startup_s": 3.0, "trial_s": 1.2, "seed": 1}
    with pytest.raises(BudgetTooSmall) as refused:
        Tune(plan(budget_trials=1, **facts)).ask()
    (least,) = map(int, re.findall(r"need at least (\d+)", refused.value.message))
    tune = Tune(plan(budget_trials=least, **facts))
    trials = run_to_end(tune, simulated(effect(flush2=1.6, flush0=2.0, a=1.25), noise=0.05, seed=1))
    assert trials <= least
    assert tune.result().frontier[-1].free_ratio is not None, "the free part is confirmed too"


def test_what_is_clear_ends_before_the_budget_does_with_a_narrow_interval() -> None:
    tune, told = tuned(side_by_side=8, noise=0.02)
    assert winner(tune).ratio.half_width <= 0.06
    assert sum(trial.spent_s for trial in told) < 240


def test_a_machine_that_gets_busy_is_measured_for_longer() -> None:
    (_, calm), (_, busy) = (tuned(side_by_side=8, noise=noise) for noise in (0.03, 0.2))
    assert sum(t.stage == "confirm" for t in calm) < sum(t.stage == "confirm" for t in busy)


def test_an_arm_that_is_proven_to_buy_nothing_gets_no_more_blocks() -> None:
    tune, told = tuned(side_by_side=8, noise=0.01, budget_s=420.0, floor=Floor.RELAXED)
    blocks = dict.fromkeys((trial.arm.name for trial in told), 0)
    for trial in told:
        blocks[trial.arm.name] += trial.stage == "confirm"
    assert all(
        blocks[one.arm] <= blocks[winner(tune).arm] for one in tune.result().confirmed if one.arm != "control"
    )


def test_it_goes_on_from_its_records_wherever_it_was_killed() -> None:
    tune, told = tuned(side_by_side=4)
    stages = [trial.stage for trial in told]
    for killed in [stages.index(stage) + 5 for stage in ("screen", "reduce", "confirm")]:
        again = Tune(tune._plan)
        for trial in told[:killed]:
            again.tell(trial)
        due = again.ask()
        assert due is not None
        assert (due.stage, due.block, due.arm) == (told[killed].stage, told[killed].block, told[killed].arm)


def test_servers_that_are_slow_to_start_are_in_the_budget() -> None:
    asked = plan(budget_trials=None, budget_s=300.0, side_by_side=8, startup_s=20.0, trial_s=1.2)
    with pytest.raises(BudgetTooSmall, match=r"--minutes 5 is too short"):
        Tune(asked)


def test_a_refused_setting_is_found_among_mixtures_that_run_side_by_side() -> None:
    tune = Tune(plan(budget_trials=200, side_by_side=8))
    run_to_end(
        tune,
        simulated(effect(flush2=1.3, a=1.25), refuses=lambda s: "unknown variable 'b'" if s["b"] else None),
    )
    refused = [one for one in tune.result().excluded if one.refused]
    assert [dict(one.settings) for one in refused] == [{"b": 1}]
    assert {"flush": 2, "a": 1}.items() <= winner(tune).settings.items()
