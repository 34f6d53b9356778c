from __future__ import annotations

import math

import msgspec
import pytest

from flushlab.errors import MeasurementError
from flushlab.experiment.objective import score, stall_share
from flushlab.record import Latency
from tests.unit.records import load_result, trial


def test_a_score_is_the_log_of_the_figure() -> None:
    assert score([trial(figure=1000.0)]) == pytest.approx(math.log(1000))


def test_seconds_score_better_when_fewer() -> None:
    fast, slow = (trial(figure=s, unit="s", higher_is_better=False) for s in (10.0, 20.0))
    assert score([fast]) - score([slow]) == pytest.approx(math.log(2))


def test_the_latency_objective_ignores_the_figure() -> None:
    quick = Latency(mean=1, p50=1, p95=1, p99=500, p999=900, max=900)
    load = msgspec.structs.replace(load_result(), latency_us=quick)
    assert score([trial(figure=1.0, load=load)], "p99") == pytest.approx(-math.log(500))


def test_a_command_has_no_latency_to_optimise() -> None:
    with pytest.raises(MeasurementError, match="no latency"):
        score([trial(load=None)], "p99")


def test_a_figure_of_zero_cannot_be_compared() -> None:
    with pytest.raises(MeasurementError, match="nothing to compare"):
        score([trial(figure=0.0)])


def test_a_stalled_second_has_less_than_a_tenth_of_the_median() -> None:
    load = msgspec.structs.replace(load_result(), per_second=(100, 100, 9, 100, 0, 100, 100, 100, 10, 100))
    assert stall_share(trial(load=load)) == pytest.approx(0.2)
    assert stall_share(trial(load=None)) is None
