"""Random sessions of a test suite on a schema of many kinds, and all that a server shows of its content."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from flushlab.suite.database import Database

SCHEMA = (Path(__file__).parent / "undo.sql").read_text(encoding="utf-8")


_CONTROL = """
BEGIN
COMMIT
ROLLBACK
SAVEPOINT a
ROLLBACK TO a
SET autocommit = 0
SET autocommit = 1
SET time_zone = '+03:00'
SET sql_mode = ''
SELECT COUNT(*) FROM customers
SELECT GET_LOCK('l', 0)
""".strip().splitlines()

_BEYOND = """
TRUNCATE TABLE keyed
CREATE TABLE fresh (id INT)
DROP TABLE items
ALTER TABLE audit ADD c INT
CREATE USER u@localhost IDENTIFIED BY 'x'
INSERT INTO mine (n) VALUES (5)
DROP VIEW v
INSERT INTO mem (n) VALUES (5)
CREATE TEMPORARY TABLE tmp (id INT)
FLUSH LOGS
SET GLOBAL max_connections = 77
SET GLOBAL sql_mode = ''
CREATE DATABASE other
RENAME TABLE keyed TO k2
SET sql_log_bin = 0
DROP PROCEDURE add_two
XA START 'a'
SET binlog_row_image = 'MINIMAL'
SET binlog_format = 'STATEMENT'
DROP TRIGGER after_order
FLUSH TABLES
ANALYZE TABLE orders
SET GLOBAL read_only = 1
RESET MASTER
CREATE FUNCTION one() RETURNS INT RETURN 1
LOCK TABLES keyed WRITE
SET GLOBAL event_scheduler = 1
FLUSH STATUS
SET PASSWORD = 'secret'
DROP DATABASE app
""".strip().splitlines()
"""What a log of rows does not undo, or not by itself."""


def connected(db: Database) -> pymysql.connections.Connection[Any]:
    """A connection of the suite's."""
    return pymysql.connect(
        unix_socket=db.socket,
        user=db.user,
        password=db.password,
        database=db.database,
        autocommit=True,
        local_infile=True,
        charset="utf8mb4",
        client_flag=CLIENT.FOUND_ROWS,
    )


