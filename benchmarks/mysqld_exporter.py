"""Does `flushlab watch` tell what mysqld_exporter tells of the same server: names, types, labels and values?

Run by hand (Debian: apt-get install prometheus prometheus-mysqld-exporter):

    .venv/bin/python benchmarks/mysqld_exporter.py [--server mariadb@10.11 …]

An idle server is scraped by both, twice each, alternately, far enough apart for each question to be
asked anew. What moved between two scrapes of the same exporter says nothing; all else must be equal. Samples
that need not be are in `EXPLAINED`. The lints of `promtool check metrics` must be none of our own names, and
of the others the ones that mysqld_exporter's scrape gets too. Exits with 1 otherwise.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from typing import NamedTuple

from programs import get, needs, reaches, running, say
from prometheus_client.parser import text_string_to_metric_families

from flushlab import sandbox, watching
from flushlab.server.sandbox.node import free_port

SERVERS = ("mariadb@10.11", "mariadb@11.8", "mysql@5.7", "mysql@8.0", "mysql@9.7")
APART_S = 13.0
"""Variables are asked for every ten seconds."""
SETTLE_S = 20.0
EXPLAINED = {
    r"mysql_global_status_threads_(connected|cached)": "its connection, which is opened for each scrape",
    r"mysql_info_schema_innodb_metrics_buffer.*_dirty(_pages)?": "on 5.7, its query of COLUMNS itself",
    r"mysql_info_schema_processlist_(threads|processes_by_(user|host)){.*}": "each leaves out its own alone",
}
"""Samples that differ on a server that stands still, and why."""
PROCESSLIST = "info_schema.processlist"
COLLECTORS = ("global_status", "global_variables", "info_schema.innodb_metrics", PROCESSLIST)


def scraped(url: str) -> tuple[str, ...]:
    """What mysqld_exporter tells, a collector at a time: some of its questions make pages dirty on MySQL."""
    return tuple(get(f"{url}?collect[]={one}") for one in COLLECTORS)


Key = tuple[str, tuple[tuple[str, str], ...]]


class Told(NamedTuple):
    """A scrape's names of the server: types by family; by name and labels the family and the value."""

    types: dict[str, str]
    values: dict[Key, tuple[str, float]]

    @classmethod
    def of(cls, text: str) -> Told:
        """Of an exposition."""
        families = [
            one
            for one in text_string_to_metric_families(text)
            if one.name.startswith("mysql_") and not one.name.startswith("mysql_exporter_")
        ]
        return cls(
            {one.name: one.type for one in families},
            {
                (sample.name, tuple(sorted(sample.labels.items()))): (one.name, sample.value)
                for one in families
                for sample in one.samples
            },
        )


def spelled(key: Key) -> str:
    """A sample as Prometheus writes it."""
    labels = ", ".join(f'{label}="{value}"' for label, value in key[1])
    return f"{key[0]}{{{labels}}}" if labels else key[0]


def different(ours: tuple[Told, Told], theirs: tuple[Told, Told]) -> list[str]:
    """What both tell and tell differently, of what did not move."""
    both = ours[1].types.keys() & theirs[1].types.keys()
    found = [
        f"{name}: {ours[1].types[name]}, not {theirs[1].types[name]}"
        for name in sorted(both)
        if ours[1].types[name] != theirs[1].types[name]
    ]
    compared, moved, explained = 0, 0, 0
    for key in sorted(set().union(*(told.values for told in (*ours, *theirs)))):
        told = [one.values.get(key) for one in (*ours, *theirs)]
        if not any(one is not None and one[0] in both for one in told):
            continue
        if told[0] != told[1] or told[2] != told[3]:
            moved += 1
            continue
        compared += 1
        if told[0] == told[2]:
            continue
        if any(re.fullmatch(one, spelled(key)) for one in EXPLAINED):
            explained += 1
            continue
        found.append(f"{spelled(key)}: {told[0] and told[0][1]}, not {told[2] and told[2][1]}")
    say(
        f"  {len(both)} names of both; {compared} samples stood still: {len(found)} differ, and"
        f" {explained} that need not be equal; {moved} moved"
    )
    return found


def lints(text: str) -> set[str]:
    """What promtool complains of."""
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    return {line for line in checked.stderr.splitlines() if line}


def compare(name: str) -> list[str]:
    """What is wrong with one server."""
    with sandbox(server=name, settings={"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}) as box:
        box.query("CREATE DATABASE IF NOT EXISTS t")
        box.query("CREATE TABLE t.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB")
        box.query("INSERT INTO t.t (v) VALUES (1), (2)")
        endpoint = box.endpoint
        port = free_port()
        where = f"unix({endpoint.socket})" if endpoint.socket else f"({endpoint.host}:{endpoint.port})"
        theirs_at = f"http://127.0.0.1:{port}/metrics"
        exporter = (
            "prometheus-mysqld-exporter",
            f"--web.listen-address=127.0.0.1:{port}",
            *(f"--collect.{one}" for one in COLLECTORS),
            *(f"--collect.{PROCESSLIST}.processes_by_{whom}" for whom in ("user", "host")),
        )
        dsn = f"{endpoint.user}:{endpoint.password}@{where}/"
        with (
            watching(defaults_file=endpoint.option_file, port=0) as watch,
            running(*exporter, env={"DATA_SOURCE_NAME": dsn}),
        ):
            ours_at = f"{watch.url}metrics"
            reaches(theirs_at)
            time.sleep(SETTLE_S)
            scrapes: list[tuple[str, tuple[str, ...]]] = []
            for pause_s in (0.0, APART_S):
                time.sleep(pause_s)
                scrapes.append((get(ours_at), scraped(theirs_at)))
    say(name)
    told = [(Told.of(ours), Told.of("".join(theirs))) for ours, theirs in scrapes]
    wrong = different((told[0][0], told[1][0]), (told[0][1], told[1][1]))
    lacking = sorted(told[1][1].types.keys() - told[1][0].types.keys())
    say(f"  only there: {', '.join(lacking) or 'nothing'}")
    ours, theirs = lints(scrapes[1][0]), set().union(*(lints(text) for text in scrapes[1][1]))
    say(f"  promtool check metrics: {len(ours)} lints, {len(ours - theirs)} not of mysqld_exporter's own")
    for line in sorted(ours & theirs):
        say(f"    {line}")
    return [*wrong, *sorted(ours - theirs)]


def main() -> None:
    """Runs it for each server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", nargs="+", default=SERVERS)
    arguments = parser.parse_args()
    needs("promtool", "prometheus-mysqld-exporter")
    wrong = 0
    for name in arguments.server:
        found = compare(name)
        wrong += len(found)
        for line in found:
            say(f"  {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
