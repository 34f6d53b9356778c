"""The load engine from Python's side: prepare tables, drive a load through warm-up and window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec

from flushlab import _core
from flushlab.errors import (
    FlushlabError,
    HarnessError,
    MeasurementError,
    NotWritable,
    ProtocolError,
    ServerError,
    UsageError,
)
from flushlab.process.running import live_status
from flushlab.record import (
    LoadProgress,
    LoadResult,
    LoadSeen,
    LoadSpec,
    LostNode,
    ScriptSpec,
    SslMode,
    Warning,
)
from flushlab.server.clients import USER, ClientLoad, clients_of
from flushlab.server.protocol import Server, quorum_problem
from flushlab.spec.option import Option
from flushlab.units import counted
from flushlab.workload.protocol import Driving, Measured, Timing, Window

_numbers = count(1)


class LoadStatus:
    def __init__(self, load: ClientLoad, unit: str) -> None:
        self._load = load
        self._unit = unit
        self._board = live_status()
        self._number = next(_numbers)
        self._second = 0
        self._counts: dict[int, int] = {}

    def glance(self, progress: LoadProgress) -> None:
        second = int(progress.elapsed_s)
        if second <= self._second or not progress.per_second or not self._board.is_seen:
            return
        self._second = second
        before, self._counts = self._counts, dict(self._totals().latencies_us)
        news = [(us, events - before.get(us, 0)) for us, events in self._counts.items()]
        self._board.second(
            float(progress.per_second[-1]),
            self._unit,
            p50_ms=quantile_ms(news, 0.5),
            p99_ms=quantile_ms(news, 0.99),
        )

    def slice(self, result: LoadResult) -> None:
        if not self._board.is_seen:
            return
        self._totals()
        latency = result.latency_us
        self._board.second(
            result.throughput,
            self._unit,
            p50_ms=latency.p50 / 1000 if latency else None,
            p99_ms=latency.p99 / 1000 if latency else None,
        )

    def _totals(self) -> LoadSeen:
        seen = msgspec.json.decode(self._load.seen(), type=LoadSeen)
        self._board.load(self._number, seen)
        return seen


def quantile_ms(counts_us: list[tuple[int, int]], quantile: float) -> float | None:
    due = quantile * sum(events for _, events in counts_us)
    passed = 0
    for us, events in counts_us:
        passed += events
        if events and passed >= due:
            return us / 1000
    return None


_POLL_S = 0.05
_LEVEL_SPREAD = 0.15  # the last seconds of a warm-up may differ by this share of their mean
_LEVEL_SECONDS = 2
_NETWORK_BOUND = 0.5
"""Share of the statements' time from which on the network bounds a closed loop."""
_RATE_MISSED = 0.01  # share of an intended rate that may be missing without a word
_REDO_WRITTEN = "Innodb_os_log_written"
_POOL = ("Innodb_buffer_pool_reads", "Innodb_buffer_pool_pages_free", "Innodb_buffer_pool_pages_total")
_POOL_STATUS = "SHOW GLOBAL STATUS WHERE Variable_name IN ({})"
PAGE_READS_PER_EVENT = 0.01  # "page reads are near zero"
_POOL_FREE = 0.25  # free pages of a pool that is full: page cleaners keep some
_ASK_SHARE, _MOST_ASK_S = 0.1, 1.0
"""Of the time since the window opened, between two questions for the redo that was written in it."""
_RESTS_S = 1.0
"""Without a commit for so long at the end, a load that lost a node may have lost the quorum with it."""
_ERRORS: Mapping[str, type[FlushlabError]] = {
    "server": ServerError,
    "protocol": ProtocolError,
    "measurement": MeasurementError,
    "storage": NotWritable,
    "usage": UsageError,
    "harness": HarnessError,
}
_MARK = "flushlab_prepared"
"""A table beside the load's: how many rows each of them was made with."""
_EMPTY = "flushlab server reset NAME"
SSL_CA = "PEM file with the certificates that verify_ca and verify_identity trust."
T = TypeVar("T")


def native(call: Callable[[], T], server: Server) -> T:
    try:
        return call()
    except _core.CoreError as error:
        if error.kind == "server":
            server.query("SELECT 1")  # if it is gone, or dying, raises ServerDied with the log's tail
        raise _ERRORS[error.kind](error.message, hint=error.hint) from error


def errno_of(error: FlushlabError) -> int | None:
    return error.__cause__.errno if isinstance(error.__cause__, _core.CoreError) else None


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    transport: Annotated[Literal["socket", "tcp"], Option("How the load connects.")] = "socket"
    ssl_mode: Annotated[SslMode, Option("TLS mode over tcp, as in MySQL's clients.")] = "disabled"
    ssl_ca: Annotated[str, Option(SSL_CA)] = ""


