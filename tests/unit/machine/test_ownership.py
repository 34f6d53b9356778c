"""Folders that have a mark, and every way in which a folder may look as if it had."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flushlab.machine import ownership
from tests.descriptors import descriptors
from tests.trees import tree

MARK = {"what": "sandbox", "name": "it", "token": "0123456789abcdef" * 2}
TOKEN = MARK["token"]
LIMBO = f".flushlab-{TOKEN}"


def test_folder_has_its_mark_and_its_mode(tmp_path: Path) -> None:
    ownership.make(str(tmp_path / "it"), MARK, 0o711)
    assert ownership.read_mark(str(tmp_path / "it")) == {"flushlab": "1", **MARK}
    assert json.loads((tmp_path / "it/.flushlab").read_text()) == {"flushlab": "1", **MARK}
    assert (tmp_path / "it").stat().st_mode & 0o777 == 0o711
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_others_do_not_see_into_a_folder_unless_it_is_asked_for(tmp_path: Path) -> None:
    ownership.make(str(tmp_path / "it"), MARK)
    assert (tmp_path / "it").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "it/.flushlab").stat().st_mode & 0o777 == 0o600


def test_a_new_token_serves_as_one_and_is_never_the_same(tmp_path: Path) -> None:
    token, other = ownership.new_token(), ownership.new_token()
    assert token != other
    ownership.make(str(tmp_path / "it"), {**MARK, "token": token})
    assert ownership.remove(str(tmp_path / "it"), token=token)


def test_a_folder_that_is_there_is_marked_once(tmp_path: Path) -> None:
    ownership.mark_existing(str(tmp_path), MARK)
    assert ownership.read_mark(str(tmp_path)) == {"flushlab": "1", **MARK}
    with pytest.raises(FileExistsError):
        ownership.mark_existing(str(tmp_path), {**MARK, "token": "f" * 32})
    assert ownership.read_mark(str(tmp_path)) == {"flushlab": "1", **MARK}


def test_a_link_or_a_pipe_is_neither_marked_nor_read_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError):
            ownership.mark_existing(str(tmp_path / name), MARK)
    assert list((tmp_path / "mine").iterdir()) == []
    ownership.mark_existing(str(tmp_path / "mine"), MARK)
    assert ownership.read_mark(str(tmp_path / "link")) is None
    assert ownership.read_mark(str(tmp_path / "pipe")) is None


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = descriptors()
    ownership.make(str(tmp_path / "it"), MARK)
    (tmp_path / "it/folder").mkdir()
    assert not ownership.remove(str(tmp_path / "it"), token="f" * 32)
    assert ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert not descriptors() - before


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


def test_a_user_without_privileges_removes_a_sealed_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.chdir(tmp_path)  # its parents are closed to others
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            ownership.make("./it", MARK)
            Path("it/data").mkdir()
            Path("it/data/file").touch()
            Path("it/data").chmod(0o500)
            code = 0 if ownership.remove("./it", token=TOKEN) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["folder", "link to ours"])
def test_what_takes_its_place_in_the_last_moment_gets_its_name_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    ownership.make(str(tmp_path / "it"), MARK)
    if what == "folder":
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious/file").write_text("data")
    else:
        (tmp_path / "precious").symlink_to("elsewhere")
    rename = os.rename

    def exchanged(*names: Any, **folders: Any) -> None:
        monkeypatch.setattr(os, "rename", rename)
        rename(tmp_path / "it", tmp_path / "elsewhere")
        rename(tmp_path / "precious", tmp_path / "it")
        rename(*names, **folders)

    monkeypatch.setattr(os, "rename", exchanged)
    assert not ownership.remove(str(tmp_path / "it"), token=TOKEN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "it"]
    if what == "folder":
        assert (tmp_path / "it/file").read_text() == "data"
    else:
        assert str((tmp_path / "it").readlink()) == "elsewhere"


class Mounts:
    """The kernel's answers: what is mounted where, and why it cannot be taken off."""

    def __init__(self, mounted: list[str], code: int = errno.EINVAL) -> None:
        self.mounted, self.code = mounted, code

    def umount2(self, there: bytes, flags: int) -> int:
        assert flags == 0x2 | 0x8, "MNT_DETACH | UMOUNT_NOFOLLOW of mount.h"
        if there.decode() in self.mounted:
            self.mounted.remove(there.decode())
            return 0
        ctypes.set_errno(self.code)
        return -1


