"""Does `compare --own-load` find what the application itself measures, and what does being measured cost it?

    python benchmarks/own_load.py --small                     # some ten minutes
    python benchmarks/own_load.py --runs 10 --seconds 300 --server mariadb@10.11 --server mysql@8.0 \\
                                  --server mysql@9.7 --disk fast --disk flush=5ms --json own_load.jsonl
    python benchmarks/own_load.py --same 200 --seconds 60     # A/A: how often does an interval miss 1?

The application of the integration tests writes to a kept sandbox, in a closed loop and at a fixed demand.
flushlab compares settings on that server. Another connection reads the settings twenty times a second, so
that each transaction of the application belongs to a setting. One of ten statements of the application does
nothing in the server: what it takes is the time of the driver and the network, which the application counts
and the server does not. A line of JSON is kept of each run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import IO, Any, NamedTuple

import msgspec
import pymysql
from scipy.stats import t

import flushlab
from flushlab.diagnosis.load import LoadObserver
from flushlab.record import Endpoint
from flushlab.record.running import WatchedServer

APPLICATION = Path(__file__).parents[1] / "tests/integration/application.py"
STRICT = ("log_bin=ON", "sync_binlog=1", "innodb_flush_log_at_trx_commit=1", "server_id=7")
CHANGES = {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "1000"}
CONNECTIONS = 4
LEAD_S = 1.0
"""After a switch, as flushlab leaves out."""
NOTHING_EVERY = 10
"""One of so many statements of the application does nothing in the server."""
LEAST = 20
"""Statements of one kind under one setting without which there is no mean."""
SHARE_OF_CAPACITY = 0.3
"""Fixed demand, as a part of what the closed loop reached."""
ON_OFF_S = 4.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison.

    Attributes:
        change: the setting and its value; empty: an A/A comparison.
        ratio, low, high: of write latency, by flushlab.
        by_application: the same ratio by the application's own clock; None if it has too few transactions.
        agrees: the interval has that ratio in it.
        without_driver: the ratio by the application's clock, less the mean time of its statements that do
            nothing in the server: what its driver and the network take of each statement.
        agrees_without_driver: the interval has that ratio in it.
        driver_us: that mean time.
        commits_ratio: of commits per second, by flushlab. In a closed loop, an application finds a ratio
            between this and `ratio`: its own time and the network count, the time between requests does not.
        control_missed: the A/A control's interval excludes 1.
        demand: as flushlab found it.
    """

    server: str
    disk: str
    load: str
    change: str
    ratio: float
    low: float
    high: float
    by_application: float | None
    agrees: bool | None
    without_driver: float | None
    agrees_without_driver: bool | None
    driver_us: float | None
    commits_ratio: float | None
    control_missed: bool
    demand: str
    commits_per_s: float
    latency_us: float


class Server:
    """A kept sandbox with the application's table and accounts."""

    def __init__(self, build: str, disk: str) -> None:
        self.build, self.disk, self.name = build, disk, f"own-load-{random.randrange(10**6)}"
        slow = [] if disk == "fast" else ["--disk", disk]
        words = [one for setting in STRICT for one in ("--set", setting)]
        started = _flushlab(
            "server", "start", "--server", build, "--name", self.name, *words, *slow, "--json", "-"
        )
        self.file = json.loads(started)["option_file"]
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.port")
            self.port = int(cursor.fetchone()[0])
            cursor.execute("CREATE DATABASE application")
            cursor.execute(
                "CREATE TABLE application.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(20))"
            )
            plugin = " WITH mysql_native_password" if build in ("mysql@5.7", "mysql@8.0") else ""
            for user in ("owner", "app"):
                cursor.execute(f"CREATE USER {user}@'%' IDENTIFIED{plugin} BY 'secret'")
                cursor.execute(f"GRANT ALL ON *.* TO {user}@'%'")

    def connect(self) -> Any:
        """A connection of the sandbox's own account."""
        return pymysql.connect(read_default_file=self.file)

    @property
    def dsn(self) -> str:
        """The server as its owner names it."""
        return f"mysql://owner:secret@127.0.0.1:{self.port}/"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        _flushlab("server", "stop", self.name)

    @contextlib.contextmanager
    def load(self, rate: float) -> Iterator[IO[str]]:
        """The application; its transactions come in the file."""
        with tempfile.TemporaryFile("w+") as file:
            words = (
                f"127.0.0.1:{self.port}",
                "app",
                "secret",
                str(CONNECTIONS),
                str(rate),
                str(NOTHING_EVERY),
            )
            program = subprocess.Popen(
                [sys.executable, str(APPLICATION), *words], stdin=subprocess.PIPE, stdout=file, text=True
            )
            try:
                time.sleep(2 * LEAD_S)
                assert program.poll() is None, "the application ended"
                yield file
            finally:
                program.communicate()


