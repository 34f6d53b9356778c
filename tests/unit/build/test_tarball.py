from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flushlab.build import find_build, list_builds
from flushlab.build.prefix import origin
from flushlab.build.tarball import ArchiveAddress, _fetch, build_from, is_address, parse_address
from flushlab.errors import BuildNotFound, ServerError, UsageError
from flushlab.progress import silent

pytestmark = pytest.mark.usefixtures("private_home")

NAME = "mysql-8.4.6-linux-glibc2.28-x86_64"
SAYS = "mysqld  Ver 8.4.6 for Linux on x86_64 (MySQL Community Server - GPL)"
DIGEST = "0123456789abcdef" * 4


def pack(file: Path, *, says: str = SAYS, top: str = NAME) -> Path:
    """A distribution as official tarballs are, with a script for a server."""
    tree = file.parent / f"tree of {file.name}" / top
    (tree / "bin").mkdir(parents=True, exist_ok=True)
    (tree / "share" / "english").mkdir(parents=True, exist_ok=True)
    (tree / "share" / "english" / "errmsg.sys").touch()
    (tree / "bin" / "mysqld").write_text(f"#!/bin/sh\necho '{says}'; id -u > /dev/null\n")
    (tree / "bin" / "mysqld").chmod(0o755)
    with tarfile.open(file, "w:gz") as archive:
        archive.add(tree, top)
    return file


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    return pack(tmp_path / f"{NAME}.tar.gz")


def hash_of(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("/opt/mysql.tar.xz", True),
        ("mysql-8.4.6.tar.xz", True),
        (f"mysql.tgz#sha256={DIGEST}", True),
        ("https://host/x", True),
        ("./mysql", True),
        ("mysql@8.4", False),
        ("mysql-5.7.22-11418b78308a", False),
    ],
)
def test_paths_and_urls_are_told_from_names(name: str, is_one: bool) -> None:
    assert is_address(name) is is_one


