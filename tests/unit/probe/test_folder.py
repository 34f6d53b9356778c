from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import msgspec
import pytest

from flushlab.errors import NoSpace, NotWritable, StorageError
from flushlab.probe import folder as probe_folders
from flushlab.probe.folder import (
    MIN_FREE_BYTES,
    existing,
    medium_of,
    most_bytes,
    probe_folder,
    storage_errors,
)
from flushlab.process import ProcessIdentity, all_records, reap, run_record
from tests.unit.probes import MEDIUM
from tests.waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def own_home(private_home: Path) -> Path:
    return private_home


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

    monkeypatch.setattr(probe_folders, "passing_folder", slow)
    monkeypatch.setattr(probe_folders, "REMOVAL_SECONDS", 0.01)
    with probe_folder(tmp_path):
        pass
    assert not removed.is_set()
    hangs.set()
    assert removed.wait(PATIENCE_S)