def _flushlab(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "flushlab", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


class Timeline(threading.Thread):
    """When the server had which value of a setting, by a connection that is neither's."""

    def __init__(self, server: Server, setting: str) -> None:
        super().__init__(daemon=True)
        self._connection = server.connect()
        self._sql = f"SELECT @@GLOBAL.{setting}"
        self.seen: list[tuple[float, str]] = []
        self._over = threading.Event()

    def run(self) -> None:
        """Reads the setting until `stretches` is asked for."""
        with self._connection.cursor() as cursor:
            while not self._over.wait(0.05):
                cursor.execute(self._sql)
                self.seen.append((time.monotonic(), str(cursor.fetchone()[0])))

    def stretches(self) -> Iterator[tuple[float, float, str]]:
        """Stretches of one value, without their lead and without their end."""
        self._over.set()
        self.join()
        began, last = self.seen[0], self.seen[0]
        for one in (*self.seen[1:], (math.inf, "")):
            if one[1] != began[1]:
                yield began[0] + LEAD_S, last[0], began[1]
                began = one
            last = one


class Statement(NamedTuple):
    """One of the application's, by its own clock."""

    began: float
    ended: float
    is_nothing: bool


def statements(file: IO[str]) -> list[Statement]:
    """All that the application has sent."""
    file.seek(0)
    found = []
    for line in file:
        words = line.split()
        if len(words) >= 2:
            end, seconds = float(words[0]), float(words[1])
            found.append(Statement(end - seconds, end, words[-1] == "nothing"))
    return found


def compared(
    server: Server, load: str, rate: float, setting: str, value: str, seconds: float, seed: int
) -> Run:
    """One comparison under the application."""
    change = f"{setting}={value}" if value else ""
    other = change or f"again: {setting}=1"
    with server.load(rate) as file:
        timeline = Timeline(server, setting)
        timeline.start()
        facts = flushlab.compare(
            ["base", other], own_load=True, allow_set_global=True, dsn=server.dsn, duration=seconds,
            floor="throwaway", seed=seed, blocks=10 if seconds >= 200 else 5,
        )  # fmt: skip
        stretches, sent = list(timeline.stretches()), statements(file)
    arm = facts.arms[0]
    assert arm.comparison is not None and facts.control is not None and facts.control.comparison is not None
    ratio, control = arm.comparison.ratio, facts.control.comparison.ratio
    means = _means(stretches, sent, value) if value else None
    own, without = (None, None) if means is None else (_ratio(means), _ratio(means, without_driver=True))
    base = facts.base.observed
    return Run(
        server=server.build,
        disk=server.disk,
        load=load,
        change=change,
        ratio=round(ratio.estimate, 3),
        low=round(ratio.low, 3),
        high=round(ratio.high, 3),
        by_application=None if own is None else round(own, 3),
        agrees=None if own is None else ratio.low <= own <= ratio.high,
        without_driver=None if without is None else round(without, 3),
        agrees_without_driver=None if without is None else ratio.low <= without <= ratio.high,
        driver_us=None if means is None else round(1e6 * fmean(one.nothing_s for one in means), 1),
        commits_ratio=None if arm.throughput is None else round(arm.throughput.ratio.estimate, 3),
        control_missed=not control.low <= 1 <= control.high,
        demand=facts.demand,
        commits_per_s=round(facts.base.result or 0.0, 1),
        latency_us=round(base.write_us or 0.0, 1) if base else 0.0,
    )


class Means(NamedTuple):
    """Of the application's statements under one setting: those that write, and those that do nothing."""

    write_s: float
    nothing_s: float


def _means(
    stretches: Sequence[tuple[float, float, str]], sent: Sequence[Statement], value: str
) -> tuple[Means, Means] | None:
    """Before and after the change; None if there are too few statements."""
    found = list[Means]()
    for is_changed in (False, True):
        spans = [(began, ended) for began, ended, now in stretches if (now == value) == is_changed]
        inside = [one for one in sent if any(a <= one.began and one.ended <= b for a, b in spans)]
        kinds = [
            [one.ended - one.began for one in inside if one.is_nothing == kind] for kind in (False, True)
        ]
        if min(map(len, kinds)) < LEAST:
            return None
        found.append(Means(*map(fmean, kinds)))
    before, after = found
    return before, after


def _ratio(means: tuple[Means, Means], *, without_driver: bool = False) -> float:
    before, after = (one.write_s - without_driver * one.nothing_s for one in means)
    return before / after


def cost(server: Server, seconds: float, seed: int) -> tuple[float, float, float]:
    """Throughput of the closed loop while it is observed over that while it is not, with a 95 % interval."""
    order, pairs = random.Random(seed), max(4, round(seconds / ON_OFF_S / 2))
    observer = LoadObserver(
        [
            WatchedServer(
                key="cost",
                endpoint=Endpoint(host="127.0.0.1", port=server.port, user="owner", password="secret"),
                transport="tcp",
            )
        ]
    )
    spans: list[dict[bool, tuple[float, float]]] = []
    with server.load(0.0) as file:
        for _ in range(pairs):
            both = [True, False]
            order.shuffle(both)
            span = {}
            for is_observed in both:
                began = time.monotonic()
                if is_observed:
                    observer.observe(ON_OFF_S)
                else:
                    time.sleep(ON_OFF_S)
                span[is_observed] = (began, time.monotonic())
            spans.append(span)
        time.sleep(LEAD_S)
        ends = [one.ended for one in statements(file)]
    observer.close()

    def rate(span: tuple[float, float]) -> float:
        return sum(span[0] <= end <= span[1] for end in ends) / (span[1] - span[0])

    logs = [math.log(rate(span[True]) / rate(span[False])) for span in spans]
    half = t.ppf(0.975, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(fmean(logs)), math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)


def main() -> int:
    """Runs what was asked for; exits with 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", action="append", help="build; default: mariadb@10.11")
    parser.add_argument("--disk", action="append", help="fast, or a profile such as flush=5ms (the default)")
    parser.add_argument("--runs", type=int, default=1, help="of each load and change")
    parser.add_argument("--same", type=int, default=0, help="A/A comparisons")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--small", action="store_true", help="one run of each, of 60 s")
    parser.add_argument("--json", type=Path, help="a line of each run is added to this file")
    asked = parser.parse_args()
    seconds = 60.0 if asked.small else asked.seconds
    runs, shares = list[Run](), list[tuple[float, float, float]]()
    for build in asked.server or ["mariadb@10.11"]:
        for disk in asked.disk or ["flush=5ms"]:
            with Server(build, disk) as server:
                for run in _on(server, seconds, asked.runs, asked.same):
                    runs.append(run)
                    _say(run, asked.json)
                shares.append(cost(server, seconds, 1))
                _print(
                    f"{build}, {disk}: observed over not {shares[-1][0]:.3f}"
                    f" [{shares[-1][1]:.3f}, {shares[-1][2]:.3f}]"
                )
    judged = [run.agrees for run in runs if run.agrees is not None]
    missed = [run.control_missed for run in runs]
    missed += [not run.low <= 1 <= run.high for run in runs if not run.change]
    without = [run.agrees_without_driver for run in runs if run.agrees_without_driver is not None]
    _print(f"agrees with the application: {sum(judged)} of {len(judged)}")
    _print(f"agrees with it less its driver's time: {sum(without)} of {len(without)}")
    _print(f"A/A intervals that miss 1: {sum(missed)} of {len(missed)}")
    enough = sum(judged) >= 0.9 * len(judged)
    return 0 if enough and all(high >= 0.99 for _, _, high in shares) else 1


def _on(server: Server, seconds: float, count: int, same: int) -> Iterator[Run]:
    """All runs on a server. The fixed demand is a part of what the closed loop reached."""
    rate = 0.0
    for seed in range(1, count + 1):
        for load in ("closed loop", "fixed demand"):
            for setting, value in CHANGES.items():
                run = compared(
                    server, load, rate if load == "fixed demand" else 0.0, setting, value, seconds, seed
                )
                if load == "closed loop":
                    rate = max(1.0, SHARE_OF_CAPACITY * run.commits_per_s)
                yield run
    for seed in range(1, same + 1):
        yield compared(server, "closed loop", 0.0, "sync_binlog", "", seconds, seed)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _say(run: Run, file: Path | None) -> None:
    line = msgspec.json.encode(run).decode()
    _print(line)
    if file is not None:
        with file.open("a") as lines:
            lines.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
