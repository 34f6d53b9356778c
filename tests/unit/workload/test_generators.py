"""Several load generators: connections divided, moments agreed over clocks that differ, results merged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import ClassVar

import msgspec
import pytest

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.record import Endpoint, LoadProgress, LoadResult, LoadSeen, LoadSpec
from flushlab.workload.generators import (
    SeveralLoads,
    divided,
    progress_of,
    seen_of,
)
from tests.threaded_generator import Threaded

SPEC = LoadSpec(workload="oltp_insert", endpoint=Endpoint(user="u", password="", host="h", port=1), threads=7)
LATENCY = {"mean": 100.0, "p50": 100, "p90": 100, "p95": 100, "p99": 200, "p999": 200, "max": 250}


def window(bins: list[tuple[int, int]], per_second: list[int], busy: float = 0.25) -> bytes:
    events = sum(count for _, count in bins)
    usage = {"cpu": {"secs": 0, "nanos": 0}, "accounts": None, "waits": [0, 0]}
    length = {"secs": len(per_second), "nanos": 0}
    return json.dumps(
        {
            "window": {
                "events": events,
                "per_second": per_second,
                "acknowledged": events,
                "updated": 0,
                "rolled_back": 0,
                "latencies": bins,
                "statements": [bins],
                "transactions": [],
                "commits": events,
                "errors": [{"errno": 1213, "sqlstate": "40001", "message": "Deadlock", "count": 2}],
                "failed": [[500, 2]],
                "capped": 0,
                "lost_connections": 0,
                "lag": None,
            },
            "length": length,
            "shortest": length,
            "usage": [usage, usage],
            "busy": busy,
            "statements": ["INSERT"],
            "transactions": [],
            "counts_rows": False,
            "commits_itself": False,
            "amount": 1,
            "offered": None,
            "unwritten": None,
        }
    ).encode()


class FakeRun:
    """A load without a server; `made` has all of them."""

    made: ClassVar[list[FakeRun]] = []
    refuses: ClassVar[str] = ""
    windows: ClassVar[list[bytes]] = []

    def __init__(self, spec: bytes) -> None:
        self.spec = msgspec.json.decode(spec, type=LoadSpec)
        self.acts: list[tuple[str, float]] = []
        FakeRun.made.append(self)
        if self.refuses and len(FakeRun.made) == 2:
            error = _core.CoreError(self.refuses)
            error.kind, error.message, error.hint = "server", self.refuses, "a way out"
            error.errno, error.sqlstate = 1045, "28000"
            raise error

    def round_trips(self, count: int) -> bytes:
        assert count
        return json.dumps(LATENCY).encode()

    def close_window_part(self) -> bytes:
        self.acts.append(("close_window_part", time.monotonic()))
        return self.windows[FakeRun.made.index(self)]

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.acts.append((name, time.monotonic()))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[FakeRun]:
    monkeypatch.setattr(_core, "LoadRun", FakeRun)
    monkeypatch.setattr(FakeRun, "made", [])
    return FakeRun.made


def several(*generators: Threaded, spec: LoadSpec = SPEC) -> SeveralLoads:
    return SeveralLoads(spec, generators)


def test_connections_are_divided_and_each_part_knows_its_place() -> None:
    parts = divided(SPEC, 3)
    shares = [one.share for one in parts if one.share is not None]
    assert [one.threads for one in parts] == [3, 2, 2]
    assert [(one.generator, one.first_connection) for one in shares] == [(0, 0), (1, 3), (2, 5)]
    assert {(one.generators, one.connections) for one in shares} == {(3, 7)}


def test_fewer_connections_than_clients_are_refused() -> None:
    with pytest.raises(UsageError, match="7 connections cannot be divided over 8 clients"):
        divided(SPEC, 8)


def test_generators_whose_clocks_differ_act_at_the_agreed_moment(
    runs: list[FakeRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRun, "windows", [window([(1000, 1)], [1])] * 2)
    load = several(Threaded("one", ahead_s=5000.0), Threaded("two", ahead_s=-300.0))
    load.start()
    before = time.monotonic()
    load.open_window()
    opened = [at for run in runs for name, at in run.acts if name == "open_window"]
    # An offset that is not taken off would have one wait for an hour, or not at all.
    assert all(before < at for at in opened)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    assert 0 <= result.clients_skew_us < 60_000_000


def test_a_merged_result_has_the_percentiles_of_all_events_and_every_client(
    runs: list[FakeRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        window([(1_000_000, 90)], [30, 30, 30], busy=0.3),
        window([(9_000_000, 10)], [4, 3, 3], busy=0.5),
    ]
    monkeypatch.setattr(FakeRun, "windows", parts)
    load = several(Threaded("one"), Threaded("two"))
    load.start()
    load.open_window()
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    assert (result.events, result.commits, result.per_second) == (100, 100, (34, 33, 33))
    assert result.latency_us is not None
    assert (result.latency_us.p50, result.latency_us.p90) == (1000, 1000)
    assert 8_990 <= result.latency_us.p95 <= 9_010
    assert [(one.errno, one.count) for one in result.errors] == [(1213, 4)]
    assert result.client_busy == 0.5
    assert [(one.machine, one.connections, one.busy) for one in result.clients] == [
        ("one", 4, 0.3),
        ("two", 3, 0.5),
    ]
    assert {one.round_trip_us.p99 for one in result.clients} == {200}


def test_what_a_generator_refuses_is_told_with_its_machine_and_the_others_end(
    runs: list[FakeRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRun, "refuses", "Access denied")
    with pytest.raises(_core.CoreError, match="machine two: Access denied") as refused:
        several(Threaded("one"), Threaded("two"))
    error = refused.value
    assert (error.kind, error.errno, error.hint) == ("server", 1045, "a way out")
    assert [name for name, _ in runs[0].acts] == ["stop"]


def test_a_glance_sums_the_seconds_that_all_have_told_of() -> None:
    long = LoadProgress(elapsed_s=5.2, events=50, per_second=(10, 11, 12, 13, 14), errors=1)
    late = LoadProgress(elapsed_s=4.9, events=4, per_second=(1, 1, 1, 1), errors=0, failed="it is gone")
    whole = progress_of([long, late])
    assert (whole.elapsed_s, whole.events, whole.errors) == (4.9, 54, 1)
    assert whole.per_second == (11, 12, 13, 14)
    assert whole.failed == "it is gone"


def test_seconds_that_one_has_forgotten_are_left_out() -> None:
    full = LoadProgress(elapsed_s=70.5, events=0, per_second=tuple(range(10, 70)), errors=0)
    late = LoadProgress(elapsed_s=69.9, events=0, per_second=tuple(range(9, 69)), errors=0)
    assert progress_of([full, late]).per_second == tuple(2 * second for second in range(10, 69))


def test_what_was_seen_is_added_bin_by_bin() -> None:
    one = LoadSeen(events=3, errors=((1213, 1),), latencies_us=((10, 2), (20, 1)), latency_sum_s=0.5)
    two = LoadSeen(events=2, errors=((1205, 4), (1213, 1)), latencies_us=((20, 2),), backlog=3, lag_p99_us=7)
    whole = seen_of([one, two])
    assert (whole.events, whole.errors) == (5, ((1205, 4), (1213, 2)))
    assert whole.latencies_us == ((10, 2), (20, 3))
    assert (whole.latency_sum_s, whole.backlog, whole.lag_p99_us) == (0.5, 3, 7)
