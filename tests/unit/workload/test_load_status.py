"""What a load tells of its seconds: nothing that costs something unless somebody may ask."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.process.running import publish_status
from flushlab.record import LoadProgress, LoadSeen
from flushlab.workload.engine import LoadStatus, quantile_ms


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
