from __future__ import annotations

from typing import Any

import pytest

from flushlab.campaign.claims import answer, answered, counted_answer
from flushlab.plan.plan import Claim
from flushlab.record import Arm, FileActivity, LoadResult, Ratio, Trial


def interval(low: float, high: float) -> Ratio:
    return Ratio(estimate=(low * high) ** 0.5, low=low, high=high)


def claim(**wanted: Any) -> Claim:
    return Claim(text="it helps", arm="A", **wanted)


@pytest.mark.parametrize(
    ("wanted", "low", "high", "expected"),
    [
        ({"expected": 3.3}, 3.0, 3.5, "confirmed"),
        ({"expected": 3.3}, 2.0, 3.2, "refuted"),
        ({"expected": 3.3}, 3.4, 4.0, "refuted"),
        ({"expected": 1.1}, 0.9, 1.2, "undecided"),
        ({"expected": 0.5}, 0.4, 0.6, "confirmed"),
        ({"expected": 1.0}, 0.96, 1.04, "confirmed"),
        ({"expected": 1.0}, 0.90, 1.04, "undecided"),
        ({"expected": 1.0}, 0.96, 1.06, "undecided"),
        ({"expected": 1.0}, 1.01, 1.04, "refuted"),
        ({"at_least": 2.0}, 2.1, 3.0, "confirmed"),
        ({"at_least": 2.0}, 1.9, 3.0, "undecided"),
        ({"at_least": 2.0}, 1.0, 1.9, "refuted"),
        ({"at_most": 1.0}, 0.8, 0.9, "confirmed"),
        ({"at_most": 1.0}, 0.8, 1.1, "undecided"),
        ({"at_most": 1.0}, 1.05, 1.1, "refuted"),
        ({"at_least": 1.0}, 0.98, 1.02, "no difference"),
        ({"at_most": 1.0}, 0.98, 1.02, "no difference"),
        ({"at_least": 1.0}, 0.98, 1.03, "undecided"),
        ({"at_least": 1.0}, 0.97, 1.02, "undecided"),
        ({"at_least": 1.0}, 1.00, 1.02, "confirmed"),
        ({"at_most": 1.0}, 1.001, 1.02, "refuted"),
        ({"at_least": 1.01}, 0.98, 1.02, "undecided"),
    ],
)
def test_an_interval_answers_a_claim(
    wanted: dict[str, float], low: float, high: float, expected: str
) -> None:
    assert answer(claim(**wanted), interval(low, high)) == expected


def test_without_a_figure_there_is_no_answer() -> None:
    assert answer(claim(expected=2.0), None) == "not measured"


def test_the_claim_is_told_with_what_it_wanted() -> None:
    assert answered(claim(expected=3.3), None).wanted == "3.3"
    assert answered(claim(at_least=2.0), None).wanted == "at least 2"
    facts = answered(claim(at_most=1.05), interval(0.5, 0.6))
    assert (facts.wanted, facts.answer, facts.against) == ("at most 1.05", "confirmed", "base")


def counted(arm: str, block: int, syncs: int | None, commits: int) -> Trial:
    load = LoadResult(
        seconds=1.0, events=commits, throughput=1.0, per_second=(), latency_us=None, commits=commits
    )
    return Trial(
        arm=Arm(name=arm, settings={}),
        stage="arms",
        block=block,
        outcome="measured",
        result=1.0,
        load=load,
        file_activity={"redo": FileActivity(fsyncs=syncs)},
    )


IGNORED = claim(at_least=0.5, quantity="redo syncs per commit")


def test_what_is_counted_is_answered_by_the_least_and_the_most_of_the_blocks() -> None:
    trials = [
        counted("base", 0, 500, 1000),
        counted("A", 0, 10, 1000),
        counted("base", 1, 400, 1000),
        counted("A", 1, 16, 1000),
        counted("A", 2, None, 1000),
        counted("base", 2, 100, 1000),
    ]
    facts = counted_answer(IGNORED, trials)
    assert facts.ratio is not None
    assert (facts.answer, facts.quantity) == ("refuted", "redo syncs per commit")
    assert (facts.ratio.low, facts.ratio.high) == pytest.approx((0.02, 0.04))
    assert facts.ratio.estimate == pytest.approx(26 / 900)
    assert facts.counts == pytest.approx((0.013, 0.45))


def test_an_arm_without_any_sync_is_a_ratio_of_0() -> None:
    trials = [counted(arm, block, 0 if arm == "A" else 5, 10) for arm in ("A", "base") for block in (0, 1)]
    facts = counted_answer(IGNORED, trials)
    assert facts.ratio == Ratio(estimate=0.0, low=0.0, high=0.0)
    assert facts.answer == "refuted"


@pytest.mark.parametrize("base", [None, 0])
def test_where_nothing_was_counted_there_is_no_answer(base: int | None) -> None:
    trials = [
        counted(arm, block, base if arm == "base" else 5, 10) for arm in ("A", "base") for block in (0, 1)
    ]
    assert counted_answer(IGNORED, trials).answer == "not measured"


def test_one_block_answers_nothing() -> None:
    one = [counted("A", 0, 1, 10), counted("base", 0, 9, 10)]
    assert counted_answer(IGNORED, one).answer == "not measured"
