"""The commit pipelines against each other, against what disk and processors allow, and against a real server.

Rounds are pairs: each runs all that is compared, in rotating order; shown are medians of each round's ratios,
with their range. The shape is that of sysbench's oltp_update_non_index on 100 tables of 100,000 rows, with
innodb_flush_log_at_trx_commit=2 and sync_binlog=1000 by default.

    python benchmarks/commit_path.py                          # all parts
    python benchmarks/commit_path.py --part ceiling --threads 16,64 --rounds 5 --duration 1.5
    python benchmarks/commit_path.py --part calibration       # needs mysql@9.7 and mariadb@10.11

Parts, by instrument:

- as in a server (a thread per connection that sleeps): `pipelines` (each pipeline against `serial`, with the
  server's own time), `calibration` (`serial` against MySQL and MariaDB; measures their own time);
- the disk's ceiling (two threads drive all committers): `ceiling` (strict against fsync pairs/s × committers;
  latency against threads that sleep), `encode` (2/1000 against encode + checksum + one copy for each log on
  all processors), `encoder` (bytes/s of crates/binlog).
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from flushlab import _core
from flushlab.build import find_build
from flushlab.probe.servers import OWN_US
from flushlab.record import LoadResult, LoadSpec
from flushlab.server import Sandbox, SandboxSpec

ROOT = Path(__file__).parent.parent
SHAPE = {"kind": "oltp_update_non_index", "tables": 100, "rows": 100_000}
REDO, SMALL = 830, 700
"""Bytes of a commit in the redo log and in the binlog."""

SERVERS = {"mysql@9.7": "9.7.4", "mariadb@10.11": "10.11.19-MariaDB"}
"""Builds that `serial` is held against, and the binlog format of each."""

SERVER_TABLES = 8


class Latency(msgspec.Struct, frozen=True):
    """Microseconds."""

    p50: float
    p99: float
    max: float


class Reached(msgspec.Struct, frozen=True):
    """What of a run's result is shown here."""

    commits: int
    seconds: float
    commits_per_s: float
    cpu_us_per_commit: float
    group_size: float
    redo_bytes: int
    binlog_bytes: int
    latency_us: Latency | None
    ordered_ns_per_commit: float | None
    encode_ns_per_commit: float | None
    write_ns_per_commit: float | None


class Way(msgspec.Struct, frozen=True):
    """One of the things compared: a name and what of the spec is its own."""

    name: str
    spec: Mapping[str, Any]


SERIAL = Way("serial", {"binlog_strategy": "serial"})
PARALLEL = Way("parallel", {"binlog_strategy": "parallel"})
STRICT = {"trx_commit": 1, "sync_binlog": 1}
STRICT_WAYS = tuple(
    Way(name, {"binlog_strategy": name, **STRICT}) for name in ("serial", "redo", "two-syncs")
)
DRIVERS = 2


class Bench:
    """Where and how long; prints tables and remembers whether a bar was missed."""

    def __init__(self, folder: Path, rounds: int, seconds: float, threads: Sequence[int]) -> None:
        self.folder = folder
        self.rounds = rounds
        self.seconds = seconds
        self.threads = threads
        self.console = Console(width=max(Console().width, 150))
        self.missed = 0

    def ceiling(self, way: Way, committers: int) -> Reached:
        """One run whose committers two threads drive."""
        return self.run(way, min(DRIVERS, committers), committers=committers)

    def run(self, way: Way, threads: int, **more: Any) -> Reached:
        """One run in a folder of its own, a thread per committer unless told otherwise."""
        with TemporaryDirectory(dir=self.folder) as folder:
            spec = {
                "directory": folder,
                "trx_commit": 2,
                "sync_binlog": 1000,
                "threads": threads,
                "shape": SHAPE,
                "warmup_seconds": 0.3,
                "seconds": self.seconds,
                **way.spec,
                **more,
            }
            run = _core.CommitPath(msgspec.json.encode(spec))
            run.start()
            while (result := run.wait(0.2)) is None:
                pass
            return msgspec.json.decode(result, type=Reached)

    def rounds_of(self, ways: Sequence[Way], threads: int, **more: Any) -> dict[str, list[Reached]]:
        """Every way once per round; the order rotates."""
        reached: dict[str, list[Reached]] = {way.name: [] for way in ways}
        for number in range(self.rounds):
            shift = number % len(ways)
            for way in (*ways[shift:], *ways[:shift]):
                reached[way.name].append(self.run(way, threads, **more))
        return reached

    def bar(self, what: str, value: float, least: float | None = None, most: float | None = None) -> None:
        """Says whether a bar is met."""
        met = (least is None or value >= least) and (most is None or value <= most)
        self.missed += not met
        limits = [f"at least {least:g}"] if least is not None else []
        limits += [f"at most {most:g}"] if most is not None else []
        verdict = "met" if met else "[bold]MISSED[/bold]"
        self.console.print(f"bar: {what} {' and '.join(limits)}: {value:.2f}: {verdict}", highlight=False)


