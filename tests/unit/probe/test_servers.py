from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.probe.ceilings import SECOND, Place, StrategyGroup
from flushlab.probe.disk import MAX_BYTES
from flushlab.probe.servers import ROUNDS, measure_servers, ratio
from tests.fakes.commit_path import FakeCommitPath
from tests.unit.probes import MEDIUM

GROUP = StrategyGroup(SECOND, ("serial", "parallel"), 64)


def test_every_round_runs_each_strategy_as_a_server_does_in_rotating_order(tmp_path: Path) -> None:
    specs = []

    def make(spec: bytes) -> FakeCommitPath:
        specs.append(msgspec.json.decode(spec))
        return FakeCommitPath(spec)

    rates = measure_servers(Place(tmp_path, MEDIUM, MAX_BYTES, make), GROUP, seconds=1.0, own_us=90.0)
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

    rates = measure_servers(Place(tmp_path, MEDIUM, MAX_BYTES, Stalled), GROUP, seconds=1.0)
    assert rates is None


def test_a_ratio_is_that_of_the_rounds_with_its_interval() -> None:
    mean, low, high = ratio([2.0, 8.0], [1.0, 1.0])
    assert mean == pytest.approx(4)
    # Two rounds: t = 12.706, the standard error of the logarithms is that of ln 2 and ln 8.
    assert math.log(high / mean) == pytest.approx(12.706 * math.log(2), rel=1e-3)
    assert low == pytest.approx(mean * mean / high)
    assert ratio([3.0] * 5, [2.0] * 5) == pytest.approx((1.5, 1.5, 1.5))
