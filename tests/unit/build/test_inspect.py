"""Builds are told from what the binary prints; scripts play the binaries, with real servers' output."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from flushlab.build.inspect import (
    debian_packages,
    inspect,
    inspect_once,
    library_in,
    library_missing,
    missing_libraries,
    refused,
    verbose_help,
)
from flushlab.build.tarball import build_in
from flushlab.errors import BuildNotFound, LibraryMissing, ServerError
from flushlab.machine.confinement import available
from tests.unit.builds import MARIADB

INSPECT_MARIADB = "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)"
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
        (INSPECT_MARIADB, "mariadb@10.11.19", "10.11.19-MariaDB-0+deb12u1"),
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
    mysqld = says(tmp_path / "sbin" / "mariadbd", INSPECT_MARIADB)
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


# Pasted from mysqld 5.7.22 on a system without libaio1.
COMPLAINT = (
    "/opt/mysql/bin/mysqld: error while loading shared libraries: libaio.so.1: "
    "cannot open shared object file: No such file or directory\n"
)


@pytest.mark.parametrize(
    ("soname", "package"),
    [
        ("libaio.so.1", "libaio1"),
        ("liburing.so.2", "liburing2"),
        ("libpcre2-8.so.0", "libpcre2-8-0"),
        ("libssl.so.3", "libssl3"),
        ("libssl.so.1.0.0", "libssl1.0.0"),
        ("libstdc++.so.6", "libstdc++6"),
        ("libncurses.so.6", "libncurses6"),
    ],
)
def test_package_is_the_soname_as_debian_policy_spells_it(soname: str, package: str) -> None:
    assert debian_packages(soname) == (package, f"{package}t64")


def test_a_soname_with_t64_has_one_package() -> None:
    assert debian_packages("libaio.so.1t64") == ("libaio1t64",)


def test_what_is_no_library_has_no_package() -> None:
    assert debian_packages("ld-linux-x86-64.so.2") == ()


def test_missing_library_is_found_in_the_linkers_complaint() -> None:
    assert library_in(COMPLAINT) == "libaio.so.1"
    assert library_in("mysqld: unknown variable 'x'") is None


def test_error_names_library_and_package() -> None:
    error = library_missing("/opt/mysql/bin/mysqld", "libaio.so.1")
    assert (
        error.message == "/opt/mysql/bin/mysqld needs the shared library libaio.so.1, which is not installed"
    )
    assert error.hint == "install the package libaio1 (newer releases: libaio1t64)"
    assert error.exit_code == 3


def test_this_systems_own_programs_miss_nothing() -> None:
    assert missing_libraries([Path("/bin/sh")]) == []


def test_a_build_is_asked_about_the_same_options_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flushlab.build.inspect.confine", lambda _: None)
    program, asked = tmp_path / "mariadbd", tmp_path / "asked"
    program.write_text(
        f'#!/bin/sh\nshift 5\necho "$*" >> {asked}\ncase "$*" in *bad*) echo no >&2; exit 1;; esac\n'
    )
    program.chmod(0o755)
    build = replace(MARIADB, mysqld=str(program))
    for _ in range(2):
        assert not verbose_help(build).refuses
        assert refused(build, ["--good", "--bad"]) == {"--bad": "no\n"}
    assert asked.read_text().splitlines() == ["", "--good --bad", "--good", "--bad"]


@pytest.mark.skipif(not available(), reason="this kernel has no Landlock")
def test_what_it_is_asked_about_writes_nowhere(tmp_path: Path) -> None:
    program = tmp_path / "mariadbd"
    program.write_text(f"#!/bin/sh\necho x > {tmp_path}/made\n")
    program.chmod(0o755)
    assert verbose_help(replace(MARIADB, mysqld=str(program))).refuses
    assert not (tmp_path / "made").exists()
