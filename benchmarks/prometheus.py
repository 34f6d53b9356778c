"""Does a real Prometheus get answers to everything that the dashboards and the alerts ask?

Run by hand (Debian: apt-get install prometheus):

    .venv/bin/python benchmarks/prometheus.py [--server mariadb@10.11 …]

Prometheus runs with the shipped files, but for its port, and scrapes each second. Of every server a sandbox
is watched beside a few statements, and what the server's dashboard and the alerts ask is asked; then
`flushlab watch` looks on while a tune, a comparison, a fill and a test run on the first server, and what the
campaign's dashboard asks is asked over the time of each. What need not have data is listed with the reason.
Exits with 1 if anything else has none.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from programs import get, needs, reaches, running, say

from flushlab import sandbox, watching
from flushlab.server.protocol import Server
from flushlab.server.sandbox.node import free_port
from flushlab.watch import exporter

SERVERS = ("mariadb@10.11", "mariadb@11.8", "mysql@5.7", "mysql@8.0", "mysql@9.7")
SECONDS = 25
"""What bounds writes is known after ten."""
SETTINGS = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 1, "log_bin": "ON"}
SUITE = """
import os, time, pymysql
there = pymysql.connect(unix_socket=os.environ["FLUSHLAB_SOCKET"], user=os.environ["FLUSHLAB_USER"],
    password=os.environ["FLUSHLAB_PASSWORD"], database=os.environ["FLUSHLAB_DATABASE"], autocommit=True)
until = time.monotonic() + 8
with there.cursor() as cursor:
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)")
    while time.monotonic() < until:
        cursor.execute("INSERT INTO t VALUES ()")
        time.sleep(0.01)
"""
CAMPAIGNS = ("tune", "compare", "fill", "test")
WATCHING = "CPU that watching takes"
APPLIES = {"fill": {WATCHING, "Rows loaded/s", "Time left"}, "test": {WATCHING}}
"""What the campaign's dashboard shows of what has no trials; a suite sends statements of its own."""
EMPTY = {
    **dict.fromkeys(
        ((flavor, "alert WritersWaitForLocks") for flavor in ("mariadb", "mysql")),
        "no writer waited for a lock",
    ),
    **dict.fromkeys(
        ((flavor, "alert TransactionsStayOpen") for flavor in ("mariadb", "mysql")),
        "no transaction stayed open",
    ),
    ("mysql", "Commits per group of the binary log (commits per group (MariaDB))"): "it counts no groups",
    ("tune", "Errors/s by number ({{code}})"): "there were none",
    ("tune", "Rows loaded/s"): "no table was filled",
    ("tune", "Ratio to the base"): "no interim analysis proved one",
    ("compare", "Errors/s by number ({{code}})"): "there were none",
    ("compare", "Rows loaded/s"): "no table was filled",
}
"""By command or flavor and panel: why there is nothing to show."""


def why_empty(what: str, title: str) -> str:
    """Why an expression need not have data; empty if it must."""
    kind = what.partition("@")[0]
    if kind in APPLIES and title not in APPLIES[kind]:
        return f"a {kind} has none"
    return EMPTY.get((kind, title), "")


def asked(board: str) -> Iterator[tuple[str, str]]:
    """Every expression of a dashboard with its place."""
    text = (exporter.GRAFANA / "dashboards" / f"flushlab-{board}.json").read_text()
    for panel in json.loads(text)["panels"]:
        title, targets = panel["title"], panel["targets"]
        for one in targets:
            yield f"{title} ({one['legendFormat']})" if len(targets) > 1 else title, one["expr"]


def alerts(prometheus: str) -> Iterator[tuple[str, str]]:
    """Every expression of an alert, without its threshold."""
    (group,) = json.loads(get(f"{prometheus}/api/v1/rules"))["data"]["groups"]
    for one in group["rules"]:
        yield f"alert {one['name']}", re.sub(r" [=>]+ [\d.]+", "", one["query"])


