"""What goes down to the load engine and what comes up: the boundary of `flushlab._core`.

Both directions are JSON of these structs. The password is in LoadSpec only, and LoadSpec is
never stored.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a server. Either `socket`, or `host` and `port`.

    `option_file` is a mode-0600 file whose `[client]` section holds all of this for other programs.
    """

    user: str
    password: str
    socket: str | None = None
    host: str | None = None
    port: int | None = None
    option_file: str | None = None

    def __repr__(self) -> str:
        """Never shows the password."""
        return f"Endpoint(user={self.user!r}, socket={self.socket!r}, host={self.host!r}, port={self.port!r})"


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One OLTP load, or the preparation of its tables.

    Attributes:
        workload: `oltp_update_non_index`, as sysbench 1.0.20 defines it.
        endpoint: the server.
        transport: `socket` or `tcp`.
        database: schema that holds sbtest1..N.
        threads: connections, one thread each.
        tables: number of tables.
        table_size: rows per table.
        rand_type: distribution of ids; sysbench 1.0.20's default is `special`.
        rate: intended transactions/s over all connections, at constant intervals (open loop: latency
            counts from the intended start), or 0 for as fast as the server answers (closed loop).
        seed: of the generators; connection i uses seed + i.
        ignored_errors: errnos after which the event is retried and counted, as sysbench does.
    """

    workload: str
    endpoint: Endpoint
    transport: Literal["socket", "tcp"] = "socket"
    database: str = "sbtest"
    threads: int = 1
    tables: int = 1
    table_size: int = 10_000
    rand_type: Literal["special", "uniform"] = "special"
    rate: float = 0.0
    seed: int = 1
    ignored_errors: tuple[int, ...] = (1213, 1020, 1205)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Latency of events in microseconds, from an HDR histogram with three significant digits."""

    mean: float
    p50: int
    p95: int
    p99: int
    p999: int
    max: int


class ErrorCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often a server error came, with the first message seen."""

    errno: int
    sqlstate: str
    message: str
    count: int


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A glance at a running load; cheap to take.

    Attributes:
        elapsed_s: since start.
        events: completed since start.
        per_second: events of each whole second since start.
        errors: server errors since start.
        failed: why the load stopped by itself (a fatal error), or None.
    """

    elapsed_s: float
    events: int
    per_second: tuple[int, ...]
    errors: int
    failed: str | None = None


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one measured window gave.

    Attributes:
        seconds: length of the window.
        events: completed inside the window.
        throughput: events per second.
        per_second: events of each whole second of the window.
        latency_us: of the events that ended in the window; None if there were none.
        errors: server errors in the window.
        client_cpu_us_per_event: user + system time of the load's threads, per event.
    """

    seconds: float
    events: int
    throughput: float
    per_second: tuple[int, ...]
    latency_us: Latency | None
    errors: tuple[ErrorCount, ...] = ()
    client_cpu_us_per_event: float | None = None
