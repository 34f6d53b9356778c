"""Where a load came from, in a sentence."""

from __future__ import annotations

from flushlab.record import Latency, LoadClient
from flushlab.report.words import load_came_from


def client(machine: str, p50: int, p99: int) -> LoadClient:
    trip = Latency(mean=p50, p50=p50, p95=p99, p99=p99, p999=p99, max=p99)
    return LoadClient(machine=machine, connections=8, round_trip_us=trip, busy=0.2)


def test_one_client_is_named_with_its_round_trip() -> None:
    words = load_came_from([client("db2", 210, 400)], 0)
    assert words == "the load came from db2 over the network; round trip 0.21 ms (p99 0.40 ms)"


def test_several_clients_are_named_with_how_far_their_windows_are_apart() -> None:
    words = load_came_from([client("a", 50, 90), client("b", 1500, 9000)], 340)
    assert words == (
        "the load came from 2 machines over the network; round trips: a 0.050 ms (p99 0.090 ms),"
        " b 1.50 ms (p99 9.00 ms); their windows began within 0.34 ms"
    )
