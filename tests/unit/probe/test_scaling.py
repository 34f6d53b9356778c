from __future__ import annotations

import msgspec
import pytest

from flushlab.probe.servers import PROCESSORS, CommitCost, cost_of, curves, gains
from tests.unit.probes import SERVERS, disk_result, probe_record, server_rate

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


def test_gains_hold_the_rounds_and_an_own_time_between_half_and_twice() -> None:
    found = {(one.binlog_strategy, one.processors): one for one in gains(probe_record())}
    few, many = found["parallel", 16], found["parallel", 64]
    # 70 µs of processor time; 3 µs of serial's are passed one by one, 0.4 µs of parallel's.
    assert few.ratio == pytest.approx((70 + 15 * 3) / (70 + 15 * 0.4), rel=0.02)
    assert many.ratio == pytest.approx((70 + 63 * 3) / (70 + 63 * 0.4), rel=0.02)
    twice, half = (130 + 15 * 3) / (130 + 15 * 0.4), (40 + 15 * 3) / (40 + 15 * 0.4)
    assert few.low < twice < few.ratio < half < few.high
    assert few.limit == many.limit == "processors"


def test_where_groups_are_synced_the_disk_limits_the_gain() -> None:
    slow = probe_record()
    found = {(one.binlog_strategy, one.processors): one for one in gains(slow)}
    # 64 connections × 1,000 pairs/s, 2,000 syncs/s of a file that is overwritten, 1,000 of one that grows.
    assert found["redo", 64].ratio == pytest.approx(2) and found["redo", 64].limit == "disk"
    assert found["two-syncs", 64].ratio == pytest.approx(1) and found["two-syncs", 64].limit == "disk"
    assert (found["redo", 64].low, found["redo", 64].high) == (found["redo", 64].ratio,) * 2


def test_a_bound_of_the_disk_that_the_measurement_refutes_is_none() -> None:
    refuted = tuple(
        msgspec.structs.replace(one, ratio_low=2.1) if one.binlog_strategy == "redo" else one
        for one in SERVERS
    )
    assert "redo" not in {one.binlog_strategy for one in gains(probe_record(servers=refuted))}
    slower = (disk_result("fdatasync", 5), disk_result("pair", 4, bytes=512))
    assert {one.binlog_strategy for one in gains(probe_record(disk=slower))} == {"parallel"}


def test_where_groups_are_synced_no_wait_for_a_sync_counts_as_the_single_part() -> None:
    costs = tuple(
        msgspec.structs.replace(one, single_ns=1e6 * one.single_ns) for one in SERVERS[0].round_costs
    )
    waiting = tuple(
        msgspec.structs.replace(one, round_costs=costs) if one.binlog_strategy == "redo" else one
        for one in SERVERS
    )
    assert costs and gains(probe_record(servers=waiting)) == gains(probe_record())


def test_where_groups_are_synced_a_gain_needs_the_syncs_of_both() -> None:
    for disk in ((disk_result("fdatasync", 5),), (disk_result("pair", 5, bytes=512),)):
        assert {one.binlog_strategy for one in gains(probe_record(disk=disk))} == {"parallel"}


def test_a_gain_of_processors_needs_the_costs_of_every_round() -> None:
    unknown = tuple(msgspec.structs.replace(one, round_costs=one.round_costs[:1]) for one in SERVERS)
    assert {one.limit for one in gains(probe_record(servers=unknown))} == {"disk"}