def run_script(
    server: Server,
    script: bytes,
    how: Connected,
    *,
    database: str,
    limit_s: float,
    where: str,
    hint: str | None = None,
) -> LoadResult:
    spec = ScriptSpec(
        endpoint=server.endpoint,
        transport=how.transport,
        ssl_mode=how.ssl_mode,
        ssl_ca=how.ssl_ca,
        database=database,
        limit_s=limit_s,
    )

    def run() -> bytes | str:
        try:
            return _core.run_script(msgspec.json.encode(spec), script)
        except _core.CoreError as error:
            if error.errno is None and error.kind == "server":
                raise
            raise MeasurementError(f"{where}, {error}", hint=hint) from error

    return msgspec.json.decode(native(run, server), type=LoadResult)


def prepare(spec: LoadSpec, server: Server, prefix: str, *, filled: bool = True) -> None:
    """Loads change the number of rows, so a table in the database records how many each was created with."""
    from flushlab.server.remote.server import RemoteGroup  # loads most of the servers; --help needs none

    database, rows = spec.database, spec.table_size if filled else 0
    if not isinstance(server, RemoteGroup):  # which has it: made_tables
        server.query(f"CREATE DATABASE IF NOT EXISTS {database}")
    names = [f"{prefix}{number}" for number in range(1, spec.tables + 1)]
    found = server.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (database,)
    )
    there = {str(name) for (name,) in found}
    mark = f"{database}.{_MARK}"
    if not there & set(names):
        ours = server.mark if isinstance(server, RemoteGroup) else ""
        making = msgspec.structs.replace(spec, mark=ours) if ours else spec
        native(lambda: _core.prepare_tables(msgspec.json.encode(making)), server)
        if ours:
            return
        server.query(f"CREATE TABLE IF NOT EXISTS {mark} (name VARCHAR(64) PRIMARY KEY, made BIGINT)")
        for name in names:
            server.query(f"REPLACE INTO {mark} VALUES (%s, %s)", (name, rows))
        return
    made = dict(server.query(f"SELECT name, made FROM {mark}")) if _MARK in there else {}
    for name in names:
        if name not in there:
            raise MeasurementError(
                f"the database {database} has some of the load's tables, but not {name}",
                hint=f"use fewer with --tables, or empty the server: {_EMPTY}",
            )
        has = made[name] if name in made else server.query(f"SELECT COUNT(*) FROM {database}.{name}")[0][0]
        if has != rows:
            raise MeasurementError(
                f"the table {database}.{name} has {has:,} rows, not {rows:,}",
                hint=f"use --table-size {has}, or empty the server: {_EMPTY}",
            )


class Losses:
    def __init__(self, nodes: Sequence[Server]) -> None:
        self._nodes = dict(enumerate(nodes, 1))
        self._lost: dict[int, LostNode] = {}
        self._events, self._committed_s = 0, 0.0
        self.glance(0.0, 0)

    def glance(self, now_s: float, events: int) -> None:
        if events != self._events:
            self._events, self._committed_s = events, now_s
        for number in [number for number, node in self._nodes.items() if not node.alive()]:
            del self._nodes[number]
            self._lost[number] = LostNode(node=number, at_s=now_s, without_commit_s=0.0)
        for number, one in self._lost.items():
            longest_s = max(one.without_commit_s, now_s - self._committed_s)
            self._lost[number] = LostNode(node=number, at_s=one.at_s, without_commit_s=longest_s)

    def rests_s(self, now_s: float) -> float:
        return now_s - self._committed_s

    @property
    def nodes(self) -> tuple[LostNode, ...]:
        return tuple(self._lost.values())


def lost_node_warnings(lost: Iterable[LostNode]) -> tuple[Warning, ...]:
    return tuple(
        Warning(
            "node-lost",
            f"node {one.node} died {f'{one.at_s:.1f} s into' if one.at_s else 'before'} the window: for"
            f" {one.without_commit_s:.1f} s no transaction was committed. The rate includes this time",
        )
        for one in lost
    )


