"""The way out for a statement that a server refused."""

from __future__ import annotations

import pytest

from flushlab.dataset.filling import refused
from flushlab.dataset.survey import Survey
from flushlab.record import ServerIdentity

MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19", build_id="b")
MYSQL = ServerIdentity(flavor="mysql", version=(8, 0, 15), version_text="8.0.15", build_id="b")


def hint(errno: int, said: str, origin: str, identity: ServerIdentity, *, cut_off: bool = False) -> str:
    survey = Survey(
        digest="", bytes=0, sql_bytes=0, databases=(), origin=origin, cut_off=("x.sql",) * cut_off
    )
    error = refused(f"shop.sql, statement 4 (line 9): ERROR {errno}: {said}", errno, survey, identity)
    assert error.exit_code == 5
    return str(error.hint)


def test_unknown_collation_names_the_dumps_server_and_how_to_replace_it() -> None:
    assert hint(1273, "Unknown collation: 'utf8mb4_0900_ai_ci'", "MySQL 8.0.36", MARIADB) == (
        "the dump is from MySQL 8.0.36, this is MariaDB 10.11; try --server mysql,"
        " or replace it in the dump: sed 's/utf8mb4_0900_ai_ci/utf8mb4_unicode_520_ci/g'"
    )


def test_syntax_of_another_flavor_names_that_server() -> None:
    assert hint(1064, "You have an error", "MariaDB 11.8.6", MYSQL).endswith("try --server mariadb")
    assert "wrote this" in hint(1064, "You have an error", "", MYSQL)


def test_syntax_of_a_dump_without_its_end_may_be_a_statement_that_was_cut() -> None:
    assert "cut off" in hint(1064, "You have an error", "MySQL 8.0.36", MYSQL, cut_off=True)
    assert "cut off" not in hint(1273, "Unknown collation: 'x'", "MySQL 8.0.36", MARIADB, cut_off=True)


@pytest.mark.parametrize(
    ("errno", "words"),
    [
        (1046, "--databases"),
        (1049, "--databases"),
        (1153, "--max-allowed-packet"),
        (1227, "may not do this"),
        (1449, "DEFINER"),
    ],
)
def test_common_reasons_have_a_way_out(errno: int, words: str) -> None:
    assert words in hint(errno, "…", "MySQL 8.0.36", MYSQL)
