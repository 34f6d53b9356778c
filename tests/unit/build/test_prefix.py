from __future__ import annotations

import io
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import zstandard

from flushlab.build import Build, prefix
from flushlab.build.apt import Package
from flushlab.build.prefix import origin, publish, unpacked_by
from flushlab.errors import NoSpace, ServerError, StorageError
from flushlab.machine import home
from tests.trees import tree

ORIGIN = [Package(file="server.deb", sha256="0" * 64)]


def fill(prefix: Path) -> tuple[Build, list[Package]]:
    mysqld = prefix / "bin" / "mysqld"
    mysqld.parent.mkdir()
    mysqld.write_text("a server")
    found = Build(
        flavor="mysql",
        version=(5, 7, 22),
        version_text="5.7.22",
        source="maven",
        prefix=str(prefix),
        mysqld=str(mysqld),
        library_path=(str(prefix / "lib"),),
        id="mysql-5.7.22-0123456789ab",
    )
    return found, ORIGIN


@pytest.mark.usefixtures("private_home")
def test_published_build_has_its_final_paths(private_home: Path) -> None:
    made = publish("maven-x", fill)
    assert made.prefix == str(private_home / "builds" / "maven-x")
    assert Path(made.mysqld).read_text() == "a server"
    assert made.library_path == (f"{made.prefix}/lib",)
    assert list(unpacked_by("maven").builds) == [made]


