from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab import machine
from flushlab.errors import NoSpace, UsageError
from flushlab.probe import disk, run
from flushlab.probe.against import MeasuredServer
from flushlab.probe.ceilings import Matrix
from flushlab.probe.disk import DiskCell
from flushlab.probe.run import ProbeRequest, probe
from flushlab.probe.sync_settings import SECOND, STRICT, SyncSettings
from tests.fakes.commit_path import FakeCommitPath


class Heard:
    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []

    def step(self, done: int, total: int, doing: str) -> None:
        self.steps.append((done, total, doing))


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
