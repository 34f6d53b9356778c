from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.campaign.analysis import (
    Sizes,
    answer,
    answered,
    counted_answer,
    disturbed,
    mean_p99_us,
    of_base,
    of_controls,
    of_interim,
    too_busy,
)
from flushlab.plan.plan import Claim
from flushlab.record import Arm, Comparison, FileActivity, LoadResult, Ratio, Trial, Verdict
from flushlab.statistics import held
from tests.unit.records import trial

MIB = 1 << 20
NONE: Verdict = "no difference found"


@pytest.mark.parametrize(
    ("trials", "discarded", "said"),
    [
        (40, 31, "The machine was too busy: 31 of 40 trials disturbed"),
        (1, 1, "The machine was too busy: 1 of 1 trial disturbed"),
        (40, 9, ""),
        (0, 0, ""),
    ],
)
def test_a_quarter_of_the_trials_disturbed_is_the_machines_fault(
    trials: int, discarded: int, said: str
) -> None:
    assert too_busy(trials, discarded) == said


def test_only_discarded_trials_were_disturbed_and_none_of_a_node_that_died() -> None:
    died = msgspec.structs.replace(trial(outcome="discarded"), result=None)
    assert disturbed([trial(), trial(outcome="discarded"), trial(outcome="failed"), died]) == 1


def fits(redo_bytes: int) -> str:
    (found,) = of_base([], Sizes(21 * MIB, 128 * MIB, redo_bytes))
    return found.text


def test_data_that_fits_in_the_pool_is_explained_to_the_reader() -> None:
    assert fits(redo_bytes=16 * MIB) == (
        "all data (21 MiB) fits in the buffer pool (128 MiB), so settings that speed up reads can show no "
        "gain here. If yours does not fit, your gains will differ."
    )
    assert "I/O settings can show no gain here" in fits(redo_bytes=96 * MIB)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "told"), [(1.03, 4.21, "faster", True), (0.9, 1.1, NONE, False)]
)
def test_a_control_that_is_not_1_puts_a_caveat_on_every_ratio(
    low: float, high: float, verdict: Verdict, told: bool
) -> None:
    control = Comparison(
        arm="control",
        ratio=Ratio(estimate=1.05, low=low, high=high),
        blocks=5,
        verdict=verdict,
        detectable=0.1,
    )
    assert [one.slug for one in of_controls(control, None)] == (["control-differs"] if told else [])
    unlike = msgspec.structs.replace(control, contradicted=True)
    told_of_interim = [one.slug for one in of_interim([unlike])]
    assert told_of_interim == ([] if told else ["analyses-disagree"]), "one warning for one control"


@pytest.mark.parametrize(
    ("sizes", "grew"), [((10, 11, 12), False), ((10, 20, 30), True), ((None, 30), False)]
)
def test_data_that_grew_from_run_to_run_are_a_caveat(sizes: tuple[int | None, ...], grew: bool) -> None:
    base = [trial(data_bytes=None if size is None else size * MIB) for size in sizes]
    found = of_base(base, Sizes(None, None, None))
    assert ("data-grew" in {one.slug for one in found}) is grew


def test_data_of_two_machines_are_not_compared() -> None:
    base = [trial(data_bytes=size * MIB, machine=name) for size, name in ((10, "db1"), (30, "db2"))]
    assert "data-grew" not in {one.slug for one in of_base(base, Sizes(None, None, None))}


def test_p99_of_an_arm_is_the_mean_of_its_trials_where_all_have_one() -> None:
    assert mean_p99_us([trial(), trial()]) == pytest.approx(1_900)
    assert mean_p99_us([trial(), trial(load=None)]) is None
    assert mean_p99_us([]) is None


def test_analyses_that_exclude_each_other_are_said_with_the_arm() -> None:
    ratio = Ratio(estimate=1.0, low=0.8, high=1.2)
    one, other = (
        Comparison(arm=arm, ratio=ratio, blocks=9, verdict=NONE, detectable=0.1, contradicted=arm == "b")
        for arm in ("a", "b")
    )
    (warning,) = of_interim([one, other])
    assert warning.slug == "analyses-disagree"
    assert warning.text.startswith("b: ")


def analysis(estimate: float, low: float, high: float) -> Comparison:
    ratio = Ratio(estimate=estimate, low=low, high=high)
    return Comparison(arm="a", ratio=ratio, blocks=9, verdict=ratio.verdict, detectable=0.1)


@pytest.mark.parametrize(
    ("analyses", "told"),
    [
        ([analysis(3.9, 2.65, 5.74), analysis(2.75, 1.42, 5.33)], "its lower bound, 2.65, … to 2.75"),
        ([analysis(1.0, 0.9, 1.11), analysis(1.5, 0.75, 3.0)], "its upper bound, 1.11, … to 1.11"),
        ([analysis(2.75, 1.42, 5.33)], ""),
        ([analysis(2.0, 1.0, 4.0), analysis(2.0, 1.8, 2.22)], ""),
    ],
)
def test_a_ratio_far_from_the_middle_of_its_interval_is_told(analyses: list[Comparison], told: str) -> None:
    found = list(of_interim([held(analyses)]))
    assert [one.slug for one in found] == (["earlier-analysis"] if told else [])
    assert all(part in one.text for one in found for part in told.split("…"))


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
