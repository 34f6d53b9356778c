"""Blocks that are run ahead, as machines of a fleet do, against the same experiment trial by trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from flushlab.experiment.blocks import run_block
from flushlab.experiment.protocol import BlockAhead, Experiment, Request
from flushlab.experiment.series import RoundGroup, Series, SeriesPlan
from flushlab.experiment.tune import Tune, TunePlan
from flushlab.record import Arm, Trial, Value
from flushlab.settings.candidates import Candidate
from flushlab.settings.floor import Floor

Answer = Callable[[Request, int], Trial]

BASE: dict[str, Value] = {"a": 0, "b": 0, "c": 0}
GAIN = {"a": math.log(1.5), "b": math.log(1.2), "c": 0.0}


def arm(name: str) -> Arm:
    return Arm(name=name, settings={**BASE, name: 1})


def answer(request: Request, attempt: int) -> Trial:
    """The same trial wherever and whenever it runs; some are discarded once."""
    draws = Random(f"{request.arm.name}/{request.stage}/{request.block}/{request.variant}/{attempt}")
    settings = request.arm.settings
    gain = sum(GAIN.get(name, 0.0) for name, value in settings.items() if value)
    is_discarded = draws.random() < 0.1
    return Trial(
        arm=request.arm,
        stage=request.stage,
        block=request.block,
        variant=request.variant,
        outcome="discarded" if is_discarded else "measured",
        reason="other load" if is_discarded else "",
        result=1000 * math.exp(gain + draws.gauss(0, 0.02)),
        settings=settings,
        seconds={"window": 10.0},
    )


def refusing_c_later(request: Request, attempt: int) -> Trial:
    trial = answer(request, attempt)
    if request.arm.name != "c" or request.block < 2:
        return trial
    return Trial(arm=trial.arm, stage=trial.stage, block=trial.block, outcome="refused", reason="unknown")


def run_one_block(block: BlockAhead, answered: Answer) -> list[Trial]:
    """The trials that a machine delivers."""
    steps, delivered = run_block(block), list[Trial]()
    try:
        request = next(steps)
        while True:
            attempt = sum((t.arm, t.variant) == (request.arm, request.variant) for t in delivered)
            delivered.append(answered(request, attempt))
            request = steps.send(delivered[-1])
    except StopIteration:
        return delivered


def trial_by_trial(experiment: Experiment[Trial], answered: Answer) -> list[tuple[Request, Trial]]:
    told: list[tuple[Request, Trial]] = []
    while (request := experiment.ask()) is not None:
        attempt = sum(
            (t.arm, t.stage, t.block, t.variant)
            == (request.arm, request.stage, request.block, request.variant)
            for _, t in told
        )
        told.append((request, answered(request, attempt)))
        experiment.tell(told[-1][1])
    return told


def called(block: BlockAhead) -> str:
    """Rounds of a screening have other arms under one number."""
    return f"{block.stage}/{block.block}" + (str(block.arms) if block.stage == "screen" else "")


def is_of(trial: Trial, request: Request) -> bool:
    return (trial.arm, trial.variant) == (request.arm, request.variant)


def by_blocks_ahead(
    experiment: Experiment[Trial], answered: Answer, most: int
) -> tuple[list[tuple[Request, Trial]], list[tuple[str, int]]]:
    """What was told, and stage and number of blocks known whenever trials were missing."""
    told: list[tuple[Request, Trial]] = []
    known: list[tuple[str, int]] = []
    arrived: dict[str, list[Trial]] = {}
    while (request := experiment.ask()) is not None:
        ahead = experiment.ahead(most)
        assert (ahead[0].stage, ahead[0].block) == (request.stage, request.block), "the first is due"
        assert request.arm in ahead[0].arms
        if not any(is_of(t, request) for t in arrived.get(called(ahead[0]), ())):
            known.append((request.stage, len(ahead)))
            for block in reversed(ahead):  # they arrive in any order
                arrived.setdefault(called(block), run_one_block(block, answered))
        trials = arrived[called(ahead[0])]
        trial = next(t for t in trials if is_of(t, request))
        trials.remove(trial)
        told.append((request, trial))
        experiment.tell(trial)
    assert experiment.ahead(most) == ()
    return told, known


def series(**changes: Any) -> Series:
    def compose(names: tuple[str, ...]) -> Arm:
        return Arm(name="best", settings=BASE | dict.fromkeys(names, 1))

    facts: dict[str, Any] = {"arms": tuple(map(arm, "abc")), "compose": compose, "blocks": 6, "seed": 3}
    return Series(SeriesPlan(base=Arm(name="base", settings=BASE), **facts | changes))


def test_a_series_run_in_blocks_ahead_is_the_series_run_trial_by_trial() -> None:
    one = trial_by_trial(series(), answer)
    ahead, known = by_blocks_ahead(series(), answer, 4)
    assert ahead == one
    assert [count for _, count in known] == [4, 2, 4, 2], (
        "6 blocks of the arms, then 6 of `best`, which is not known before"
    )


def test_groups_of_a_series_are_known_ahead_one_after_the_other() -> None:
    def grouped() -> Series:
        return series(groups=(RoundGroup(arms=("a", "c"), blocks=4), RoundGroup(arms=("b",), blocks=3)))

    one = trial_by_trial(grouped(), answer)
    ahead, known = by_blocks_ahead(grouped(), answer, 32)
    assert ahead == one
    assert known == [("arms", 7), ("best", 3)]
    blocks = grouped().ahead(32)
    assert [(b.block, {a.name for a in b.arms} - {"base", "control"}) for b in blocks[3:5]] == [
        (3, {"a", "c"}),
        (4, {"b"}),
    ]
    assert [b.patient for b in blocks] == [
        (),
        *[("base", "control")] * 3,
        (),
        *[("base", "control")] * 2,
    ], "in a group's first block, a base that fails ends the series at once"


def test_an_arm_that_drops_out_leaves_trials_of_blocks_ahead_unused() -> None:
    one = trial_by_trial(series(), refusing_c_later)
    ahead, _ = by_blocks_ahead(series(), refusing_c_later, 6)
    assert ahead == one
    assert sum(request.arm.name == "c" for request, _ in ahead) == 3


def test_an_arm_that_settles_early_leaves_trials_of_blocks_ahead_unused() -> None:
    def early() -> Series:
        return series(interim=True, precision=0.05, blocks=12)

    one = trial_by_trial(early(), answer)
    assert by_blocks_ahead(early(), answer, 12)[0] == one
    assert sum(request.stage == "arms" for request, _ in one) < 12 * 5, "arms have left"


def tune() -> Tune:
    def level_of(_: Mapping[str, Value]) -> Floor:
        return Floor.STRICT

    candidates = tuple(Candidate(settings={name: 1}, group="commit", why="test") for name in BASE)
    return Tune(
        TunePlan(
            base=BASE,
            candidates=candidates,
            floor=Floor.STRICT,
            level_of=level_of,
            is_free=lambda _: True,
            budget_trials=80,
            variants=2,
            seed=1,
        )
    )


def test_the_confirmation_of_tune_is_known_ahead_and_its_screening_block_by_block() -> None:
    one = trial_by_trial(tune(), answer)
    ahead, known = by_blocks_ahead(tune(), answer, 4)
    assert ahead == one
    assert {stage for stage, count in known if count == 1} == {"calibrate", "screen"}
    assert next(count for stage, count in known if stage == "confirm") == 4
    assert next(count for stage, count in known if stage == "reduce") > 1
