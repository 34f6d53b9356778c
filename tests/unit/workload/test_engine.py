"""What a window of the load engine is worth."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.errors import MeasurementError
from flushlab.record import ErrorCount, LoadProgress, LoadResult
from flushlab.workload import Measured, Timing, engine

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
    driving: Any = SimpleNamespace(unit="rows/s", spec=SimpleNamespace(threads=1, seed=1, workload="upsert"))
    return engine.drive(driving, server, Timing(), nullcontext())


def test_a_window_in_which_nothing_was_committed_has_half_of_an_event_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = driven(NOTHING, monkeypatch)
    assert found.result == 0.5 / 8
    assert [(w.slug, w.text) for w in found.warnings] == [
        ("nothing-committed", "nothing was committed in a window of 8.0 s")
    ]


def test_where_statements_failed_nothing_committed_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasurementError, match="no rows were committed within 8") as raised:
        driven(msgspec.structs.replace(NOTHING, errors=DEADLOCKS), monkeypatch)
    assert "1213: Deadlock found" in (raised.value.hint or "")
