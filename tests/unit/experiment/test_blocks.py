from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec
import pytest

from flushlab.errors import UsageError
from flushlab.experiment.blocks import Blocks, run_block
from flushlab.experiment.protocol import BlockAhead, Conversation, Request
from flushlab.experiment.simulated import Noise, SimulatedTrials
from flushlab.record import Arm, Comparison, LoadResult, Trial
from flushlab.record.trial import Outcome
from flushlab.statistics import compare

BASE = Arm(name="base", settings={"x": 0})
FAST = Arm(name="fast", settings={"x": 1})


def simulated(seed: int = 1, **changes: Any) -> SimulatedTrials:
    facts: dict[str, Any] = {"noise": Noise(trial=0.02), "seed": seed, **changes}
    return SimulatedTrials(lambda s: math.log(1.5) * float(s["x"]), BASE.settings, **facts)


class Driven(Conversation):
    """Blocks by themselves."""

    def __init__(self, *arms: Arm, blocks: int, seed: int = 0) -> None:
        self.blocks = Blocks(BASE, arms, blocks=blocks, stage="bench", seed=seed)
        super().__init__(self.blocks.steps())

    def result(self) -> tuple[Comparison, ...]:
        return compare(self.blocks.table().scores, BASE.name)


def drive(blocks: Driven, trials: SimulatedTrials) -> None:
    while (request := blocks.ask()) is not None:
        blocks.tell(trials.run(request))


def collect(blocks: Driven, trials: SimulatedTrials) -> list[Request]:
    asked = []
    while (request := blocks.ask()) is not None:
        asked.append(request)
        blocks.tell(trials.run(request))
    return asked


def test_a_request_names_the_arms_that_are_due_beside_it() -> None:
    blocks = Driven(FAST, blocks=2)
    besides = []
    while (request := blocks.ask()) is not None:
        assert request.beside[0] == request.arm
        besides.append({arm.name for arm in request.beside})
        blocks.tell(answer(request, "refused" if request.arm == FAST else "measured"))
    assert besides[0] == {"base", "control", "fast"}
    assert [len(names) for names in besides] == [3, 2, 1, 2, 1], "an arm that is out is due no more"


def answer(request: Request, outcome: Outcome, reason: str = "") -> Trial:
    return Trial(
        arm=request.arm,
        stage=request.stage,
        block=request.block,
        variant=request.variant,
        outcome=outcome,
        reason=reason,
        result=100.0 if outcome == "measured" else None,
    )


def test_an_arm_that_committed_nothing_in_a_block_has_a_ratio_and_spoils_no_other() -> None:
    blocks, trials = Driven(FAST, Arm(name="slow", settings={"x": 0}), blocks=5), simulated()
    nothing = LoadResult(seconds=8.0, events=0, throughput=0.0, per_second=(), latency_us=None).stalled()
    while (request := blocks.ask()) is not None:
        trial = trials.run(request)
        if request.arm.name == "slow" and request.block == 2:
            trial = msgspec.structs.replace(trial, result=nothing.throughput, load=nothing)
        blocks.tell(trial)
    assert blocks.blocks.sheet.stalled == {"slow"}
    found = {
        c.arm: c for c in compare(blocks.blocks.table().scores, "base", apart=blocks.blocks.sheet.stalled)
    }
    assert found["fast"].verdict == "faster"
    assert found["slow"].ratio.estimate == pytest.approx(0.8, rel=0.1)
    assert found["slow"].verdict == "no difference found"


@pytest.mark.parametrize(("starved", "out"), [(2, False), (3, True)])
def test_a_server_that_found_too_little_memory_is_started_again_before_its_arm_is_out(
    starved: int, out: bool
) -> None:
    blocks, left = Driven(FAST, blocks=2), starved
    while (request := blocks.ask()) is not None:
        trial = answer(request, "measured")
        if request.arm == FAST and left:
            left -= 1
            failed = answer(request, "failed", "the memory was full")
            trial = msgspec.structs.replace(failed, lacked_memory=True)
        blocks.tell(trial)
    assert (blocks.blocks.out == {"fast": "failed: the memory was full"}) is out
    assert len(blocks.blocks.table().scores.get("fast", {})) == (0 if out else 2)


def test_every_block_runs_base_control_and_arms_once_in_varying_order() -> None:
    asked = collect(Driven(FAST, blocks=8, seed=3), simulated())
    orders = [tuple(r.arm.name for r in asked if r.block == block) for block in range(8)]
    assert all(sorted(order) == ["base", "control", "fast"] for order in orders)
    assert len(set(orders)) > 2


def test_a_real_gain_is_found_and_the_control_shows_none() -> None:
    blocks = Driven(FAST, blocks=5)
    drive(blocks, simulated())
    found = {c.arm: c for c in blocks.result()}
    assert found["fast"].verdict == "faster"
    assert found["fast"].ratio.low < 1.5 < found["fast"].ratio.high
    assert found["control"].verdict == "no difference found"