def drive(driving: Driving, server: Server, timing: Timing, window: Window) -> Measured:
    load = connected(driving, server)
    status = LoadStatus(load, driving.unit)
    try:
        started = time.monotonic()
        load.start()
        warnings = warm_up(load, server, timing, driving, status)
        warm_up_s = time.monotonic() - started
        losses = Losses(server.nodes)
        with window:
            native(load.open_window, server)
            try:
                _wait(load, server, timing, status, losses)
            except KeyboardInterrupt as interrupt:
                with suppress(_core.CoreError):
                    so_far = msgspec.json.decode(load.close_window(), type=LoadResult)
                    raise LoadInterrupted(so_far, driving.unit) from interrupt
                raise
            result = closed(load, server)
            losses.glance(result.seconds, raise_if_failed(load, server).events)
            if (
                losses.nodes
                and losses.rests_s(result.seconds) > _RESTS_S
                and (found := quorum_problem(server, {one.node for one in losses.nodes}))
            ):
                raise MeasurementError(f"the load did not continue: {found}")
    finally:
        load.stop()
    if not result.throughput and not result.errors:
        result = result.stalled()
    whole = measured(driving, result, warm_up_s, (*warnings, *lost_node_warnings(losses.nodes)))
    return msgspec.structs.replace(whole, lost_nodes=losses.nodes)


def measured(driving: Driving, result: LoadResult, warm_up_s: float, warnings: Iterable[Warning]) -> Measured:
    if result.throughput == 0:
        what = driving.unit.removesuffix("/s")
        raise MeasurementError(
            f"{driving.spec.workload}: no {what} were committed within {result.seconds:.1f} s",
            hint="measure longer with --duration, or look at the errors: "
            + "; ".join(f"{e.errno}: {e.message}" for e in result.errors),
        )
    return Measured(
        result=result.throughput,
        unit=driving.unit,
        higher_is_better=True,
        warm_up_s=warm_up_s,
        window_s=result.seconds,
        load=result,
        warnings=(*warnings, *_caveats(result)),
        commits=result.commits,
        connections=driving.spec.threads,
        seed=driving.spec.seed,
        stand_in=driving.stand_in,
    )


def connected(driving: Driving, server: Server) -> ClientLoad:
    spec = driving.spec
    if (clients := clients_of(server)) is not None:
        there = msgspec.structs.replace(
            spec,
            endpoint=msgspec.structs.replace(
                spec.endpoint,
                user=USER,
                password=clients.access.password,
                socket=None,
                host=clients.access.address,
                option_file=None,
                get_server_public_key=False,
            ),
            transport="tcp",
            ssl_mode="verify_identity",
        )
        return native(lambda: clients.connect(there), server)
    if spec.cluster_load != "one":
        peers = tuple(node.endpoint for node in server.nodes[1:])
        require_cluster(spec.cluster_load, 1 + len(peers))
        spec = msgspec.structs.replace(spec, peers=peers)
    return native(lambda: _core.LoadRun(msgspec.json.encode(spec)), server)


def require_cluster(cluster_load: object, nodes: int) -> None:
    if cluster_load != "one" and nodes == 1:
        raise UsageError(
            f"--cluster-load {cluster_load} needs a cluster, but there is one server",
            hint="remove it, or use --cluster 3",
        )


class LoadInterrupted(KeyboardInterrupt):
    def __init__(self, result: LoadResult, unit: str) -> None:
        super().__init__("interrupted in the measured window")
        self.result = result
        self.unit = unit


def closed(load: ClientLoad, server: Server) -> LoadResult:
    return msgspec.json.decode(native(load.close_window, server), type=LoadResult)


def preload(server: Server, database: str, reads: Iterable[str]) -> None:
    data = server.query(
        "SELECT SUM(data_length) FROM information_schema.tables WHERE table_schema = %s", (database,)
    )
    pool = server.read_back(["innodb_buffer_pool_size"]).get("innodb_buffer_pool_size")
    if isinstance(pool, int) and data[0][0] is not None and int(data[0][0]) < pool:
        for sql in reads:
            server.query(sql)


def raise_if_failed(load: ClientLoad, server: Server) -> LoadProgress:
    progress = msgspec.json.decode(load.progress(), type=LoadProgress)
    if progress.failed is not None:
        if not server.alive():
            server.query("SELECT 1")  # raises ServerDied with the log's tail
        found = quorum_problem(server)
        what = f"the load stopped: {progress.failed}{f'; {found}' if found else ''}"
        raise MeasurementError(what, hint=progress.hint)
    return progress


