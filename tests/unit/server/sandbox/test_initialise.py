from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.errors import StartFailed
from flushlab.server.sandbox.contents import _command

BUILD = Build(
    flavor="mariadb",
    version=(11, 8, 6),
    version_text="11.8.6-MariaDB",
    source="debian",
    prefix="/opt/it",
    mysqld="/opt/it/usr/sbin/mariadbd",
    install_db="/opt/it/usr/bin/mariadb-install-db",
    id="mariadb-11.8.6-0123456789ab",
)


def command(**changes: object) -> list[str]:
    fields = {field: getattr(BUILD, field) for field in BUILD.__struct_fields__}
    return _command(Build(**{**fields, **changes}), Path("/o"), Path("/d"), Path("/s"))


def test_mariadb_is_initialised_by_its_own_program() -> None:
    words = command()
    assert words[0] == "/opt/it/usr/bin/mariadb-install-db"
    assert "--basedir=/opt/it/usr" in words
    assert "--datadir=/d" in words


def test_programs_that_need_a_launcher_are_started_by_the_scripts_that_have_it() -> None:
    words = command(launcher=("/opt/it/ld.so",), install_db="/opt/it/launch/bin/mariadb-install-db")
    assert words[0] == "/opt/it/launch/bin/mariadb-install-db"
    assert "--basedir=/opt/it/launch" in words


def test_mysql_initialises_itself_behind_its_launcher() -> None:
    words = command(
        flavor="mysql", launcher=("/opt/it/ld.so", "--library-path", "/opt/it/lib"), install_db=None
    )
    assert words[:4] == ["/opt/it/ld.so", "--library-path", "/opt/it/lib", "/opt/it/usr/sbin/mariadbd"]
    assert "--initialize-insecure" in words


def test_mariadb_without_its_program_is_an_error() -> None:
    with pytest.raises(StartFailed, match="has no mariadb-install-db"):
        command(install_db=None)
