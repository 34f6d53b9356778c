"""What a run of a suite takes from the user's data."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from flushlab.build import Build
from flushlab.build.choice import of_release
from flushlab.dataset import open_dataset
from flushlab.errors import UsageError
from flushlab.record import Endpoint
from flushlab.spec.commands import DatabaseSpec
from flushlab.suite.request import (
    _shape,
    check_database,
    check_password,
    create_database,
    database_characters,
    fields_of,
    parse_templates,
    server_of,
    variables,
)
from tests.unit.builds import MARIADB, MYSQL57, MYSQL80, MYSQL97

BACKUP = """[mysqld]
innodb_page_size=8192
innodb_data_file_path=ibdata1:12M;ibdata2:12M:autoextend
innodb_undo_directory=./
innodb_frobnicated_size=7
sync_binlog=1
"""


def test_a_backup_says_how_its_files_are_shaped(tmp_path: Path, private_home: Path) -> None:
    (tmp_path / "ibdata1").write_bytes(b"")
    (tmp_path / "backup-my.cnf").write_text(BACKUP)
    found = _shape(open_dataset(str(tmp_path)).settings(), MYSQL80)
    assert found == {"innodb_page_size": 8192, "innodb_data_file_path": "ibdata1:12M;ibdata2:12M:autoextend"}


@pytest.mark.parametrize(
    ("spec", "server", "told"),
    [
        (DatabaseSpec(), "mysql@8.0", "chosen by your files; --server NAME"),
        (DatabaseSpec(server="mariadb"), "mariadb", ""),
        (DatabaseSpec(basedir="/opt/mysql"), "mariadb", ""),
    ],
)
def test_the_users_files_choose_the_server_where_none_is_named(
    spec: DatabaseSpec, server: str, told: str
) -> None:
    said = list[str]()
    assert server_of(spec, [of_release("schema.sql", "MySQL 8.0.36")], said.append) == (server, told)
    assert len(said) == (told != "")


def test_without_a_sign_it_is_the_default_and_nothing_is_said() -> None:
    said = list[str]()
    assert server_of(DatabaseSpec(), [], said.append) == ("mariadb", "default; --server mysql@8.0")
    assert said == []


def endpoint(port: int = 4711) -> Endpoint:
    return Endpoint(
        user="flushlab", password="aZ9-x", socket="/run/s.sock", host="127.0.0.1", port=port, option_file="/c"
    )


def fields(build: Build = MARIADB, port: int = 4711) -> dict[str, str]:
    return fields_of(build, endpoint(port), "app")


def test_own_names_and_those_that_clients_read() -> None:
    found = variables([fields()], {})
    assert found["FLUSHLAB_HOST"] == found["MYSQL_HOST"] == "127.0.0.1"
    assert found["FLUSHLAB_PORT"] == found["MYSQL_PORT"] == found["MYSQL_TCP_PORT"] == "4711"
    assert found["FLUSHLAB_SOCKET"] == found["MYSQL_UNIX_PORT"] == "/run/s.sock"
    assert found["FLUSHLAB_USER"] == found["MYSQL_USER"] == "flushlab"
    assert found["FLUSHLAB_PASSWORD"] == found["MYSQL_PWD"] == found["MYSQL_PASSWORD"] == "aZ9-x"
    assert found["FLUSHLAB_DATABASE"] == found["MYSQL_DATABASE"] == "app"
    url = urlsplit(found["DATABASE_URL"])
    assert (url.scheme, url.hostname, url.port, url.path) == ("mysql", "127.0.0.1", 4711, "/app")
    assert (url.username, url.password) == ("flushlab", "aZ9-x")


@pytest.mark.parametrize(
    ("build", "scheme", "public_key"),
    [(MARIADB, "jdbc:mariadb", False), (MYSQL57, "jdbc:mysql", True), (MYSQL97, "jdbc:mysql", True)],
)
def test_jdbc_url_has_what_each_driver_needs(build: Build, scheme: str, public_key: bool) -> None:
    url = variables([fields(build)], {})["FLUSHLAB_JDBC_URL"]
    assert url.startswith(f"{scheme}://127.0.0.1:4711/app?user=flushlab&password=aZ9-x")
    assert ("allowPublicKeyRetrieval=true" in url) == public_key


def test_each_worker_has_its_own_and_plain_names_mean_the_first() -> None:
    found = variables(
        [{**fields(port=1), "reset_url": "http://a/1"}, {**fields(port=2), "reset_url": "http://a/2"}], {}
    )
    assert (found["FLUSHLAB_PORT"], found["FLUSHLAB_PORT_1"], found["FLUSHLAB_PORT_2"]) == ("1", "1", "2")
    assert found["FLUSHLAB_RESET_URL"] == found["FLUSHLAB_RESET_URL_1"] == "http://a/1"
    assert found["FLUSHLAB_RESET_URL_2"] == "http://a/2"
    assert found["FLUSHLAB_WORKERS"] == "2"


def test_templates_of_the_user_are_filled_in() -> None:
    wanted = parse_templates(["SPRING_URL=jdbc:mysql://{host}:{port}/{database}?x={{y}}", "EMPTY="])
    found = variables([fields()], wanted)
    assert found["SPRING_URL"] == "jdbc:mysql://127.0.0.1:4711/app?x={y}"
    assert found["EMPTY"] == ""


@pytest.mark.parametrize(
    "assignment", ["NAME", "=x", "1A=x", "A={nothing}", "A={", "A={0}", "A={host.port}", "A={}"]
)
def test_a_template_that_cannot_be_filled_in_is_refused_before_anything_starts(assignment: str) -> None:
    with pytest.raises(UsageError, match="--env"):
        parse_templates([assignment])


@pytest.mark.parametrize("name", ["", "a b", "a`b", "x" * 65, "a/b", "mysql", "Sys", "INFORMATION_SCHEMA"])
def test_names_that_no_database_of_the_users_has_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="database"):
        check_database(name)


@pytest.mark.parametrize("text", ["it's", 'a"b', "a b", "a\\b", "a@b", "a#b", "x" * 65])
def test_a_password_that_would_need_quoting_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_password(text)
    assert text not in raised.value.message + (raised.value.hint or "")


def test_no_password_means_a_random_one() -> None:
    assert check_password(None) is None
    assert check_password("") is None
    assert check_password("aZ9-secret") == "aZ9-secret"


@pytest.mark.parametrize(
    ("charset", "collation", "sql"),
    [
        (None, None, "CREATE DATABASE IF NOT EXISTS `a`"),
        ("utf8mb4", None, "CREATE DATABASE IF NOT EXISTS `a` CHARACTER SET utf8mb4"),
        ("latin1", "latin1_bin", "CREATE DATABASE IF NOT EXISTS `a` CHARACTER SET latin1 COLLATE latin1_bin"),
    ],
)
def test_characters_of_the_database(charset: str | None, collation: str | None, sql: str) -> None:
    assert create_database("a", database_characters(charset, collation)) == sql


@pytest.mark.parametrize(
    ("charset", "collation"), [("a b", None), (None, "x; DROP DATABASE mysql"), ("", None)]
)
def test_what_no_character_set_is_called_is_refused(charset: str | None, collation: str | None) -> None:
    with pytest.raises(UsageError, match="is not a name"):
        database_characters(charset, collation)