def content(db: Database) -> dict[str, Any]:
    """All that a server shows of its content, from a connection of its own."""
    connection = connected(db)
    with connection, connection.cursor() as cursor:

        def ask(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        found: dict[str, Any] = {}
        schemas = [str(row[0]) for row in ask("SHOW DATABASES")]
        found["schemas"] = schemas
        for schema in schemas:
            if schema in ("information_schema", "performance_schema", "mysql", "sys"):
                continue
            for name, kind in ask(f"SHOW FULL TABLES FROM `{schema}`"):
                table = f"`{schema}`.`{name.replace('`', '``')}`"
                found[f"{table} is"] = ask(f"SHOW CREATE TABLE {table}")
                if kind != "VIEW":
                    found[table] = sorted(map(repr, ask(f"SELECT * FROM {table}")))
            for what in ("TRIGGERS", "EVENTS"):
                found[f"{schema} {what}"] = [row[:4] for row in ask(f"SHOW {what} FROM `{schema}`")]
            found[f"{schema} routines"] = ask(
                "SELECT routine_name, routine_definition FROM information_schema.routines"
                f" WHERE routine_schema = '{schema}' ORDER BY 1"
            )
        found["accounts"] = sorted(ask("SELECT user, host FROM mysql.user"))
        moves = (
            "gtid_",
            "timestamp",
            "rand_seed",
            "pseudo_",
            "last_insert",
            "insert_id",
            "port",
            "report_port",
            "server_uuid",
        )
        found["variables"] = [
            (name, value)
            for name, value in ask("SHOW GLOBAL VARIABLES")
            if not name.startswith(moves) and "/" not in str(value)
        ]
        return found


class Session:
    """What one test does: random statements of a few connections; what a server refuses is passed over.

    Attributes:
        changes_schema: it had a statement that a log of rows does not undo.
    """

    def __init__(self, db: Database, seed: int, *, only_rows: bool = False) -> None:
        self._random = random.Random(seed)
        self._db = db
        self._only_rows = only_rows
        self.said: list[str] = []
        self.changes_schema = False

    def run(self) -> None:
        """Runs it; its connections stay open until `close`."""
        self.connections = [connected(self._db) for _ in range(self._random.randint(1, 3))]
        for _ in range(self._random.randint(1, 14)):
            self._do(self._random.choice(self.connections))
        for one in self.connections:
            if self._random.random() < 0.8:
                self._say(one, self._random.choice(["COMMIT", "ROLLBACK"]))

    def close(self) -> None:
        """Closes what is still open."""
        for one in self.connections:
            if one.open:
                one.close()

    def _say(self, connection: pymysql.connections.Connection[Any], sql: str, *args: Any) -> None:
        self.said.append(sql)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, args or None)
        except pymysql.MySQLError:
            pass

    def _do(self, connection: pymysql.connections.Connection[Any]) -> None:
        some = self._random
        kinds: list[Callable[[], Iterator[str]]] = [
            self._customer, self._order, self._keyed, self._audit, self._update, self._delete, self._control,
            self._parted, self._failing,
        ]  # fmt: skip
        if not self._only_rows and some.random() < 0.15:
            kinds = [self._beyond]
        for sql in some.choice(kinds)():
            self._say(connection, sql)

    def _name(self) -> str:
        return "".join(self._random.choice("abcäß水🐬'\\") for _ in range(self._random.randint(1, 9)))

    def _quoted(self) -> str:
        return "'" + self._name().replace("\\", "\\\\").replace("'", "''") + "'"

    def _customer(self) -> Iterator[str]:
        some = self._random
        values = [
            self._quoted(),
            some.choice(["NULL", self._quoted(), "REPEAT('ab', 4000)"]),
            some.choice(["NULL", "'1970-01-01'", "'9999-12-31'"]),
            some.choice(["NULL", "-9999999.999", "0", "12.34"]),
            some.choice(["NULL", "1e300", "-0.0", "0.1"]),
            some.choice(["NULL", "1e30", "0.1", "16777217"]),
            some.choice(["NULL", "x'00'", "REPEAT('z', 70000)"]),
            some.choice(["NULL", "'a'", "'c'"]),
            some.choice(["NULL", "''", "'x,z'"]),
            some.choice(["NULL", "'[]'", '\'{"k": {"n": 1e10, "t": "ü"}}\'', "'null'"]),
            some.choice(["NULL", "NOW(6)", "'2038-01-19 03:14:07.999999'"]),
            some.choice(["NULL", "NOW(3)", "'1000-01-01'"]),
            some.choice(["NULL", "'-838:59:59'", "'11:11:11.11'"]),
            some.choice(["NULL", "1901", "2155", "0"]),
            some.choice(["NULL", "b'10101010101'", "0"]),
            some.choice(["NULL", "ST_PointFromText('POINT(3.5 -4)')"]),
            some.choice(["NULL", "18446744073709551615", "0"]),
            some.choice(["NULL", "127", "-128"]),
            some.choice(["NULL", "'a'", "x'00000000'"]),
        ]
        names = "name, note, born, score, d, f, b, e, s, j, ts, dt, t, y, bits, p, big, tiny, bin"
        verb = some.choice(["INSERT", "REPLACE", "INSERT IGNORE"])
        end = (
            ""
            if verb != "INSERT" or some.random() < 0.5
            else " ON DUPLICATE KEY UPDATE tiny = 1, note = VALUES(note)"
        )
        yield f"{verb} INTO customers ({names}) VALUES ({', '.join(values)}){end}"

    def _order(self) -> Iterator[str]:
        some = self._random
        yield f"INSERT INTO orders (customer, state) VALUES ({some.choice([1, 2, 3, 'NULL'])}, 'née')"
        what = some.choice(["NULL", self._quoted()])
        yield f"INSERT INTO items VALUES (LAST_INSERT_ID(), {some.randint(1, 3)}, {what})"

    def _keyed(self) -> Iterator[str]:
        some = self._random
        key = str(uuid.UUID(int=some.getrandbits(128)))
        yield some.choice(
            [
                f"INSERT INTO keyed (k, n) VALUES ('{key}', {some.randint(0, 9)})",
                "INSERT INTO keyed (k, n) VALUES ('k', 5) ON DUPLICATE KEY UPDATE n = n + VALUES(n)",
                "CALL add_two(7)",
                "UPDATE keyed SET k = CONCAT(k, 'x'), n = n * 2 ORDER BY k DESC",
                "INSERT INTO keyed SELECT CONCAT(k, UUID()), n FROM keyed",
                "REPLACE INTO keyed (k, n) VALUES ('z', 9), ('y', 1)",
            ]
        )

    def _audit(self) -> Iterator[str]:
        yield self._random.choice(
            [
                "INSERT INTO audit VALUES ('twice', 0.1, NULL)",
                "UPDATE audit SET n = n + 0.1 LIMIT 1",
                "DELETE FROM audit LIMIT 1",
                "INSERT INTO audit SELECT * FROM audit",
                "UPDATE audit SET b = REPEAT('q', 300)",
            ]
        )

    def _update(self) -> Iterator[str]:
        yield self._random.choice(
            [
                f"UPDATE customers SET name = {self._quoted()}, note = NULL WHERE id = 1",
                "UPDATE customers SET id = id + 100 ORDER BY id DESC",
                "UPDATE customers SET tiny = IFNULL(tiny, 0) + 1, j = JSON_SET(IFNULL(j, '{}'), '$.z', 3)",
                "UPDATE orders SET state = 'gone', id = id + 50 ORDER BY id DESC LIMIT 1",
                "UPDATE orders, customers SET state = 'both', score = 7 WHERE customer = customers.id",
            ]
        )

    def _delete(self) -> Iterator[str]:
        yield self._random.choice(
            [
                "DELETE FROM customers WHERE id = 1",
                "DELETE FROM orders ORDER BY id DESC LIMIT 1",
                "DELETE FROM items",
                "DELETE orders, items FROM orders JOIN items ON o = orders.id WHERE orders.id = 1",
                "DELETE FROM keyed",
            ]
        )

    def _control(self) -> Iterator[str]:
        yield self._random.choice(_CONTROL)

    def _parted(self) -> Iterator[str]:
        if self._random.random() < 0.3:
            yield "BEGIN"
        yield self._random.choice(
            [
                "INSERT INTO parted (n) VALUES (7), (8)",
                "UPDATE parted SET id = id + 10 ORDER BY id DESC",
                "INSERT INTO `od-d ``name` (`a b`) VALUES (3)",
                "DELETE FROM parted WHERE n = 1",
            ]
        )

    def _failing(self) -> Iterator[str]:
        yield self._random.choice(
            [
                "INSERT INTO customers (name) VALUES ('anna')",
                "INSERT INTO keyed (k) VALUES ('new'), ('k')",
                "INSERT INTO orders (customer) VALUES (999)",
                "INSERT INTO parted (id) VALUES (1)",
            ]
        )

    def _beyond(self) -> Iterator[str]:
        """What rows alone do not undo."""
        self.changes_schema = True
        yield self._random.choice(_BEYOND)