def test_address_and_hash_are_taken_apart() -> None:
    address = parse_address(f"https://host/a/mysql%2D8.tar.xz?token=secret#sha256={DIGEST.upper()}")
    assert (address.file, address.sha256, address.is_url) == ("mysql-8.tar.xz", DIGEST, True)
    assert parse_address("/a/b#c.tar").text == "/a/b#c.tar"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/a.tar#sha256=12", "'12' is not a SHA-256"),
        ("ftp://host/a.tar", "cannot be fetched from ftp://"),
        ("https://", "cannot be fetched from https://"),
        ("http://host/a.tar", "over http needs its SHA-256"),
        ("https://me:secret@host/a.tar", r"a user or a password \(https://…@host\)"),
    ],
)
def test_address_that_is_none_is_a_usage_error(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        find_build(name)
    assert "secret" not in caught.value.message


def test_server_in_a_tarball_becomes_a_build(tarball: Path) -> None:
    said: list[str] = []
    build = find_build(str(tarball), progress=said.append)
    assert (build.name, build.source) == ("mysql@8.4.6", "tarball")
    assert build.mysqld == f"{build.prefix}/{NAME}/bin/mysqld"
    assert build.share == f"{build.prefix}/{NAME}/share"
    assert hash_of(tarball)[:32] in build.prefix
    assert [(file.file, file.sha256) for file in origin(build)] == [(tarball.name, hash_of(tarball))]
    assert said == [f"computing the SHA-256 of {tarball.name}", f"unpacking {tarball.name}"]


def test_it_is_unpacked_once_and_found_by_its_name_too(tarball: Path) -> None:
    build = find_build(str(tarball))
    said: list[str] = []
    assert find_build(str(tarball), progress=said.append) == build
    assert said == []
    assert build in list_builds()
    assert find_build("mysql@8.4.6") == build
    twin = tarball.rename(tarball.with_name("twin.tar.gz"))
    assert find_build(str(twin), progress=said.append) == build
    assert said == ["computing the SHA-256 of twin.tar.gz"]


def test_file_that_has_changed_is_another_build(tarball: Path) -> None:
    old = find_build(str(tarball))
    before = tarball.stat()
    pack(tarball, says=SAYS.replace("8.4.6", "8.4.7"))
    os.utime(tarball, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert find_build(str(tarball)).name == "mysql@8.4.7"
    assert Path(old.mysqld).is_file()


def test_content_must_be_what_its_hash_says(tarball: Path) -> None:
    assert find_build(f"{tarball}#sha256={hash_of(tarball)}").name == "mysql@8.4.6"
    for _ in range(2):
        with pytest.raises(ServerError, match=rf"has SHA-256 {hash_of(tarball)}, but expected {DIGEST}"):
            find_build(f"{tarball}#sha256={DIGEST}")


def test_tarball_of_a_prefix_without_a_folder_of_its_own_will_do(tmp_path: Path) -> None:
    build = find_build(str(pack(tmp_path / "flat.tgz", top=".")))
    assert build.mysqld == f"{build.prefix}/bin/mysqld"


def test_tarball_without_a_server_is_refused_and_leaves_nothing(tmp_path: Path, private_home: Path) -> None:
    file = tmp_path / "source.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(__file__, "mysql/README")
    with pytest.raises(BuildNotFound, match=r"source\.tar\.gz contains no server"):
        find_build(str(file))
    assert list((private_home / "builds").glob("tarball-*")) == []


def test_absent_file_and_folder_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(BuildNotFound, match=r"there is no .*missing\.tar\.xz"):
        find_build(str(tmp_path / "missing.tar.xz"))
    with pytest.raises(BuildNotFound, match="is a directory") as caught:
        find_build(str(tmp_path))
    assert caught.value.hint == f"use an unpacked server with --basedir {tmp_path}"


def test_nothing_is_unpacked_if_that_is_not_wanted(tarball: Path) -> None:
    with pytest.raises(BuildNotFound, match="is not unpacked yet"):
        find_build(str(tarball), get=False)
    build = find_build(str(tarball))
    assert find_build(str(tarball), get=False) == build


def test_server_for_a_newer_system_says_so(tmp_path: Path) -> None:
    complaint = (
        "/x/mysqld: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.99' not found (required by /x/mysqld)"
    )
    file = pack(tmp_path / "new.tar.gz", says=SAYS)
    tree = tmp_path / "tree of new.tar.gz" / NAME
    (tree / "bin" / "mysqld").write_text(f'#!/bin/sh\ncat >&2 <<"END"\n{complaint}\nEND\nexit 1\n')
    with tarfile.open(file, "w:gz") as archive:
        archive.add(tree, NAME)
    with pytest.raises(ServerError, match=r"built for a newer system: libc\.so\.6 here lacks GLIBC 2\.99"):
        find_build(str(file))


@pytest.fixture
def site(tarball: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serves the tarball's folder on loopback; `/broken` promises more than it sends."""

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved.tar.gz":
                self.send_response(302)
                self.send_header("Location", f"/{NAME}.tar.gz")
                self.end_headers()
                return
            if self.path != "/broken.tar.gz":
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"half of it")

        def log_message(self, format: str, *args: object) -> None:
            pass

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tarball.parent))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_tarball_is_fetched_from_its_url_once(site: str, tarball: Path) -> None:
    said: list[str] = []
    url = f"{site}/{tarball.name}#sha256={hash_of(tarball)}"
    build = find_build(url, progress=said.append)
    assert build.name == "mysql@8.4.6"
    assert said[0] == f"fetching {tarball.name}"
    tarball.unlink()
    assert find_build(url) == build


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{NAME}.tar.gz", f"has SHA-256 [0-9a-f]{{64}}, but expected {DIGEST}"),
        ("missing.tar.gz", r"missing\.tar\.gz could not be fetched: HTTP Error 404"),
        (
            "broken.tar.gz",
            r"broken\.tar\.gz.*: (IncompleteRead|the connection broke after 10 of 1000000 bytes)",
        ),
    ],
)
def test_what_is_fetched_must_be_there_whole_and_as_its_hash_says(site: str, path: str, message: str) -> None:
    with pytest.raises(ServerError, match=message):
        find_build(f"{site}/{path}#sha256={DIGEST}")
    assert list_builds() == [one for one in list_builds() if one.source != "tarball"]


def test_redirection_to_what_is_not_https_is_followed_only_with_a_hash(site: str, tarball: Path) -> None:
    assert find_build(f"{site}/moved.tar.gz#sha256={hash_of(tarball)}").name == "mysql@8.4.6"
    address = ArchiveAddress(text=f"{site}/moved.tar.gz")
    with pytest.raises(ServerError, match="redirects to an address that is not https"):
        _fetch(address, io.BytesIO(), tarball.parent, silent)


def test_tarball_that_cannot_be_fetched_names_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ServerError, match=r"x\.tar\.gz could not be fetched") as caught:
        build_from(f"http://127.0.0.1:9/x.tar.gz?token=secret#sha256={DIGEST}", silent)
    assert "secret" not in caught.value.message
