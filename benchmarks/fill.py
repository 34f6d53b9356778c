"""`flushlab fill` beside what people load with: sysbench's prepare, the client's LOAD DATA, four of them,
mysqlimport.

For each server one sandbox, with relaxed commits for all. A million rows of sysbench's table with its index
on k, each way in its turn, in random order, for some rounds: fill generates its rows and tries its ways
within the time that is counted; the others load files that were made before. Then a million users beside
their file; the ladder, on a disk that syncs as often as the story's (120 writes/s, root) and on this one; and
ten million users for memory and rate.

Bars, medians of the rounds: fill ÷ the best of the others ≥ 1.0; users ≥ 0.9 × their file, and ≥ 100 × one
row a statement on the story's disk; ten million users in 200 MB, at a rate within 15 % of one million's.

Run: .venv/bin/python benchmarks/fill.py [--server mariadb@10.11] [--rounds 3]
     [--part sbtest|users|ladder|memory]
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from flushlab.build import Build, find_build
from flushlab.bulk.filled import Filled
from flushlab.campaign.fill import fill
from flushlab.datadir import DataRoot, limit_disk
from flushlab.server import Sandbox

SERVERS = ("mariadb@10.11", "mysql@5.7", "mysql@8.0")
ROWS = 1_000_000
DATABASE = "fill"
CONNECTIONS = 4
SETTINGS = {
    "innodb_flush_log_at_trx_commit": 0,
    "sync_binlog": 0,
    "innodb_buffer_pool_size": 1 << 30,
    "innodb_log_file_size": 512 << 20,
}
MEMORY_BYTES = 200 * 10**6
STORY_IOPS = 120
"""Two a synced commit on a disk with a cache of its own: about 55 commits/s on one connection."""


class Bench:
    """A server and the files that others load from."""

    def __init__(self, server: Sandbox, folder: Path) -> None:
        self.server = server
        self.folder = folder
        server.query("SET GLOBAL local_infile = 1")
        server.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")

    def client(self, program: str, *words: str) -> list[str]:
        """A client's command line, without its password."""
        found = shutil.which(program) or shutil.which(program.replace("mariadb", "mysql"))
        if found is None:
            sys.exit(f"{program} is missing: apt-get install mariadb-client")
        return [found, f"--defaults-file={self.server.endpoint.option_file}", "--local-infile=1", *words]

    def empty(self, table: str, create: str) -> None:
        """The table as it is before a load."""
        self.server.query(f"DROP TABLE IF EXISTS {DATABASE}.{table}")
        self.server.query(create.replace(f"CREATE TABLE `{table}`", f"CREATE TABLE {DATABASE}.{table}", 1))

    def filled(self, plan: str, rows: int, method: str = "auto") -> Filled:
        """fill, into tables that it makes."""
        return fill(
            plan,
            rows=rows,
            server=f"sandbox:{self.server.name}",
            database=DATABASE,
            create=True,
            floor="relaxed",
            method=method,
        )

    def files(self, table: str) -> str:
        """Writes the table's rows to one file and to as many as there are connections; its definition."""
        whole = self.folder / f"{table}.tsv"
        with whole.open("wb") as out:
            words = (
                "--batch",
                "--raw",
                "--skip-column-names",
                "--quick",
                "-e",
                f"SELECT * FROM {DATABASE}.{table}",
            )
            subprocess.run(self.client("mariadb", *words), stdout=out, check=True)
        lines = -(-ROWS // CONNECTIONS)
        pieces = ["split", "-d", "-a", "1", "-l", str(lines), str(whole), str(self.folder / f"{table}.")]
        subprocess.run(pieces, check=True)
        ((_, create),) = self.server.query(f"SHOW CREATE TABLE {DATABASE}.{table}")
        return str(create)

    def load(self, table: str, *files: Path) -> None:
        """LOAD DATA LOCAL by a client for each file, all at once."""
        running = [
            subprocess.Popen(
                self.client("mariadb", DATABASE, "-e", f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {table}")
            )
            for file in files
        ]
        codes = [one.wait() for one in running]
        if any(codes):
            sys.exit("a client failed")

    def pieces(self, table: str) -> list[Path]:
        """One file for each connection."""
        return [self.folder / f"{table}.{number}" for number in range(CONNECTIONS)]

    def imported(self, table: str) -> None:
        """mysqlimport, which names tables by files."""
        words = ("--local", f"--use-threads={CONNECTIONS}", DATABASE)
        subprocess.run(
            [*self.client("mariadb-import")[:2], *words, *map(str, self.pieces(table))],
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def prepared(self) -> None:
        """sysbench's prepare, which makes the table itself."""
        at = self.server.endpoint
        options = self.folder / "sysbench.cnf"
        options.write_text(
            f"mysql-user={at.user}\nmysql-password={at.password}\nmysql-db={DATABASE}\nmysql-socket={at.socket}\n"
        )
        words = ("oltp_read_write", "--tables=1", f"--table-size={ROWS}", "prepare")
        subprocess.run(
            ["sysbench", f"--config-file={options}", *words], stdout=subprocess.DEVNULL, check=True
        )


def say(line: str) -> None:
    """A line of the result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def told(done: Filled) -> str:
    """A load in a line, with where its time went."""
    rows_s = done.seconds - done.index_seconds
    return (
        f"  fill: {done.rows_per_s:,.0f} rows/s by {done.way.words}, bound by {done.bound_by};"
        f" probing {done.probe_seconds:.1f} s, rows {rows_s:.1f} s, indexes {done.index_seconds:.1f} s;"
        f" verified in {done.verify_seconds:.1f} s"
    )


def spread(found: Sequence[float], form: str = ".2f") -> str:
    """Median [least–most]."""
    return f"{statistics.median(found):{form}} [{min(found):{form}}–{max(found):{form}}]"


def rate_of(load: Callable[[], object]) -> float:
    """Rows a second."""
    began = time.perf_counter()
    load()
    return ROWS / (time.perf_counter() - began)


def sbtest(bench: Bench, rounds: int) -> dict[str, object]:
    """fill beside all others."""
    bench.filled("sbtest", ROWS)
    create = bench.files("sbtest1")
    whole = bench.folder / "sbtest1.tsv"
    ways: dict[str, Callable[[], object]] = {
        "fill": lambda: None,
        "LOAD DATA": lambda: bench.load("sbtest1", whole),
        "LOAD DATA × 4": lambda: bench.load("sbtest1", *bench.pieces("sbtest1")),
        "mysqlimport": lambda: bench.imported("sbtest1"),
    }
    if shutil.which("sysbench"):
        ways["sysbench"] = bench.prepared
    rates: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            if name in ("fill", "sysbench"):
                bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.sbtest1")
            else:
                bench.empty("sbtest1", create)
            if name == "fill":
                done = bench.filled("sbtest", ROWS)
                rates[name].append(done.rows_per_s)
                say(told(done))
            else:
                rates[name].append(rate_of(ways[name]))
                ((rows,),) = bench.server.query(f"SELECT COUNT(*) FROM {DATABASE}.sbtest1")
                assert rows == ROWS, f"{name} loaded {rows} rows"
    ratios = [
        ours / max(found[number] for name, found in rates.items() if name != "fill")
        for number, ours in enumerate(rates["fill"])
    ]
    for name, found in rates.items():
        say(f"  {name:<14} {spread(found, ',.0f')} rows/s")
    return {"rates": rates, "ratio": statistics.median(ratios), "ratios": ratios, "bar": 1.0}


def users(bench: Bench, rounds: int) -> dict[str, object]:
    """Users beside their file."""
    bench.filled("users", ROWS)
    create = bench.files("users")
    ours, theirs = [], []
    for number in range(rounds):
        for ours_first in ((True, False), (False, True))[number % 2]:
            if ours_first:
                bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
                done = bench.filled("users", ROWS)
                ours.append(done.rows_per_s)
                say(told(done))
            else:
                bench.empty("users", create)
                theirs.append(rate_of(lambda: bench.load("users", bench.folder / "users.tsv")))
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    say(f"  {'file':<14} {spread(theirs, ',.0f')} rows/s")
    return {"fill": ours, "file": theirs, "ratio": statistics.median(ratios), "ratios": ratios, "bar": 0.9}


def ladder(build: Build) -> dict[str, object]:
    """One row a statement and all that follows it: a kept server on the story's disk, a new one on this."""
    with (
        limit_disk(DataRoot.open(), STORY_IOPS) as disk,
        Sandbox.start(build, kept=True, disk_limit=disk) as server,
    ):
        say(f"  a disk of {STORY_IOPS} writes/s; {disk.record.measured_syncs_per_s} syncs/s were measured")
        slow = climbed(f"sandbox:{server.name}")
        server.remove()
    say("  this disk")
    quick = climbed(build.name)
    with Sandbox.attach(quick.sandbox) as server:
        server.remove()
    times = [done.rows_per_s / done.steps[0].rows_per_s for done in (slow, quick)]
    say(f"  times one row a statement: {times[0]:,.0f}, on this disk {times[1]:,.0f}")
    return {
        "steps": [[msgspec.to_builtins(step) for step in done.steps] for done in (slow, quick)],
        "rates": [slow.rows_per_s, quick.rows_per_s],
        "ratio": times[0],
        "ratio_on_this_disk": times[1],
        "bar": 100,
    }


def climbed(server: str) -> Filled:
    """The ladder and the load that follows it."""
    done = fill("users", rows=ROWS, server=server, create=True, ladder=True)
    for step in done.steps:
        rate = f"{step.name:<24} {step.rows_per_s:>9,.0f} rows/s {step.ratio:>6.1f}×"
        say(f"    {rate}  {step.bound_by}: {step.why}")
    say(f"  {told(done)}")
    return done


def memory(bench: Bench) -> dict[str, object]:
    """Ten times as many users."""
    rates = []
    for rows in (ROWS, 10 * ROWS):
        bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
        done = bench.filled("users", rows)
        rates.append(done.rows_per_s)
        megabytes = done.peak_bytes / 1e6
        say(f"  {rows:,} users, {megabytes:.0f} MB")
        say(told(done))
    bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
    return {"rates": rates, "ratio": rates[1] / rates[0], "bar": 0.85, "peak_bytes": done.peak_bytes}


def main() -> None:
    """Runs the parts that were asked for and says which bars hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", action="append", choices=["sbtest", "users", "ladder", "memory"])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    results: dict[str, dict[str, object]] = {}
    failed = False
    for name in asked.server or SERVERS:
        parts = asked.part or (["sbtest", "users", "ladder", "memory"] if name == SERVERS[0] else ["sbtest"])
        with tempfile.TemporaryDirectory(prefix="fill-") as folder:
            server = Sandbox.start(find_build(name), settings=SETTINGS, kept=True)
            try:
                bench = Bench(server, Path(folder))
                for part in parts:
                    say(f"{name}, {part}")
                    if part == "sbtest":
                        found = sbtest(bench, asked.rounds)
                    elif part == "users":
                        found = users(bench, asked.rounds)
                    elif part == "ladder":
                        found = ladder(server.build)
                    else:
                        found = memory(bench)
                        failed |= int(str(found["peak_bytes"])) > MEMORY_BYTES
                    ok = float(str(found["ratio"])) >= float(str(found["bar"]))
                    failed |= not ok
                    ratios = found.get("ratios")
                    ratio = spread(ratios) if isinstance(ratios, list) else f"{found['ratio']:.2f}"
                    say(f"  ratio {ratio}, bar {found['bar']}: {'holds' if ok else 'MISSED'}")
                    results[f"{name} {part}"] = found
            finally:
                server.remove()
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=2) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
