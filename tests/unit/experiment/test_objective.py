from __future__ import annotations

import math

import msgspec
import pytest

from flushlab.errors import MeasurementError
from flushlab.experiment.protocol import Objective, gain_words, is_stalled, score, stall_share
from flushlab.record import Latency, LoadResult, Ratio, Slice
from tests.unit.records import load_result, trial


def test_a_score_is_the_log_of_the_result() -> None:
    assert score([trial(result=1000.0)]) == pytest.approx(math.log(1000))


def test_seconds_score_better_when_fewer() -> None:
    fast, slow = (trial(result=s, unit="s", higher_is_better=False) for s in (10.0, 20.0))
    assert score([fast]) - score([slow]) == pytest.approx(math.log(2))


def test_the_latency_objective_ignores_the_result() -> None:
    quick = Latency(mean=1, p50=1, p95=1, p99=500, p999=900, max=900)
    load = msgspec.structs.replace(load_result(), latency_us=quick)
    assert score([trial(result=1.0, load=load)], "p99") == pytest.approx(-math.log(500))


def test_a_command_has_no_latency_to_optimise() -> None:
    with pytest.raises(MeasurementError, match="no latency"):
        score([trial(load=None)], "p99")


def stall(seconds: float) -> LoadResult:
    nothing = LoadResult(seconds=seconds, events=0, throughput=0.0, per_second=(0,) * 8, latency_us=None)
    return nothing.stalled()


def test_a_window_without_a_latency_counts_as_one_as_long_as_the_window() -> None:
    assert score([trial(result=0.0625, load=stall(8.0))], "p99") == pytest.approx(-math.log(8_000_000))


def test_a_window_in_which_nothing_was_committed_is_half_of_an_event_and_all_of_it_stalled() -> None:
    nothing = trial(result=stall(8.0).throughput, load=stall(8.0))
    assert score([nothing]) == pytest.approx(math.log(0.5 / 8))
    assert is_stalled([trial(), nothing])
    assert not is_stalled([trial()])
    assert stall_share(nothing) == 1.0


def test_one_event_in_a_window_is_no_stall() -> None:
    one = msgspec.structs.replace(stall(7.3), events=1, throughput=1 / 7.3)
    assert not is_stalled([trial(load=one)])


def test_a_figure_of_zero_cannot_be_compared() -> None:
    with pytest.raises(MeasurementError, match="nothing to compare"):
        score([trial(result=0.0)])


def test_a_stalled_second_has_less_than_a_tenth_of_the_median() -> None:
    load = msgspec.structs.replace(load_result(), per_second=(100, 100, 9, 100, 0, 100, 100, 100, 10, 100))
    assert stall_share(trial(load=load)) == pytest.approx(0.2)
    assert stall_share(trial(load=None)) is None


def test_more_than_half_of_the_seconds_may_be_stalled() -> None:
    load = msgspec.structs.replace(load_result(), per_second=(0, 0, 0, 0, 0, 0, 900, 900, 900, 900))
    assert stall_share(trial(load=load)) == pytest.approx(0.6)


@pytest.mark.parametrize(("events", "share"), [(100, 0.25), (10, None)])
def test_where_arms_alternate_a_slice_may_be_stalled(events: int, share: float | None) -> None:
    load = msgspec.structs.replace(load_result(), per_second=())
    counted = [events, events, events, 0]
    slices = tuple(
        Slice(round=at, start_s=float(at), seconds=0.2, events=one) for at, one in enumerate(counted)
    )
    assert stall_share(trial(load=load, slices=slices)) == share


@pytest.mark.parametrize(
    ("ratio", "objective", "due"),
    [
        ((1.62, 1.55, 1.70), "throughput", "1.62× as fast as the base [1.55, 1.70]"),
        ((0.50, 0.40, 0.80), "throughput", "0.50× as fast as the base [0.40, 0.80]"),
        ((5.15, 4.0, 6.5), "p99", "5.15× lower p99 latency than the base [4.00, 6.50]"),
        ((0.50, 0.40, 0.80), "p99", "2.00× higher p99 latency than the base [1.25, 2.50]"),
    ],
)
def test_a_gain_in_latency_cannot_be_mistaken_for_one_in_speed(
    ratio: tuple[float, float, float], objective: Objective, due: str
) -> None:
    estimate, low, high = ratio
    assert gain_words(Ratio(estimate=estimate, low=low, high=high), objective) == due
