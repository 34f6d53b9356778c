"""Plans against real servers: one from a hostile schema runs as it is, by every method."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from flushlab.bulk.fill import fill
from flushlab.generate.plan import parse_plan
from flushlab.generate.schema import plan_from_schema
from flushlab.server import Sandbox
from flushlab.server.sql import quoted

SERVERS = ["mariadb@10.11", "mysql@8.0"]
RELAXED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
ODD = "a`b\"c'd\\e\nf ☃%s{n}"

SCHEMA = [
    f"CREATE TABLE {quoted(ODD)} ({quoted(ODD)} INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
    f" {quoted('select')} VARCHAR(3) NOT NULL UNIQUE, b BIT(9) NOT NULL, y YEAR, f DOUBLE NOT NULL,"
    r" e ENUM('it''s','a\\b','c,d','new\nline','😀') NOT NULL, s SET('x','y','z') NOT NULL,"
    " bin BINARY(16) NOT NULL UNIQUE, vb VARBINARY(5), p POINT NOT NULL, g POLYGON, mp MULTIPOLYGON NOT NULL,"
    " d6 DECIMAL(30,4) NOT NULL, t6 TIMESTAMP(6) NULL, ti TIME(3) NOT NULL, ch CHAR(1), tt TINYTEXT NOT NULL,"
    " j JSON NOT NULL, big BIGINT UNSIGNED NOT NULL, m MEDIUMINT NOT NULL, lb LONGBLOB,"
    " dt DATETIME(2) NOT NULL,"
    " total INT AS (m + 1) STORED, twice INT AS (m * 2) VIRTUAL, UNIQUE (m, y))",
    # A key of two columns, one of them a foreign key; and a foreign key of two columns.
    f"CREATE TABLE line (o INT UNSIGNED NOT NULL, nr TINYINT UNSIGNED NOT NULL, up INT UNSIGNED,"
    " note TEXT CHARACTER SET latin1, PRIMARY KEY (o, nr),"
    f" FOREIGN KEY (o) REFERENCES {quoted(ODD)} ({quoted(ODD)}), FOREIGN KEY (up) REFERENCES {quoted(ODD)}"
    f" ({quoted(ODD)}))",
    "CREATE TABLE part (id BIGINT NOT NULL PRIMARY KEY, o INT UNSIGNED NOT NULL,"
    " nr TINYINT UNSIGNED NOT NULL,"
    " boss BIGINT, KEY (boss), UNIQUE (o, nr), FOREIGN KEY (o, nr) REFERENCES line (o, nr),"
    " FOREIGN KEY (boss) REFERENCES part (id))",
    # Unique keys that share a column and have nothing but foreign keys, but for the number in one of them.
    "CREATE TABLE picked (id BIGINT NOT NULL, nr INT NOT NULL, part BIGINT NOT NULL, PRIMARY KEY (id, nr),"
    " UNIQUE (id, part), FOREIGN KEY (id) REFERENCES part (id), FOREIGN KEY (part) REFERENCES part (id))",
    # Fewer rows than the others: its key has few values, and each of its rows is another parent's.
    "CREATE TABLE few (id TINYINT NOT NULL PRIMARY KEY, text VARCHAR(200) COLLATE utf8mb4_bin,"
    " UNIQUE (text(2)))",
    "CREATE TABLE profile (user TINYINT NOT NULL PRIMARY KEY, d DATE NOT NULL UNIQUE,"
    " FOREIGN KEY (user) REFERENCES few (id))",
]
TABLES = ["line", "part", "picked", "few", "profile", ODD]


def make(server: Sandbox, database: str) -> None:
    # LOAD DATA of MySQL 8.0.15 refuses a geometry that is NOT NULL: "doesn't have a default value".
    shapes = "POINT" if server.identity.version == (8, 0, 15) else "POINT NOT NULL"
    server.query(f"CREATE DATABASE {quoted(database)} CHARACTER SET utf8mb4")
    server.query(f"USE {quoted(database)}")
    for statement in SCHEMA:
        server.query(statement.replace("POINT NOT NULL", shapes).replace("POLYGON NOT NULL", "POLYGON"))


def dsn(server: Sandbox, database: str) -> str:
    there = server.endpoint
    return (
        f"mysql://{quote(there.user, safe='')}:{quote(there.password, safe='')}@localhost/"
        f"{quote(database, safe='')}?socket={quote(str(there.socket), safe='')}"
    )


@pytest.mark.parametrize("name", SERVERS)
def test_a_plan_from_a_hostile_schema_runs_as_it_is(
    sandbox: Callable[..., Sandbox], name: str, tmp_path: Path
) -> None:
    server = sandbox(name, settings=RELAXED)
    make(server, ODD)
    text = plan_from_schema(dsn(server, ODD))
    plan = parse_plan(text, path="odd.toml", rows=1100)
    assert {table.name for table in plan.tables} == set(TABLES)
    rows = {table.name: table.rows for table in plan.tables}
    assert (rows[ODD], rows["part"], rows["few"], rows["profile"]) == (1100, 1100, 127, 127)
    (tmp_path / "odd.toml").write_text(text)
    # Once by INSERT into tables of the plan's own, once by LOAD DATA into the tables that there are.
    server.query("CREATE DATABASE made CHARACTER SET utf8mb4")
    server.query("SET GLOBAL local_infile = 1")
    for database, method in (("made", "insert"), (ODD, "load-data")):
        where = dsn(server, database)
        fill(tmp_path / "odd.toml", rows=1100, dsn=where, create=True, threads=1, method=method)
    for table, count in rows.items():
        loaded, made = (
            sorted(server.query(f"SELECT * FROM {quoted(database, table)}"), key=repr)
            for database in (ODD, "made")
        )
        assert len(loaded) == count
        assert loaded == made
    for method in ("load-data", "insert"):
        where = dsn(server, ODD)
        filled = fill(tmp_path / "odd.toml", rows=200, dsn=where, truncate=True, threads=1, method=method)
        assert filled.verified
        assert {table.name for table in filled.tables} == set(TABLES)
