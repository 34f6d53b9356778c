"""The load engine against sysbench: the same statements on the same tables of the same server.

Each round runs all clients, in rotating order, on one of sysbench's OLTP workloads with its defaults, against
an own sandbox with innodb_flush_log_at_trx_commit=0, so that the client weighs as much as it can: the engine,
sysbench as it is, and sysbench under the engine's scheduling class (`chrt -b 0`). With one connection, a
blocking socket that sends and receives as many bytes as an UPDATE and its answer, and nothing else, is the
floor (`ping_pong.rs`). Shown are the ratios of each round: their median, and the interval of their geometric
mean (95 %, Student's).

The aim: engine CPU / sysbench CPU at most 0.35 per transaction, with 16 and with 64 connections.

sysbench's CPU time is that of its process, less that of a process that ends after one event; the engine's and
the floor's are those of their thread inside the window.

    python benchmarks/load_engine.py --rounds 5 --duration 4 --connections 1,16,64 --transports socket,tcp
    python benchmarks/load_engine.py --workload oltp_write_only --server mysql@8.0
    python benchmarks/load_engine.py --sched normal                # the engine without SCHED_BATCH
    python benchmarks/load_engine.py --core other/_core.abi3.so    # beside the engine of another build
    python benchmarks/load_engine.py --core other/_core.abi3.so --rate 5000 --without-sysbench
    python benchmarks/load_engine.py --rate-check                  # half of the maximum for 60 s
    python benchmarks/load_engine.py --trx-commit 1 --server-side      # group commits and syncs, side by side
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

import msgspec
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from flushlab import _core
from flushlab.build import find_build
from flushlab.record import ClientCost, Endpoint, LoadResult, LoadSpec
from flushlab.server import Sandbox, SandboxSpec

TABLES = 4
TABLE_SIZE = 100_000
DATABASE = "sbtest"
UPDATE_BYTES, ANSWER_BYTES = 144, 52
"""The packets of update_non_index, as strace shows them."""
ENGINE, SYSBENCH, BATCH, FLOOR = "engine", "sysbench", "chrt -b 0 sysbench", "ping-pong"
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
        transactions: how many these were.
        client: how the engine's thread took its time.
    """

    throughput: float
    cpu_us: float
    p95_us: float
    counted: Mapping[str, float] = {}
    transactions: int
    client: ClientCost | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What all clients do."""

    workload: str
    transport: Transport
    threads: int
    seconds: float
    sched: Literal["batch", "normal"]
    rate: float = 0.0


def spec_of(endpoint: Endpoint, run: Run) -> bytes:
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
            rate=run.rate,
        )
    )


def drive(endpoint: Endpoint, run: Run, core: Any = _core) -> LoadResult:
    """One window of the load engine."""
    load = core.LoadRun(spec_of(endpoint, run))
    load.start()
    load.open_window()
    time.sleep(run.seconds)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    load.stop()
    return result


def run_engine(endpoint: Endpoint, run: Run, core: Any = _core) -> Figure:
    """The same as a figure."""
    result = drive(endpoint, run, core)
    assert result.latency_us is not None
    assert result.client_cpu_us_per_event is not None
    return Figure(
        throughput=result.throughput,
        cpu_us=result.client_cpu_us_per_event,
        p95_us=result.latency_us.p95,
        transactions=result.events,
        client=result.client,
    )


def other_core(path: Path) -> Any:
    """The native core of another build, beside this one."""
    spec = importlib.util.spec_from_file_location("other._core", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled_floor(folder: Path) -> Path:
    """The program of `ping_pong.rs`."""
    program = folder / "ping_pong"
    source = Path(__file__).with_name("ping_pong.rs")
    subprocess.run(["rustc", "-O", "-o", program, source], check=True)
    return program


def run_floor(program: Path, run: Run, work_us: float) -> Figure:
    """Round trips of the engine's sizes with a thread that works as long as the server did."""
    words = (run.transport, run.sched, UPDATE_BYTES, ANSWER_BYTES, work_us, run.seconds)
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=True)
    trips, cpu_s, seconds = map(float, done.stdout.split())
    return Figure(
        throughput=trips / seconds, cpu_us=cpu_s / trips * 1e6, p95_us=math.nan, transactions=int(trips)
    )


def sysbench_options(endpoint: Endpoint, transport: Transport) -> str:
    """sysbench's configuration file: the password does not reach its arguments."""
    if transport == "socket":
        where = f"mysql-socket={endpoint.socket}"
    else:
        where = f"mysql-host={endpoint.host}\nmysql-port={endpoint.port}"
    return f"mysql-user={endpoint.user}\nmysql-password={endpoint.password}\nmysql-db={DATABASE}\n{where}\n"


