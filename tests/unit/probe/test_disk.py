from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from flushlab import _core
from flushlab.errors import NoSpace, NotWritable, StorageError
from flushlab.probe import disk
from flushlab.probe.disk import DiskCell, cells, measure
from flushlab.record import DiskResult
from tests.unit.probes import MEDIUM

CELL = DiskCell(way="direct_dsync", bytes=512)


def answered(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], bytes]) -> DiskResult:
    monkeypatch.setattr(_core, "measure_disk", lambda spec: answer())
    return measure(Path("/srv/data/x"), CELL, seconds=0.1, file_bytes=1 << 20, medium=MEDIUM)


def test_every_way_and_size_is_measured_once() -> None:
    for quick in (True, False):
        found = cells(quick=quick)
        assert len(found) == len(set(found))
    assert set(cells(quick=True)) < set(cells(quick=False))
    ways = {(one.way, one.bytes) for one in cells(quick=False)}
    assert ways >= {(way, size) for way in disk.DURABLE for size in disk.SIZES}


def test_what_the_device_does_not_take_is_a_figure_with_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    result = answered(monkeypatch, lambda: b'{"refused": "O_DIRECT takes no writes of 512 bytes here"}')
    assert result.refused == "not possible: the device's logical block has 4,096 bytes"
    assert (result.latency_us, result.operations_per_s) == (None, 0.0)


def test_no_o_direct_is_a_figure_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "measure_disk", lambda spec: b'{"refused": "the file system has no O_DIRECT"}')
    plain = msgspec.structs.replace(MEDIUM, logical_block_bytes=None)
    result = measure(Path("/x"), CELL, seconds=0.1, file_bytes=1 << 20, medium=plain)
    assert result.refused == "not possible: the file system has no O_DIRECT"


def test_a_stopped_measurement_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        answered(monkeypatch, lambda: b'"stopped"')


@pytest.mark.parametrize(("number", "kind"), [(28, NoSpace), (30, NotWritable)])
def test_a_failing_file_system_is_told(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def fail() -> bytes:
        raise OSError(number, "it failed", "/srv/data")

    with pytest.raises(kind, match="/srv/data"):
        answered(monkeypatch, fail)


def test_a_real_folder_is_measured_by_the_core(tmp_path: Path) -> None:
    cell = DiskCell(way="fdatasync", bytes=4096)
    result = measure(tmp_path, cell, seconds=0.05, file_bytes=1 << 20, medium=MEDIUM)
    assert result.refused == "" and result.latency_us is not None
    assert result.operations_per_s == pytest.approx(result.operations / result.seconds)
    assert result.seconds >= 0.05 and result.file_bytes == 1 << 20


def test_a_disk_that_hangs_is_told_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "STALL_SECONDS", 0.1)
    # Opening it to write waits for a reader, who comes at the end.
    os.mkfifo(tmp_path / "extending")
    cell = DiskCell(way="fdatasync", bytes=4096, layout="extending")
    with pytest.raises(StorageError, match="/srv/data failed: a measurement did not end") as raised:
        measure(tmp_path, cell, seconds=0.05, file_bytes=1 << 20, medium=MEDIUM)
    assert "dmesg" in (raised.value.hint or "")
    os.close(os.open(tmp_path / "extending", os.O_RDONLY | os.O_NONBLOCK))


def test_the_core_refuses_a_spec_that_is_none() -> None:
    with pytest.raises(_core.CoreError) as raised:
        _core.measure_disk(b'{"way": "nonsense"}')
    assert raised.value.kind == "usage"
