"""`flushlab fill` beside what people load with: sysbench's prepare, the client's LOAD DATA, four of them,
mysqlimport.

For each server one sandbox, with relaxed commits for all. A million rows of sysbench's table with its index
on k, each way in its turn, in random order, for some rounds: fill generates its rows and tries its ways
within the time that is counted; the others load files that were made before. Then a million users beside
their file and beside one row a statement, and ten million for memory and rate.

Bars, medians of the rounds: fill ÷ the best of the others ≥ 1.0; users ≥ 0.9 × their file and ≥ 100 × one
row a statement; ten million users in 200 MB, at a rate within 15 % of one million's.

Run: .venv/bin/python benchmarks/fill.py [--server mariadb@10.11] [--rounds 3] [--part sbtest|users|memory]
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
from collections.abc import Callable
from pathlib import Path

from flushlab.build import find_build
from flushlab.bulk.filled import Filled
from flushlab.campaign.fill import fill
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
                say(f"  fill: {done.rows_per_s:,.0f} by {done.way.words}, bound by {done.bound_by}")
            else:
                rates[name].append(rate_of(ways[name]))
                ((rows,),) = bench.server.query(f"SELECT COUNT(*) FROM {DATABASE}.sbtest1")
                assert rows == ROWS, f"{name} loaded {rows} rows"
    ratios = [
        ours / max(found[number] for name, found in rates.items() if name != "fill")
        for number, ours in enumerate(rates["fill"])
    ]
    for name, found in rates.items():
        say(f"  {name:<14} {statistics.median(found):>10,.0f} rows/s")
    return {"rates": rates, "ratio": statistics.median(ratios), "ratios": ratios, "bar": 1.0}


def users(bench: Bench, rounds: int) -> dict[str, object]:
    """Users beside their file, and beside one row a statement."""
    bench.filled("users", ROWS)
    create = bench.files("users")
    ours, theirs = [], []
    for number in range(rounds):
        for ours_first in ((True, False), (False, True))[number % 2]:
            if ours_first:
                bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
                done = bench.filled("users", ROWS)
                ours.append(done.rows_per_s)
                say(f"  fill: {done.rows_per_s:,.0f} by {done.way.words}, bound by {done.bound_by}")
            else:
                bench.empty("users", create)
                theirs.append(rate_of(lambda: bench.load("users", bench.folder / "users.tsv")))
    bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
    for name, value in {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}.items():
        bench.server.query(f"SET GLOBAL {name} = {value}")
    ladder = fill(
        "users",
        rows=ROWS,
        server=f"sandbox:{bench.server.name}",
        database=DATABASE,
        create=True,
        floor="relaxed",
        ladder=True,
        progress=lambda line: say(f"  {line}"),
    )
    for name in ("innodb_flush_log_at_trx_commit", "sync_binlog"):
        bench.server.query(f"SET GLOBAL {name} = 0")
    first = ladder.steps[0].rows_per_s
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    say(f"  {'file':<14} {statistics.median(theirs):>10,.0f} rows/s; one row a statement {first:,.0f}")
    return {
        "fill": ours,
        "file": theirs,
        "ratio": statistics.median(ratios),
        "bar": 0.9,
        "times_the_first_step": statistics.median(ours) / first,
        "bar_of_the_first_step": 100,
        "steps": [[step.name, step.rows_per_s, step.bound_by] for step in ladder.steps],
    }


def memory(bench: Bench) -> dict[str, object]:
    """Ten times as many users."""
    rates = []
    for rows in (ROWS, 10 * ROWS):
        bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
        done = bench.filled("users", rows)
        rates.append(done.rows_per_s)
        megabytes = done.peak_bytes / 1e6
        say(f"  {rows:,} users: {done.rows_per_s:,.0f} rows/s by {done.way.words}, {megabytes:.0f} MB")
    bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
    return {"rates": rates, "ratio": rates[1] / rates[0], "bar": 0.85, "peak_bytes": done.peak_bytes}


def main() -> None:
    """Runs the parts that were asked for and says which bars hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", action="append", choices=["sbtest", "users", "memory"])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    results: dict[str, dict[str, object]] = {}
    failed = False
    for name in asked.server or SERVERS:
        parts = asked.part or (["sbtest", "users", "memory"] if name == SERVERS[0] else ["sbtest"])
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
                        failed |= float(str(found["times_the_first_step"])) < 100
                    else:
                        found = memory(bench)
                        failed |= int(str(found["peak_bytes"])) > MEMORY_BYTES
                    ok = float(str(found["ratio"])) >= float(str(found["bar"]))
                    failed |= not ok
                    say(f"  ratio {found['ratio']:.2f}, bar {found['bar']}: {'holds' if ok else 'MISSED'}")
                    results[f"{name} {part}"] = found
            finally:
                server.remove()
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=2) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
