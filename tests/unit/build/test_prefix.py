from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from flushlab.build import Build
from flushlab.build.apt import Package
from flushlab.build.prefix import origin, publish, unpacked_by
from flushlab.errors import NoSpace, ServerError, StorageError
from flushlab.machine import home
from tests.trees import tree

pytestmark = pytest.mark.usefixtures("private_home")

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


def test_published_build_has_its_final_paths(private_home: Path) -> None:
    made = publish("maven-x", fill)
    assert made.prefix == str(private_home / "builds" / "maven-x")
    assert Path(made.mysqld).read_text() == "a server"
    assert made.library_path == (f"{made.prefix}/lib",)
    assert list(unpacked_by("maven").builds) == [made]


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


def test_what_a_build_was_made_of_is_recorded() -> None:
    made = publish("maven-x", fill)
    assert origin(made) == tuple(ORIGIN)
    assert origin(msgspec.structs.replace(made, prefix="/usr")) == ()


def test_room_that_is_needed_is_asked_for_first(private_home: Path) -> None:
    with pytest.raises(NoSpace, match="a server needs"):
        publish("maven-x", fill, needed_bytes=1 << 60)
    assert list(unpacked_by("maven").builds) == []


def test_published_build_is_not_made_again() -> None:
    made = publish("maven-x", fill)

    def never(prefix: Path) -> tuple[Build, list[Package]]:
        raise AssertionError("it already exists")

    assert publish("maven-x", never) == made


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


def test_prefix_without_its_server_is_no_build_and_is_made_again() -> None:
    made = publish("maven-x", fill)
    Path(made.mysqld).unlink()
    assert list(unpacked_by("maven").builds) == []
    assert publish("maven-x", fill) == made
    assert list(unpacked_by("maven").builds) == [made]


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


def test_builds_of_other_sources_are_not_mixed_in() -> None:
    publish("maven-x", fill)
    assert list(unpacked_by("debian").builds) == []
