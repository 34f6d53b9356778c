"""What a window of the load engine is worth."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.errors import MeasurementError, UsageError
from flushlab.process.running import publish_status
from flushlab.record import (
    Endpoint,
    ErrorCount,
    Latency,
    LoadClient,
    LoadProgress,
    LoadResult,
    LoadSeen,
    LoadSpec,
    LostNode,
    StatementLatency,
)
from flushlab.server.clients import Access
from flushlab.workload import engine
from flushlab.workload.engine import LoadStatus, Losses, lost_node_warnings, quantile_ms, require_cluster
from flushlab.workload.options import EngineOptions
from flushlab.workload.protocol import Driving, Measured, Timing
from tests.fakes.server import FakeServer

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


class Load:
    """A load that has seen what it is told to have."""

    def __init__(self) -> None:
        self.now = LoadSeen()
        self.asked = 0

    def seen(self) -> bytes:
        self.asked += 1
        return msgspec.json.encode(self.now)


def progress(elapsed_s: float, *per_second: int) -> LoadProgress:
    return LoadProgress(elapsed_s=elapsed_s, events=sum(per_second), per_second=per_second, errors=0)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(tmp_path))


def test_each_second_is_told_once_with_its_own_latencies(nowhere: None) -> None:
    load: Any = Load()
    with publish_status("bench") as noted:
        telling = LoadStatus(load, "transactions/s")
        load.now = LoadSeen(events=100, latencies_us=((1000, 99), (9000, 1)), latency_sum_s=0.1)
        for elapsed_s in (0.9, 1.0, 1.5):
            telling.glance(progress(elapsed_s, *([100] if elapsed_s >= 1 else [])))
        load.now = LoadSeen(
            events=150, errors=((1213, 2),), latencies_us=((1000, 99), (4000, 50), (9000, 1)), backlog=7
        )
        telling.glance(progress(2.1, 100, 50))
        now = noted.current()
    assert [(one.per_second, one.p50_ms, one.p99_ms) for one in now.seconds] == [(100, 1, 1), (50, 4, 4)]
    assert (now.totals.events, now.totals.errors, now.totals.backlog) == (150, ((1213, 2),), 7)
    assert load.asked == 2


def test_a_load_that_nobody_can_watch_is_not_asked() -> None:
    load: Any = Load()
    LoadStatus(load, "rows/s").glance(progress(3.0, 1, 2, 3))
    assert load.asked == 0


@pytest.mark.parametrize(("quantile", "ms"), [(0.0, 1), (0.5, 1), (0.9, 2), (0.99, 3), (1.0, 3)])
def test_quantiles(quantile: float, ms: float) -> None:
    assert quantile_ms([(500, 0), (1000, 8), (2000, 1), (3000, 1)], quantile) == ms


def test_there_is_no_quantile_of_nothing() -> None:
    assert quantile_ms([], 0.5) is None
    assert quantile_ms([(1000, 0)], 0.5) is None


HERE = Endpoint(user="u", password="p", socket="/s")


def test_a_load_goes_to_one_node_unless_it_is_told_otherwise() -> None:
    assert EngineOptions().load(HERE, workload="oltp_write_only").cluster_load == "one"


def test_a_load_that_fails_over_opens_lost_connections_again() -> None:
    spec = EngineOptions(cluster_load="failover").load(HERE, workload="oltp_write_only")
    assert (spec.cluster_load, spec.reconnect) == ("failover", True)


def test_a_load_cannot_be_spread_over_one_server() -> None:
    spec = EngineOptions(cluster_load="spread").load(HERE, workload="oltp_write_only")
    require_cluster("spread", nodes=2)
    require_cluster("one", nodes=1)
    with pytest.raises(UsageError, match="--cluster-load spread needs a cluster") as refused:
        engine.connected(Driving(spec=spec, unit="transactions/s"), FakeServer())
    assert refused.value.hint == "remove it, or use --cluster 3"


def test_a_dead_node_is_told_with_the_longest_stretch_without_a_commit_from_then_on() -> None:
    nodes = [FakeServer(), FakeServer(), FakeServer()]
    losses = Losses(nodes)
    losses.glance(1.0, 100)
    losses.glance(3.0, 200)
    nodes[1].die("killed")
    for now_s, events in ((3.1, 200), (5.5, 200), (5.6, 210), (6.0, 210), (9.0, 400)):
        losses.glance(now_s, events)
    assert losses.nodes == (LostNode(node=2, at_s=3.1, without_commit_s=2.5),)
    (caveat,) = lost_node_warnings(losses.nodes)
    assert caveat.text.startswith("node 2 died 3.1 s into the window: for 2.5 s no transaction was committed")


def test_a_node_that_died_in_the_warm_up_is_told_as_dead_before_the_window() -> None:
    nodes = [FakeServer(), FakeServer()]
    nodes[0].die("killed")
    (caveat,) = lost_node_warnings(Losses(nodes).nodes)
    assert "node 1 died before the window" in caveat.text


@pytest.mark.parametrize(
    ("reads_per_s", "free_pages", "level_after_s"),
    [
        (0, [8000] * 9, 2),
        (90, [8000, 7000, 6000, 5000, 4000, 3000, 2000, 2000, 2000], 6),
        (90, [1500, 1490, 1480, 1470, 1460, 1450, 1440, 1430, 1420], 2),
        (90, [5000] * 9, 2),
    ],
    ids=["nothing read", "until the pool is full", "larger than the pool", "a pool that keeps pages free"],
)
def test_a_load_is_level_once_the_pool_no_longer_fills(
    reads_per_s: int, free_pages: list[int], level_after_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, ended = -1, [progress(float(s), *([100] * s)) for s in range(9)]

    def status() -> list[tuple[str, str]]:
        told = (reads_per_s * max(second, 0), free_pages[max(second, 0)], 8192)
        return [(name, str(value)) for name, value in zip(engine._POOL, told, strict=True)]

    def next_second(*_: object) -> LoadProgress:
        nonlocal second
        second += 1
        return ended[second]

    names = "'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_pages_free', 'Innodb_buffer_pool_pages_total'"
    server = FakeServer(answers={f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})": status})
    monkeypatch.setattr(engine, "raise_if_failed", next_second)
    monkeypatch.setattr(engine, "time", SimpleNamespace(sleep=lambda _: None))
    shown: Any = SimpleNamespace(glance=lambda *_: None)
    driving: Any = SimpleNamespace(grain=0.0, unit="transactions/s")
    timing = Timing(warm_up_s=1.0, max_warm_up_s=8.0, seconds=1.0)
    load: Any = None
    assert engine.warm_up(load, server, timing, driving, shown) == []
    assert second == level_after_s
