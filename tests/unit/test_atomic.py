from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from flushlab import atomic


@pytest.mark.parametrize(("asked", "expected"), [(None, 0o644), (0o600, 0o600)])
def test_a_new_file_has_the_mode_that_was_asked_for(tmp_path: Path, asked: int | None, expected: int) -> None:
    atomic.write(tmp_path / "x", "text", mode=asked)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == expected
    assert (tmp_path / "x").read_text() == "text"


def test_a_file_that_is_replaced_hands_on_its_mode(tmp_path: Path) -> None:
    (tmp_path / "x").touch(mode=0o640)
    atomic.write(tmp_path / "x", b"new")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_a_link_is_replaced_and_what_it_names_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("old")
    (tmp_path / "x").symlink_to("other")
    atomic.write(tmp_path / "x", "new")
    assert ((tmp_path / "other").read_text(), (tmp_path / "x").is_symlink()) == ("old", False)


@pytest.mark.parametrize("step", ["os.fsync", "os.fchmod", "pathlib.Path.replace"])
def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    (tmp_path / "x").write_text("old")
    monkeypatch.setattr(step, fails)
    with pytest.raises(OSError, match="No space left"):
        atomic.write(tmp_path / "x", "new")
    monkeypatch.undo()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "old")]


def test_content_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x"
    seen: list[tuple[str, bool]] = []

    def fsync(descriptor: int) -> None:
        seen.append((os.pread(descriptor, 9, 0).decode(), target.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    atomic.write(target, "new")
    assert seen == [("new", False)]
    assert target.read_text() == "new"
