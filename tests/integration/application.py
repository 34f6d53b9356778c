"""An application that writes to a server, run as a program: it measures its own transactions.

    python application.py HOST:PORT USER PASSWORD CONNECTIONS RATE [EVERY]

A rate of 0 is a closed loop; else so many transactions per second begin on schedule, whatever each takes.
After `ready` it writes lines of a transaction each: its end on the monotonic clock, and its seconds. With
EVERY, one of so many statements does nothing in the server; its line ends with `nothing`. The application
ends with its standard input, or once the server ends.
"""

from __future__ import annotations

import sys
import threading
import time

import pymysql

DATABASE = "application"
TABLE = f"{DATABASE}.orders"
SETUP = (
    f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
    f"CREATE TABLE IF NOT EXISTS {TABLE} (id BIGINT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(20))",
)
_LINES = 50
_WRITING = threading.Lock()
"""Lines of several connections would run into each other."""


def main() -> None:
    place, user, password, connections, rate = sys.argv[1:6]
    every = int(sys.argv[6]) if len(sys.argv) > 6 else 0
    host, _, port = place.partition(":")
    count, over = int(connections), threading.Event()
    workers = [
        threading.Thread(
            target=_work,
            args=(host, int(port), user, password, float(rate) / count, number / count, every, over),
            daemon=True,
        )
        for number in range(count)
    ]
    for worker in workers:
        worker.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    over.set()
    for worker in workers:
        worker.join()


def _work(
    host: str,
    port: int,
    user: str,
    password: str,
    rate: float,
    phase: float,
    every: int,
    over: threading.Event,
) -> None:
    connection = pymysql.connect(host=host, port=port, user=user, password=password, autocommit=True)
    took: list[str] = []
    sent = 0
    due = time.monotonic() + (phase / rate if rate else 0.0)
    with connection, connection.cursor() as cursor:
        while not over.is_set():
            if rate:
                time.sleep(max(0.0, due - time.monotonic()))
                due += 1 / rate
            sent += 1
            is_nothing = every and sent % every == 0
            sql = "DO 0" if is_nothing else f"INSERT INTO {TABLE} (note) VALUES ('x')"
            began = time.monotonic()
            cursor.execute(sql)
            ended = time.monotonic()
            took.append(f"{ended:.6f} {ended - began:.6f}{' nothing' if is_nothing else ''}\n")
            if len(took) >= _LINES:
                with _WRITING:
                    sys.stdout.write("".join(took))
                    sys.stdout.flush()
                took.clear()


if __name__ == "__main__":
    main()
