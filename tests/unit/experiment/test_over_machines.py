"""A series whose blocks ran on several machines."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from flushlab.experiment.protocol import Request
from flushlab.experiment.series import Series, SeriesPlan
from flushlab.record import Arm, Trial, Value

BASE: dict[str, Value] = {"steady": 0, "moody": 0}
ARMS = tuple(Arm(name=name, settings={**BASE, name: 1}) for name in BASE)
MOODY = {"m0": 0.7, "m1": 0.1, "m2": 0.6, "m3": -0.1}
SPEED = {"m0": 1.0, "m1": 0.5, "m2": 2.0, "m3": 1.2}


def on_machine_of_block(count: int) -> Callable[[Request], str]:
    return lambda request: f"m{request.block % count}"


def answer(request: Request, machine: str) -> Trial:
    draws = Random(f"{request.arm.name}/{request.stage}/{request.block}")
    settings = request.arm.settings
    gain = math.log(1.6) * bool(settings["steady"]) + MOODY.get(machine, 0.3) * bool(settings["moody"])
    return Trial(
        arm=request.arm,
        stage=request.stage,
        block=request.block,
        outcome="measured",
        result=1000 * SPEED.get(machine, 1.0) * math.exp(gain + draws.gauss(0, 0.02)),
        settings=settings,
        machine=machine,
    )


def done(machine_of: Callable[[Request], str], **changes: Any) -> tuple[Series, list[Trial]]:
    facts: dict[str, Any] = {"arms": ARMS, "blocks": 12, "seed": 3, **changes}
    series, told = Series(SeriesPlan(base=Arm(name="base", settings=BASE), **facts)), list[Trial]()
    while (request := series.ask()) is not None:
        told.append(answer(request, machine_of(request)))
        series.tell(told[-1])
    return series, told


def test_an_arm_that_gains_on_most_machines_is_proven_on_them_and_not_for_the_next() -> None:
    result = done(on_machine_of_block(4))[0].result()
    assert result.comparisons["steady"].verdict == "faster"
    assert result.comparisons["moody"].verdict == "no difference found"
    assert result.machines["moody"].unstable
    assert result.machines["moody"].better_on == ("m0", "m1", "m2")
    assert result.machines["moody"].slowest.machine == "m3"
    assert not result.machines["steady"].unstable
    assert result.machines["steady"].better_on == tuple(MOODY)


def test_on_one_machine_a_name_changes_nothing() -> None:
    named, unnamed = done(lambda _: "alone")[0].result(), done(lambda _: "")[0].result()
    assert named == unnamed
    assert named.machines == {}


def test_a_cell_of_another_machine_than_its_block_is_left_out() -> None:
    def stray(request: Request) -> str:
        lost = request.block == 5 and request.arm.name == "steady"
        return "m0" if lost else f"m{request.block % 4}"

    result = done(stray)[0].result()
    assert result.comparisons["steady"].blocks == 11
    assert result.comparisons["moody"].blocks == 12
    assert {one.machine: one.blocks for one in result.machines["steady"].ratios} == {
        "m0": 3,
        "m1": 2,
        "m2": 3,
        "m3": 3,
    }


def test_best_is_judged_over_the_machines_of_its_own_blocks() -> None:
    def compose(names: tuple[str, ...]) -> Arm:
        return Arm(name="best", settings=BASE | dict.fromkeys(names, 1))

    def machine_of(request: Request) -> str:
        return f"m{request.block % (2 if request.stage == 'best' else 4)}"

    result = done(machine_of, compose=compose)[0].result()
    assert result.best_of == ("steady",)
    assert [one.machine for one in result.machines["best"].ratios] == ["m0", "m1"]
    assert result.comparisons["best"].ratio.estimate == pytest.approx(1.6, rel=0.03)


def test_pairs_and_effects_are_over_machines_too() -> None:
    result = done(
        on_machine_of_block(4),
        pairs=(("moody", "steady"),),
        arms=(*ARMS, Arm(name="both", settings=dict.fromkeys(BASE, 1))),
        crossed={(): "base", ("s",): "steady", ("m",): "moody", ("s", "m"): "both"},
    )[0].result()
    assert result.pairs["moody", "steady"].verdict == "no difference found"
    assert [one.verdict for one in result.effects[:2]] == ["faster", "no difference found"]
