from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.errors import MeasurementError
from flushlab.record import (
    ClientCost,
    ErrorCount,
    FailedAttempts,
    Latency,
    LoadResult,
    RowCounts,
    TransactionLatency,
)
from flushlab.workload import sliced as module
from flushlab.workload.protocol import MOST_SLICE_S
from flushlab.workload.sliced import SlicedLoad, together


def latency(us: int) -> Latency:
    return Latency(mean=us, p50=us, p90=us, p95=us, p99=us, p999=us, max=us)


def result(seconds: float, events: int, us: int, *, deadlocks: int = 0) -> LoadResult:
    return LoadResult(
        seconds=seconds,
        events=events,
        throughput=10 * events / seconds,
        per_second=(),
        latency_us=latency(us),
        commits=events,
        client_busy=0.5,
        errors=(ErrorCount(errno=1213, sqlstate="40001", message="Deadlock", count=deadlocks),)
        * (deadlocks > 0),
        rows=RowCounts(committed=10 * events, updated=events, commits=events),
    )


def test_slices_together_are_one_window_without_the_time_between_them() -> None:
    whole = together([result(0.5, 100, 1000, deadlocks=1), result(1.5, 500, 4000, deadlocks=2)])
    assert (whole.seconds, whole.events, whole.commits) == (2.0, 600, 600)
    assert whole.throughput == pytest.approx(3000)
    assert whole.rows is not None and whole.rows.committed == 6000
    assert [(error.errno, error.count) for error in whole.errors] == [(1213, 3)]
    assert whole.client_cpu_us_per_event == pytest.approx(1e6 / 600)


def test_switches_of_slices_are_added_and_times_weighed_by_their_events() -> None:
    def costing(events: int, client: ClientCost | None) -> LoadResult:
        return msgspec.structs.replace(result(0.5, events, 1000), client=client)

    one = ClientCost(
        voluntary_switches=50,
        involuntary_switches=1,
        waits=40,
        answers_per_wait=2.0,
        user_us_per_event=1.0,
        system_us_per_event=8.0,
    )
    other = ClientCost(
        voluntary_switches=30,
        involuntary_switches=0,
        waits=60,
        answers_per_wait=4.5,
        user_us_per_event=2.0,
        system_us_per_event=4.0,
    )
    short = ClientCost(voluntary_switches=2, involuntary_switches=0)
    whole = together([costing(100, one), costing(300, other), costing(7, short), costing(5, None)]).client
    assert whole is not None
    assert (whole.voluntary_switches, whole.involuntary_switches, whole.waits) == (82, 1, 100)
    assert whole.answers_per_wait == pytest.approx(3.5)
    assert whole.user_us_per_event == pytest.approx(1.75)
    assert whole.system_us_per_event == pytest.approx(5.0)
    assert together([result(0.5, 100, 1000)]).client is None


def test_percentiles_of_slices_are_weighed_by_their_events() -> None:
    whole = together([result(0.5, 100, 1000), result(0.5, 300, 2000)]).latency_us
    assert whole is not None
    assert (whole.mean, whole.p99, whole.max) == (1750, 1750, 2000)


def test_failed_attempts_of_slices_are_added() -> None:
    some = result(0.5, 100, 1000)
    failing = msgspec.structs.replace(
        some, failed=FailedAttempts(count=3, latency_us=latency(5_000_000)), capped=2
    )
    whole = together([failing, some, failing])
    assert whole.failed == FailedAttempts(count=6, latency_us=latency(5_000_000))
    assert whole.capped == 4
    assert together([some, some]).failed is None


def test_a_slice_without_an_event_adds_its_time_alone() -> None:
    empty = LoadResult(seconds=1.0, events=0, throughput=0.0, per_second=(), latency_us=None)
    whole = together([result(1.0, 100, 1000), empty])
    assert whole.throughput == pytest.approx(500)
    assert whole.latency_us is not None and whole.latency_us.p50 == 1000


