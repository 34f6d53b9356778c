"""Which server the user's files are for."""

from __future__ import annotations

import pytest

from flushlab.build import Build, choice
from flushlab.build.choice import BuildChoice, Sign, caveats, choose, of_options, of_release, of_word, other
from flushlab.errors import UsageError
from flushlab.settings.words import find_words
from tests.unit.builds import MARIADB, MYSQL57, MYSQL80, MYSQL97, build


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "list_builds", list)


def sql(text: str) -> list[Sign]:
    return [of_word("V1.sql", word) for word in find_words(text)]


def chosen(signs: list[Sign]) -> str:
    found = choose(signs)
    return found.server if found else ""


@pytest.mark.parametrize(
    ("origin", "server"),
    [
        ("MySQL 8.0.36", "mysql@8.0"),
        ("MySQL 8.4.3", "mysql@9.7"),
        ("MySQL 5.7.44", "mysql@5.7"),
        ("MySQL 5.5.62", "mysql@5.7"),
        ("MySQL", "mysql@8.0"),
        ("MariaDB 10.4.32", "mariadb@10.11"),
        ("MariaDB 11.4.5", "mariadb@11.4"),
        ("MariaDB 11.4.11", "mariadb@11.4"),
        ("MariaDB 11.5.2", "mariadb@11.8"),
        ("MariaDB 12.3.1", "mariadb@11.8"),
        ("MariaDB", "mariadb@10.11"),
    ],
)
def test_a_dump_goes_to_its_own_series_or_the_next_of_its_flavor(origin: str, server: str) -> None:
    assert choose([of_release("shop.sql", origin)]) == BuildChoice(server, f"shop.sql comes from {origin}")


def test_an_installed_release_of_the_dumps_series_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "list_builds", lambda: [build("mysql", 8, 4, 6), MARIADB])
    assert chosen([of_release("shop.sql", "MySQL 8.4.3")]) == "mysql@8.4"
    assert chosen([of_release("shop.sql", "MySQL 8.0.36")]) == "mysql@8.0"


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("SELECT BIN_TO_UUID(id) FROM t", "mysql@8.0"),
        ("CREATE TABLE t (a INT) COLLATE utf8mb4_0900_ai_ci", "mysql@8.0"),
        ("ALTER TABLE t ADD a INT /*!80023 INVISIBLE */", "mysql@8.0"),
        ("SELECT 1 MEMBER OF('[1]')", "mysql@9.7"),
        ("CREATE TABLE t (a INT) COLLATE utf8mb4_uca1400_ai_ci", "mariadb@10.11"),
        ("CREATE SEQUENCE s", "mariadb@10.11"),
        ("SELECT UUID_v7()", "mariadb@11.8"),
        ("SELECT JSON_SCHEMA_VALID('{}', '{}')", "mariadb@11.8"),  # both have it; the default's flavor
        ("CREATE SEQUENCE s; SELECT BIN_TO_UUID(x)", "mariadb@10.11"),
        ("ALTER TABLE t RENAME COLUMN a TO b", ""),
        ("CREATE TABLE t (a INT)", ""),
    ],
)
def test_the_words_of_migrations_choose_the_server_that_takes_them(text: str, server: str) -> None:
    assert chosen(sql(text)) == server


@pytest.mark.parametrize(
    ("names", "server"),
    [
        (["sync_binlog", "mysqlx_port"], "mysql@8.0"),
        (["innodb_redo_log_capacity"], "mysql@9.7"),
        (["log_bin_use_v1_row_events", "query_cache_type"], "mysql@5.7"),
        (["default_authentication_plugin"], "mysql@8.0"),  # MariaDB passes over it
        (["aria_pagecache_buffer_size"], "mariadb@10.11"),
        (["innodb_log_files_in_group", "innodb_file_format"], ""),  # both have had them
        (["sync_binlog", "no_such_option"], ""),
    ],
)
def test_options_choose_the_server_that_has_them(names: list[str], server: str) -> None:
    assert chosen([*of_options("my.cnf", names)]) == server


def test_groups_that_only_mariadb_reads_are_its_files() -> None:
    (sign,) = of_options("my.cnf", ["sync_binlog"], mariadb=True)
    assert choose([sign]) == BuildChoice("mariadb@10.11", "my.cnf has groups of MariaDB")


def test_the_option_file_outweighs_the_dump_and_the_choice_is_told_with_what_speaks_against_it() -> None:
    signs = [of_release("shop.sql", "MySQL 8.0.36"), *of_options("my.cnf", ["aria_pagecache_buffer_size"])]
    found = choose(signs)
    assert found is not None
    assert found.line == (
        "server: mariadb@10.11, because my.cnf sets aria_pagecache_buffer_size; --server NAME chooses another"
    )
    assert caveats(signs, MARIADB) == ["shop.sql comes from MySQL 8.0.36, but the server is mariadb@10.11.19"]


def test_a_named_server_is_doubted_only_for_what_it_refuses() -> None:
    signs = sql("SELECT BIN_TO_UUID(id) /*!80023 x */ FROM t")
    assert caveats(signs, MARIADB) == [
        "V1.sql has BIN_TO_UUID (MySQL 8.0 and later), but the server is mariadb@10.11.19"
    ]
    assert caveats(signs, MYSQL80) == []


DIRECTORIES = [
    ("MariaDB 11.8.9", "mariadb@11.8", [MARIADB], [MYSQL57, MYSQL80, MYSQL97]),
    ("MySQL 5.7.22", "mysql@5.7", [MARIADB, MYSQL57], [MYSQL80, MYSQL97]),
    ("MySQL 8.0.15", "mysql@8.0", [MYSQL80], [MARIADB, MYSQL57, MYSQL97]),
    ("MySQL 9.7.4", "mysql@9.7", [MYSQL97], [MARIADB, MYSQL57, MYSQL80]),
    ("MySQL 8.4.9", "mysql@9.7", [MYSQL97], [MARIADB, MYSQL80]),
]
"""What the five servers made of each other's directories."""


@pytest.mark.parametrize(("origin", "server", "takes", "refuses"), DIRECTORIES)
def test_a_server_that_does_not_start_on_the_data_is_refused(
    origin: str, server: str, takes: list[Build], refuses: list[Build]
) -> None:
    signs = [of_release("/data", origin, data_directory=True)]
    assert chosen(signs) == server
    for one in takes:
        caveats(signs, one)
    for one in refuses:
        with pytest.raises(
            UsageError, match=f"/data comes from {origin}, and {one.name} does not start on it"
        ) as error:
            caveats(signs, one)
        assert error.value.hint == f"use --server {server}"


def test_data_that_no_server_starts_on_are_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="no server that flushlab can fetch starts on the data") as error:
        choose([of_release("/data", "MySQL 8.0.36", data_directory=True)])
    assert "--server TARBALL" in str(error.value.hint)


def test_the_way_out_of_an_error_is_another_server_or_none() -> None:
    assert other(sql("SELECT BIN_TO_UUID(id)"), "mariadb", (10, 11, 19)) == "mysql@8.0"
    assert other(sql("SELECT BIN_TO_UUID(id)"), "mysql", (8, 0, 15)) == ""
    assert other([], "mysql", (8, 0, 15)) == ""
