"""Folders that stay are made whole or not at all, whatever kills their maker."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from flushlab.machine import ownership
from flushlab.process import make_lasting, reap, run_folder


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
