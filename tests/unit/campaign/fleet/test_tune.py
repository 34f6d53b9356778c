"""A tuning on machines that are threads: what selects, what confirms, and what is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from flushlab.campaign.fleet.machines import Task
from flushlab.experiment.protocol import Request
from flushlab.experiment.tune import Tune
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import Trial, Value
from flushlab.settings.floor import Floor
from flushlab.store import Store
from tests.unit.campaign.fleet.on_threads import Fleet
from tests.unit.experiment.test_tune import plan

GAIN: dict[tuple[str, Value], float] = {("flush", 2): math.log(1.6), ("a", 1): math.log(1.25)}
SPEED = {"one": 1.0, "two": 5.0, "three": 2.0, "four": 0.3}
SIDE_BY_SIDE: dict[str, Any] = {"side_by_side": 4}
FRESH: dict[str, Any] = {}
EITHER = pytest.mark.parametrize("how", [SIDE_BY_SIDE, FRESH], ids=["side by side", "fresh"])


def tuning(**changes: Any) -> Tune:
    return Tune(plan(floor=Floor.SECOND, budget_trials=300, spread=True, seed=3, **changes))


def measured(machine: str, request: Request) -> Trial:
    """A trial of known effects on a machine of its own speed; its noise depends on the cell alone."""
    draws = Random(f"{request.stage}/{request.block}/{request.arm.name}/{request.variant}")
    gain = sum(GAIN.get((name, value), 0.0) for name, value in request.arm.settings.items())
    return Trial(
        arm=request.arm,
        stage=request.stage,
        block=request.block,
        variant=request.variant,
        outcome="measured",
        result=1000 * SPEED[machine] * math.exp(gain + draws.gauss(0, 0.02)),
        settings=request.arm.settings,
        seconds={"window": 1.0},
    )


Make = Callable[..., Fleet]
SELECT = ("calibrate", "screen", "reduce")


@pytest.fixture
def fleet(store: Store) -> Make:
    return partial(Fleet, store, trial_of=measured)


def on(store: Store, *stages: str) -> set[str]:
    """The machines that ran blocks of these stages."""
    return {trial.machine for trial in store.trials("c") if trial.stage in stages}


def winner(tune: Tune) -> FrontierPoint:
    found = tune.result().winner
    assert found is not None
    return found


@EITHER
def test_machines_of_different_speed_find_what_one_machine_finds(fleet: Make, how: dict[str, Any]) -> None:
    together, alone = tuning(**how), tuning(**how)
    fleet(*SPEED).carry_out(together)
    while (request := alone.ask()) is not None:
        alone.tell(measured("one", request))
    for one in (winner(together), winner(alone)):
        assert {"flush": 2, "a": 1}.items() <= one.settings.items()
        assert one.ratio.low < 1.6 * 1.25 < one.ratio.high


@EITHER
def test_machines_that_selected_do_not_confirm_and_every_block_that_screens_holds_its_own_base(
    fleet: Make, store: Store, how: dict[str, Any]
) -> None:
    fleet(*SPEED).carry_out(tuning(**how))
    assert on(store, *SELECT) == {"one", "two"}
    assert on(store, "confirm") == {"three", "four"}
    screened = [trial for trial in store.trials("c") if trial.stage == "screen"]
    blocks = {(trial.block, trial.machine) for trial in screened}
    assert len(blocks) >= 2
    assert blocks == {(trial.block, trial.machine) for trial in screened if trial.arm.name == "base"}


def test_one_machine_selects_and_confirms(fleet: Make, store: Store) -> None:
    tune = tuning(**SIDE_BY_SIDE)
    fleet("one").carry_out(tune)
    assert winner(tune).settings["flush"] == 2
    assert on(store, *SELECT) == on(store, "confirm") == {"one"}


@pytest.mark.parametrize(("stage", "lost"), [("screen", "one"), ("confirm", "three")])
def test_a_lost_machine_costs_its_block_and_roles_stay_apart(
    fleet: Make, store: Store, stage: str, lost: str
) -> None:
    def before(machine: str, task: Task) -> None:
        if machine == lost and task.block.stage == stage:
            raise RuntimeError("the node died")

    four, tune = fleet(*SPEED, before=before), tuning(**SIDE_BY_SIDE)
    four.carry_out(tune)
    assert {"flush": 2, "a": 1}.items() <= winner(tune).settings.items()
    assert [line for line in four.said if f"machine {lost} is taken out" in line]
    assert not on(store, *SELECT) & on(store, "confirm")
    assert lost not in on(store, stage)


def test_where_all_that_could_confirm_are_lost_those_that_selected_do(fleet: Make, store: Store) -> None:
    def before(machine: str, task: Task) -> None:
        if machine == "two":
            raise RuntimeError("the node died")

    tune = tuning(**SIDE_BY_SIDE)
    fleet("one", "two", before=before).carry_out(tune)
    assert winner(tune).settings["flush"] == 2
    assert on(store, "confirm") == {"one"}


@EITHER
def test_a_resumed_tuning_keeps_apart_who_selected(fleet: Make, store: Store, how: dict[str, Any]) -> None:
    fleet("three", "four", "one", "two").carry_out(tuning(**how), trials=20)
    assert on(store, "confirm") == set()
    tune = tuning(**how)
    fleet(*SPEED).carry_out(tune)
    assert {"flush": 2, "a": 1}.items() <= winner(tune).settings.items()
    assert on(store, *SELECT) == {"three", "four"}
    assert on(store, "confirm") == {"one", "two"}
