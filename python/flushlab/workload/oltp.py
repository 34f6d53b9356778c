"""OLTP workloads of the load engine: sysbench's tables and statements, driven from Rust."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import msgspec

from flushlab import _core
from flushlab.errors import FlushlabError, MeasurementError, ProtocolError, ServerError, UsageError
from flushlab.record import Endpoint, LoadProgress, LoadResult, LoadSpec, Warning
from flushlab.server.protocol import Server
from flushlab.workload.protocol import Measured, Timing, Window

NAMES = ("oltp_update_non_index",)
DATABASE = "sbtest"

_POLL_S = 0.05
_LEVEL_SPREAD = 0.15  # the last seconds of a warm-up may differ by this share of their mean
_LEVEL_SECONDS = 2
_PAGE_READS_PER_EVENT = 0.01  # "page reads are near zero"
_ERRORS: Mapping[str, type[FlushlabError]] = {
    "server": ServerError,
    "protocol": ProtocolError,
    "measurement": MeasurementError,
    "usage": UsageError,
}
T = TypeVar("T")


class OltpWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A sysbench OLTP workload.

    Attributes:
        name: one of `NAMES`.
        threads: connections.
        tables, table_size: sbtest1..N and their rows.
        transport: `socket` or `tcp`.
        rand_type: distribution of ids.
        rate: intended transactions/s over all connections (open loop), or 0 for as fast as possible.
        seed: of the row generators.
    """

    name: str
    threads: int = 16
    tables: int = 8
    table_size: int = 10_000
    transport: Literal["socket", "tcp"] = "socket"
    rand_type: Literal["special", "uniform"] = "special"
    rate: float = 0.0
    seed: int = 1

    @property
    def data_key(self) -> Mapping[str, str]:
        """Tables and their size; the rows depend on the seed, k on the distribution."""
        return {
            "workload": "sbtest",
            "tables": str(self.tables),
            "table_size": str(self.table_size),
            "rand_type": self.rand_type,
            "seed": str(self.seed),
        }

    def prepare(self, server: Server) -> None:
        """Creates the database and fills sbtest1..N, unless a data set brought them."""
        server.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        there = server.query(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name LIKE %s",
            (DATABASE, "sbtest%"),
        )
        if there[0][0]:
            return
        spec = msgspec.json.encode(self._spec(server.endpoint))
        _native(lambda: _core.prepare_tables(spec), server)

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Preloads the tables, warms up until throughput is level, measures one window."""
        _preload(server, self.tables)
        load = _native(lambda: _core.LoadRun(msgspec.json.encode(self._spec(server.endpoint))), server)
        try:
            started = time.monotonic()
            load.start()
            warnings = _warm_up(load, server, timing)
            warm_up_s = time.monotonic() - started
            with window:
                _native(load.open_window, server)
                _wait(load, server, timing)
                result = msgspec.json.decode(_native(load.close_window, server), type=LoadResult)
        finally:
            load.stop()
        if result.events == 0:
            raise MeasurementError(
                f"{self.name}: no transaction ended within {result.seconds:.1f} s",
                hint="measure longer with --seconds, or look at the errors: "
                + "; ".join(f"{e.errno}: {e.message}" for e in result.errors),
            )
        return Measured(
            figure=result.throughput,
            unit="transactions/s",
            higher_is_better=True,
            warm_up_s=warm_up_s,
            window_s=result.seconds,
            load=result,
            warnings=(*warnings, *_doubts(result)),
        )

    def _spec(self, endpoint: Endpoint) -> LoadSpec:
        return LoadSpec(
            workload=self.name,
            endpoint=endpoint,
            transport=self.transport,
            database=DATABASE,
            threads=self.threads,
            tables=self.tables,
            table_size=self.table_size,
            rand_type=self.rand_type,
            rate=self.rate,
            seed=self.seed,
        )


def _native(call: Callable[[], T], server: Server) -> T:
    """Runs a native call; its errors become ours."""
    try:
        return call()
    except _core.CoreError as error:
        if error.kind == "server" and not server.alive():
            server.query("SELECT 1")  # raises ServerDied with the log's tail
        raise _ERRORS[error.kind](error.message) from error


def _progress(load: _core.LoadRun) -> LoadProgress:
    return msgspec.json.decode(load.progress(), type=LoadProgress)


def _raise_if_failed(load: _core.LoadRun, server: Server) -> LoadProgress:
    progress = _progress(load)
    if progress.failed is not None:
        if not server.alive():
            server.query("SELECT 1")  # raises ServerDied with the log's tail
        raise MeasurementError(f"the load ended by itself: {progress.failed}")
    return progress


def _preload(server: Server, tables: int) -> None:
    """Reads the tables into the buffer pool, where they fit; the load would do so at random."""
    data = server.query(
        "SELECT SUM(data_length) FROM information_schema.tables WHERE table_schema = %s", (DATABASE,)
    )
    pool = server.read_back(["innodb_buffer_pool_size"]).get("innodb_buffer_pool_size")
    if isinstance(pool, int) and data[0][0] is not None and int(data[0][0]) < pool:
        for table in range(1, tables + 1):
            server.query(f"SELECT COUNT(c), COUNT(pad) FROM {DATABASE}.sbtest{table} FORCE INDEX (PRIMARY)")


def _warm_up(load: _core.LoadRun, server: Server, timing: Timing) -> list[Warning]:
    """Waits until throughput is level and page reads are near zero, within the timing's bounds."""
    reads_before, events_before = _page_reads(server), 0
    seen = 0
    while True:
        progress = _raise_if_failed(load, server)
        if len(progress.per_second) > seen and progress.elapsed_s >= timing.warm_up_s:
            seen = len(progress.per_second)
            reads, events = _page_reads(server), progress.events
            reading = (reads - reads_before) > _PAGE_READS_PER_EVENT * max(events - events_before, 1)
            reads_before, events_before = reads, events
            if not reading and _is_level(progress.per_second):
                return []
        if progress.elapsed_s >= timing.max_warm_up_s:
            return [
                Warning(
                    "not-level",
                    f"throughput was not level after {progress.elapsed_s:.0f} s of warm-up: "
                    + ", ".join(map(str, progress.per_second[-3:]))
                    + " transactions in the last seconds",
                )
            ]
        time.sleep(_POLL_S)


def _is_level(per_second: tuple[int, ...]) -> bool:
    last = per_second[-_LEVEL_SECONDS:]
    return len(last) == _LEVEL_SECONDS and max(last) - min(last) <= _LEVEL_SPREAD * sum(last) / len(last)


def _page_reads(server: Server) -> int:
    return int(server.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'")[0][1])


def _redo_written(server: Server) -> int:
    return int(server.query("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'")[0][1])


def _wait(load: _core.LoadRun, server: Server, timing: Timing) -> None:
    started = time.monotonic()
    redo_before = _redo_written(server) if timing.redo_bytes else 0
    asked = started
    while True:
        now = time.monotonic()
        left = timing.seconds - (now - started)
        if left <= 0:
            if not timing.redo_bytes or now - started >= timing.max_seconds:
                return
            if now - asked >= 1:
                asked = now
                if _redo_written(server) - redo_before >= timing.redo_bytes:
                    return
        _raise_if_failed(load, server)
        time.sleep(min(_POLL_S, left) if left > 0 else _POLL_S)


def _doubts(result: LoadResult) -> list[Warning]:
    doubts = []
    failed = sum(error.count for error in result.errors)
    if failed:
        worst = max(result.errors, key=lambda error: error.count)
        doubts.append(
            Warning("errors", f"{failed} statements failed; most with {worst.errno}: {worst.message}")
        )
    return doubts
