from __future__ import annotations

import msgspec
import pytest

from flushlab.campaign.analysis import (
    Sizes,
    disturbed,
    mean_p99_us,
    of_base,
    of_controls,
    of_interim,
    page_reads_of,
    too_busy,
)
from flushlab.record import Comparison, LoadResult, Ratio, ServerSample, Slice, Trial, Verdict
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


def test_page_reads_are_per_event_of_whole_windows() -> None:
    load = LoadResult(seconds=8.0, events=100, throughput=12.5, per_second=(), latency_us=None)

    def window(before: int | None, after: int, *slices: Slice) -> Trial:
        return msgspec.structs.replace(
            trial(),
            load=load,
            before=ServerSample(pool_reads=before),
            after=ServerSample(pool_reads=after),
            slices=slices,
        )

    sliced = window(0, 900, Slice(round=0, start_s=0.0, seconds=1.0, events=100))
    assert page_reads_of([window(100, 180), window(0, 20)]) == 0.5
    assert page_reads_of([window(100, 180), sliced]) == 0.8
    assert page_reads_of([window(None, 20), trial()]) is None


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