def median(values: Sequence[float | None]) -> float:
    """Of those that were measured."""
    return statistics.median([value for value in values if value is not None] or [float("nan")])


def ratios(ours: Sequence[Reached], theirs: Sequence[Reached], of: Callable[[Reached], float]) -> list[float]:
    """Round by round."""
    return [of(one) / of(other) for one, other in zip(ours, theirs, strict=True)]


def spread(values: Sequence[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.2f} [{min(values):.2f}–{max(values):.2f}]"


def rate(reached: Reached) -> float:
    """Commits per second."""
    return reached.commits_per_s


def cpu(reached: Reached) -> float:
    """Processor time per commit."""
    return reached.cpu_us_per_commit


def table_of(title: str, columns: Sequence[str]) -> Table:
    """A table of figures."""
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def pipelines(bench: Bench, own_us: float) -> None:
    """As in a server: each pipeline against `serial`, at 2/1000 and strict."""
    for words, ways in (("2/1000", (SERIAL, PARALLEL)), ("strict", STRICT_WAYS)):
        table = table_of(
            f"as in a server with {own_us:g} µs of its own time per commit, {words}; ratios to serial",
            (
                "threads",
                "strategy",
                "commits/s",
                "ratio",
                "CPU µs",
                "group",
                "ordered ns",
                "encode ns",
                "write ns",
            ),
        )
        for threads in bench.threads:
            reached = bench.rounds_of(ways, threads, think_us=own_us)
            for name, ours in reached.items():
                table.add_row(
                    str(threads),
                    name,
                    f"{median([rate(one) for one in ours]):,.0f}",
                    spread(ratios(ours, reached[SERIAL.name], rate)),
                    f"{median([cpu(one) for one in ours]):.1f}",
                    f"{median([one.group_size for one in ours]):.1f}",
                    f"{median([one.ordered_ns_per_commit for one in ours]):.0f}",
                    f"{median([one.encode_ns_per_commit for one in ours]):.0f}",
                    f"{median([one.write_ns_per_commit for one in ours]):.0f}",
                )
        bench.console.print(table)


def sync_pairs(folder: Path, redo_bytes: int, binlog_bytes: int, seconds: float) -> float:
    """How often a group's redo can be synced and then its binlog, per second."""
    circle = 64 << 20
    with NamedTemporaryFile(dir=folder) as redo, NamedTemporaryFile(dir=folder) as binlog:
        redo.write(bytes(circle))
        redo.flush()
        os.fsync(redo.fileno())
        group, events = bytes(redo_bytes), bytes(binlog_bytes)
        count, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            os.pwrite(redo.fileno(), group, count * redo_bytes % (circle - redo_bytes))
            os.fdatasync(redo.fileno())
            os.pwrite(binlog.fileno(), events, count * binlog_bytes)
            os.fdatasync(binlog.fileno())
            count += 1
        return count / passed


def p50(reached: Reached) -> float:
    """Median latency."""
    return reached.latency_us.p50 if reached.latency_us else float("nan")


def ceiling(bench: Bench) -> None:
    """Strict: what two threads reach with all committers, against what the disk's syncs allow."""
    columns = (
        "committers",
        "strategy",
        "commits/s",
        "p50 µs",
        "p50 ÷ sleeping",
        "group",
        "of pairs × committers",
    )
    table = table_of("the disk's ceiling, trx_commit=1, sync_binlog=1", columns)
    bars: list[tuple[str, float, float | None, float | None]] = []
    for committers in bench.threads:
        for way in STRICT_WAYS:
            ours, sleeping, shares = [], [], []
            for number in range(bench.rounds):
                if number % 2:
                    sleeping.append(bench.run(way, committers))
                ours.append(bench.ceiling(way, committers))
                if not number % 2:
                    sleeping.append(bench.run(way, committers))
                size = ours[-1].binlog_bytes // max(ours[-1].commits, 1) or SMALL
                pairs = sync_pairs(bench.folder, REDO * committers, size * committers, bench.seconds / 2)
                shares.append(rate(ours[-1]) / (pairs * committers))
            slower = ratios(ours, sleeping, p50)
            table.add_row(
                str(committers),
                way.name,
                f"{median([rate(one) for one in ours]):,.0f}",
                f"{median([p50(one) for one in ours]):,.0f}",
                spread(slower),
                f"{median([one.group_size for one in ours]):.1f}",
                spread(shares),
            )
            if way.name == "serial" and committers >= 16:
                name = f"serial at {committers} committers"
                bars.append((f"{name} ÷ fsync pairs × committers", statistics.median(shares), 0.85, None))
                bars.append((f"{name}, p50 ÷ that of sleeping threads", statistics.median(slower), None, 1.1))
    bench.console.print(table)
    for bar in bars:
        bench.bar(*bar)


def binlog_bench() -> dict[str, tuple[float, float]]:
    """GB/s and ns per transaction of crates/binlog's example, on one core, for MySQL 9.7."""
    command = ". scripts/cargo.sh && cargo run --release -q -p flushlab-binlog --example bench -- 1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = re.findall(r"^(\w+)\s+([\d.]+) GB/s\s+(\d+) ns", done.stdout.partition("MariaDB")[0], re.M)
    if done.returncode != 0 or not lines:
        sys.exit(f"crates/binlog's example failed:\n{done.stdout}{done.stderr}")
    return {name: (float(speed), float(ns)) for name, speed, ns in lines}


def encoder(bench: Bench) -> None:
    """Bytes per second of one core, checksums included."""
    figures = binlog_bench()
    table = table_of("crates/binlog, update_non_index with CRC-32, one core", ("what", "GB/s", "ns"))
    for name, (speed, ns) in figures.items():
        table.add_row(name, f"{speed:.2f}", f"{ns:.0f}")
    bench.console.print(table)
    bench.bar("GB/s of encoding and finishing", figures["encode"][0], least=1.0)


def copy_ns(size: int, pieces: int = 64) -> float:
    """Nanoseconds of copying so many bytes, from copies of groups of `pieces` commits: the best of many."""
    source, target = bytes(size * pieces), bytearray(size * pieces)

    def once() -> float:
        start = time.perf_counter_ns()
        target[:] = source
        return (time.perf_counter_ns() - start) / pieces

    return min(once() for _ in range(2000))


def encode(bench: Bench) -> None:
    """2/1000: commits against encode + checksum + one copy for each log, on all processors."""
    one_ns = binlog_bench()["encode"][1] + copy_ns(REDO + SMALL)
    most = 1e9 / one_ns * len(os.sched_getaffinity(0))
    table = table_of(f"ceilings against encoding alone, {most:,.0f}/s", ("committers", "commits/s", "share"))
    best = 0.0
    for committers in bench.threads:
        ours = [bench.ceiling(PARALLEL, committers) for _ in range(bench.rounds)]
        shares = [rate(one) / most for one in ours]
        best = max(best, statistics.median(shares))
        table.add_row(str(committers), f"{median([rate(one) for one in ours]):,.0f}", spread(shares))
    bench.console.print(table)
    bench.bar("parallel ÷ encoding on all processors, best", best, least=0.5)


class Served(msgspec.Struct, frozen=True):
    """What a real server reached, per second and per transaction."""

    per_s: float
    server_cpu_us: float
    client_cpu_us: float
    redo_bytes: float


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far: fields 14 and 15 of its stat, proc(5)."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def lsn(sandbox: Sandbox) -> int:
    """Where the server's redo log ends."""
    names = "('Innodb_redo_log_current_lsn', 'Innodb_lsn_current')"
    return int(sandbox.query(f"SHOW GLOBAL STATUS WHERE Variable_name IN {names}")[0][1])


def serve(sandbox: Sandbox, threads: int, seconds: float) -> Served:
    """One window of oltp_update_non_index."""
    assert sandbox.pid is not None
    load = _core.LoadRun(load_spec(sandbox, threads))
    load.start()
    time.sleep(1.0)
    redo, cpu_before = lsn(sandbox), cpu_seconds(sandbox.pid)
    load.open_window()
    time.sleep(seconds)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    count = result.throughput * seconds
    served = Served(
        per_s=result.throughput,
        server_cpu_us=(cpu_seconds(sandbox.pid) - cpu_before) / count * 1e6,
        client_cpu_us=result.client_cpu_us_per_event or 0.0,
        redo_bytes=(lsn(sandbox) - redo) / count,
    )
    load.stop()
    return served


def load_spec(sandbox: Sandbox, threads: int) -> bytes:
    """The load on the real server."""
    return msgspec.json.encode(
        LoadSpec(
            workload="oltp_update_non_index",
            endpoint=sandbox.endpoint,
            transport="socket",
            database="sbtest",
            threads=threads,
            tables=SERVER_TABLES,
            table_size=100_000,
            rand_type="uniform",
        )
    )


def calibration(bench: Bench) -> None:
    """`serial` with the server's own time per transaction, against the server with the same settings."""
    for server, form in SERVERS.items():
        calibrate(bench, server, form)


def calibrate(bench: Bench, name: str, form: str) -> None:
    """Against one server."""
    table = table_of(
        f"serial as in a server against {name}",
        (
            *(
                "trx_commit",
                "sync_binlog",
                "threads",
                "its tps",
                "its CPU µs",
                "client's CPU µs",
                "redo bytes",
            ),
            *("own time µs", "serial/s", "CPU µs", "ratio"),
        ),
    )
    bars: list[tuple[str, float]] = []
    started: dict[str, Any] = {"innodb_buffer_pool_size": 1 << 30, "log_bin": "ON"}
    with Sandbox.start(
        SandboxSpec(find_build(name), settings=started, arguments=("--max-connections=400",))
    ) as server:
        _core.prepare_tables(load_spec(server, 2))
        for trx_commit, sync_binlog in ((2, 1000), (1, 1)):
            server.apply({"innodb_flush_log_at_trx_commit": trx_commit, "sync_binlog": sync_binlog})
            settings = {"trx_commit": trx_commit, "sync_binlog": sync_binlog, "format": form}
            for threads in bench.threads:
                bare = bench.run(SERIAL, threads, **settings)
                found: list[tuple[Served, float, Reached]] = []
                for _ in range(bench.rounds):
                    served = serve(server, threads, 2 * bench.seconds)
                    own_us = max(0.0, served.server_cpu_us + served.client_cpu_us - cpu(bare))
                    found.append((served, own_us, bench.run(SERIAL, threads, think_us=own_us, **settings)))
                shares = [rate(ours) / served.per_s for served, _, ours in found]
                table.add_row(
                    str(trx_commit),
                    str(sync_binlog),
                    str(threads),
                    f"{median([served.per_s for served, _, _ in found]):,.0f}",
                    f"{median([served.server_cpu_us for served, _, _ in found]):.1f}",
                    f"{median([served.client_cpu_us for served, _, _ in found]):.1f}",
                    f"{median([served.redo_bytes for served, _, _ in found]):.0f}",
                    f"{median([own_us for _, own_us, _ in found]):.1f}",
                    f"{median([rate(ours) for _, _, ours in found]):,.0f}",
                    f"{median([cpu(ours) for _, _, ours in found]):.1f}",
                    spread(shares),
                )
                settings_words = f"trx_commit={trx_commit}, sync_binlog={sync_binlog}, {threads} threads"
                what = f"serial ÷ {name} at {settings_words}"
                bars.append((what, statistics.median(shares)))
    bench.console.print(table)
    for what, share in bars:
        bench.bar(what, share, least=0.9, most=1.2)


def main() -> int:
    """Runs the parts that were asked for; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default="all", help="parts with commas; all of them if absent")
    parser.add_argument(
        "--data-root", type=Path, default=Path.cwd(), help="folder on the disk that is measured"
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each")
    parser.add_argument("--duration", type=float, default=1.0, help="length of a run")
    parser.add_argument("--threads", default="1,4,16,64", help="numbers of committers, with commas")
    parser.add_argument("--own-us", type=float, default=OWN_US, help="of the part pipelines")
    flags = parser.parse_args()
    bench = Bench(flags.data_root, flags.rounds, flags.duration, [int(n) for n in flags.threads.split(",")])
    parts: dict[str, Callable[[Bench], None]] = {
        "pipelines": lambda bench: pipelines(bench, flags.own_us),
        "calibration": calibration,
        "ceiling": ceiling,
        "encode": encode,
        "encoder": encoder,
    }
    wanted = list(parts) if flags.part == "all" else flags.part.split(",")
    for name in wanted:
        if name not in parts:
            parser.error(f"--part: {name!r} is none of {', '.join(parts)}")
        parts[name](bench)
    return int(bench.missed > 0)


if __name__ == "__main__":
    sys.exit(main())
