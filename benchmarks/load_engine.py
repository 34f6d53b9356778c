"""The load engine against sysbench: the same statements on the same tables of the same server.

Both drive one of sysbench's OLTP workloads with its defaults against an own sandbox with
innodb_flush_log_at_trx_commit=0, so that the client weighs as much as it can. Rounds are pairs: each runs
both, in alternating order; shown are medians of the ratios of each round, with their range.

sysbench's CPU time is that of its whole process, its start and its connecting included (about 20 ms); the
engine's is that of its thread inside the window.

    python benchmarks/load_engine.py --rounds 5 --duration 4 --connections 16 --transports socket,tcp
    python benchmarks/load_engine.py --peer-batch                  # sysbench under `chrt -b 0`
    python benchmarks/load_engine.py --workload oltp_write_only --server mysql@8.0
    python benchmarks/load_engine.py --sched normal                # the engine without SCHED_BATCH
    python benchmarks/load_engine.py --rate-check                  # half of the maximum for 60 s
    python benchmarks/load_engine.py --trx-commit 1 --server-side      # group commits and syncs, side by side
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

import msgspec
from rich.console import Console
from rich.table import Table

from flushlab import _core
from flushlab.build import find_build
from flushlab.record import Endpoint, LoadResult, LoadSpec
from flushlab.server import Sandbox

TABLES = 4
TABLE_SIZE = 100_000
DATABASE = "sbtest"
Transport = Literal["socket", "tcp"]
COUNTERS = (
    "Binlog_commits",
    "Binlog_group_commits",
    "Innodb_os_log_fsyncs",
    "Innodb_log_writes",
    "Innodb_data_fsyncs",
    "Com_commit",
    "Handler_commit",
)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What one client reached.

    Attributes:
        throughput: transactions/s.
        cpu_us: user + system time of the client per transaction.
        p95_us: 95th percentile of latency.
        counted: what the server counted meanwhile, per transaction.
    """

    throughput: float
    cpu_us: float
    p95_us: float
    counted: Mapping[str, float] = {}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What both clients do."""

    workload: str
    transport: Transport
    threads: int
    seconds: float
    sched: Literal["batch", "normal"]
    peer_batch: bool


def spec_of(endpoint: Endpoint, run: Run, rate: float = 0.0) -> bytes:
    """The load, as the engine takes it."""
    return msgspec.json.encode(
        LoadSpec(
            workload=run.workload,
            endpoint=endpoint,
            transport=run.transport,
            database=DATABASE,
            threads=run.threads,
            tables=TABLES,
            table_size=TABLE_SIZE,
            client_sched=run.sched,
            rate=rate,
        )
    )


def drive(endpoint: Endpoint, run: Run, rate: float = 0.0) -> LoadResult:
    """One window of the load engine."""
    load = _core.LoadRun(spec_of(endpoint, run, rate))
    load.start()
    load.open_window()
    time.sleep(run.seconds)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    load.stop()
    return result


def run_engine(endpoint: Endpoint, run: Run) -> Figure:
    """The same as a result."""
    result = drive(endpoint, run)
    assert result.latency_us is not None
    assert result.client_cpu_us_per_event is not None
    return Figure(
        throughput=result.throughput,
        cpu_us=result.client_cpu_us_per_event,
        p95_us=result.latency_us.p95,
    )


def sysbench_options(endpoint: Endpoint, transport: Transport) -> str:
    """sysbench's configuration file: the password does not reach its arguments."""
    if transport == "socket":
        where = f"mysql-socket={endpoint.socket}"
    else:
        where = f"mysql-host={endpoint.host}\nmysql-port={endpoint.port}"
    return f"mysql-user={endpoint.user}\nmysql-password={endpoint.password}\nmysql-db={DATABASE}\n{where}\n"