def test_everything_at_a_point_of_ours_is_taken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = str(tmp_path / "it")
    ownership.make(it, MARK)
    mounts = Mounts([f"{it}/mount", f"{it}/mount", f"{it}/other"])
    monkeypatch.setattr(ownership, "_libc", mounts)
    ownership.unmount([it], [f"{it}/mount", f"{it}/gone"], TOKEN)
    assert mounts.mounted == [f"{it}/other"]


def test_what_is_mounted_in_a_folder_with_the_passing_name_is_taken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limbo = str(tmp_path / LIMBO)
    ownership.make(str(tmp_path / "it"), MARK)
    (tmp_path / "it").rename(limbo)
    mounts = Mounts([f"{limbo}/mount"])
    monkeypatch.setattr(ownership, "_libc", mounts)
    ownership.unmount([str(tmp_path / "it")], [str(tmp_path / "it/mount")], TOKEN)
    assert mounts.mounted == []


def test_nothing_is_taken_off_outside_of_our_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, theirs, bare = (str(tmp_path / name) for name in ("it", "theirs", "bare"))
    ownership.make(it, MARK)
    ownership.make(theirs, {**MARK, "token": "f" * 32})
    (tmp_path / "bare").mkdir()
    mounted = [f"{theirs}/mount", f"{bare}/mount", f"{it}/deep/mount"]
    mounts = Mounts([*mounted])
    monkeypatch.setattr(ownership, "_libc", mounts)
    ownership.unmount([it, theirs, bare], mounted, TOKEN)
    ownership.unmount([it], [f"{it}/deep/mount"], TOKEN)
    mounts.mounted.append(f"{it}/mount")
    ownership.unmount([], [f"{it}/mount"], TOKEN)
    assert mounts.mounted == [*mounted, f"{it}/mount"]


def test_a_mount_that_stays_is_an_error_and_a_folder_without_one_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = str(tmp_path / "it")
    ownership.make(it, MARK)
    (tmp_path / "it/proc").symlink_to("/proc")  # another file system
    (tmp_path / "it/plain").mkdir()
    monkeypatch.setattr(ownership, "_libc", Mounts([], errno.EPERM))
    ownership.unmount([it], [f"{it}/plain", f"{it}/gone"], TOKEN)
    with pytest.raises(PermissionError) as raised:
        ownership.unmount([it], [f"{it}/proc"], TOKEN)
    assert raised.value.filename == f"{it}/proc"
    monkeypatch.setattr(ownership, "_libc", Mounts([], errno.EINVAL))
    ownership.unmount([it], [f"{it}/proc"], TOKEN)


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
    (tmp_path / "file").touch()
    assert ownership.remove(str(tmp_path / "file/it"), token=TOKEN)


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


@pytest.mark.parametrize(
    "token",
    ["", "f" * 31, "f" * 33, "F" * 32, "f" * 31 + "~", "f" * 31 + "\n", "../../../../etc", ["f"] * 32],
)
def test_a_mark_without_a_proper_token_proves_nothing(tmp_path: Path, token: object) -> None:
    (tmp_path / "it").mkdir()
    mark = {"flushlab": "1", **MARK, "token": token}
    (tmp_path / "it" / ownership.MARK).write_text(json.dumps(mark))
    before = tree(tmp_path)
    assert ownership.read_mark(str(tmp_path / "it")) is None
    assert not ownership.remove(str(tmp_path / "it"), what="sandbox", name="it")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "kind",
    ["link to ours", "dangling link", "file", "pipe", "pipe as mark", "folder as mark", "link as mark"],
)
def test_look_alikes_are_left(tmp_path: Path, kind: str) -> None:
    ownership.make(str(tmp_path / "ours"), MARK)
    if kind == "link to ours":
        (tmp_path / "it").symlink_to(tmp_path / "ours")
    elif kind == "dangling link":
        (tmp_path / "it").symlink_to("nowhere")
    elif kind == "file":
        (tmp_path / "it").write_text(json.dumps({"flushlab": "1", **MARK}))
    elif kind == "pipe":
        os.mkfifo(tmp_path / "it")
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
import contextlib, os, sys
sys.path.append(sys.argv[4])
import ownership
calls, scandir = 0, os.scandir
@contextlib.contextmanager
def mark_first(folder):
    with scandir(folder) as found:
        yield sorted(found, key=lambda entry: entry.name)
os.scandir = mark_first
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
