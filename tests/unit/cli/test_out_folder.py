"""Files that the user named, and files in the folder of --out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flushlab.cli.out_folder import LIST, OutFolder
from flushlab.cli.output import require_writable, write_file
from flushlab.errors import NotWritable
from tests.trees import tree

NAMES = ("tune.json", "report.html")


def test_what_flushlab_wrote_is_written_again(tmp_path: Path) -> None:
    OutFolder(tmp_path / "out", NAMES).write("tune.json", b"one")
    again = OutFolder(tmp_path / "out", NAMES)
    assert again.write("tune.json", b"two").read_bytes() == b"two"
    OutFolder(tmp_path / "out", NAMES)


@pytest.mark.parametrize("there", ["file", "edited", "link", "dangling link", "folder"])
def test_file_of_the_users_is_refused_before_anything_starts(tmp_path: Path, there: str) -> None:
    out, file = tmp_path / "out", tmp_path / "out/tune.json"
    (tmp_path / "mine").write_text("precious")
    OutFolder(out, NAMES).write("tune.json", b"one")
    if there == "edited":
        file.write_text("two")
    else:
        file.unlink()
    if there == "file":
        file.write_text("precious")
    elif there == "folder":
        file.mkdir()
    elif there.endswith("link"):
        file.symlink_to(tmp_path / ("mine" if there == "link" else "nowhere"))
    before = tree(tmp_path)
    with pytest.raises(NotWritable, match=r"tune\.json is not as flushlab wrote it") as raised:
        OutFolder(out, NAMES)
    assert raised.value.hint and "--out" in raised.value.hint
    assert tree(tmp_path) == before


def test_file_that_came_while_measuring_is_left(tmp_path: Path) -> None:
    out = OutFolder(tmp_path, NAMES)
    (tmp_path / "report.html").write_text("precious")
    with pytest.raises(NotWritable):
        out.write("report.html", b"page")
    assert (tmp_path / "report.html").read_text() == "precious"


@pytest.mark.parametrize("content", ["", "{}", "mine", '{"schema": "flushlab.written/1", "files": {}}'])
def test_list_of_somebody_elses_is_left(tmp_path: Path, content: str) -> None:
    (tmp_path / LIST).write_text(content)
    with pytest.raises(NotWritable, match="is not the list that flushlab keeps there"):
        OutFolder(tmp_path, NAMES)
    assert (tmp_path / LIST).read_text() == content


def test_kill_between_list_and_file_leaves_both_contents_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = OutFolder(tmp_path, NAMES)
    out.write("tune.json", b"one")

    def die(target: Path, content: bytes, *, new: bool = False) -> None:
        if target.name == "tune.json":
            raise KeyboardInterrupt
        write_file(target, content, new=new)

    monkeypatch.setattr("flushlab.cli.out_folder.write_file", die)
    with pytest.raises(KeyboardInterrupt):
        out.write("tune.json", b"two")
    monkeypatch.undo()
    assert OutFolder(tmp_path, NAMES).write("tune.json", b"three").read_bytes() == b"three"


def test_named_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text("old")
    file.chmod(0o600)
    require_writable(str(file))
    write_file(file, b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "link to a folder"])
def test_what_is_no_file_is_neither_replaced_nor_followed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "result.json"
    (tmp_path / "mine").write_text("precious")
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"link": "mine", "dangling link": "nowhere"}.get(kind, "."))
    before = tree(tmp_path)
    with pytest.raises(NotWritable):
        require_writable(str(path))
    with pytest.raises(NotWritable):
        write_file(path, b"new")
    assert tree(tmp_path) == before


def test_device_stays_a_device(tmp_path: Path) -> None:
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    for path in (null, Path("/dev/null")):
        require_writable(str(path))
        write_file(path, b"new")
    assert Path("/dev/null").is_char_device()
    assert null.is_symlink()


def test_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)


def test_a_folder_that_is_missing_is_made_with_the_first_result(tmp_path: Path) -> None:
    folder = OutFolder(tmp_path / "results" / "today", ("a.json",))
    assert not (tmp_path / "results").exists()
    assert folder.write("a.json", b"{}").read_bytes() == b"{}"
