from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from flushlab import _core
from flushlab.errors import NoSpace, NotWritable, StorageError
from flushlab.probe import disk
from flushlab.probe.disk import (
    MIN_FREE_BYTES,
    DiskCell,
    cells,
    existing,
    flush_warnings,
    measure,
    medium_of,
    most_bytes,
    probe_folder,
    storage_errors,
)
from flushlab.process import ProcessIdentity, all_records, reap, run_record
from flushlab.record import DiskResult, Medium
from tests.unit.probes import MEDIUM, disk_result
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("private_home")

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


def test_a_directory_that_is_missing_or_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, why in ((tmp_path / "none", "does not exist"), (tmp_path / "file", "is not a directory")):
        with pytest.raises(NotWritable, match=why) as raised:
            existing(path)
        assert raised.value.hint and raised.value.exit_code == 5


def test_too_little_space_is_found_before_anything_is_written() -> None:
    with pytest.raises(NoSpace, match=r"needs 256 MiB, but only 1 MiB is free"):
        most_bytes(msgspec.structs.replace(MEDIUM, free_bytes=1 << 20))
    assert most_bytes(msgspec.structs.replace(MEDIUM, free_bytes=MIN_FREE_BYTES)) == MIN_FREE_BYTES // 2


def test_files_are_gone_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), probe_folder(tmp_path) as folder:
        (folder / "data").write_bytes(b"x" * 1000)
        assert [record.name for record in all_records()] == [folder.name]
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    assert all_records() == []


def test_what_a_killed_probe_left_goes_with_the_next_reaping(tmp_path: Path) -> None:
    with probe_folder(tmp_path) as folder:
        (folder / "data").write_bytes(b"x" * 1000)
        (record,) = all_records()
        assert reap() == [], "its owner lives"
        dead = ProcessIdentity(pid=record.owner.pid, start_ticks=record.owner.start_ticks - 1)
        run_record.rewrite(msgspec.structs.replace(record, owner=dead))
        assert reap() == [folder.name]
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "kind", "told"),
    [
        (errno.ENOSPC, NoSpace, "filled up"),
        (errno.EDQUOT, NoSpace, "filled up"),
        (errno.EROFS, NotWritable, "read-only"),
        (errno.EACCES, NotWritable, "not writable"),
        (errno.EIO, StorageError, "failed"),
    ],
)
def test_what_the_file_system_says_has_a_class_and_a_way_out(
    number: int, kind: type[StorageError], told: str
) -> None:
    with pytest.raises(kind, match=told) as raised, storage_errors(Path("/srv")):
        raise OSError(number, os.strerror(number))
    assert type(raised.value) is kind and raised.value.hint


def test_the_medium_is_what_the_kernel_tells(tmp_path: Path) -> None:
    medium = medium_of(tmp_path)
    assert medium.directory == str(tmp_path) and medium.filesystem != "unknown"
    assert medium.free_bytes > 0


def test_memory_is_told_as_such() -> None:
    assert medium_of(Path("/dev/shm")).in_memory


def test_a_disk_that_hangs_holds_nobody_who_removes_files_there(
    tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, removed = Event(), Event()

    @contextmanager
    def slow(parent: Path, what: str) -> Iterator[Path]:
        yield parent
        hangs.wait(PATIENCE_S)
        removed.set()

    monkeypatch.setattr(disk, "passing_folder", slow)
    monkeypatch.setattr(disk, "REMOVAL_SECONDS", 0.01)
    with probe_folder(tmp_path):
        pass
    assert not removed.is_set()
    hangs.set()
    assert removed.wait(PATIENCE_S)


def slugs(medium: Medium, *figures: Any) -> list[str]:
    return [one.slug for one in flush_warnings(medium, figures)]


def on(**changes: Any) -> Medium:
    return msgspec.structs.replace(MEDIUM, **changes)


def test_a_disk_that_takes_its_time_raises_no_caveat() -> None:
    assert slugs(on(), disk_result("fdatasync", 500), disk_result("direct", 40)) == []


def test_a_sync_faster_than_any_medium_did_not_happen() -> None:
    assert slugs(on(), disk_result("fdatasync", 1.7)) == ["fsync-too-fast"]
    assert slugs(on(), disk_result("fdatasync", 15)) == []


def test_persistent_memory_may_be_that_fast() -> None:
    assert slugs(on(disk="pmem0"), disk_result("fdatasync", 1.7)) == []


def test_a_disk_that_spins_cannot_sync_within_a_millisecond() -> None:
    assert slugs(on(disk="sda", rotational=True), disk_result("fdatasync", 200)) == ["fsync-too-fast"]
    assert slugs(on(disk="sda", rotational=True), disk_result("fdatasync", 8_000)) == []


def test_a_flush_that_costs_nothing_is_told_where_the_cache_is_volatile() -> None:
    figures = (disk_result("fdatasync", 44), disk_result("direct", 40))
    assert slugs(on(volatile_cache=True), *figures) == ["flush-is-free"]
    assert slugs(on(volatile_cache=False), *figures) == []
    assert slugs(on(volatile_cache=None), *figures) == []


@pytest.mark.parametrize(
    ("changes", "slug"),
    [
        ({"filesystem": "tmpfs", "in_memory": True}, "in-memory"),
        ({"filesystem": "ext4", "options": ("nobarrier",)}, "no-barrier"),
        ({"filesystem": "ext4", "options": ("barrier=0",)}, "no-barrier"),
        ({"filesystem": "overlay", "options": ("volatile",)}, "overlay-volatile"),
        ({"filesystem": "nfs4"}, "other-machine"),
    ],
)
def test_what_the_mount_says_counts(changes: dict[str, Any], slug: str) -> None:
    assert slugs(on(**changes), disk_result("fdatasync", 500)) == [slug]


def test_memory_is_told_once_and_not_by_its_speed() -> None:
    assert slugs(on(in_memory=True), disk_result("fdatasync", 1)) == ["in-memory"]


def test_figures_of_growing_files_and_many_threads_prove_nothing() -> None:
    grown = disk_result("fdatasync", 2, layout="extending")
    assert slugs(on(), grown, disk_result("fdatasync", 2, depth=8)) == []