@pytest.mark.usefixtures("private_home")
def test_a_home_behind_a_link_has_its_builds(
    private_home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    def resolved(prefix: Path) -> tuple[Build, list[Package]]:
        return fill(prefix.resolve())  # as `inspect` tells them

    link = private_home.with_name(f"{private_home.name}-link")  # where the servers' user may enter
    link.symlink_to(private_home)
    request.addfinalizer(link.unlink)
    monkeypatch.setenv("FLUSHLAB_HOME", str(link))
    made = publish("maven-x", resolved)
    assert Path(made.mysqld).read_text() == "a server"
    assert list(unpacked_by("maven").builds) == [made]


@pytest.mark.usefixtures("private_home")
def test_what_a_build_was_made_of_is_recorded() -> None:
    made = publish("maven-x", fill)
    assert origin(made) == tuple(ORIGIN)
    assert origin(msgspec.structs.replace(made, prefix="/usr")) == ()


@pytest.mark.usefixtures("private_home")
def test_room_that_is_needed_is_asked_for_first(private_home: Path) -> None:
    with pytest.raises(NoSpace, match="a server needs"):
        publish("maven-x", fill, needed_bytes=1 << 60)
    assert list(unpacked_by("maven").builds) == []


@pytest.mark.usefixtures("private_home")
def test_published_build_is_not_made_again() -> None:
    made = publish("maven-x", fill)

    def never(prefix: Path) -> tuple[Build, list[Package]]:
        raise AssertionError("it already exists")

    assert publish("maven-x", never) == made


@pytest.mark.usefixtures("private_home")
def test_failed_fill_leaves_nothing(private_home: Path) -> None:
    def fail(prefix: Path) -> tuple[Build, list[Package]]:
        (prefix / "half").write_text("half of it")
        raise ServerError("the network is gone")

    with pytest.raises(ServerError):
        publish("maven-x", fail)
    assert list(unpacked_by("maven").builds) == []
    assert [file.name for file in (private_home / "builds").iterdir()] == [".maven-x.lock"]


KILLED = """
import os
from flushlab.build.prefix import publish
publish("maven-x", lambda prefix: os._exit(9))
"""


@pytest.mark.usefixtures("private_home")
def test_left_over_of_a_killed_fill_is_removed_and_what_only_looks_like_one_is_not(
    private_home: Path,
) -> None:
    look_alike = private_home / "builds/flushlab-build-00000000"
    subprocess.run([sys.executable, "-c", KILLED], check=False)
    (left_over,) = (private_home / "builds").glob("flushlab-build-*")
    look_alike.mkdir()
    publish("maven-x", fill)
    assert not left_over.exists()
    assert look_alike.exists()


@pytest.mark.usefixtures("private_home")
@pytest.mark.parametrize("there", ["folder", "empty folder", "file", "dangling link"])
def test_what_is_in_a_builds_place_is_refused_and_left(private_home: Path, there: str) -> None:
    place = home() / "builds/maven-x"
    place.parent.mkdir()
    if "folder" in there:
        place.mkdir()
    if there == "folder":
        (place / "build.json").write_text("{}")
    elif there == "file":
        place.write_text("mine")
    elif there == "dangling link":
        place.symlink_to("nowhere")
    before = tree(private_home / "builds")
    with pytest.raises(StorageError, match="flushlab did not make it"):
        publish("maven-x", fill)
    after = tree(private_home / "builds")
    assert {name: after[name] for name in before} == before


@pytest.mark.usefixtures("private_home")
def test_prefix_without_its_server_is_no_build_and_is_made_again() -> None:
    made = publish("maven-x", fill)
    Path(made.mysqld).unlink()
    assert list(unpacked_by("maven").builds) == []
    assert publish("maven-x", fill) == made
    assert list(unpacked_by("maven").builds) == [made]


@pytest.mark.usefixtures("private_home")
def test_two_at_once_make_it_once() -> None:
    made: list[Path] = []
    started = threading.Barrier(2)

    def count(prefix: Path) -> tuple[Build, list[Package]]:
        made.append(prefix)
        return fill(prefix)

    def work() -> None:
        started.wait()
        publish("maven-x", count)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


@pytest.mark.usefixtures("private_home")
def test_builds_of_other_sources_are_not_mixed_in() -> None:
    publish("maven-x", fill)
    assert list(unpacked_by("debian").builds) == []


Members = list[tarfile.TarInfo]


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.uid = info.gid = 12345
    info.size = 4 if kind == tarfile.REGTYPE else 0
    return info


Mode = Literal["w", "w:gz", "w:xz", "w:bz2"]


def archive(*members: tarfile.TarInfo, mode: Mode = "w") -> io.BytesIO:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as file:
        for info in members:
            file.addfile(info, io.BytesIO(b"text") if info.isreg() else None)
    content.seek(0)
    return content


def symlink(name: str, to: str) -> tarfile.TarInfo:
    return member(name, tarfile.SYMTYPE, to)


def folder(name: str) -> tarfile.TarInfo:
    return member(name, tarfile.DIRTYPE, mode=0o755)


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[..., Path]:
    """Unpacks members into a folder and returns it."""
    into = tmp_path / "outside" / "prefix"
    into.mkdir(parents=True)

    def go(*members: tarfile.TarInfo, mode: Mode = "w") -> Path:
        prefix.unpack_tar(archive(*members, mode=mode), into, name="it.tar")
        return into

    return go


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_each_format_is_told_from_its_content(unpacked: Callable[..., Path], mode: Mode) -> None:
    assert (unpacked(member("a/b"), mode=mode) / "a" / "b").read_text() == "text"


def test_zstandard_is_unpacked_and_what_is_cut_off_is_an_error(tmp_path: Path) -> None:
    packed = zstandard.compress(archive(member("a"), member("b")).getvalue())
    prefix.unpack_tar(io.BytesIO(packed), tmp_path, name="it.tar.zst")
    assert (tmp_path / "a").read_text() == "text"
    for broken in (packed[:-20], packed[:30] + b"!" + packed[31:]):
        with pytest.raises(ServerError, match=r"it\.tar\.zst cannot be unpacked"):
            prefix.unpack_tar(io.BytesIO(broken), tmp_path, name="it.tar.zst")


def test_links_inside_are_kept(unpacked: Callable[..., Path]) -> None:
    into = unpacked(
        folder("top/lib"),
        member("top/lib/libx.so.1"),
        symlink("top/lib/libx.so", "libx.so.1"),
        symlink("top/bin/lib", "../lib"),
        member("top/twin", tarfile.LNKTYPE, "top/lib/libx.so.1"),
    )
    assert (into / "top" / "bin" / "lib" / "libx.so").read_text() == "text"
    assert (into / "top" / "twin").samefile(into / "top" / "lib" / "libx.so.1")


def test_programs_stay_executable_and_lose_what_is_dangerous(unpacked: Callable[..., Path]) -> None:
    into = unpacked(member("mysqld", mode=0o6777), member("text", mode=0o600))
    assert stat.S_IMODE((into / "mysqld").stat().st_mode) == 0o755
    assert stat.S_IMODE((into / "text").stat().st_mode) == 0o644
    assert (into / "mysqld").stat().st_uid == into.stat().st_uid


@pytest.mark.usefixtures("strict_umask")
def test_folders_are_open_to_the_servers_user_whatever_the_umask(unpacked: Callable[..., Path]) -> None:
    into = unpacked(folder("said"), member("said/x"), member("implied/deeper/x"))
    made = [one for one in into.rglob("*") if one.is_dir()]
    assert {one.stat().st_mode & 0o777 for one in made} == {0o755} and len(made) == 3


def test_member_that_comes_twice_is_the_later_one(unpacked: Callable[..., Path]) -> None:
    into = unpacked(member("victim"), symlink("a", "victim"), member("a"))
    assert not (into / "a").is_symlink()


@pytest.mark.parametrize(
    "members",
    [
        [member("/etc/evil")],
        [member("../evil")],
        [member("a/../../evil")],
        [symlink("a", "/etc")],
        [symlink("a", "../..")],
        [symlink("a/b", "../../evil")],
        [symlink("a", ".."), member("a/evil")],
        [symlink("here", "."), symlink("here/a", ".."), member("a/evil")],
        [symlink("a", "later/.."), symlink("later", "."), member("a/evil")],
        [symlink("a", "later/.."), symlink("later", ".")],
        [symlink("a", "a"), member("a/evil")],
        [member("a", tarfile.LNKTYPE, "/etc/passwd")],
        [member("a", tarfile.LNKTYPE, "../evil")],
        [symlink("a", "nothing"), member("b", tarfile.LNKTYPE, "a")],
        [member("a", tarfile.CHRTYPE)],
        [member("a", tarfile.BLKTYPE)],
        [member("a", tarfile.FIFOTYPE)],
    ],
    ids=lambda members: ", ".join(
        f"{one.name}→{one.linkname}" if one.linkname else one.name for one in members
    ),
)
def test_hostile_member_is_refused_and_nothing_lies_outside(
    unpacked: Callable[..., Path], tmp_path: Path, members: Members
) -> None:
    with pytest.raises(ServerError, match=r"^it\.tar (is refused|cannot be unpacked)"):
        unpacked(member("fine"), *members)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["prefix"]


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2"])
def test_archive_that_is_cut_off_is_an_error(tmp_path: Path, mode: Mode) -> None:
    content = archive(*(member(f"file{number}") for number in range(50)), mode=mode).getvalue()
    for length in (len(content) // 2, len(content) - 1):
        with pytest.raises(ServerError, match=r"it\.tar cannot be unpacked"):
            prefix.unpack_tar(io.BytesIO(content[:length]), tmp_path, name="it.tar")


def test_what_is_no_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"cannot be unpacked") as caught:
        prefix.unpack_tar(io.BytesIO(b"<html>not found</html>" * 100), tmp_path, name="it.tar.gz")
    assert caught.value.hint is not None
    assert "not a complete tar archive" in caught.value.hint


def test_archive_of_too_much_is_refused(
    unpacked: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix, "MAX_BYTES", 7)
    with pytest.raises(ServerError, match="unpacks to more than"):
        unpacked(member("a"), member("b"))