def series(prometheus: str, expression: str, since: float, until: float) -> int:
    """How many series an expression yields over a time, as a dashboard asks it."""
    query = urllib.parse.urlencode(
        {
            "query": expression.replace("$__rate_interval", "4s"),
            "start": since,
            "end": until,
            "step": 1,
        }
    )
    return len(json.loads(get(f"{prometheus}/api/v1/query_range?{query}"))["data"]["result"])


@contextmanager
def scraped(target: str) -> Iterator[str]:
    """A Prometheus that scrapes there; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        exporter.copy(exporter.PROMETHEUS, Path(folder))
        config = Path(folder) / "prometheus.yml"
        config.write_text(config.read_text().replace("localhost:9194", target))
        port = free_port()
        with running(
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}/tsdb",
            f"--web.listen-address=127.0.0.1:{port}",
        ):
            reaches(f"http://127.0.0.1:{port}/-/ready")
            yield f"http://127.0.0.1:{port}"


def judge(
    prometheus: str, what: str, places: Iterator[tuple[str, str]], since: float, until: float
) -> list[str]:
    """Expressions without data, but for those that need not have any."""
    found = {title: series(prometheus, expression, since, until) for title, expression in places}
    lacking = [title for title, count in found.items() if not count]
    wrong = [title for title in lacking if not why_empty(what, title)]
    say(f"{what}: {len(found) - len(lacking)} of {len(found)} expressions have data")
    for title in lacking:
        say(f"  {title}: {why_empty(what, title) or 'NOTHING'}")
    return wrong


def of_server(name: str) -> list[str]:
    """What the server's dashboard and the alerts do not get."""
    kept = f"bench-prometheus-{os.getpid()}"
    with sandbox(server=name, settings=SETTINGS, name=kept, kept=True) as box:
        try:
            with (
                watching(server=f"sandbox:{kept}", listen=str(free_port())) as watch,
                scraped(watch.url.removeprefix("http://").rstrip("/")) as prometheus,
            ):
                began = time.time()
                drive(box)
                places = iter([*asked("server"), *alerts(prometheus)])
                return judge(prometheus, name, places, began, time.time())
        finally:
            box.remove()


def drive(box: Server) -> None:
    """A few statements, for some scrapes."""
    box.query("CREATE DATABASE IF NOT EXISTS t")
    box.query("CREATE TABLE t.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB")
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        box.query("INSERT INTO t.t (v) VALUES (1), (2)")
        time.sleep(0.01)


def of_campaign(what: str, name: str) -> list[str]:
    """What the campaign's dashboard does not get of a tune, a comparison, a fill or a test."""
    flushlab = (sys.executable, "-m", "flushlab")
    port = free_port()
    kept = f"bench-prometheus-{os.getpid()}"
    commands = {
        "tune": ("--server", name, "--minutes", "3", "--floor", "strict"),
        "compare": ("--server", name, "--duration", "30", "base", "innodb_flush_log_at_trx_commit=0"),
        "fill": ("users", "--rows", "500000", "--server", f"sandbox:{kept}", "--create"),
        "test": ("--server", name, "--", sys.executable, "-c", SUITE),
    }
    with (
        tempfile.TemporaryDirectory() as out,
        running(*flushlab, "watch", "--listen", str(port)),
        scraped(f"127.0.0.1:{port}") as prometheus,
        sandbox(server=name, settings=SETTINGS, name=kept, kept=True) as box,
    ):
        try:
            reaches(f"http://127.0.0.1:{port}/metrics")
            began = time.time()
            command = [*flushlab, what, *commands[what]]
            done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"flushlab {what} ended with {done.returncode}:\n{done.stderr}")
            return judge(prometheus, what, asked("campaign"), began, time.time())
        finally:
            box.remove()


def main() -> None:
    """Runs it for each server, then for each kind of campaign."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", nargs="+", default=SERVERS)
    parser.add_argument("--part", choices=("servers", *CAMPAIGNS), help="that one alone")
    arguments = parser.parse_args()
    needs("prometheus")
    wrong: list[str] = []
    if arguments.part in (None, "servers"):
        for name in arguments.server:
            wrong += of_server(name)
    for what in CAMPAIGNS:
        if arguments.part in (None, what):
            wrong += of_campaign(what, arguments.server[0])
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
