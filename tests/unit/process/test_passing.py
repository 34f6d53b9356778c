"""Folders that stay are made whole or not at all, whatever kills their maker."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from flushlab.machine import ownership
from flushlab.process import all_records, make_lasting, reap, run_folder
from flushlab.process.run_record import discard, passing_folder


def make_and_die(folder: Path, at: str) -> None:
    """Makes the folder in a process of its own that is killed when `ownership` comes to that function."""
    setattr(ownership, at, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    make_lasting(folder, "disk-record")


def test_a_folder_that_was_made_has_its_mark_and_stays(private_home: Path, tmp_path: Path) -> None:
    make_lasting(tmp_path / "one.record", "disk-record", fs="ext4")
    mark = ownership.read_mark(str(tmp_path / "one.record")) or {}
    assert (mark["what"], mark["name"], mark["fs"]) == ("disk-record", "one.record", "ext4")
    reap()
    assert [path.name for path in tmp_path.iterdir()] == ["one.record"]
    assert list(run_folder().iterdir()) == []


@pytest.mark.parametrize("at", ["_write_mark", "_rename_new"])
def test_a_kill_while_it_is_made_leaves_nothing(at: str, private_home: Path, tmp_path: Path) -> None:
    assert list(run_folder().iterdir()) == []  # the home is there, and marked
    maker = multiprocessing.get_context("fork").Process(
        target=make_and_die, args=(tmp_path / "one.record", at)
    )
    maker.start()
    maker.join()
    assert maker.exitcode == -signal.SIGKILL
    assert [path.name[:10] for path in tmp_path.iterdir()] == [".flushlab-"], "it was killed in the middle"
    reap()
    assert list(tmp_path.iterdir()) == []
    assert list(run_folder().iterdir()) == []


def test_a_passing_folder_is_marked_and_recorded_while_it_is_there(
    private_home: Path, tmp_path: Path
) -> None:
    with passing_folder(tmp_path, "probe") as folder:
        assert (folder.parent, folder.name.rpartition("-")[0]) == (tmp_path, "flushlab-probe")
        (record,) = all_records()
        assert (record.name, record.folders) == (folder.name, (str(folder),))
        mark = ownership.read_mark(str(folder))
        assert mark is not None
        assert (mark["what"], mark["name"], mark["token"]) == ("probe", folder.name, record.token)
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").touch()
    assert (list(tmp_path.iterdir()), all_records()) == ([], [])


def test_a_passing_folder_has_the_name_and_mode_that_are_asked_for(
    private_home: Path, tmp_path: Path
) -> None:
    with passing_folder(tmp_path, "probe", name="disk", mode=0o711) as folder:
        mark = ownership.read_mark(str(folder))
        assert mark is not None
        assert mark["name"] == "disk"
        assert folder.stat().st_mode & 0o777 == 0o711


def test_a_passing_folder_that_stays_keeps_its_record_for_the_janitor(
    private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> bool:
        raise OSError("busy")

    with monkeypatch.context() as broken, passing_folder(tmp_path, "probe") as folder:
        broken.setattr(ownership, "remove", fails)
    assert [record.name for record in all_records()] == [folder.name]
    assert folder.is_dir()


def test_a_folder_is_recorded_while_it_is_discarded(
    private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_lasting(tmp_path / "it", "disk-record")
    mark = ownership.read_mark(str(tmp_path / "it"))
    assert mark is not None
    remove = ownership.remove

    def watched(folder: str, **proof: str) -> bool:
        (record,) = all_records()
        assert (record.folders, record.token) == ((folder,), mark["token"])
        return remove(folder, **proof)

    with monkeypatch.context() as watching:
        watching.setattr(ownership, "remove", watched)
        assert discard(tmp_path / "it", what="disk-record")
    assert (list(tmp_path.iterdir()), all_records()) == ([], [])


def test_only_ours_is_discarded_and_what_is_gone_is_no_matter(private_home: Path, tmp_path: Path) -> None:
    make_lasting(tmp_path / "it", "disk-record")
    (tmp_path / "theirs").mkdir()
    assert not discard(tmp_path / "it", what="snapshot")
    assert not discard(tmp_path / "theirs", what="disk-record")
    assert discard(tmp_path / "gone", what="disk-record")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it", "theirs"]
    assert all_records() == []
