from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.probe.ceilings import CommitCell
from flushlab.probe.folder import MAX_BYTES
from flushlab.probe.servers import ROUNDS, ServerCell, measure_servers, ratio, server_cells
from flushlab.probe.sync_settings import SECOND, STRICT
from tests.fakes.commit_path import FakeCommitPath
from tests.unit.probes import MEDIUM

CELL = ServerCell(sync_settings=SECOND, strategies=("serial", "parallel"), threads=64, own_us=90.0)


def test_every_round_runs_each_strategy_as_a_server_does_in_rotating_order(tmp_path: Path) -> None:
    specs = []

    def make(spec: bytes) -> FakeCommitPath:
        specs.append(msgspec.json.decode(spec))
        return FakeCommitPath(spec)

    rates = measure_servers(tmp_path, CELL, seconds=1.0, most_bytes=MAX_BYTES, medium=MEDIUM, make=make)
    assert rates is not None
    order = [spec["binlog_strategy"] for spec in specs]
    assert order == ["serial", "parallel", "parallel", "serial"] * (ROUNDS // 2) + ["serial", "parallel"]
    assert {(spec["threads"], spec["committers"], spec["think_us"]) for spec in specs} == {(64, 64, 90.0)}
    serial, parallel = rates
    assert (serial.ratio, serial.ratio_low, serial.rounds) == (1.0, None, ROUNDS)
    assert parallel.ratio == pytest.approx(1.6) and parallel.own_us == 90.0


@pytest.mark.parametrize("strategy", CELL.strategies)
def test_a_window_without_a_commit_has_no_ratio(strategy: str, tmp_path: Path) -> None:
    """The only commit ended with the window: it has a latency, and is not counted."""

    class Stalled(FakeCommitPath):
        def _result(self) -> dict[str, Any]:
            found = super()._result()
            if found["phases"][0]["binlog_strategy"] != strategy:
                return found
            return {**found, "commits": 0, "commits_per_s": 0.0}

    rates = measure_servers(tmp_path, CELL, seconds=1.0, most_bytes=MAX_BYTES, medium=MEDIUM, make=Stalled)
    assert rates is None


def test_a_ratio_is_that_of_the_rounds_with_its_interval() -> None:
    mean, low, high = ratio([2.0, 8.0], [1.0, 1.0])
    assert mean == pytest.approx(4)
    # Two rounds: t = 12.706, the standard error of the logarithms is that of ln 2 and ln 8.
    assert math.log(high / mean) == pytest.approx(12.706 * math.log(2), rel=1e-3)
    assert low == pytest.approx(mean * mean / high)
    assert ratio([3.0] * 5, [2.0] * 5) == pytest.approx((1.5, 1.5, 1.5))


def test_sync_settings_that_permit_two_strategies_are_compared_with_the_most_connections() -> None:
    def cell(strategy: str, threads: int) -> CommitCell:
        return msgspec.convert(
            {
                "sync_settings": {"trx_commit": 1, "sync_binlog": 1},
                "binlog_strategy": strategy,
                "threads": threads,
            },
            CommitCell,
        )

    alone = CommitCell(sync_settings=SECOND, binlog_strategy="serial", threads=4)
    (found,) = server_cells([cell("serial", 16), cell("redo", 1), alone], 60.0)
    assert (found.sync_settings, found.strategies, found.threads) == (STRICT, ("serial", "redo"), 16)
    assert server_cells([alone], 60.0) == ()
