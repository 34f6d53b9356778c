from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.build.inspect import debian_packages, library_in, library_missing, missing_libraries

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
