"""What each statement of the doctor takes on a large server: very many tables, connections and hot locks.

    python benchmarks/doctor_scale.py [--server mariadb@10.11]… [--tables 10000] [--connections 5000]
                                      [--waiting 500] [--seconds 30]

The connections sleep, but for those that wait for one row. Exits with 1 if a statement took longer than
50 ms, as seen by the client, beyond the first answer of a kind.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, cast

import pymysql
from pymysql.constants import COMMAND

from flushlab.build import find_build
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.remote.server import watched
from flushlab.telemetry.live.questions import doctor_questions
from flushlab.telemetry.live.session import Session

MOST_S = 0.05
AT_ONCE = 8


def connected(server: Sandbox) -> pymysql.connections.Connection:
    """A connection."""
    own = server.endpoint
    return pymysql.connect(unix_socket=own.socket, user=own.user, password=own.password, ssl_disabled=True)


def create_tables(server: Sandbox, count: int) -> None:
    """Empty tables, made by several connections at once."""
    server.query("CREATE DATABASE many")

    def create(first: int) -> None:
        with contextlib.closing(connected(server)) as connection, connection.cursor() as cursor:
            for number in range(first, count, AT_ONCE):
                cursor.execute(f"CREATE TABLE many.t{number} (id INT PRIMARY KEY, n INT, KEY (n))")

    threads = [threading.Thread(target=create, args=(first,)) for first in range(AT_ONCE)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def _send(connection: pymysql.connections.Connection, sql: str) -> None:
    """Sends a statement without waiting for its answer."""
    cast("Any", connection)._execute_command(COMMAND.COM_QUERY, sql)


@contextlib.contextmanager
def crowd(server: Sandbox, count: int, waiting: int) -> Iterator[None]:
    """Connections, of which some wait for a row that the first holds."""
    with contextlib.ExitStack() as stack:
        every = [stack.enter_context(contextlib.closing(connected(server))) for _ in range(count)]
        with every[0].cursor() as cursor:
            cursor.execute("CREATE TABLE many.hot (id INT PRIMARY KEY, n INT) ENGINE=InnoDB")
            cursor.execute("INSERT INTO many.hot VALUES (1, 0)")
            cursor.execute("COMMIT")
            cursor.execute("UPDATE many.hot SET n = 1")
        for one in every[1 : waiting + 1]:
            _send(one, "UPDATE many.hot SET n = n + 1 WHERE id = 1")
        try:
            yield
        finally:
            for one in every:
                cast("Any", one)._force_close()


def took(server: Sandbox, seconds: float) -> dict[str, list[float]]:
    """Seconds that each answer took, by question."""
    found: dict[str, list[float]] = defaultdict(list)
    session = Session(watched(server, "large"), choose=doctor_questions)
    with contextlib.closing(session):
        until = time.monotonic() + seconds
        last: dict[str, float] = {}
        while time.monotonic() < until:
            session.ask_what_is_due()
            assert session.seen is not None
            for name, took_s in session.seen.took_s.items():
                if last.get(name) != took_s:
                    found[name].append(took_s)
                    last[name] = took_s
            time.sleep(0.02)
        assert not session.seen or not session.seen.missing
    return found


def main() -> int:
    """Prints a row for each question."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append")
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=5_000)
    parser.add_argument("--waiting", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    slow = 0
    for build in given.server or ("mariadb@10.11", "mysql@8.0", "mysql@9.7"):
        settings = {
            "max_connections": given.connections + 100,
            "innodb_flush_log_at_trx_commit": 0,
            "sync_binlog": 0,
            "innodb_flush_method": "nosync",
            "innodb_lock_wait_timeout": 600,
        }
        with Sandbox.start(SandboxSpec(find_build(build), settings=settings)) as server:
            create_tables(server, given.tables)
            with crowd(server, given.connections, given.waiting):
                rows = took(server, given.seconds)
        for name, seconds in sorted(rows.items()):
            slow += max(seconds[1:], default=0.0) > MOST_S
            median, longest = 1000 * statistics.median(seconds), 1000 * max(seconds)
            sys.stdout.write(
                f"{build:14} {name:28} {len(seconds):4} answers, median {median:7.2f} ms, longest"
                f" {longest:7.2f} ms\n"
            )
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
