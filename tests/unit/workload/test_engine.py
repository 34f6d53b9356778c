"""What a window of the load engine is worth."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.errors import MeasurementError
from flushlab.record import (
    Endpoint,
    ErrorCount,
    Latency,
    LoadClient,
    LoadProgress,
    LoadResult,
    LoadSpec,
    StatementLatency,
)
from flushlab.server.clients import Access
from flushlab.workload import engine
from flushlab.workload.protocol import Driving, Measured, Timing

NOTHING = LoadResult(seconds=8.0, events=0, throughput=0.0, per_second=(0,) * 8, latency_us=None, commits=0)
DEADLOCKS = (ErrorCount(errno=1213, sqlstate="40001", message="Deadlock found", count=3),)


def driven(result: LoadResult, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """A load whose window yields this."""
    progress = LoadProgress(elapsed_s=1.0, events=0, per_second=(), errors=0)
    load: Any = SimpleNamespace(start=lambda: None, stop=lambda: None, open_window=None)
    monkeypatch.setattr(engine, "connected", lambda *_: load)
    monkeypatch.setattr(engine, "warm_up", lambda *_: [])
    monkeypatch.setattr(engine, "native", lambda *_: None)
    monkeypatch.setattr(engine, "raise_if_failed", lambda *_: progress)
    monkeypatch.setattr(engine, "_wait", lambda *_: None)
    monkeypatch.setattr(engine, "closed", lambda *_: result)
    server: Any = SimpleNamespace(nodes=[])
    driving: Any = SimpleNamespace(
        stand_in=None, unit="rows/s", spec=SimpleNamespace(threads=1, seed=1, workload="upsert")
    )
    return engine.drive(driving, server, Timing(), nullcontext())


def test_a_window_in_which_nothing_was_committed_has_half_of_an_event_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = driven(NOTHING, monkeypatch)
    assert found.result == 0.5 / 8
    assert [(w.slug, w.text) for w in found.warnings] == [
        ("nothing-committed", "nothing was committed in a window of 8.0 s")
    ]


def test_latencies_beyond_a_day_are_counted_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    some = msgspec.structs.replace(NOTHING, events=5, throughput=1.0, capped=2)
    assert [(w.slug, w.text) for w in driven(some, monkeypatch).warnings] == [
        ("capped", "2 events took longer than a day; each counts as a day")
    ]


def test_where_statements_failed_nothing_committed_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasurementError, match="no rows were committed within 8") as raised:
        driven(msgspec.structs.replace(NOTHING, errors=DEADLOCKS), monkeypatch)
    assert "1213: Deadlock found" in (raised.value.hint or "")


@pytest.mark.parametrize(("window_s", "redo_bytes"), [(0.2, 10_000), (10.0, 2500)])
def test_a_window_that_waits_for_redo_is_hardly_longer_than_that_takes(
    window_s: float, redo_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for at most once in a tenth of the window's time so far."""
    now, asked = [100.0], list[float]()

    def pause(seconds: float) -> None:
        now[0] += seconds

    def written(*_: object) -> int:
        asked.append(now[0] - 100)
        return int(1000 * asked[-1] * 2 / window_s)

    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=pause))
    monkeypatch.setattr(engine, "_status", written)
    monkeypatch.setattr(engine, "raise_if_failed", lambda *_: SimpleNamespace(events=1))
    timing = Timing(seconds=window_s, redo_bytes=redo_bytes)
    server: Any = SimpleNamespace(nodes=[], alive=lambda: True)
    shown: Any = SimpleNamespace(glance=lambda *_: None)
    engine._wait(None, server, timing, shown, engine.Losses([]))  # type: ignore[arg-type]
    takes_s = max(redo_bytes / 2000, 1) * window_s
    assert takes_s <= now[0] - 100 <= 1.1 * takes_s + 0.1
    pauses = [later - before for before, later in pairwise(asked[1:])]
    assert all(gap >= min(0.1 * at, 1.0) - 1e-6 for at, gap in zip(asked[1:], pauses, strict=False))


def _over_the_network(trip_us: float, statement_us: float) -> LoadResult:
    trip = Latency(mean=trip_us, p50=1, p95=1, p99=1, p999=1, max=1)
    took = Latency(mean=statement_us, p50=1, p95=1, p99=1, p999=1, max=1)
    client = LoadClient(machine="two", connections=4, round_trip_us=trip, busy=0.1)
    update = StatementLatency(statement="UPDATE", count=10, latency_us=took)
    return msgspec.structs.replace(
        NOTHING, events=10, throughput=1.0, statements=(update,), clients=(client,)
    )


@pytest.mark.parametrize(("trip_us", "slugs"), [(600.0, ["network-bound"]), (400.0, [])])
def test_a_network_that_takes_half_of_the_time_is_told(
    trip_us: float, slugs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = driven(_over_the_network(trip_us, 1000.0), monkeypatch)
    assert [one.slug for one in found.warnings] == slugs
    assert not slugs or "are 60% of the statements' time" in found.warnings[0].text


def test_a_load_that_comes_from_elsewhere_has_the_password_of_the_clients() -> None:
    asked: list[LoadSpec] = []

    def connect(spec: LoadSpec) -> Any:
        asked.append(spec)

    access = Access(address="10.0.0.1", hosts=("10.0.0.2",), password="secret", identity="")
    server: Any = SimpleNamespace(clients=SimpleNamespace(access=access, connect=connect), nodes=[])
    local = Endpoint(user="flushlab", password="local", socket="/s", host="10.0.0.1", port=3306)
    spec = LoadSpec(workload="oltp_insert", endpoint=local)
    engine.connected(Driving(spec=spec, unit="transactions/s"), server)
    (sent,) = asked
    assert (sent.transport, sent.ssl_mode) == ("tcp", "verify_identity")
    assert (sent.endpoint.user, sent.endpoint.host, sent.endpoint.port) == ("flushlab_load", "10.0.0.1", 3306)
    assert (sent.endpoint.password, sent.endpoint.socket, sent.endpoint.get_server_public_key) == (
        "secret",
        None,
        False,
    )
