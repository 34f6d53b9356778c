"""The load engine against sysbench: the same statements on the same tables of the same server.

Both drive oltp_update_non_index with sysbench's defaults against an own MariaDB sandbox with
innodb_flush_log_at_trx_commit=0, so that the client weighs as much as it can. Rounds are interleaved and
their order alternates; shown are medians of the ratios of each round, with their range.

sysbench's CPU time is that of its whole process, its start and its connecting included (about 20 ms); the
engine's is that of its threads inside the window.

    python benchmarks/load_engine.py --rounds 5 --seconds 6 --connections 1,8,16
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
from collections.abc import Sequence
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


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What one client reached.

    Attributes:
        throughput: transactions/s.
        cpu_us: user + system time of the client per transaction.
        p95_us: 95th percentile of latency.
    """

    throughput: float
    cpu_us: float
    p95_us: float


def spec_of(endpoint: Endpoint, threads: int, transport: Transport) -> bytes:
    """The load, as the engine takes it."""
    return msgspec.json.encode(
        LoadSpec(
            workload="oltp_update_non_index",
            endpoint=endpoint,
            transport=transport,
            database=DATABASE,
            threads=threads,
            tables=TABLES,
            table_size=TABLE_SIZE,
        )
    )


def run_engine(endpoint: Endpoint, threads: int, transport: Transport, seconds: float) -> Figure:
    """One window of the load engine."""
    run = _core.LoadRun(spec_of(endpoint, threads, transport))
    run.start()
    run.open_window()
    time.sleep(seconds)
    result = msgspec.json.decode(run.close_window(), type=LoadResult)
    run.stop()
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


def run_sysbench(sysbench: str, options: Path, threads: int, seconds: float) -> Figure:
    """One run of sysbench."""
    before = os.times()
    done = subprocess.run(
        [
            *(sysbench, f"--config-file={options}", "oltp_update_non_index", f"--threads={threads}"),
            *(f"--tables={TABLES}", f"--table-size={TABLE_SIZE}", f"--time={seconds:.0f}", "run"),
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


def ratio(pairs: Sequence[tuple[float, float]]) -> str:
    """Median of the rounds' ratios, with their range."""
    ratios = [ours / theirs for ours, theirs in pairs]
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}–{max(ratios):.2f}]"


def compare(
    sandbox: Sandbox, sysbench: str, threads: int, transport: Transport, rounds: int, seconds: float
) -> list[str]:
    """One row of the table: both clients, `rounds` times each, interleaved."""
    endpoint = sandbox.endpoint
    pairs: list[tuple[Figure, Figure]] = []
    with TemporaryDirectory() as folder:
        options = Path(folder) / "sysbench.cfg"
        options.touch(mode=0o600)
        options.write_text(sysbench_options(endpoint, transport))
        for number in range(rounds):
            if number % 2:
                theirs = run_sysbench(sysbench, options, threads, seconds)
                ours = run_engine(endpoint, threads, transport, seconds)
            else:
                ours = run_engine(endpoint, threads, transport, seconds)
                theirs = run_sysbench(sysbench, options, threads, seconds)
            pairs.append((ours, theirs))
    return [
        transport,
        str(threads),
        f"{statistics.median(ours.throughput for ours, _ in pairs):,.0f}",
        f"{statistics.median(ours.cpu_us for ours, _ in pairs):.1f}",
        ratio([(ours.throughput, theirs.throughput) for ours, theirs in pairs]),
        ratio([(ours.cpu_us, theirs.cpu_us) for ours, theirs in pairs]),
        ratio([(ours.p95_us, theirs.p95_us) for ours, theirs in pairs]),
    ]


def main() -> None:
    """Compares and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mariadb@10.11", help="build of the sandbox")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs per row")
    parser.add_argument("--seconds", type=float, default=4, help="length of a run")
    parser.add_argument("--connections", default="1,8,16", help="numbers of connections, with commas")
    parser.add_argument("--transports", default="socket", help="socket, tcp, or both with a comma")
    flags = parser.parse_args()

    sysbench = shutil.which("sysbench")
    if sysbench is None:
        sys.exit("sysbench is not on PATH: nothing to compare with\nhint: apt-get install sysbench")
    console = Console(width=max(Console().width, 110))
    table = Table(
        title=f"load engine against sysbench, oltp_update_non_index on {flags.server}, flush policy 0"
    )
    for column in ("transport", "connections", "tps", "CPU µs", "tps ratio", "CPU ratio", "p95 ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    settings = {"innodb_flush_log_at_trx_commit": 0, "innodb_buffer_pool_size": 512 << 20}
    with Sandbox.start(find_build(flags.server), settings=settings) as sandbox:
        _core.prepare_tables(spec_of(sandbox.endpoint, 1, "socket"))
        for transport in flags.transports.split(","):
            if transport not in ("socket", "tcp"):
                parser.error(f"--transports: {transport!r} is neither socket nor tcp")
            for threads in map(int, flags.connections.split(",")):
                row = compare(
                    sandbox, sysbench, threads, cast(Transport, transport), flags.rounds, flags.seconds
                )
                table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