def test_seconds_are_better_when_fewer() -> None:
    blocks = Driven(FAST, blocks=3)
    trials = simulated()
    while (request := blocks.ask()) is not None:
        trial = trials.run(request)
        blocks.tell(msgspec.structs.replace(trial, unit="s", higher_is_better=False))
    found = {c.arm: c for c in blocks.result()}
    assert found["fast"].verdict == "slower"
    assert found["fast"].ratio.estimate == pytest.approx(1 / 1.5, rel=0.1)


def test_variants_run_once_each_in_a_block() -> None:
    steps = run_block(BlockAhead(stage="bench", block=0, arms=(BASE, FAST), variants=2))
    asked: Counter[tuple[str, int]] = Counter()
    request = next(steps)
    with pytest.raises(StopIteration) as ended:
        while True:
            asked[request.arm.name, request.variant] += 1
            request = steps.send(answer(request, "measured"))
    assert set(asked) == {(name, variant) for name in ("base", "fast") for variant in (0, 1)}
    assert set(asked.values()) == {1}
    assert [trial.variant for trial in ended.value.value.measured["fast"]] == [0, 1]


def test_a_discarded_trial_is_repeated_in_its_block() -> None:
    blocks = Driven(FAST, blocks=2)
    first = blocks.ask()
    assert first is not None
    blocks.tell(answer(first, "discarded", "steal"))
    rest = collect(blocks, simulated())
    assert [r.arm.name for r in rest if r.block == 0].count(first.arm.name) == 1
    assert [r.arm.name for r in rest if r.block == 0][-1] == first.arm.name
    assert all(c.blocks == 2 for c in blocks.result())


def disturb(blocks: Driven, which: set[int]) -> list[float]:
    """Drives blocks, in some of which the fast arm is disturbed every time; its disturbed figures."""
    trials = simulated()
    lost = []
    while (request := blocks.ask()) is not None:
        trial = trials.run(request)
        if request.arm.name == "fast" and request.block in which:
            assert trial.result is not None
            lost.append(trial.result / 4)
            trial = msgspec.structs.replace(trial, outcome="discarded", result=lost[-1])
        blocks.tell(trial)
    return lost


def test_a_cell_that_is_disturbed_again_is_left_out_where_enough_is_left() -> None:
    blocks = Driven(FAST, blocks=4)
    assert len(disturb(blocks, {1})) == 2
    found = {c.arm: c for c in blocks.result()}
    assert {name: one.blocks for name, one in found.items()} == {"control": 4, "fast": 3}
    assert found["fast"].ratio.low < 1.5 < found["fast"].ratio.high
    assert found["fast"].verdict == "faster"


def test_where_too_little_is_left_disturbed_cells_count_with_the_mean_of_their_attempts() -> None:
    blocks = Driven(FAST, blocks=4)
    lost = disturb(blocks, {1, 2})
    assert {c.arm: c.blocks for c in blocks.result()} == {"control": 4, "fast": 4}
    assert blocks.blocks.table().scores["fast"][1] == pytest.approx(math.log(lost[0] * lost[1]) / 2)


def test_a_discarded_cell_without_a_figure_stays_empty_and_the_rest_goes_on() -> None:
    blocks = Driven(FAST, blocks=4)
    while (request := blocks.ask()) is not None:
        discarded = request.arm.name == "fast" and request.block == 1
        blocks.tell(answer(request, "discarded" if discarded else "measured"))
    assert {c.arm: c.blocks for c in blocks.result()} == {"control": 4, "fast": 3}


def test_a_refused_arm_is_out_with_its_reason() -> None:
    blocks = Driven(FAST, blocks=3)
    drive(blocks, simulated(refuses=lambda s: "unknown variable 'x=1'" if s["x"] else None))
    assert blocks.blocks.out == {"fast": "refused: unknown variable 'x=1'"}
    assert [c.arm for c in blocks.result()] == ["control"]


def test_a_base_that_keeps_failing_ends_the_comparison() -> None:
    blocks = Driven(FAST, blocks=3)
    while (request := blocks.ask()) is not None:
        blocks.tell(answer(request, "failed" if request.arm.name == "base" else "measured", "died"))
        assert request.block == 0
    assert "base" in blocks.blocks.out


def test_stored_trials_told_again_lead_to_the_same_next_request() -> None:
    first, trials, stored = Driven(FAST, blocks=4, seed=9), simulated(), []
    for _ in range(7):
        request = first.ask()
        assert request is not None
        stored.append(trials.run(request))
        first.tell(stored[-1])
    second = Driven(FAST, blocks=4, seed=9)
    for trial in stored:
        second.tell(trial)
    assert second.ask() == first.ask()
    assert second.trials == first.trials


def test_a_trial_that_is_not_due_is_refused() -> None:
    blocks = Driven(blocks=2)
    stranger = Trial(arm=FAST, stage="bench", block=0, outcome="measured", result=1.0)
    with pytest.raises(UsageError, match="does not belong here"):
        blocks.tell(stranger)
