"""`flushlab fill` beside what people load with: sysbench's prepare, the client's LOAD DATA, four of them,
mysqlimport.

For each server one sandbox, with relaxed commits for all. A million rows of sysbench's table with its index
on k, each method in its turn, in random order, for some rounds: fill generates its rows and tries its methods
within the time that is counted; the others load files that were made before. Then a million users beside
their file; the method comparison, on a disk that syncs as often as the story's (emulated, root) and on
this one; and ten million users for memory and rate.

Bars, medians of the rounds: fill ÷ the best of the others ≥ 1.0; users ≥ 0.9 × their file, and ≥ 100 × one
row a statement on the story's disk; ten million users in 200 MB, at a rate within 15 % of one million's.
The part `choice` counts what `--method auto` takes for sysbench's table.

Each round is a line of `--json` as soon as it has ended: rounds that the file has are not run again, so a
benchmark that was stopped goes on.

Run: .venv/bin/python benchmarks/fill.py [--server mariadb@10.11] [--rounds 3]
     [--part sbtest|users|methods|memory|choice] [--json FILE]
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

from flushlab.build import Build, find_build
from flushlab.bulk.fill import fill
from flushlab.bulk.filled import Filled
from flushlab.datadir import DataRoot, slow_disk_in
from flushlab.server import Sandbox, SandboxSpec
from flushlab.telemetry.observation import cpu_times

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
MEMORY_MB = 200
BARS = {"sbtest": 1.0, "users": 0.9, "methods": 100.0, "memory": 0.85, "choice": 1.0}
"""Of the ratio; `choice` has none, and only counts."""
STORY_DISK = "iops=120,flush=17ms"
"""About 55 commits/s on one connection."""


class Bench:
    """A server and the files that others load from."""

    def __init__(self, server: Sandbox, folder: Path) -> None:
        self.server = server
        self.folder = folder
        server.query("SET GLOBAL local_infile = 1")
        server.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")

    def cpu_s(self) -> float:
        """Processor time that the server has taken: other programs change it less than they change rates."""
        return cpu_times(self.server.pid).server_s or 0.0

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
        f"  fill: {done.rows_per_s:,.0f} rows/s by {done.method.words}, bound by {done.bound_by};"
        f" rows {rows_s:.1f} s, indexes {done.index_seconds:.1f} s;"
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


Round = dict[str, float]


class Rounds:
    """Those of one part on one server that are there, and those that are to come.

    Args:
        file: has a line of JSON for each that has ended; None keeps none.
        of: what its lines say of server and part.
        rounds: that there are to be.
    """

    def __init__(self, file: Path | None, of: dict[str, str], rounds: int) -> None:
        self._file = file
        self._of = of
        self._rounds = rounds
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        read = [json.loads(line) for line in lines]
        self.found: list[Round] = [one["found"] for one in read if {key: one[key] for key in of} == of]

    @property
    def left(self) -> int:
        """How many are to come."""
        return max(0, self._rounds - len(self.found))

    def add(self, found: Round) -> None:
        """One that has ended."""
        self.found.append(found)
        if self._file is not None:
            busy = Path("/proc/loadavg").read_text().split()[0]
            with self._file.open("a") as out:
                out.write(json.dumps({**self._of, "load_average": float(busy), "found": found}) + "\n")

    def of(self, name: str) -> list[float]:
        """A result of all of them."""
        return [one[name] for one in self.found if name in one]


def sbtest(bench: Bench, rounds: Rounds) -> None:
    """fill beside all others."""
    bench.filled("sbtest", ROWS)
    create = bench.files("sbtest1")
    whole = bench.folder / "sbtest1.tsv"
    methods: dict[str, Callable[[], object]] = {
        "fill": lambda: None,
        "LOAD DATA": lambda: bench.load("sbtest1", whole),
        "LOAD DATA × 4": lambda: bench.load("sbtest1", *bench.pieces("sbtest1")),
        "mysqlimport": lambda: bench.imported("sbtest1"),
    }
    if shutil.which("sysbench"):
        methods["sysbench"] = bench.prepared
    order = list(methods)
    while rounds.left:
        random.shuffle(order)
        found: Round = {}
        for name in order:
            if name in ("fill", "sysbench"):
                bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.sbtest1")
            else:
                bench.empty("sbtest1", create)
            cpu_s = bench.cpu_s()
            if name == "fill":
                done = bench.filled("sbtest", ROWS)
                found[name] = done.rows_per_s
                say(told(done))
            else:
                found[name] = rate_of(methods[name])
            found[f"{name}, µs of the server a row"] = (bench.cpu_s() - cpu_s) / ROWS * 1e6
            if name != "fill":
                ((rows,),) = bench.server.query(f"SELECT COUNT(*) FROM {DATABASE}.sbtest1")
                assert rows == ROWS, f"{name} loaded {rows} rows"
        rounds.add({**found, "ratio": found["fill"] / max(found[name] for name in methods if name != "fill")})


def users(bench: Bench, rounds: Rounds) -> None:
    """Users beside their file."""
    bench.filled("users", ROWS)
    create = bench.files("users")
    while rounds.left:
        found: Round = {}
        for name in random.sample(["fill", "file"], 2):
            if name == "fill":
                bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
                done = bench.filled("users", ROWS)
                found[name] = done.rows_per_s
                say(told(done))
            else:
                bench.empty("users", create)
                found[name] = rate_of(lambda: bench.load("users", bench.folder / "users.tsv"))
        rounds.add({**found, "ratio": found["fill"] / found["file"]})


def choice(bench: Bench, rounds: Rounds) -> None:
    """What is taken for sysbench's table, and what slices of each method gave."""
    while rounds.left:
        bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.sbtest1")
        done = bench.filled("sbtest", ROWS)
        say(told(done))
        tried = {one.method.words: one.rows_per_s for one in done.tried}
        rounds.add({**tried, f"took {done.method.words}": done.rows_per_s, "ratio": 1.0})