def run_sysbench(sysbench: str, options: Path, run: Run, batch: bool) -> Figure:
    """One run of sysbench, without the CPU time that its start takes."""
    command = (
        *(("chrt", "-b", "0") if batch else ()),
        *(sysbench, f"--config-file={options}", run.workload, f"--threads={run.threads}"),
        *(f"--tables={TABLES}", f"--table-size={TABLE_SIZE}", f"--rate={run.rate:.0f}"),
    )
    begun_s, _ = sysbench_cpu((*command, f"--time={run.seconds:.0f}", "--events=1", "run"))
    cpu_s, said = sysbench_cpu((*command, f"--time={run.seconds:.0f}", "run"))
    events = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", said)
    p95 = re.search(r"95th percentile:\s+([\d.]+)", said)
    if events is None or p95 is None:
        sys.exit(f"sysbench says no figures:\n{said}")
    return Figure(
        throughput=float(events[2]),
        cpu_us=(cpu_s - begun_s) / int(events[1]) * 1e6,
        p95_us=float(p95[1]) * 1000,
        transactions=int(events[1]),
    )


def sysbench_cpu(command: Sequence[str]) -> tuple[float, str]:
    """CPU seconds of a process, and what it printed."""
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = os.times()
    if done.returncode != 0:
        sys.exit(f"sysbench failed:\n{done.stdout}{done.stderr}")
    cpu_s = (after.children_user - before.children_user) + (after.children_system - before.children_system)
    return cpu_s, done.stdout


def counted(sandbox: Sandbox, client: Callable[[], Figure]) -> Figure:
    """What a client reached, with what the server counted meanwhile."""

    def status() -> dict[str, int]:
        rows = sandbox.query("SHOW GLOBAL STATUS")
        return {name: int(value) for name, value in rows if name in COUNTERS}

    before = status()
    result = client()
    after = status()
    per = {name: (after[name] - before[name]) / max(result.transactions, 1) for name in before}
    return msgspec.structs.replace(result, counted=per)


Rounds = dict[str, list[Figure]]
"""Of each client, a figure per round."""


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Median of the rounds' ratios, with the interval of their geometric mean."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    median = f"{statistics.median(ratios):.2f}"
    if len(ratios) < 2 or not all(one > 0 for one in ratios):
        return median
    logs = [math.log(one) for one in ratios]
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    margin = float(student.ppf(0.975, len(logs) - 1)) * error
    return f"{median} [{math.exp(mean - margin):.2f}–{math.exp(mean + margin):.2f}]"


def clients_of(
    sandbox: Sandbox, run: Run, options: Path | None, core: Any, floor: Path | None
) -> dict[str, Callable[[], Figure]]:
    """The clients of a row by their names."""
    endpoint = sandbox.endpoint
    clients: dict[str, Callable[[], Figure]] = {
        ENGINE: lambda: counted(sandbox, lambda: run_engine(endpoint, run))
    }
    if core is not None:
        clients["other core"] = lambda: counted(sandbox, lambda: run_engine(endpoint, run, core))
    if options is not None:
        sysbench, config = found_sysbench(), options
        config.write_text(sysbench_options(endpoint, run.transport))
        for name, batch in ((SYSBENCH, False), (BATCH, True)):
            client = partial(run_sysbench, sysbench, config, run, batch)
            clients[name] = partial(counted, sandbox, client)
    if floor is not None and run.threads == 1:
        work_us = 1e6 / run_engine(endpoint, run).throughput
        clients[FLOOR] = lambda: run_floor(floor, run, work_us)
    return clients


def rounds_of(clients: Mapping[str, Callable[[], Figure]], count: int) -> Rounds:
    """All clients, `count` times each, in rotating order."""
    names = list(clients)
    rounds: Rounds = {name: [] for name in names}
    for number in range(count):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            rounds[name].append(clients[name]())
    return rounds


def found_sysbench() -> str:
    """Where it is."""
    sysbench = shutil.which("sysbench")
    if sysbench is None:
        sys.exit("sysbench is not on PATH: nothing to compare with\nhint: apt-get install sysbench")
    return sysbench


def rows_of(run: Run, rounds: Rounds) -> list[list[str]]:
    """A row for each client that the engine is compared with."""
    ours = rounds[ENGINE]
    rows = []
    for name, theirs in rounds.items():
        if name == ENGINE:
            continue
        p95 = ratio([one.p95_us for one in ours], [one.p95_us for one in theirs])
        rows.append(
            [
                run.transport,
                str(run.threads),
                name,
                f"{statistics.median(one.throughput for one in ours):,.0f}",
                f"{statistics.median(one.cpu_us for one in ours):.1f}",
                f"{statistics.median(one.cpu_us for one in theirs):.1f}",
                ratio([one.throughput for one in ours], [one.throughput for one in theirs]),
                ratio([one.cpu_us for one in ours], [one.cpu_us for one in theirs]),
                "" if name == FLOOR else p95,
            ]
        )
    return rows


