"""Resets that are undone, and PostgreSQL's copies of a template of the same tables: how long do they take?

    python benchmarks/undo.py [--server mariadb@10.11]… [--tables 40 --tables 400] [--tests 80] [--pause 0]

A test commits 12 statements (9 inserts, 2 updates, 1 delete; a trigger writes into one more table). Then
the reset is asked for as pytest asks, by HTTP, and measured to the first query behind it, on the connection
that was there before. PostgreSQL (Debian's, data in memory, fsync off) makes a database from a template
with the same tables; neither its connection nor the end of the database before counts. Both alternate, test
by test. Fails where a median is above its bar, or above PostgreSQL's in the same run, or where a content
differs from the template's.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pymysql

import flushlab
from flushlab.suite.database import Database
from flushlab.suite.endpoint import SuiteEndpoint
from flushlab.suite.pool import Pool
from flushlab.suite.servers import Check, SuiteServer

SERVERS = ("mariadb@10.11", "mariadb@11.8", "mysql@5.7", "mysql@8.0", "mysql@9.7")
BAR_MS = {"mariadb": 5.0, "mysql@5.7": 5.0, "mysql@8.0": 14.0, "mysql@9.7": 14.0}
ROWS = 20
_PREPARE = """
import os, pymysql, sys
connection = pymysql.connect(
    unix_socket=os.environ["FLUSHLAB_SOCKET"], user=os.environ["FLUSHLAB_USER"], autocommit=True,
    password=os.environ["FLUSHLAB_PASSWORD"], database=os.environ["FLUSHLAB_DATABASE"],
)
for line in open(sys.argv[1]):
    connection.cursor().execute(line)
