from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.probe.ceilings import SECOND, ProbePlace, StrategyGroup
from flushlab.probe.disk import MAX_BYTES
from flushlab.probe.servers import (
    PROCESSORS,
    ROUNDS,
    CommitCost,
    cost_of,
    curves,
    gains,
    measure_servers,
    ratio,
)
from tests.fakes.commit_path import FakeCommitPath
from tests.unit.probes import MEDIUM, SERVERS, disk_result, probe_record, server_rate

GROUP = StrategyGroup(SECOND, ("serial", "parallel"), 64)


def test_every_round_runs_each_strategy_as_a_server_does_in_rotating_order(tmp_path: Path) -> None:
    specs = []

    def make(spec: bytes) -> FakeCommitPath:
        specs.append(msgspec.json.decode(spec))
        return FakeCommitPath(spec)

    rates = measure_servers(ProbePlace(tmp_path, MEDIUM, MAX_BYTES, make), GROUP, seconds=1.0, own_us=90.0)
    assert rates is not None
    order = [spec["binlog_strategy"] for spec in specs]
    assert order == ["serial", "parallel", "parallel", "serial"] * (ROUNDS // 2) + ["serial", "parallel"]
    assert {(spec["threads"], spec["committers"], spec["think_us"]) for spec in specs} == {(64, 64, 90.0)}
    serial, parallel = rates
    assert (serial.ratio, serial.ratio_low, serial.rounds) == (1.0, None, ROUNDS)
    assert parallel.ratio == pytest.approx(1.6) and parallel.own_us == 90.0


@pytest.mark.parametrize("strategy", GROUP.strategies)
def test_a_window_without_a_commit_has_no_ratio(strategy: str, tmp_path: Path) -> None:
    """The only commit ended with the window: it has a latency, and is not counted."""

    class Stalled(FakeCommitPath):
        def _result(self) -> dict[str, Any]:
            found = super()._result()
            if found["phases"][0]["binlog_strategy"] != strategy:
                return found
            return {**found, "commits": 0, "commits_per_s": 0.0}

    rates = measure_servers(ProbePlace(tmp_path, MEDIUM, MAX_BYTES, Stalled), GROUP, seconds=1.0)
    assert rates is None


def test_a_ratio_is_that_of_the_rounds_with_its_interval() -> None:
    mean, low, high = ratio([2.0, 8.0], [1.0, 1.0])
    assert mean == pytest.approx(4)
    # Two rounds: t = 12.706, the standard error of the logarithms is that of ln 2 and ln 8.
    assert math.log(high / mean) == pytest.approx(12.706 * math.log(2), rel=1e-3)
    assert low == pytest.approx(mean * mean / high)
    assert ratio([3.0] * 5, [2.0] * 5) == pytest.approx((1.5, 1.5, 1.5))


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
