"""Tuning of settings that are below the floor: the base is what raises them, and they stay the reference."""

from __future__ import annotations

import pytest

from flushlab.experiment.blocks import YOURS
from flushlab.experiment.simulated import run_to_end
from flushlab.experiment.tune import Tune
from flushlab.record import Trial, Value
from flushlab.settings.floor import Floor
from tests.unit.experiment.test_tune import BASE, effect, plan, simulated

MINE: dict[str, Value] = {**BASE, "flush": 2}


def tuned(a: float = 1.0, **changes: object) -> tuple[Tune, list[Trial]]:
    """Settings with flush=2, raised to strict, which makes them half as fast."""
    tune, told = Tune(plan(floor=Floor.STRICT, yours=MINE, **changes)), list[Trial]()
    server = simulated(effect(flush2=2.0, a=a))
    while (request := tune.ask()) is not None:
        told.append(server.run(request))
        tune.tell(told[-1])
    return tune, told


@pytest.mark.parametrize("side_by_side", [0, 2, 8])
def test_what_meeting_the_floor_costs_is_measured_where_nothing_else_is_found(side_by_side: int) -> None:
    budget = {} if side_by_side == 0 else {"budget_trials": 400}
    result = tuned(side_by_side=side_by_side, **budget)[0].result()
    (strict,) = result.frontier
    assert (strict.floor, strict.arm, result.winner) == (Floor.STRICT, "base", None)
    assert result.yours is not None and result.yours.verdict == "faster"
    cost = strict.versus_yours
    assert cost == result.yours.ratio.inverse()
    assert cost is not None and cost.low < 0.5 < cost.high < 0.6


@pytest.mark.parametrize("side_by_side", [0, 2])
def test_a_gain_is_told_against_both_the_raised_settings_and_the_users_own(side_by_side: int) -> None:
    budget = {} if side_by_side == 0 else {"budget_trials": 400}
    winner = tuned(a=1.25, side_by_side=side_by_side, **budget)[0].result().winner
    assert winner is not None and winner.settings == {"a": 1}
    assert winner.ratio.low < 1.25 < winner.ratio.high
    assert winner.versus_yours is not None
    assert winner.versus_yours.low < 0.625 < winner.versus_yours.high < 0.75


def test_settings_below_the_floor_run_in_confirmation_only_and_never_win() -> None:
    tune, told = tuned(a=1.25)
    below = {(trial.stage, trial.arm.name) for trial in told if trial.arm.settings["flush"] != 1}
    assert below == {("confirm", YOURS)}
    result = tune.result()
    assert YOURS not in {point.arm for point in result.frontier}
    assert tune.least_trials > Tune(plan(floor=Floor.STRICT)).least_trials, "they are budgeted for"


def test_a_base_is_not_the_row_of_a_floor_that_it_does_not_meet() -> None:
    """`b` is what makes it strict, and gains nothing: nothing was proven at strict."""

    def level_of(settings: object) -> Floor:
        assert isinstance(settings, dict)
        return Floor.STRICT if settings["b"] else Floor.SECOND

    tune = Tune(plan(level_of=level_of, budget_trials=90))
    run_to_end(tune, simulated(effect(b=0.7)))
    assert [point.floor for point in tune.result().frontier] == [Floor.SECOND]


@pytest.mark.parametrize("side_by_side", [0, 2])
def test_an_offer_below_the_floor_takes_the_same_trials_as_a_winner_there(side_by_side: int) -> None:
    def asked(**floors: Floor) -> tuple[Tune, list[object]]:
        changes: dict[str, object] = {"side_by_side": side_by_side, "budget_trials": 400, **floors}
        tune, requests = Tune(plan(**changes)), list[object]()
        server = simulated(effect(flush2=1.4, a=1.2))
        while (request := tune.ask()) is not None:
            requests.append(request)
            tune.tell(server.run(request))
        return tune, requests

    lower, trials = asked(floor=Floor.SECOND)
    safe, same_trials = asked(floor=Floor.STRICT, lowest=Floor.SECOND)
    assert same_trials == trials
    strict, second = safe.result().frontier
    assert lower.result().frontier == (strict, second)
    assert (safe.result().winner, safe.result().offers) == (strict, (second,))
    assert (lower.result().winner, lower.result().offers) == (second, ())


def test_nothing_runs_below_the_lowest_floor_and_no_winner_is_below_the_floor() -> None:
    tune = Tune(plan(floor=Floor.STRICT, lowest=Floor.SECOND))
    server, ran = simulated(effect(flush2=1.5, flush0=2.0)), set[Value]()
    while (request := tune.ask()) is not None:
        ran.add(request.arm.settings["flush"])
        tune.tell(server.run(request))
    assert ran == {1, 2}, "flush=0 is below the lowest floor"
    assert tune.result().winner is None
    (offer,) = tune.result().offers
    assert (offer.floor, offer.settings) == (Floor.SECOND, {"flush": 2})
    strict = Tune(plan(floor=Floor.STRICT))
    while (request := strict.ask()) is not None:
        assert request.arm.settings["flush"] == 1, (
            "without a lower floor to offer, nothing is below the floor"
        )
        strict.tell(server.run(request))


def test_an_offer_that_gains_no_more_than_the_winner_is_none() -> None:
    tune = Tune(plan(floor=Floor.STRICT, lowest=Floor.SECOND, budget_trials=120))
    run_to_end(tune, simulated(effect(flush2=1.0, a=1.4)))
    result = tune.result()
    assert result.winner is not None and result.winner.settings == {"a": 1}
    assert result.offers == ()


def test_a_rejected_offer_leaves_the_winner() -> None:
    tune = Tune(plan(floor=Floor.STRICT, lowest=Floor.SECOND, budget_trials=150))
    run_to_end(tune, simulated(effect(flush2=1.5, a=1.3)))
    winner, offer = tune.result().proposed
    tune.reject(offer.arm, "it does not start again")
    assert tune.result().proposed == (winner,)
