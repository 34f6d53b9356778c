"""Resets of real servers: the template's content afterwards, undone where rows tell all."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

import flushlab
from flushlab.suite.database import Database
from flushlab.suite.servers import SuiteServer
from flushlab.suite.undoing import Undoing, traces
from tests.conftest import flavors, require_build
from tests.integration.undo_sessions import SCHEMA, Session, connected, content
from tests.waiting import wait_until

ALL = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=2)
SESSIONS = int(os.environ.get("FLUSHLAB_UNDO_SESSIONS", "25"))

_LOAD = """
import os, pymysql, re, sys
connection = pymysql.connect(
    unix_socket=os.environ["FLUSHLAB_SOCKET"], user=os.environ["FLUSHLAB_USER"], autocommit=True,
    password=os.environ["FLUSHLAB_PASSWORD"], database=os.environ["FLUSHLAB_DATABASE"], charset="utf8mb4",
)
text = open(sys.argv[1], encoding="utf-8").read()
for statement in re.findall(r"(?:[^;']|'[^']*'|BEGIN .*?END)+;\\n", text):
    connection.cursor().execute(statement.rstrip().rstrip(";"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("undo")
    (found / "schema.sql").write_text(SCHEMA, encoding="utf-8")
    (found / "load.py").write_text(_LOAD)
    return found


@contextmanager
def opened(folder: Path, server: str, **more: Any) -> Iterator[Database]:
    require_build(server)
    file = folder / "schema.sql"
    prepare = f"{sys.executable} {folder / 'load.py'} {file}"
    with flushlab.database(server=server, prepare=prepare, inputs=[str(file)], **more) as db:
        yield db


def server_of(db: Database) -> SuiteServer:
    return db._server


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, object]:
    keys = before.keys() | after.keys()
    found: dict[str, object] = {}
    found |= {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
    if "variables" in found:
        found["variables"] = set(before["variables"]) ^ set(after["variables"])
    return found


@pytest.mark.parametrize("server", ALL)
def test_after_any_session_the_content_is_the_templates(folder: Path, server: str) -> None:
    rows, undone = 0, 0
    with opened(folder, server, clones=1) as db:
        before = content(db)
        for seed in range(SESSIONS):
            traces = Session(db, seed)
            traces.run()
            done = server_of(db).reset()
            assert not server_of(db).fault, (seed, traces.said)
            found = differences(before, content(db))
            assert not found, (seed, done, traces.said, found)
            traces.close()
            rows += not traces.changes_schema
            undone += not traces.changes_schema and done.how == "undone"
    assert undone >= 0.8 * rows - 1  # the first that needs rows of a table learns them


def rows_of(db: Database, table: str) -> list[tuple[Any, ...]]:
    with connected(db) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return list(cursor.fetchall())


def run(db: Database, *statements: str) -> None:
    with connected(db) as connection, connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)


def test_what_was_done_says_how_it_is_undone(folder: Path) -> None:
    with opened(folder, "mariadb@10.11", clones=0) as db:
        server = server_of(db)

        def done(*statements: str) -> tuple[str, str]:
            run(db, *statements)
            found = server.reset()
            return found.how, found.why

        assert done() == ("undone", "no rows")
        assert done("INSERT INTO keyed VALUES ('new', 1)") == ("undone", "1 row in 1 table")
        assert done("SET GLOBAL max_connections = 77") == ("undone", "no rows")
        assert done("SET GLOBAL gtid_slave_pos = '0-1-100'") == ("undone", "no rows")
        assert rows_of(db, "(SELECT @@GLOBAL.gtid_slave_pos) AS position") == [("",)]
        assert done("ANALYZE TABLE keyed") == ("restarted", "ANALYZE TABLE")
        assert done("CREATE USER u@localhost") == ("restarted", "CREATE USER")
        assert done("TRUNCATE TABLE keyed") == ("restarted", "TRUNCATE TABLE")
        assert done("TRUNCATE TABLE keyed", "INSERT INTO keyed VALUES ('k', 9)") == (
            "undone",
            "1 row in 1 table",
        )
        assert len(rows_of(db, "keyed")) == 3
        assert done("DELETE FROM orders WHERE id = 1")[0] == "restarted"
        assert done("DELETE FROM orders WHERE id = 1") == ("undone", "1 row in 2 tables")
        assert len(rows_of(db, "items")) == 3
        unlogged = ("SET sql_log_bin = 0", "INSERT INTO keyed VALUES ('unlogged', 1)")
        assert done(*unlogged) == ("restarted", "rows of keyed that changed without a word in the log")
        xa = ("XA START 'a'", "UPDATE keyed SET n = 0", "XA END 'a'", "XA PREPARE 'a'")
        assert done(*xa) == ("restarted", "a transaction without a connection, as XA PREPARE leaves it")
        assert done("INSERT INTO mine (n) VALUES (3)") == ("restarted", "rows of mine (MyISAM)")
        assert rows_of(db, "mine") == [(1, 1)]


@pytest.mark.parametrize("server", ALL)
def test_numbers_that_a_rollback_took_come_back(folder: Path, server: str) -> None:
    with opened(folder, server, clones=0) as db:
        before = content(db)
        names = ("parted (n)", "`od-d ``name` (`a b`)", "keyed (n, k)", "orders (customer)")
        values = ("(7), (8)", "(3)", "(1, 'new')", "(1)")
        inserts = (f"INSERT INTO {name} VALUES {rows}" for name, rows in zip(names, values, strict=True))
        run(db, "BEGIN", *inserts, "ROLLBACK")
        assert server_of(db).reset().why == "no rows"
        assert not differences(before, content(db))


@pytest.mark.parametrize("server", ALL)
def test_a_table_that_was_made_again_without_a_log_entry_is_no_temporary_one(
    folder: Path, server: str
) -> None:
    key = "k VARCHAR(36) CHARACTER SET ascii PRIMARY KEY, n INT NOT NULL DEFAULT 0"
    with opened(folder, server, clones=0) as db:
        before = content(db)
        for table, columns, rows in (
            ("keyed", key, "('k', 1), ('L', 2), ('z', 3)"),
            ("mem", "id INT, n INT", ""),
            ("mine", "id INT, n INT", "(1, 1)"),
        ):
            insert = [f"INSERT INTO {table} VALUES {rows}"] if rows else []
            run(
                db, "SET sql_log_bin = 0", f"DROP TABLE {table}", f"CREATE TABLE {table} ({columns})", *insert
            )
            assert server_of(db).reset().how == "restarted"
            assert not differences(before, content(db))


@pytest.mark.parametrize("server", ALL)
def test_a_database_that_was_there_and_temporary_tables_need_no_other_server(
    folder: Path, server: str
) -> None:
    temporary = ("CREATE TEMPORARY TABLE passing (n INT)", "INSERT INTO passing VALUES (1)")
    with opened(folder, server, clones=0) as db:
        run(db, "TRUNCATE TABLE keyed")
        assert server_of(db).reset().why == "TRUNCATE TABLE"
        with pytest.raises(pymysql.ProgrammingError, match="exists"):
            run(db, f"CREATE DATABASE `{db.database}`")
        assert server_of(db).reset().how == "undone"
        for statements in (("TRUNCATE TABLE keyed", *temporary), temporary):
            run(db, *statements, "DROP TABLE passing")
            assert server_of(db).reset().how == "undone"
        for nothing in (
            "DROP TABLE IF EXISTS nope",
            "CREATE TABLE IF NOT EXISTS keyed (x INT)",
            "DROP DATABASE IF EXISTS nope",
            f"CREATE DATABASE IF NOT EXISTS `{db.database}`",
        ):
            run(db, nothing, "INSERT INTO keyed VALUES ('new', 1)", nothing)
            assert server_of(db).reset().why == "1 row in 1 table", nothing
        for something in ("DROP TABLE IF EXISTS keyed", "CREATE TABLE IF NOT EXISTS fresh (id INT)"):
            run(db, "INSERT INTO keyed VALUES ('new', 1)", something)
            assert server_of(db).reset().why == " ".join(something.split()[:2])
        run(db, "SET sql_log_bin = 0", "CREATE DATABASE other")
        assert server_of(db).reset().why == "CREATE DB"
        with pytest.raises(pymysql.OperationalError, match="other"):
            run(db, "USE other")


def test_connections_stay_unless_they_hold_a_transaction_or_are_to_end(folder: Path) -> None:
    with opened(folder, "mariadb@10.11", clones=0) as db:
        server = server_of(db)
        with connected(db) as kept, connected(db) as holder:
            with kept.cursor() as cursor:
                cursor.execute("INSERT INTO keyed VALUES ('new', 1)")
            with holder.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("UPDATE keyed SET n = 0")
            assert server.reset().why == "1 row in 1 table; 1 connection ended"
            kept.ping(reconnect=False)
            with pytest.raises(pymysql.OperationalError):
                holder.ping(reconnect=False)
            assert server.reset(cut=True).how == "undone"
            with pytest.raises(pymysql.OperationalError):
                kept.ping(reconnect=False)


HELD = (
    ("LOCK TABLES keyed WRITE",),
    ("LOCK TABLES keyed READ",),
    ("FLUSH TABLES WITH READ LOCK",),
    ("BEGIN", "SELECT * FROM keyed"),
    ("START TRANSACTION READ ONLY", "SELECT * FROM keyed"),
    ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN", "SELECT * FROM keyed"),
)
"""What a session may do and keep a lock."""


@pytest.mark.parametrize("server", ALL)
def test_no_lock_of_a_test_outlives_it(folder: Path, server: str) -> None:
    with opened(folder, server, clones=0) as db:
        for statements in HELD:
            with connected(db) as holder, connected(db) as kept, holder.cursor() as cursor:
                for sql in statements:
                    cursor.execute(sql)
                if "READ COMMITTED" in statements[0]:
                    time.sleep(traces._CACHED_S)  # MySQL's list of transactions is no older
                done = server_of(db).reset()
                assert (done.how, done.why.partition(";")[0]) == ("undone", "no rows"), statements
                with pytest.raises(pymysql.OperationalError):
                    cursor.execute("SELECT 1")
                locks = statements[0].startswith(("LOCK", "FLUSH"))
                if not locks:
                    kept.ping(reconnect=False)
            run(db, "SET SESSION lock_wait_timeout = 1", "INSERT INTO keyed VALUES ('new', 1)")
            run(db, "SET SESSION lock_wait_timeout = 1", "ALTER TABLE keyed COMMENT 'x'")
            server_of(db).reset()


@pytest.mark.parametrize("server", ALL)
def test_who_writes_during_a_reset_is_the_cause_and_flushlab_is_not(folder: Path, server: str) -> None:
    with opened(folder, server, clones=0) as db:
        over = threading.Event()

        def write() -> None:
            while not over.is_set():
                with suppress(pymysql.MySQLError, OSError), connected(db) as late, late.cursor() as cursor:
                    while not over.is_set():
                        cursor.execute("INSERT INTO audit VALUES ('late', 1, 'x')")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            done = [server_of(db).reset() for _ in range(12)]
        finally:
            over.set()
            writer.join()
        assert server_of(db).fault == ""
        causes = {one.why for one in done if one.how != "undone"}
        assert causes <= {"a session that wrote meanwhile"}, causes
        server_of(db).reset()
        assert len(rows_of(db, "audit")) == 5


def test_a_log_without_end_is_given_up_and_its_memory_freed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "MOST_BYTES", 1 << 20)
    with opened(folder, "mariadb@10.11", clones=0) as db:
        server = server_of(db)
        fill = (
            "INSERT INTO audit SELECT REPEAT('x', 60), 1, REPEAT('y', 4000) FROM mysql.help_topic LIMIT 500"
        )
        run(db, fill)
        logs = server.sandbox.datadir

        def is_short() -> bool:
            return sum(file.stat().st_size for file in logs.glob("binlog.0*")) < 1 << 20

        wait_until(is_short, "the monitor begins another log")
        assert (server.reset().how, server.reset().how) == ("restarted", "undone")
        assert len(rows_of(db, "audit")) == 5
        assert server.resets[0].why == "more than 1 MiB of binary log"


def test_a_log_that_cannot_be_kept_is_told_and_the_server_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(folder, "mariadb@10.11", clones=0) as db:
        server = server_of(db)
        monkeypatch.setattr(Undoing, "_apply", lambda *_: None)
        monkeypatch.setattr(Undoing, "keep_log", full)
        run(db, "INSERT INTO keyed VALUES ('new', 1)")
        assert server.reset().how == "restarted"
        assert len(rows_of(db, "keyed")) == 3
        assert server.fault.endswith("its binary log could not be kept: No space left on device")


def test_a_difference_that_nothing_explains_is_told_and_replaced(
    folder: Path, private_home_with_builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(folder, "mariadb@10.11", clones=0) as db:
        server = server_of(db)
        monkeypatch.setattr(Undoing, "_apply", lambda *_: None)
        run(db, "INSERT INTO keyed VALUES ('new', 1)")
        assert server.reset().how == "restarted"
        assert len(rows_of(db, "keyed")) == 3
        assert server.fault.startswith(
            "keyed is not as it was after its rows were undone; its binary log is in "
        )
        kept = Path(server.fault.rpartition(" ")[2])
        assert kept.is_relative_to(private_home_with_builds / "faults")
        assert b"new" in kept.read_bytes()