def thread_of(run: Run, rounds: Rounds) -> list[list[str]]:
    """How the engine's thread took its time, by build."""
    rows = []
    for name, figures in rounds.items():
        costs = [(one.client, one.transactions) for one in figures if one.client is not None]
        if not costs:
            continue

        def median(of: Callable[[ClientCost], float | None], costs: Any = costs) -> str:
            known = [value for one, _ in costs if (value := of(one)) is not None]
            return f"{statistics.median(known):.2f}" if known else ""

        switches = [
            (one.voluntary_switches / events, one.involuntary_switches / events) for one, events in costs
        ]
        rows.append(
            [
                run.transport,
                str(run.threads),
                name,
                median(lambda one: one.user_us_per_event),
                median(lambda one: one.system_us_per_event),
                f"{statistics.median(voluntary for voluntary, _ in switches):.3f}",
                f"{statistics.median(involuntary for _, involuntary in switches):.4f}",
                median(lambda one: one.answers_per_wait),
            ]
        )
    return rows


def server_side(rounds: Rounds) -> Table:
    """What the server counted per transaction, under each client."""
    names = [name for name in rounds if name != FLOOR]
    table = Table(title="per transaction, medians")
    for column in ("counter", *names):
        table.add_column(column, justify="right")
    for counter in COUNTERS:
        sides = [[one.counted[counter] for one in rounds[name] if counter in one.counted] for name in names]
        if all(sides):
            table.add_row(counter, *(f"{statistics.median(side):.4f}" for side in sides))
    return table


def check_rate(endpoint: Endpoint, run: Run, console: Console) -> None:
    """Half of the maximum, held for 60 s: what was reached, and how late the generator was."""
    most = drive(endpoint, run).throughput
    rate = float(int(most / 2))
    result = drive(endpoint, msgspec.structs.replace(run, seconds=60.0, rate=rate))
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
    parser.add_argument("--rounds", type=int, default=5, help="rounds per row")
    parser.add_argument("--duration", type=float, default=4, help="length of a run")
    parser.add_argument("--connections", default="16", help="numbers of connections, with commas")
    parser.add_argument("--transports", default="socket", help="socket, tcp, or both with a comma")
    parser.add_argument("--sched", default="batch", choices=("batch", "normal"), help="of the engine")
    parser.add_argument(
        "--rate", type=float, default=0.0, help="transactions/s that are due; 0: as fast as it goes"
    )
    parser.add_argument("--core", type=Path, help="native core of another build, in the same rounds")
    parser.add_argument("--without-sysbench", action="store_true", help="compare builds alone")
    parser.add_argument("--trx-commit", type=int, default=0, help="innodb_flush_log_at_trx_commit")
    parser.add_argument(
        "--binlog", action="store_true", help="with the binary log, synced as the policy says"
    )
    parser.add_argument("--server-side", action="store_true", help="show what the server counted")
    parser.add_argument(
        "--rate-check", action="store_true", help="half of the maximum for 60 s, nothing else"
    )
    flags = parser.parse_args()

    console = Console(width=max(Console().width, 150))
    titled = (
        f"load engine ({flags.sched}), {flags.workload} on {flags.server}, flush policy {flags.trx_commit}"
    )
    table = headed(
        titled,
        *("transport", "threads", "against", "tps", "CPU µs", "its CPU µs"),
        *("tps ratio", "CPU ratio", "p95 ratio"),
    )
    threads_table = headed(
        "its thread, medians; switches per event",
        *("transport", "threads", "client", "user µs", "system µs", "voluntary", "involuntary"),
        "answers/wait",
    )
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
            rate=flags.rate,
        )
        for transport in flags.transports.split(",")
        for threads in map(int, flags.connections.split(","))
    ]
    for run in runs:
        if run.transport not in ("socket", "tcp"):
            parser.error(f"--transports: {run.transport!r} is neither socket nor tcp")
    build = find_build(flags.server)
    with (
        TemporaryDirectory() as folder,
        Sandbox.start(SandboxSpec(build, settings=settings, arguments=tuple(arguments))) as sandbox,
    ):
        _core.prepare_tables(spec_of(sandbox.endpoint, runs[0]))
        if flags.rate_check:
            check_rate(sandbox.endpoint, runs[0], console)
            return
        options = None if flags.without_sysbench else Path(folder) / "sysbench.cfg"
        if options is not None:
            options.touch(mode=0o600)
        core = None if flags.core is None else other_core(flags.core)
        floor = compiled_floor(Path(folder)) if any(run.threads == 1 for run in runs) else None
        for run in runs:
            rounds = rounds_of(clients_of(sandbox, run, options, core, floor), flags.rounds)
            for row in rows_of(run, rounds):
                table.add_row(*row)
            for row in thread_of(run, rounds):
                threads_table.add_row(*row)
            if flags.server_side:
                console.print(server_side(rounds))
    console.print(table)
    console.print(threads_table)


def headed(title: str, *columns: str) -> Table:
    """An empty table of figures."""
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


if __name__ == "__main__":
    main()
