"""What a dump leaves out, how its server runs, and the way out where a statement is refused."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from flushlab.dataset import filling
from flushlab.dataset.filling import Filling, refused
from flushlab.dataset.loaded import USER_TABLES, analyze
from flushlab.dataset.survey import Survey
from flushlab.record import ServerIdentity, StreamProgress
from tests.fakes.server import FakeServer


class Stream:
    """One that waits for indexes before it takes anything."""

    def __init__(self, spec: bytes) -> None:
        self.building: tuple[str, ...] = ("shop.customer",)

    def feed(self, piece: bytes, last: bool, meanwhile: Callable[[], None]) -> None:
        if not last:
            meanwhile()
            self.building = ()
            meanwhile()

    def finish(self, meanwhile: Callable[[], None]) -> None:
        self.building = ("shop.item", "shop.line")
        meanwhile()

    def stop(self) -> None: ...

    def progress(self) -> bytes:
        return msgspec.json.encode(StreamProgress(statements=1, bytes=1, left_out={}, building=self.building))


@pytest.mark.parametrize(
    ("every_s", "due"),
    [(0.0, ["the indexes of shop.customer", "the indexes of shop.item, shop.line"]), (60.0, [])],
)
def test_indexes_that_are_built_are_named_now_and_then(
    monkeypatch: pytest.MonkeyPatch, every_s: float, due: list[str]
) -> None:
    monkeypatch.setattr("flushlab._core.ScriptStream", Stream)
    monkeypatch.setattr(filling, "_SAY_EVERY_S", every_s)
    said: list[str] = []
    survey = Survey(digest="", bytes=1, sql_bytes=1, databases=())
    Filling(FakeServer(), survey, "shop", said.append, "shop.sql").run([b"x"], "shop.sql", database=None)
    assert said == [f"loading: building {what}" for what in due]


def test_tables_with_any_name_are_analyzed() -> None:
    analyzed = ["ANALYZE TABLE `my``app`.`t 1`", "ANALYZE TABLE `app`.`#mysql50#x`"]
    found = [("my`app", "t 1"), ("app", "#mysql50#x")]
    server = FakeServer(answers={USER_TABLES: found, analyzed[0]: [], analyzed[1]: []})
    analyze(server)
    assert server.statements[1:] == analyzed


MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19", build_id="b")
MYSQL = ServerIdentity(flavor="mysql", version=(8, 0, 15), version_text="8.0.15", build_id="b")


def hint(errno: int, said: str, origin: str, identity: ServerIdentity, *, cut_off: bool = False) -> str:
    survey = Survey(
        digest="", bytes=0, sql_bytes=0, databases=(), origin=origin, cut_off=("x.sql",) * cut_off
    )
    place = "" if said.startswith("ERROR") else f"ERROR {errno}: "
    error = refused(f"shop.sql, statement 4 (line 9): {place}{said}", errno, survey, identity)
    assert error.exit_code == 5
    return str(error.hint)


def test_unknown_collation_names_the_dumps_server_and_how_to_replace_it() -> None:
    assert hint(1273, "Unknown collation: 'utf8mb4_0900_ai_ci'", "MySQL 8.0.36", MARIADB) == (
        "the dump is from MySQL 8.0.36, this is MariaDB 10.11; try --server mysql@8.0,"
        " or replace it in the dump: sed 's/utf8mb4_0900_ai_ci/utf8mb4_unicode_520_ci/g'"
    )


def test_syntax_of_another_flavor_names_that_server() -> None:
    assert hint(1064, "You have an error", "MariaDB 11.8.6", MYSQL).endswith("try --server mariadb@11.8")
    assert hint(1064, "You have an error", "MySQL 8.4.3", MYSQL).endswith("try --server mysql@9.7")


@pytest.mark.parametrize(
    ("said", "identity", "server"),
    [
        ("ERROR 1101 (42000): BLOB, TEXT … column 'bio' can't have a default value", MYSQL, "mariadb@10.11"),
        ("ERROR 1901 (HY000): Function or expression 'dayname()' cannot be used", MARIADB, "mysql@8.0"),
        ("ERROR 3763 (HY000): Expression of generated column 'b' contains a …", MYSQL, "mariadb@10.11"),
        ("ERROR 1305 (42000): FUNCTION app.BIN_TO_UUID does not exist", MARIADB, "mysql@8.0"),
        ("ERROR 1064 (42000): near\n  CREATE SEQUENCE s START WITH 1", MYSQL, "mariadb@10.11"),
        ("ERROR 1064 (42000): near\n  SELECT 1 MEMBER OF('[1]')", MYSQL, "mysql@9.7"),
    ],
)
def test_the_error_or_the_statement_names_the_server_that_takes_it(
    said: str, identity: ServerIdentity, server: str
) -> None:
    errno = int(said.split()[1])
    assert hint(errno, said, "", identity) == f"try --server {server}"


def test_the_dumps_words_name_the_server_where_the_statement_does_not() -> None:
    survey = Survey(digest="", bytes=0, sql_bytes=0, databases=(), words=("comments /*!80…",))
    error = refused("x.sql, statement 1: ERROR 1064: You have an error", 1064, survey, MARIADB)
    assert error.hint == "try --server mysql@8.0"


@pytest.mark.parametrize("identity", [MYSQL, MARIADB])
@pytest.mark.parametrize("origin", ["", "own"])
def test_no_server_is_named_where_none_is_known_to_take_the_statement(
    identity: ServerIdentity, origin: str
) -> None:
    own = origin and ("MySQL 8.0.36" if identity is MYSQL else "MariaDB 10.11.2")
    said = "ERROR 1064 (42000): You have an error near 'IGNORE'\n  REPLACE IGNORE INTO t VALUES (1)"
    assert hint(1064, said, own, identity) == "correct the statement"


def test_syntax_of_a_dump_without_its_end_may_be_a_statement_that_was_cut() -> None:
    assert "cut off" in hint(1064, "You have an error", "MySQL 8.0.36", MYSQL, cut_off=True)
    assert "cut off" not in hint(1273, "Unknown collation: 'x'", "MySQL 8.0.36", MARIADB, cut_off=True)


@pytest.mark.parametrize(
    ("errno", "words"),
    [
        (1046, "--databases"),
        (1100, "--skip-add-locks"),
        (1049, "--databases"),
        (1153, "--max-allowed-packet"),
        (1227, "may not do this"),
        (1449, "DEFINER"),
    ],
)
def test_common_reasons_have_a_way_out(errno: int, words: str) -> None:
    assert words in hint(errno, "…", "MySQL 8.0.36", MYSQL)
