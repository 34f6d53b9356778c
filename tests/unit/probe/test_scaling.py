from __future__ import annotations

import pytest

from flushlab.probe.scaling import PROCESSORS, CommitCost, cost_of, curves
from tests.unit.probes import SERVERS, server_rate

SERIAL = CommitCost(binlog_strategy="serial", cpu_ns=10_000, single_ns=4_000)
PARALLEL = CommitCost(binlog_strategy="parallel", cpu_ns=10_000, single_ns=400)


def test_one_processor_spends_the_whole_time_and_many_wait_for_the_single_part() -> None:
    assert SERIAL.commits_per_s(1) == pytest.approx(1e9 / 10_000)
    assert SERIAL.commits_per_s(1_000_000) == pytest.approx(1e9 / 4_000, rel=1e-3)
    rates = [SERIAL.commits_per_s(one) for one in PROCESSORS]
    assert rates == sorted(rates) and rates[-1] < 1e9 / 4_000


def test_nothing_in_one_file_scales_with_the_processors() -> None:
    free = CommitCost(binlog_strategy="parallel", cpu_ns=10_000, single_ns=1e-9)
    assert free.commits_per_s(64) == pytest.approx(64 * free.commits_per_s(1))


def test_a_servers_own_work_hides_the_gain_until_there_are_many_processors() -> None:
    def gain(processors: int, own: float) -> float:
        return PARALLEL.commits_per_s(processors, own) / SERIAL.commits_per_s(processors, own)

    assert gain(64, 0) > gain(64, 100) > gain(16, 100) > gain(2, 100)
    assert gain(2, 100) < 1.05 and gain(1, 100) == pytest.approx(1)


def test_the_slower_of_two_stations_in_a_row_is_the_single_part() -> None:
    written = server_rate(
        "2/1000",
        "parallel",
        1,
        ordered_ns_per_commit=200.0,
        write_ns_per_commit=900.0,
        cpu_us_per_commit=70.0,
    )
    cost = cost_of(written)
    assert cost is not None and (cost.single_ns, cost.cpu_ns) == (900.0, 10_000.0)


@pytest.mark.parametrize("unknown", ["ordered_ns_per_commit", "cpu_us_per_commit"])
def test_what_was_not_measured_has_no_cost(unknown: str) -> None:
    assert cost_of(server_rate("2/1000", "serial", 1, **{unknown: None})) is None


def test_curves_are_of_the_policy_that_permits_parallel_and_the_most_threads() -> None:
    found = curves(SERVERS)
    assert [one.cost.binlog_strategy for one in found] == ["serial", "parallel"]
    assert {(one.trx_commit, one.sync_binlog, one.threads) for one in found} == {(2, 1000, 64)}
    assert all(len(one.commits_per_s) == len(PROCESSORS) for one in found)
    assert curves(SERVERS[:3]) == ()
