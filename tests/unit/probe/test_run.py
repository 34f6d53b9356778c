from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab import machine
from flushlab.errors import NoSpace, UsageError
from flushlab.probe import disk, run
from flushlab.probe.against import MeasuredServer
from flushlab.probe.ceilings import SECOND, STRICT, Matrix, SyncSettings
from flushlab.probe.disk import DiskCell
from flushlab.probe.run import ProbeBudget, ProbeRequest, probe
from tests.fakes.commit_path import FakeCommitPath


class Heard:
    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []

    def __call__(self, *step: Any) -> None:
        self.steps.append(step)


@pytest.fixture(autouse=True)
def small(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two measurements of the disk, with a small file."""
    cells = (DiskCell(way="fdatasync", bytes=4096), DiskCell(way="pair", bytes=512))
    monkeypatch.setattr(disk, "cells", lambda *, quick: cells)
    monkeypatch.setattr(run, "FILE_BYTES", 1 << 20)


def request(directory: Path, **changes: Any) -> ProbeRequest:
    matrix = Matrix(sync_settings=(STRICT, SECOND), strategies=("serial", "parallel"), threads=(1, 16))
    wanted: dict[str, Any] = {"directory": directory, "matrix": matrix, "seconds": 0.05, **changes}
    return ProbeRequest(**wanted)


def test_a_probe_measures_everything_tells_its_steps_and_leaves_nothing(tmp_path: Path) -> None:
    heard = Heard()
    record = probe(request(tmp_path), heard, FakeCommitPath)
    assert [one.way for one in record.disk] == ["fdatasync", "pair"]
    assert len(record.ceilings) == 2 + 4 and len(record.refused) == 1
    serial, parallel = record.servers
    assert serial.ratio == 1 and parallel.binlog_strategy == "parallel" and parallel.rounds == 5
    assert [done for done, _, _ in heard.steps] == list(range(9))
    assert {total for _, total, _ in heard.steps} == {9}
    assert heard.steps[2][2] == "strict 1/1 · serial · 1 connections"
    assert record.headline and any(one.startswith("At second 2/1000") for one in record.reading)
    assert list(tmp_path.iterdir()) == []


def test_a_server_brings_cells_of_its_own_policy(tmp_path: Path) -> None:
    server = MeasuredServer(
        trial="bench", server="mysql@9.7.0", sync_settings=SyncSettings(1, 0), threads=7, commits_per_s=100
    )
    record = probe(request(tmp_path, servers=(server,)), Heard(), FakeCommitPath)
    assert [(one.trx_commit, one.sync_binlog, one.threads) for one in record.ceilings[:2]] == [(1, 0, 7)] * 2
    (share,) = record.against
    assert share.share == pytest.approx(100 / record.ceilings[0].commits_per_s)
    assert "reaches" in record.reading[-1]


def test_a_policy_that_permits_none_of_the_flush_modes_is_refused_before_any_window(tmp_path: Path) -> None:
    heard = Heard()
    matrix = Matrix(sync_settings=(STRICT,), strategies=("parallel",))
    with pytest.raises(UsageError, match=r"parallel at 1/1: .*sync_binlog=1") as raised:
        probe(request(tmp_path, matrix=matrix), heard, FakeCommitPath)
    assert "the binlog strategy serial, redo or two-syncs" in (raised.value.hint or "")
    assert heard.steps == [] and list(tmp_path.iterdir()) == []


def test_more_threads_than_the_machine_has_threads_for_are_refused_before_any_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    monkeypatch.setattr(machine, "threads_left", lambda: 47)
    with pytest.raises(UsageError, match=r"16 threads asked for, but .* room for 47") as raised:
        probe(request(tmp_path), heard, FakeCommitPath)
    assert raised.value.hint == "use --threads 15 or fewer"
    assert heard.steps == [] and list(tmp_path.iterdir()) == []
    monkeypatch.setattr(machine, "threads_left", lambda: 48)
    assert probe(request(tmp_path), heard, FakeCommitPath).ceilings


def test_a_single_processor_is_a_caveat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = machine.describe
    monkeypatch.setattr(
        machine, "describe", lambda path, **_: msgspec.structs.replace(described(path), cpu_count=1)
    )
    record = probe(request(tmp_path), Heard(), FakeCommitPath)
    assert {"one-cpu", "short-window"} <= {one.slug for one in record.warnings}


def test_a_disk_that_becomes_full_is_told_and_left_clean(tmp_path: Path) -> None:
    class Full(FakeCommitPath):
        def start(self) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(NoSpace, match="filled up"):
        probe(request(tmp_path), Heard(), Full)
    assert list(tmp_path.iterdir()) == []


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def windows_of(budget: ProbeBudget, clock: Clock, steps: int, overhead: float) -> list[float | None]:
    windows = []
    for step in range(steps):
        window = budget.window(step)
        windows.append(window)
        if window is not None:
            clock.now += window + overhead
    return windows


def test_windows_have_their_natural_length_where_there_is_time() -> None:
    clock = Clock()
    assert windows_of(ProbeBudget(60, [1.0, 0.5, 1.0], clock), clock, 3, 0.1) == [1.0, 0.5, 1.0]


def test_without_a_limit_nothing_shrinks() -> None:
    clock = Clock()
    assert windows_of(ProbeBudget(None, [2.0] * 3, clock), clock, 3, 30.0) == [2.0] * 3


def test_windows_shrink_alike_and_the_whole_keeps_the_limit() -> None:
    clock = Clock()
    budget = ProbeBudget(12, [1.0] * 15, clock)
    windows = windows_of(budget, clock, 15, 0.1)
    assert None not in windows
    assert clock.now - 100.0 <= 12.0
    assert all(one is not None and 0.6 < one < 0.8 for one in windows)


def test_a_slow_disk_is_learnt_of_and_what_does_not_fit_is_counted() -> None:
    clock = Clock()
    budget = ProbeBudget(10, [1.0] * 10, clock)
    windows = windows_of(budget, clock, 10, 1.5)
    assert budget.left_out == windows.count(None) > 0
    assert clock.now - 100.0 <= 10.0 + 1.5
    assert windows[-1] is None, "the last ones are left out, not the first"
    assert all(one is None or one >= 0.5 for one in windows)


def test_a_slow_preparation_leaves_nothing_out() -> None:
    clock = Clock()
    budget = ProbeBudget(10, [0.5] * 10, clock)
    assert budget.window(0) == 0.5
    clock.now += 0.5 + 3.0
    assert budget.window(1) is not None
    assert budget.left_out == 0