def warm_up(
    load: ClientLoad, server: Server, timing: Timing, driving: Driving, status: LoadStatus
) -> list[Warning]:
    before, events_before = _pool(server), 0
    seen = 0
    while True:
        progress = raise_if_failed(load, server)
        status.glance(progress)
        if int(progress.elapsed_s) > seen and progress.elapsed_s >= timing.warm_up_s:
            seen = int(progress.elapsed_s)
            pool, events = _pool(server), progress.events
            filling = pool.is_filling(before, max(events - events_before, 1))
            before, events_before = pool, events
            last = progress.per_second[-_LEVEL_SECONDS:]
            level = max(_LEVEL_SPREAD * sum(last) / max(len(last), 1), driving.grain)
            if not filling and len(last) == _LEVEL_SECONDS and max(last) - min(last) <= level:
                return []
        if progress.elapsed_s >= timing.max_warm_up_s:
            seconds = ", ".join(map(str, progress.per_second[-3:]))
            text = f"throughput was not level after {progress.elapsed_s:.0f} s of warm-up: {seconds}"
            return [Warning("not-level", f"{text} {driving.unit.removesuffix('/s')} in the last seconds")]
        time.sleep(_POLL_S)


class _BufferPool(NamedTuple):
    reads: int
    free: int
    pages: int

    def is_filling(self, before: _BufferPool, events: int) -> bool:
        """Pages are read, and into free ones. Data that do not fit are read for as long as the load runs."""
        is_reading = self.reads - before.reads > PAGE_READS_PER_EVENT * events
        return is_reading and self.free < before.free and self.free > _POOL_FREE * self.pages


def _pool(server: Server) -> _BufferPool:
    names = ", ".join(f"'{name}'" for name in _POOL)
    found = {name: int(value) for name, value in server.query(_POOL_STATUS.format(names))}
    return _BufferPool(*(found.get(name, 0) for name in _POOL))


def _status(server: Server, name: str) -> int:
    return int(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


def _wait(load: ClientLoad, server: Server, timing: Timing, status: LoadStatus, losses: Losses) -> None:
    started = time.monotonic()
    redo_before = _status(server, _REDO_WRITTEN) if timing.redo_bytes else 0
    ask_at = started
    while True:
        now = time.monotonic()
        left = timing.seconds - (now - started)
        if left <= 0:
            if not timing.redo_bytes or now - started >= timing.max_seconds:
                return
            if now >= ask_at:
                ask_at = now + min(_ASK_SHARE * (now - started), _MOST_ASK_S)
                if _status(server, _REDO_WRITTEN) - redo_before >= timing.redo_bytes:
                    return
        progress = raise_if_failed(load, server)
        status.glance(progress)
        losses.glance(now - started, progress.events)
        if not server.alive():
            server.query("SELECT 1")  # raises ServerDied with the log's tail
        time.sleep(min(_POLL_S, left) if left > 0 else _POLL_S)


def _network_share(result: LoadResult) -> float:
    if not result.clients or not result.statements:
        return 0.0
    connections = sum(one.connections for one in result.clients)
    trip_us = sum(one.connections * one.round_trip_us.mean for one in result.clients) / connections
    count = sum(one.count for one in result.statements)
    spent_us = sum(one.count * one.latency_us.mean for one in result.statements)
    return min(1.0, trip_us * count / spent_us) if spent_us else 0.0


def _caveats(result: LoadResult) -> Iterator[Warning]:
    if result.is_stall:
        yield Warning("nothing-committed", f"nothing was committed in a window of {result.seconds:.1f} s")
    if failed := sum(error.count for error in result.errors):
        worst = max(result.errors, key=lambda error: error.count)
        text = f"{failed} statements failed; most with {worst.errno}: {worst.message}"
        yield Warning("errors", text)
    if result.client_bound:
        text = f"the client's thread was on a CPU for {result.client_busy or 0:.0%} of the window: "
        yield Warning("client-bound", text + "the result is the client's limit, not the server's")
    if (share := _network_share(result)) >= _NETWORK_BOUND:
        text = f"the network's round trips are {share:.0%} of the statements' time: "
        yield Warning("network-bound", text + "a nearer client, or more connections, would load it more")
    if result.stalls:
        text = f"{counted(len(result.stalls), 'second')} below a tenth of the median second"
        yield Warning("stalls", text)
    if result.capped:
        text = f"{counted(result.capped, 'event')} took longer than a day; each counts as a day"
        yield Warning("capped", text)
    if result.lost_connections:
        yield Warning("lost-connections", f"{result.lost_connections} connections were lost")
    if result.open_loop and result.throughput < (1 - _RATE_MISSED) * result.open_loop.intended:
        text = f"{result.throughput:,.0f}/s of an intended {result.open_loop.intended:,.0f}/s reached; "
        text += f"{result.open_loop.backlog_end:,} events were overdue at the end"
        yield Warning("rate-missed", text)
    if result.rows and result.rows.rolled_back:
        yield Warning("rolled-back", f"{result.rows.rolled_back} rows were rolled back and do not count")
