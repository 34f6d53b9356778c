from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from flushlab.record import Arm, LoadResult
from flushlab.server.fake import FakeServer
from flushlab.trial.measurement import Draft
from flushlab.trial.standing import _Part, _Stand, is_observed


class Turns:
    """A load whose slices take no time."""

    def slice(self, seconds: float, window: Callable[[], None]) -> LoadResult:
        window()
        window()
        return LoadResult(seconds=seconds, events=50, throughput=100.0, per_second=(), latency_us=None)


@pytest.mark.parametrize(("slept_s", "counts"), [(0.3, True), (3600.0, False)])
def test_a_slice_in_which_the_machine_slept_does_not_count(
    slept_s: float, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([1000.0, 1000.5 + slept_s])
    monkeypatch.setattr(time, "clock_gettime", lambda _: next(clock))
    server: Any = FakeServer()
    turns: Any = Turns()
    draft = Draft(arm=Arm(name="a", settings={}), stage="arms", block=0, variant=0)
    part = _Part(draft, _Stand(server, "a"), turns)
    part.take(7, 0.5, [os.getpid()], began=time.monotonic())
    (one,) = part.slices
    assert (one.round, one.seconds, one.events) == (7, 0.5, 50)
    assert one.dropped is not counts


def test_the_first_blocks_have_telemetry_and_then_ever_fewer() -> None:
    assert [block for block in range(40) if is_observed(block)] == [0, 1, 2, 4, 8, 16, 32]
