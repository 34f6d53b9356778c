"""Words of numbers, clients and observed loads."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.record import Latency, LoadClient, ObservedLoad
from flushlab.report.words import load_came_from, observed_lines, reads_words, source_words
from tests.unit.report.campaigns import tune_facts


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


LOAD = ObservedLoad(
    seconds=10.0,
    commits=1000,
    commits_by="binlog_commits",
    source="samples",
    write_s=20.0,
    commit_s=15.0,
    samples=200,
    syncs={"redo": 500.0, "binlog": 250.0},
    redo_bytes=400_000.0,
    binlog_bytes=210_000.0,
)
TOLD = msgspec.structs.replace(
    LOAD, source="statements", histogram={1000.0: 500, 3000.0: 450, 9000.0: 50}, errors=3, rollbacks=2
)


def test_latency_and_costs_per_commit_have_a_line_each() -> None:
    assert list(observed_lines(LOAD)) == [
        "write latency 20.0 ms, commit 15.0 ms",
        "syncs per commit: 0.5 redo, 0.25 binlog",
        "written per commit: 400 B redo, 210 B binlog",
    ]


def test_percentiles_and_errors_stand_beside_where_the_server_tells_them() -> None:
    latency, *_, failed = observed_lines(TOLD)
    assert latency == "write latency 20.0 ms, commit 15.0 ms, p50 1.00 ms, p95 3.00 ms, p99 9.00 ms"
    assert failed == "2 rollbacks, 3 statements failed"


def test_percentiles_of_a_handful_of_statements_are_left_out() -> None:
    few = msgspec.structs.replace(TOLD, histogram={1000.0: 50, 9000.0: 49})
    assert "p99" not in next(observed_lines(few))


def test_nothing_committed_has_no_latency_and_no_costs() -> None:
    assert list(observed_lines(msgspec.structs.replace(LOAD, commits=0))) == []


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (LOAD, "mean number of connections that write or commit, over commits/s (200 samples)"),
        (TOLD, "performance_schema's time in write statements and COMMIT, per commit"),
    ],
)
def test_the_source_of_the_latency_is_named(load: ObservedLoad, words: str) -> None:
    assert source_words(load) == f"write latency: {words}; commits are Binlog_commits"


@pytest.mark.parametrize(
    ("page_reads", "unit", "said"),
    [
        (0.78, "transactions/s", "0.78 pages read from disk per transaction"),
        (1.5, "rows/s", "1.5 pages read from disk per row"),
        (0.009, "transactions/s", "hardly a page read from disk"),
        (None, "transactions/s", ""),
        (0.78, "s", ""),
    ],
)
def test_reads_are_told_per_event(page_reads: float | None, unit: str, said: str) -> None:
    assert reads_words(tune_facts(page_reads=page_reads, unit=unit)) == said
