"""Builds are told from what the binary prints; scripts play the binaries, with real servers' output."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.build.inspect import inspect, inspect_once
from flushlab.build.tarball import build_in
from flushlab.errors import BuildNotFound, LibraryMissing, ServerError

MARIADB = "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)"
MYSQL_57 = "/opt/mysql/bin/mysqld  Ver 5.7.22 for Linux on x86_64 (MySQL Community Server (GPL))"
MYSQL_80 = "/opt/mysql/bin/mysqld  Ver 8.0.15 for Linux on x86_64 (MySQL Community Server - GPL)"


def program(file: Path, script: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def says(file: Path, line: str) -> Path:
    return program(file, f"echo '{line}'")


@pytest.mark.parametrize(
    ("line", "name", "text"),
    [
        (MARIADB, "mariadb@10.11.19", "10.11.19-MariaDB-0+deb12u1"),
        (MYSQL_57, "mysql@5.7.22", "5.7.22"),
        (MYSQL_80, "mysql@8.0.15", "8.0.15"),
    ],
)
def test_flavor_and_version_are_what_the_binary_says(tmp_path: Path, line: str, name: str, text: str) -> None:
    build = inspect(says(tmp_path / "bin" / "mysqld", line), source="basedir", prefix=tmp_path)
    assert (build.name, build.version_text) == (name, text)


def test_id_changes_with_the_binary_and_is_a_file_name(tmp_path: Path) -> None:
    mysqld = says(tmp_path / "bin" / "mysqld", MYSQL_57)
    first = inspect(mysqld, source="basedir", prefix=tmp_path)
    program(mysqld, f"echo '{MYSQL_57}' # patched")
    second = inspect(mysqld, source="basedir", prefix=tmp_path)
    assert first.id.startswith("mysql-5.7.22-")
    assert len(first.id) == len("mysql-5.7.22-") + 12
    assert first.id != second.id
    assert "/" not in first.id


def test_parts_beside_the_binary_are_found(tmp_path: Path) -> None:
    mysqld = says(tmp_path / "sbin" / "mariadbd", MARIADB)
    install = says(tmp_path / "bin" / "mariadb-install-db", "")
    client = says(tmp_path / "bin" / "mariadb", "")
    messages = tmp_path / "share" / "mysql" / "english" / "errmsg.sys"
    messages.parent.mkdir(parents=True)
    messages.touch()
    build = inspect(mysqld, source="basedir", prefix=tmp_path)
    assert (build.install_db, build.client) == (str(install), str(client))
    assert build.share == str(tmp_path / "share" / "mysql")


def test_missing_library_is_named(tmp_path: Path) -> None:
    complaint = "mysqld: error while loading shared libraries: libaio.so.1: cannot open shared object file"
    mysqld = program(tmp_path / "bin" / "mysqld", f"echo '{complaint}' >&2; exit 127")
    with pytest.raises(LibraryMissing, match=r"libaio\.so\.1") as caught:
        inspect(mysqld, source="basedir", prefix=tmp_path)
    assert caught.value.hint is not None
    assert "libaio1" in caught.value.hint


def test_server_for_a_newer_system_says_what_is_too_old(tmp_path: Path) -> None:
    # Pasted from Debian 13's mariadbd 11.8.6 on Debian 12, with the program's path left out.
    complaint = (
        "mariadbd: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.38' not found (required by mariadbd)\n"
        "mariadbd: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found"
        " (required by mariadbd)"
    )
    mysqld = program(tmp_path / "bin" / "mysqld", f'cat >&2 <<"END"\n{complaint}\nEND\nexit 1')
    with pytest.raises(LibraryMissing, match=r"newer system: libm\.so\.6 here lacks GLIBC 2\.38"):
        inspect(mysqld, source="basedir", prefix=tmp_path)


def test_program_that_is_no_server_is_refused(tmp_path: Path) -> None:
    mysqld = says(tmp_path / "bin" / "mysqld", "hello")
    with pytest.raises(ServerError, match="printed no server version: 'hello"):
        inspect(mysqld, source="basedir", prefix=tmp_path)


def test_program_for_another_processor_is_refused(tmp_path: Path) -> None:
    mysqld = tmp_path / "bin" / "mysqld"
    mysqld.parent.mkdir()
    mysqld.write_bytes(b"\x7fELF nonsense")
    mysqld.chmod(0o755)
    with pytest.raises(ServerError, match="cannot be executed"):
        inspect(mysqld, source="basedir", prefix=tmp_path)


@pytest.mark.usefixtures("private_home")
def test_binary_is_asked_once(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    mysqld = program(tmp_path / "bin" / "mysqld", f"echo x >> {asked}; echo '{MYSQL_57}'")
    first = inspect_once(mysqld, source="path", prefix=tmp_path)
    assert inspect_once(mysqld, source="path", prefix=tmp_path) == first
    assert asked.read_text() == "x\n"


@pytest.mark.usefixtures("private_home")
def test_changed_binary_is_asked_again(tmp_path: Path) -> None:
    mysqld = says(tmp_path / "bin" / "mysqld", MYSQL_57)
    inspect_once(mysqld, source="path", prefix=tmp_path)
    says(mysqld, MYSQL_80 + " ")
    assert inspect_once(mysqld, source="path", prefix=tmp_path).name == "mysql@8.0.15"


@pytest.mark.usefixtures("private_home")
def test_basedir_is_searched_for_its_server(tmp_path: Path) -> None:
    says(tmp_path / "bin" / "mysqld", MYSQL_57)
    build = build_in(tmp_path)
    assert (build.name, build.source, build.prefix) == ("mysql@5.7.22", "basedir", str(tmp_path))


def test_basedir_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildNotFound, match="contains no server"):
        build_in(tmp_path)
    with pytest.raises(BuildNotFound, match="is not a directory"):
        build_in(tmp_path / "missing")