def run_sysbench(sysbench: str, options: Path, run: Run) -> Figure:
    """One run of sysbench."""
    before = os.times()
    done = subprocess.run(
        [
            *(("chrt", "-b", "0") if run.peer_batch else ()),
            *(sysbench, f"--config-file={options}", run.workload, f"--threads={run.threads}"),
            *(f"--tables={TABLES}", f"--table-size={TABLE_SIZE}", f"--time={run.seconds:.0f}", "run"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    after = os.times()
    events = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", done.stdout)
    p95 = re.search(r"95th percentile:\s+([\d.]+)", done.stdout)
    if done.returncode != 0 or events is None or p95 is None:
        sys.exit(f"sysbench failed:\n{done.stdout}{done.stderr}")
    cpu = (after.children_user - before.children_user) + (after.children_system - before.children_system)
    return Figure(throughput=float(events[2]), cpu_us=cpu / int(events[1]) * 1e6, p95_us=float(p95[1]) * 1000)


def counted(sandbox: Sandbox, client: Callable[[], Figure], seconds: float) -> Figure:
    """What a client reached, with what the server counted meanwhile."""

    def status() -> dict[str, int]:
        rows = sandbox.query("SHOW GLOBAL STATUS")
        return {name: int(value) for name, value in rows if name in COUNTERS}

    before = status()
    result = client()
    after = status()
    transactions = max(result.throughput * seconds, 1)
    per = {name: (after[name] - before[name]) / transactions for name in before}
    return msgspec.structs.replace(result, counted=per)


def ratio(pairs: Sequence[tuple[float, float]]) -> str:
    """Median of the rounds' ratios, with their range."""
    ratios = [ours / theirs for ours, theirs in pairs]
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}–{max(ratios):.2f}]"


def pairs_of(sandbox: Sandbox, sysbench: str, run: Run, rounds: int) -> list[tuple[Figure, Figure]]:
    """Both clients, `rounds` times each, interleaved."""
    endpoint = sandbox.endpoint
    pairs: list[tuple[Figure, Figure]] = []
    with TemporaryDirectory() as folder:
        options = Path(folder) / "sysbench.cfg"
        options.touch(mode=0o600)
        options.write_text(sysbench_options(endpoint, run.transport))

        def theirs() -> Figure:
            return counted(sandbox, lambda: run_sysbench(sysbench, options, run), run.seconds)

        def ours() -> Figure:
            return counted(sandbox, lambda: run_engine(endpoint, run), run.seconds)

        for number in range(rounds):
            if number % 2:
                second = theirs()
                pairs.append((ours(), second))
            else:
                pairs.append((ours(), theirs()))
    return pairs


def row(run: Run, pairs: Sequence[tuple[Figure, Figure]]) -> list[str]:
    """One row of the table."""
    return [
        run.transport,
        str(run.threads),
        f"{statistics.median(ours.throughput for ours, _ in pairs):,.0f}",
        f"{statistics.median(ours.cpu_us for ours, _ in pairs):.1f}",
        f"{statistics.median(theirs.cpu_us for _, theirs in pairs):.1f}",
        ratio([(ours.throughput, theirs.throughput) for ours, theirs in pairs]),
        ratio([(ours.cpu_us, theirs.cpu_us) for ours, theirs in pairs]),
        ratio([(ours.p95_us, theirs.p95_us) for ours, theirs in pairs]),
    ]


def server_side(pairs: Sequence[tuple[Figure, Figure]]) -> Table:
    """What the server counted per transaction, under either client."""
    table = Table(title="per transaction, medians")
    for column in ("counter", "engine", "sysbench"):
        table.add_column(column, justify="right")
    for name in COUNTERS:
        sides = [[side.counted.get(name) for side in sides] for sides in zip(*pairs, strict=True)]
        told = [[value for value in side if value is not None] for side in sides]
        if all(told):
            table.add_row(name, *(f"{statistics.median(side):.4f}" for side in told))
    return table


def check_rate(endpoint: Endpoint, run: Run, console: Console) -> None:
    """Half of the maximum, held for 60 s: what was reached, and how late the generator was."""
    most = drive(endpoint, run).throughput
    rate = float(int(most / 2))
    result = drive(endpoint, msgspec.structs.replace(run, seconds=60.0), rate)
    loop = result.open_loop
    assert loop is not None
    assert loop.lag_us is not None
    lag = loop.lag_us
    console.print(
        f"maximum {most:,.0f}/s; intended {loop.intended:,.1f}/s, reached {result.throughput:,.1f}/s "
        f"({result.throughput / loop.intended - 1:+.3%}); lag p50 {lag.p50} p99 {lag.p99} p99.9 {lag.p999} "
        f"max {lag.max} µs; overdue at most {loop.backlog_max}; "
        f"client {result.client_cpu_us_per_event or 0:.1f} µs per event"
    )


def main() -> None:
    """Compares and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mariadb@10.11", help="build of the sandbox")
    parser.add_argument("--workload", default="oltp_update_non_index", help="one of sysbench's OLTP scripts")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs per row")
    parser.add_argument("--duration", type=float, default=4, help="length of a run")
    parser.add_argument("--connections", default="16", help="numbers of connections, with commas")
    parser.add_argument("--transports", default="socket", help="socket, tcp, or both with a comma")
    parser.add_argument("--sched", default="batch", choices=("batch", "normal"), help="of the engine")
    parser.add_argument("--peer-batch", action="store_true", help="sysbench under chrt -b 0")
    parser.add_argument("--trx-commit", type=int, default=0, help="innodb_flush_log_at_trx_commit")
    parser.add_argument(
        "--binlog", action="store_true", help="with the binary log, synced as the policy says"
    )
    parser.add_argument("--server-side", action="store_true", help="show what the server counted")
    parser.add_argument(
        "--rate-check", action="store_true", help="half of the maximum for 60 s, nothing else"
    )
    flags = parser.parse_args()

    sysbench = shutil.which("sysbench")
    if sysbench is None:
        sys.exit("sysbench is not on PATH: nothing to compare with\nhint: apt-get install sysbench")
    console = Console(width=max(Console().width, 110))
    table = Table(
        title=f"load engine ({flags.sched}) against {'chrt -b 0 ' if flags.peer_batch else ''}sysbench, "
        f"{flags.workload} on {flags.server}, flush policy {flags.trx_commit}"
    )
    columns = (
        "transport",
        "connections",
        "tps",
        "CPU µs",
        "its CPU µs",
        "tps ratio",
        "CPU ratio",
        "p95 ratio",
    )
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    settings: dict[str, int] = {
        "innodb_flush_log_at_trx_commit": flags.trx_commit,
        "innodb_buffer_pool_size": 512 << 20,
    }
    arguments = ["--max-connections=400"]
    if flags.binlog:
        arguments.append("--log-bin")
        settings["sync_binlog"] = flags.trx_commit
    runs = [
        Run(
            workload=flags.workload,
            transport=cast(Transport, transport),
            threads=threads,
            seconds=flags.duration,
            sched=flags.sched,
            peer_batch=flags.peer_batch,
        )
        for transport in flags.transports.split(",")
        for threads in map(int, flags.connections.split(","))
    ]
    for run in runs:
        if run.transport not in ("socket", "tcp"):
            parser.error(f"--transports: {run.transport!r} is neither socket nor tcp")
    build = find_build(flags.server)
    with Sandbox.start(build, settings=settings, arguments=tuple(arguments)) as sandbox:
        _core.prepare_tables(spec_of(sandbox.endpoint, runs[0]))
        if flags.rate_check:
            check_rate(sandbox.endpoint, runs[0], console)
            return
        for run in runs:
            pairs = pairs_of(sandbox, sysbench, run, flags.rounds)
            table.add_row(*row(run, pairs))
            if flags.server_side:
                console.print(server_side(pairs))
    console.print(table)


if __name__ == "__main__":
    main()
