"""Folders that have a mark, and every way in which a folder may look as if it had."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flushlab.machine import ownership
from tests.trees import tree

MARK = {"what": "sandbox", "name": "it", "token": "0123456789abcdef" * 2}
TOKEN = MARK["token"]
LIMBO = f".flushlab-{TOKEN}"


def test_folder_has_its_mark_and_its_mode(tmp_path: Path) -> None:
    ownership.make(str(tmp_path / "it"), MARK, 0o711)
    assert ownership.read_mark(str(tmp_path / "it")) == {"flushlab": "1", **MARK}
    assert (tmp_path / "it").stat().st_mode & 0o777 == 0o711
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


@pytest.mark.parametrize("there", ["folder", "file", "dangling link"])
def test_nothing_is_made_where_something_is(tmp_path: Path, there: str) -> None:
    if there == "folder":
        (tmp_path / "it").mkdir()
    elif there == "file":
        (tmp_path / "it").write_text("mine")
    else:
        (tmp_path / "it").symlink_to("nowhere")
    before = tree(tmp_path)
    with pytest.raises(FileExistsError):
        ownership.make(str(tmp_path / "it"), MARK)
    assert tree(tmp_path) == before


def test_what_appears_in_the_last_moment_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it").mkdir()
    monkeypatch.setattr(ownership, "_exists", lambda *_: False)
    with pytest.raises(FileExistsError):
        ownership.make(str(tmp_path / "it"), MARK)
    assert tree(tmp_path) == {"it": ("folder", 0o755)}


def test_a_file_system_without_exclusive_rename_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old:
        def renameat2(self, *_: object) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

    monkeypatch.setattr(ownership, "_libc", Old())
    ownership.make(str(tmp_path / "it"), MARK)
    assert ownership.read_mark(str(tmp_path / "it")) is not None
    with pytest.raises(FileExistsError):
        ownership.make(str(tmp_path / "it"), {**MARK, "token": "f" * 32})
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_our_folder_goes_with_everything_in_it_even_if_sealed(tmp_path: Path) -> None:
    ownership.make(str(tmp_path / "it"), MARK)
    (tmp_path / "it/data/deep").mkdir(parents=True)
    (tmp_path / "it/data/deep/file").write_text("x")
    (tmp_path / "it/data").chmod(0o500)
    assert ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert list(tmp_path.iterdir()) == []


def test_what_links_in_our_folder_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("precious")
    ownership.make(str(tmp_path / "it"), MARK)
    (tmp_path / "it/folder").symlink_to(tmp_path / "mine")
    (tmp_path / "it/file").symlink_to(tmp_path / "mine/file")
    assert ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert (tmp_path / "mine/file").read_text() == "precious"


def test_removing_what_is_gone_is_no_error(tmp_path: Path) -> None:
    assert ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert ownership.remove(str(tmp_path / "no/it"), token=TOKEN)


@pytest.mark.parametrize(
    "mark",
    [
        "",
        "{}",
        "[]",
        "not JSON",
        json.dumps({**MARK}),
        json.dumps({"flushlab": "1", **MARK, "token": "f" * 32}),
        json.dumps({"flushlab": "1", **MARK, "token": "../../../../etc"}),
        json.dumps({"flushlab": "1", **MARK, "token": 5}),
    ],
)
def test_folder_whose_mark_is_not_ours_is_left(tmp_path: Path, mark: str) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / ownership.MARK).write_text(mark)
    before = tree(tmp_path)
    assert not ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert not ownership.remove(str(tmp_path / "it"), token="")
    assert not ownership.remove(str(tmp_path / "it"), what="sandbox", name="another")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("kind", ["link to ours", "file", "pipe as mark", "folder as mark", "link as mark"])
def test_look_alikes_are_left(tmp_path: Path, kind: str) -> None:
    ownership.make(str(tmp_path / "ours"), MARK)
    if kind == "link to ours":
        (tmp_path / "it").symlink_to(tmp_path / "ours")
    elif kind == "file":
        (tmp_path / "it").write_text(json.dumps({"flushlab": "1", **MARK}))
    else:
        (tmp_path / "it").mkdir()
        mark = tmp_path / "it" / ownership.MARK
        if kind == "pipe as mark":
            os.mkfifo(mark)
        elif kind == "folder as mark":
            mark.mkdir()
        else:
            mark.symlink_to(tmp_path / "ours" / ownership.MARK)
    before = tree(tmp_path)
    assert not ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert not ownership.remove(str(tmp_path / "it"), what="sandbox", name="it")
    assert tree(tmp_path) == before


def test_proof_other_than_the_token_will_do(tmp_path: Path) -> None:
    ownership.make(str(tmp_path / "it"), MARK)
    assert not ownership.remove(str(tmp_path / "it"), what="snapshot", name="it")
    assert ownership.remove(str(tmp_path / "it"), what="sandbox", name="it")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [{}, {ownership.MARK: ""}, {ownership.MARK: '{"flush'}])
def test_what_a_kill_left_before_the_mark_was_whole_goes(tmp_path: Path, content: dict[str, str]) -> None:
    (tmp_path / LIMBO).mkdir()
    for name, text in content.items():
        (tmp_path / LIMBO / name).write_text(text)
    assert ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert list(tmp_path.iterdir()) == []


def test_passing_name_with_somebodys_files_and_no_mark_is_left(tmp_path: Path) -> None:
    (tmp_path / LIMBO).mkdir()
    (tmp_path / LIMBO / "file").write_text("precious")
    ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert (tmp_path / LIMBO / "file").read_text() == "precious"


KILLED = """
import os, sys
sys.path.append(sys.argv[4])
import ownership
calls = 0
def deadly(function):
    def call(*args, **named):
        global calls
        calls += 1
        if calls > int(sys.argv[2]):
            os._exit(9)
        return function(*args, **named)
    return call
for name in ("mkdir", "open", "write", "fchmod", "rename", "unlink", "rmdir"):
    setattr(os, name, deadly(getattr(os, name)))
ownership._libc = type("Libc", (), {"renameat2": deadly(ownership._libc.renameat2)})
mark = {"what": "sandbox", "name": "it", "token": sys.argv[3]}
ownership.make(sys.argv[1], mark)
for name in ("a", "b"):
    with open(f"{sys.argv[1]}/{name}", "w"):
        pass
ownership.remove(sys.argv[1], token=sys.argv[3])
os._exit(0)
"""


def test_a_kill_at_any_moment_leaves_nothing_that_the_token_does_not_take(tmp_path: Path) -> None:
    for calls in range(100):
        home = tmp_path / str(calls)
        home.mkdir()
        (home / "it2").write_text("mine")
        command = [sys.executable, "-I", "-S", "-c", KILLED, str(home / "it"), str(calls), TOKEN]
        done = subprocess.run([*command, str(Path(ownership.__file__).parent)], check=False)
        assert ownership.remove(str(home / "it"), token=TOKEN)
        assert [path.name for path in home.iterdir()] == ["it2"], calls
        if done.returncode == 0:
            assert calls > 10, "every step was killed once"
            return
    pytest.fail("it never came to its end")