"""


def schema(tables: int, numbered: str) -> list[str]:
    """Statements that make the tables, a line each; `numbered` is the type of a column that counts."""
    rows = ", ".join(f"('v{row}', {row})" for row in range(ROWS))
    lines = []
    for table in range(tables):
        lines.append(f"CREATE TABLE t{table} (id {numbered} PRIMARY KEY, v VARCHAR(50), n INT)")
        lines.append(f"INSERT INTO t{table} (v, n) VALUES {rows}")
    return [*lines, f"CREATE TABLE audit (id {numbered} PRIMARY KEY, w VARCHAR(50))"]


TRIGGER = "CREATE TRIGGER note AFTER INSERT ON t0 FOR EACH ROW INSERT INTO audit (w) VALUES (NEW.v)"
TEST = (
    *(f"INSERT INTO t{k % 3} (v, n) VALUES ('new', {k})" for k in range(9)),
    "UPDATE t1 SET v = 'u', n = n + 1 WHERE id < 5",
    "UPDATE t2 SET n = 7 WHERE id = 3",
    "DELETE FROM t0 WHERE id = 2",
)


@contextlib.contextmanager
def postgresql(tables: int) -> Iterator[Any]:
    """Yields what makes a database from a template and returns the milliseconds, as psql tells them."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert programs, "install postgresql"
    folder = Path(tempfile.mkdtemp(prefix="flushlab-postgresql-", dir="/dev/shm"))
    shutil.chown(folder, "postgres")
    user = ["runuser", "-u", "postgres", "--"]
    try:
        make = [*user, str(programs[-1] / "initdb"), "-D", str(folder / "data"), "-A", "trust"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        start = [*user, str(programs[-1] / "postgres"), "-D", str(folder / "data"), "-k", str(folder)]
        options = ["-c", "fsync=off", "-c", "listen_addresses=", "-c", "logging_collector=off"]
        with subprocess.Popen([*start, *options], stderr=subprocess.DEVNULL) as server:
            try:
                yield _template(user, folder, tables)
            finally:
                end = [*user, str(programs[-1] / "pg_ctl"), "-D", str(folder / "data"), "-m", "fast", "stop"]
                subprocess.run(end, check=True, stdout=subprocess.DEVNULL)
                server.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _template(user: list[str], folder: Path, tables: int) -> Any:
    psql = [*user, "psql", "-h", str(folder), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    limit = time.monotonic() + 30
    while subprocess.run(
        [*psql, "-c", "CREATE DATABASE app", "postgres"], stderr=subprocess.DEVNULL
    ).returncode:
        assert time.monotonic() < limit, "PostgreSQL does not start"
        time.sleep(0.2)
    text = ";\n".join(schema(tables, "SERIAL")) + ";\n"
    subprocess.run([*psql, "app"], input=text.encode(), check=True, stdout=subprocess.DEVNULL)
    asked = subprocess.Popen([*psql, "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def copy() -> float:
        to, back = asked.stdin, asked.stdout
        assert to is not None
        assert back is not None
        to.write(
            "\\timing on\nCREATE DATABASE one TEMPLATE app;\n\\timing off\nDROP DATABASE one;\n\\echo done\n"
        )
        to.flush()
        return _timing(back)

    return copy


def _timing(lines: IO[str]) -> float:
    found = 0.0
    for line in lines:
        if told := re.match(r"Time: ([\d.]+) ms", line):
            found = float(told[1])
        if line.strip() == "done":
            return found
    raise AssertionError("psql ended")


def content(db: Database) -> list[Any]:
    """Checksums and definitions, with the next numbers."""
    with _connected(db) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        names = [str(row[0]) for row in cursor.fetchall()]
        found: list[Any] = []
        for name in names:
            for sql in (f"CHECKSUM TABLE {name}", f"SHOW CREATE TABLE {name}"):
                cursor.execute(sql)
                found.append(cursor.fetchall())
        return found


def _connected(db: Database) -> pymysql.connections.Connection[Any]:
    return pymysql.connect(
        unix_socket=db.socket, user=db.user, password=db.password, database=db.database, autocommit=True
    )


def measure(server: str, tables: int, tests: int, pause_s: float, copy: Any) -> bool:
    """Prints the medians; whether they are below bar and peer."""
    with tempfile.TemporaryDirectory() as folder:
        file, program = Path(folder) / "schema.sql", Path(folder) / "load.py"
        file.write_text("\n".join([*schema(tables, "INT AUTO_INCREMENT"), TRIGGER]))
        program.write_text(_PREPARE)
        prepare = f"{sys.executable} {program} {file}"
        with (
            flushlab.database(server=server, prepare=prepare, inputs=[str(file)], clones=0) as db,
            Pool(nobody, 1, lambda _: False) as pool,
            SuiteEndpoint([db._server], pool, lambda _: {}) as endpoint,
            _connected(db) as connection,
            connection.cursor() as cursor,
        ):
            before, took, peer = content(db), list[float](), list[float]()
            (url,) = endpoint.urls
            for _ in range(tests):
                for sql in TEST:
                    cursor.execute(sql)
                time.sleep(pause_s)
                began = time.perf_counter()
                with urllib.request.urlopen(url, b"") as answer:
                    answer.read()
                cursor.execute("SELECT COUNT(*) FROM t0")
                took.append(1000 * (time.perf_counter() - began))
                peer.append(copy())
            kinds = {one.how for one in db._server.resets}
            assert kinds == {"undone"}, kinds
            assert content(db) == before, "not the template's content"
    bar = BAR_MS.get(server, BAR_MS.get(server.partition("@")[0], 0.0))
    mine, other = statistics.median(took), statistics.median(peer)
    sys.stdout.write(
        f"undo   {server:13} {tables:3} tables, {tests} tests: {mine:5.1f} ms (bar {bar:.0f};"
        f" 90 % below {statistics.quantiles(took, n=10)[-1]:.1f}), PostgreSQL {other:.1f} ms:"
        f" {other / mine:.1f} times as fast; all resets {sum(took) / 1000:.1f} s\n"
    )
    sys.stdout.flush()
    return mine <= bar and mine < other


def nobody(_: Check) -> SuiteServer:
    """The pool is not asked here."""
    raise AssertionError


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append", choices=SERVERS, help="repeatable; default: all")
    parser.add_argument("--tables", action="append", type=int, help="repeatable; default: 40 and 400")
    parser.add_argument("--tests", type=int, default=80)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between a test's end and its reset")
    given = parser.parse_args()
    os.environ.setdefault("FLUSHLAB_QUIET_CHECK", "off")
    good = True
    for tables in given.tables or [40, 400]:
        with postgresql(tables) as copy:
            for server in given.server or SERVERS:
                good &= measure(server, tables, given.tests, given.pause, copy)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
