"""Does Prometheus get answers to a server's dashboard and the alerts, and does mysqld_exporter agree?

Run by hand (Debian: apt-get install prometheus prometheus-mysqld-exporter):

    .venv/bin/python benchmarks/prometheus.py --server mariadb@10.11

A sandbox is watched, Prometheus scrapes the watch each second beside a few INSERTs, and every expression is
asked. The campaign's dashboard is not: its names are held by tests/unit/watch/test_files.py.

Then the server stands still and mysqld_exporter is scraped beside the watch: names, types and labels of what
both tell must agree. Values that differ are listed: asking twice, seconds apart, changes many. Exits with 1
if types or labels differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from flushlab import sandbox, watching
from flushlab.server.ports import free_port
from flushlab.watch import grafana, prometheus_files

SECONDS = 12
DEADLINE_S = 30.0
NEEDED = ("prometheus", "promtool", "prometheus-mysqld-exporter")
COLLECTORS = ("global_status", "global_variables", "info_schema.processlist", "info_schema.innodb_metrics")


def say(line: str) -> None:
    """A line of the result."""
    sys.stdout.write(f"{line}\n")


def get(url: str) -> str:
    """What is at an address."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def answers(url: str, deadline_s: float = DEADLINE_S) -> None:
    """Waits until something is there."""
    until = time.monotonic() + deadline_s
    while True:
        try:
            get(url)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


@contextmanager
def running(*command: str, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """A program for as long as the context lasts."""
    process = subprocess.Popen(
        command, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def asked(base: str) -> Iterator[tuple[str, str, int]]:
    """Every expression with its place and how many series it yields."""
    places = [(panel.title, query) for panel in grafana.SERVER for query in panel.queries.values()]
    places += [
        (f"alert {alert.name}", re.split(r" [=>]+ [\d.]+$", alert.expression)[0])
        for alert in prometheus_files.ALERTS
    ]
    for title, expression in places:
        query = urllib.parse.quote(expression.replace("$__rate_interval", "4s"))
        found = json.loads(get(f"{base}/api/v1/query?query={query}"))
        yield title, expression, len(found["data"]["result"])


def told(text: str) -> dict[str, tuple[str, dict[tuple[tuple[str, str], ...], float]]]:
    """By name: the type, and values by labels."""
    return {
        family.name: (family.type, {tuple(sorted(s.labels.items())): s.value for s in family.samples})
        for family in text_string_to_metric_families(text)
        if family.name.startswith("mysql_") and "exporter" not in family.name
    }


def compared(ours: str, theirs: str) -> tuple[int, int, list[str], list[str]]:
    """Names that both tell, values of them that differ, what else differs, and what we lack."""
    mine, other = told(ours), told(theirs)
    both = mine.keys() & other.keys()
    wrong, values = [], 0
    for name in sorted(both):
        if mine[name][0] != other[name][0]:
            wrong.append(f"{name}: {mine[name][0]}, not {other[name][0]}")
        labels = (
            {frozenset(key for key, _ in one) for one in mine[name][1]},
            {frozenset(key for key, _ in one) for one in other[name][1]},
        )
        if labels[0] != labels[1]:
            wrong.append(f"{name}: labels {labels[0]}, not {labels[1]}")
        differ = [
            one for one in mine[name][1].keys() & other[name][1] if mine[name][1][one] != other[name][1][one]
        ]
        values += len(differ)
        if differ:
            say(f"  value differs: {name} {mine[name][1][differ[0]]:g}, {other[name][1][differ[0]]:g}")
    return len(both), values, wrong, sorted(other.keys() - mine.keys())


def main() -> None:
    """Runs it for one server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="mariadb@10.11")
    arguments = parser.parse_args()
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        sys.exit(f"error: missing: {', '.join(missing)}")
    ends: list[Any] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        sandbox(server=arguments.server, settings={"innodb_flush_log_at_trx_commit": 0}) as box,
    ):
        box.query("CREATE DATABASE IF NOT EXISTS t")
        box.query("CREATE TABLE t.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB")
        with watching(defaults_file=box.endpoint.option_file) as watch:
            base = watch.url.rstrip("/")
            prometheus_files.write(Path(folder), prometheus_files.files(base.removeprefix("http://")))
            port = free_port()
            storage = f"--storage.tsdb.path={folder}/tsdb"
            command = (
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                storage,
                f"--web.listen-address=127.0.0.1:{port}",
            )
            with running(*command):
                prometheus = f"http://127.0.0.1:{port}"
                answers(f"{prometheus}/-/ready")
                until = time.monotonic() + SECONDS
                while time.monotonic() < until:
                    box.query("INSERT INTO t.t (v) VALUES (1), (2)")
                    time.sleep(0.01)
                empty = [(title, expression) for title, expression, count in asked(prometheus) if not count]
            checked = subprocess.run(
                ["promtool", "check", "metrics"],
                input=get(f"{base}/metrics"),
                text=True,
                capture_output=True,
                check=False,
            )
            ends += [line for line in checked.stderr.splitlines() if "flushlab_" in line]
            say(f"{arguments.server}: without data: {len(empty)}")
            for title, expression in empty:
                say(f"  {title}: {expression}")
            say(f"promtool check metrics: {checked.returncode}; of our own names: {ends or 'nothing'}")
            endpoint = box.endpoint
            where = f"unix({endpoint.socket})" if endpoint.socket else f"({endpoint.host}:{endpoint.port})"
            port = free_port()
            flags = [f"--collect.{name}" for name in COLLECTORS]
            dsn = f"{endpoint.user}:{endpoint.password}@{where}/"
            with running(
                "prometheus-mysqld-exporter",
                f"--web.listen-address=127.0.0.1:{port}",
                *flags,
                env={"DATA_SOURCE_NAME": dsn},
            ):
                answers(f"http://127.0.0.1:{port}/metrics")
                time.sleep(2)
                theirs = get(f"http://127.0.0.1:{port}/metrics")
                ours = get(f"{base}/metrics")
            names, values, wrong, lacking = compared(ours, theirs)
            say(f"{names} names of both, {values} values and {len(wrong)} types or labels differ")
            say("\n".join(f"  {one}" for one in wrong))
            say(f"only there: {', '.join(lacking)}")
    sys.exit(bool(wrong or ends))


if __name__ == "__main__":
    main()
