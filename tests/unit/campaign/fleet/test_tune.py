"""A tuning on machines that are threads: what selects, what confirms, and what is found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flushlab.campaign import Budget, Watcher, run
from flushlab.campaign.fleet.machines import Opening, Task
from flushlab.campaign.fleet.runner import Arrivals, FleetRunner
from flushlab.campaign.fleet.worker import trials_of
from flushlab.experiment.protocol import Request
from flushlab.experiment.tune import Tune
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import Trial, Value
from flushlab.settings.floor import Floor
from flushlab.store import Store
from tests.fakes.machines import ThreadMachines
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


class Fleet:
    """A tuning on machines that are threads."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path / "store.sqlite")
        self.store.create_campaign("c", "tune", b"{}")
        self.said = list[str]()
        self.machines = ThreadMachines((), lambda *_: ())

    def carry_out(
        self,
        names: Sequence[str],
        *,
        on_machine: Callable[[str, Task], None] = lambda machine, task: None,
        most: int = 10_000,
        **changes: Any,
    ) -> Tune:
        """Runs the tuning, from its records on, until its end or so many trials."""

        def block(machine: str, task: Task) -> Sequence[Trial]:
            on_machine(machine, task)
            return trials_of(task, lambda request: measured(machine, request))

        experiment = tuning(**changes)
        self.machines = ThreadMachines(names, block)
        runner = FleetRunner(
            machines=self.machines,
            names=self.machines.open(Opening(lambda *_: pytest.fail("opened"))),
            ahead=experiment.ahead,
            arrivals=Arrivals(self.store, "c"),
            watcher=Watcher(self.said.append),
        )
        run(
            experiment,
            runner.run,
            known=self.store.trials,
            store=self.store,
            campaign_id="c",
            budget=Budget(trials=most),
            watcher=Watcher(),
        )
        return experiment

    def on(self, *stages: str) -> set[str]:
        """The machines that ran blocks of these stages."""
        return {trial.machine for trial in self.store.trials("c") if trial.stage in stages}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.store.close()


def winner(tune: Tune) -> FrontierPoint:
    found = tune.result().winner
    assert found is not None
    return found


SELECT = ("calibrate", "screen", "reduce")


@EITHER
def test_machines_of_different_speed_find_what_one_machine_finds(fleet: Fleet, how: dict[str, Any]) -> None:
    found = winner(fleet.carry_out(["one", "two", "three", "four"], **how))
    alone = tuning(**how)
    while (request := alone.ask()) is not None:
        alone.tell(measured("one", request))
    for one in (found, winner(alone)):
        assert {"flush": 2, "a": 1}.items() <= one.settings.items()
        assert one.ratio.low < 1.6 * 1.25 < one.ratio.high


@EITHER
def test_machines_that_selected_do_not_confirm_and_every_block_that_screens_holds_its_own_base(
    fleet: Fleet, how: dict[str, Any]
) -> None:
    fleet.carry_out(["one", "two", "three", "four"], **how)
    assert fleet.on(*SELECT) == {"one", "two"}
    assert fleet.on("confirm") == {"three", "four"}
    screened = [trial for trial in fleet.store.trials("c") if trial.stage == "screen"]
    blocks = {(trial.block, trial.machine) for trial in screened}
    assert len(blocks) >= 2
    assert blocks == {(trial.block, trial.machine) for trial in screened if trial.arm.name == "base"}


def test_one_machine_selects_and_confirms(fleet: Fleet) -> None:
    tune = fleet.carry_out(["one"], **SIDE_BY_SIDE)
    assert winner(tune).settings["flush"] == 2
    assert fleet.on(*SELECT) == fleet.on("confirm") == {"one"}


@pytest.mark.parametrize(("stage", "lost"), [("screen", "one"), ("confirm", "three")])
def test_a_lost_machine_costs_its_block_and_roles_stay_apart(fleet: Fleet, stage: str, lost: str) -> None:
    def on_machine(machine: str, task: Task) -> None:
        if machine == lost and task.block.stage == stage:
            raise RuntimeError("the node died")

    tune = fleet.carry_out(["one", "two", "three", "four"], on_machine=on_machine, **SIDE_BY_SIDE)
    assert {"flush": 2, "a": 1}.items() <= winner(tune).settings.items()
    assert [line for line in fleet.said if f"machine {lost} is taken out" in line]
    assert not fleet.on(*SELECT) & fleet.on("confirm")
    assert lost not in fleet.on(stage)


def test_where_all_that_could_confirm_are_lost_those_that_selected_do(fleet: Fleet) -> None:
    def on_machine(machine: str, task: Task) -> None:
        if machine == "two":
            raise RuntimeError("the node died")

    tune = fleet.carry_out(["one", "two"], on_machine=on_machine, **SIDE_BY_SIDE)
    assert winner(tune).settings["flush"] == 2
    assert fleet.on("confirm") == {"one"}


@EITHER
def test_a_resumed_tuning_keeps_apart_who_selected(fleet: Fleet, how: dict[str, Any]) -> None:
    fleet.carry_out(["three", "four", "one", "two"], most=20, **how)
    assert fleet.on("confirm") == set()
    tune = fleet.carry_out(["one", "two", "three", "four"], **how)
    assert {"flush": 2, "a": 1}.items() <= winner(tune).settings.items()
    assert fleet.on(*SELECT) == {"three", "four"}
    assert fleet.on("confirm") == {"one", "two"}