def method_comparison(build: Build, rounds: Rounds) -> None:
    """One row a statement and all that follows it: a kept server on the story's disk, a new one on this."""
    while rounds.left:
        slow_disk = slow_disk_in(DataRoot.open(), STORY_DISK)
        with Sandbox.start(SandboxSpec(build, kept=True, slow_disk=slow_disk)) as server:
            say(f"  a disk of {STORY_DISK}")
            slow = climbed(f"sandbox:{server.name}")
            server.remove()
        say("  this disk")
        quick = climbed(build.name)
        with Sandbox.attach(quick.sandbox) as server:
            server.remove()
        found: Round = {}
        for disk_name, done in (("story's disk", slow), ("this disk", quick)):
            found |= {f"{disk_name}, {step.name}": step.rows_per_s for step in done.steps}
            found[f"{disk_name}, all rows"] = done.rows_per_s
        times = [done.rows_per_s / done.steps[0].rows_per_s for done in (slow, quick)]
        rounds.add({**found, "ratio": times[0], "ratio on this disk": times[1]})


def climbed(server: str) -> Filled:
    """The method comparison and the load that follows it."""
    done = fill("users", rows=ROWS, server=server, create=True, compare_methods=True)
    for step in done.steps:
        rate = f"{step.name:<24} {step.rows_per_s:>9,.0f} rows/s {step.ratio:>6.1f}×"
        say(f"    {rate}  {step.bound_by}: {step.why}")
    say(f"  {told(done)}")
    return done


def memory(bench: Bench, rounds: Rounds) -> None:
    """Ten times as many users."""
    while rounds.left:
        found: Round = {}
        for rows in (ROWS, 10 * ROWS):
            bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
            done = bench.filled("users", rows)
            found[f"{rows:,} users"] = done.rows_per_s
            found["peak MB"] = done.peak_bytes / 1e6
            say(f"  {rows:,} users, {done.peak_bytes / 1e6:.0f} MB")
            say(told(done))
        bench.server.query(f"DROP TABLE IF EXISTS {DATABASE}.users")
        rounds.add({**found, "ratio": found[f"{10 * ROWS:,} users"] / found[f"{ROWS:,} users"]})


def run(part: str, bench: Bench, rounds: Rounds) -> None:
    """One part."""
    if part == "methods":
        method_comparison(bench.server.build, rounds)
    else:
        {"sbtest": sbtest, "users": users, "memory": memory, "choice": choice}[part](bench, rounds)


def holds(part: str, rounds: Rounds) -> bool:
    """Says what the rounds came to, and whether the bar holds."""
    for name in dict.fromkeys(name for one in rounds.found for name in one if "ratio" not in name):
        found = rounds.of(name)
        say(f"  {name:<40} {spread(found, ',.1f')}, {len(found)} rounds")
    ratios, bar = rounds.of("ratio"), BARS[part]
    ok = statistics.median(ratios) >= bar and max(rounds.of("peak MB"), default=0.0) <= MEMORY_MB
    say(f"  ratio {spread(ratios)}, bar {bar}: {'holds' if ok else 'MISSED'}")
    return ok


def main() -> None:
    """Runs the parts that were asked for and says which bars hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", action="append", choices=list(BARS))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    failed = False
    for name in asked.server or SERVERS:
        for part in asked.part or (list(BARS) if name == SERVERS[0] else ["sbtest"]):
            count = 1 if part in ("methods", "memory") else asked.rounds
            rounds = Rounds(asked.json, {"server": name, "part": part}, count)
            say(f"{name}, {part}: {rounds.left} of {count} rounds to come")
            if rounds.left:
                with tempfile.TemporaryDirectory(prefix="fill-") as folder:
                    server = Sandbox.start(SandboxSpec(find_build(name), settings=SETTINGS, kept=True))
                    try:
                        run(part, Bench(server, Path(folder)), rounds)
                    finally:
                        server.remove()
            failed |= not holds(part, rounds)
    sys.exit(failed)


if __name__ == "__main__":
    main()