def test_slices_in_which_nothing_ended_have_a_figure_as_to_repeat_them_would_be_to_choose() -> None:
    empty = LoadResult(seconds=0.5, events=0, throughput=0.0, per_second=(), latency_us=None)
    spec = SimpleNamespace(threads=1, seed=1, workload="oltp")
    driving = SimpleNamespace(unit="transactions/s", spec=spec, stand_in=None)
    load: Any = SimpleNamespace(_driving=driving, warm_up_s=1.0, warnings=[])
    found = SlicedLoad.measured(load, [empty, empty])
    assert (found.result, found.window_s) == (0.5, 1.0)


def opened(results: list[LoadResult], monkeypatch: pytest.MonkeyPatch) -> tuple[SlicedLoad, list[float]]:
    """SlicedLoad of a load whose slices yield these, warmed up, and the seconds of the slices so far."""
    slept: list[float] = []
    load: Any = SimpleNamespace(
        start=lambda: None, stop=lambda: None, pause=None, resume=None, open_window=None
    )
    monkeypatch.setattr(module, "connected", lambda *_: load)
    monkeypatch.setattr(module, "warm_up", lambda *_: [])
    monkeypatch.setattr(module, "native", lambda *_: None)
    monkeypatch.setattr(module, "raise_if_failed", lambda *_: None)
    monkeypatch.setattr(module, "closed", lambda *_: results.pop(0))
    monkeypatch.setattr("time.sleep", lambda s: slept.append(s) if s != module.LEAD_S else None)
    nothing: Any = None
    driving: Any = SimpleNamespace(unit="transactions/s", spec=SimpleNamespace(threads=16))
    return SlicedLoad(driving, nothing, nothing), slept


def test_a_slice_has_room_for_fifty_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slept = opened([result(0.5, 1000, 2000)], monkeypatch)
    assert quick.least_slice_s == pytest.approx(0.1)
    assert slept == [0.5]
    slow, slept = opened([result(0.5, 10, 60_000)] * 3, monkeypatch)
    assert slow.least_slice_s == pytest.approx(3)
    assert slept == [0.5, 0.5, 0.5]


def test_a_machine_that_stalls_during_the_first_slice_does_not_make_all_others_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load, slept = opened([result(0.5, 16, 400_000), result(0.5, 1000, 2000)], monkeypatch)
    assert load.least_slice_s == pytest.approx(0.1)
    assert slept == [0.5, 0.5]


def test_a_later_slice_may_show_that_shorter_ones_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    stalled = [result(0.5, 16, 400_000)] * 3
    load, _ = opened([*stalled, result(10, 9000, 20_000)], monkeypatch)
    assert load.least_slice_s == MOST_SLICE_S
    load.slice(10)
    assert load.least_slice_s == pytest.approx(1)


def test_a_server_on_which_nothing_ends_is_not_for_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = LoadResult(seconds=0.5, events=0, throughput=0.0, per_second=(), latency_us=None)
    with pytest.raises(MeasurementError, match="no event ended within 8 s"):
        opened([empty] * 3, monkeypatch)


def test_kinds_of_transactions_are_joined_with_their_rates_over_all_windows() -> None:
    def window(seconds: float, **counts: int) -> LoadResult:
        kinds = tuple(
            TransactionLatency(
                transaction=name,
                count=count,
                throughput=count / seconds,
                latency_us=latency(100 * count) if count else None,
            )
            for name, count in counts.items()
        )
        return msgspec.structs.replace(result(seconds, sum(counts.values()), 500), transactions=kinds)

    pay, look = together([window(1.0, pay=10, look=0), window(3.0, pay=30, look=0)]).transactions
    assert (pay.transaction, pay.count, pay.throughput) == ("pay", 40, 10.0)
    assert pay.latency_us is not None
    assert pay.latency_us.p50 == (10 * 1000 + 30 * 3000) / 40
    assert (look.count, look.latency_us) == (0, None)
