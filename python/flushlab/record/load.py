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


class UpsertSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What only the workload `upsert` has.

    Attributes:
        rows: rows per statement.
        key: `unique`: rows conflict in a unique index besides an auto-increment primary key; `primary`:
            in the primary key.
        hit_ratio: share of the rows whose key exists already.
        commit_rows: each connection commits after the statement that brings it to so many rows.
        commit_seconds: … after the first statement that ends so long after its last commit.
            Neither: autocommit.
    """

    rows: int = 1
    key: Literal["unique", "primary"] = "primary"
    hit_ratio: float = 0.5
    commit_rows: int | None = None
    commit_seconds: float | None = None


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One load, or the preparation of its tables.

    Attributes:
        workload: `oltp_update_non_index`, as sysbench 1.0.20 defines it, or `upsert`.
        endpoint: the server.
        transport: `socket` or `tcp`.
        database: schema that holds the tables.
        threads: connections, one thread each.
        tables: number of tables.
        table_size: rows per table.
        rand_type: distribution of ids; sysbench 1.0.20's default is `special`.
        rate: intended transactions or rows per second over all connections, at constant intervals (open
            loop: latency counts from the intended start), or 0 for as fast as the server answers (closed
            loop).
        seed: of the generators; connection i uses seed + i.
        ignored_errors: errnos after which the event is retried and counted, as sysbench does; a
            transaction of several statements is then rolled back whole.
        upsert: options of `upsert`, None for others.
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
    upsert: UpsertSpec | None = None


class ScriptSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where an SQL script runs, and how long at most.

    Attributes:
        endpoint, transport: as in `LoadSpec`.
        database: the default database; it must exist.
        limit_s: the script must end within it.
    """

    endpoint: Endpoint
    transport: Literal["socket", "tcp"] = "socket"
    database: str
    limit_s: float


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
        per_second: transactions or rows of each whole second since start, committed or not.
        errors: server errors since start.
        failed: why the load stopped by itself (a fatal error), or None.
    """

    elapsed_s: float
    events: int
    per_second: tuple[int, ...]
    errors: int
    failed: str | None = None


class RowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the rows that were written in a window.

    A row counts at the moment when its statement ended, but only if its transaction was committed,
    be it after the window's end: the transactions that are open then are seen to their end. So a
    transaction that lies across an end of the window counts with the rows that it wrote inside.

    Attributes:
        committed: rows acknowledged by a commit.
        updated: those among them that existed already.
        rolled_back: rows that a deadlock or a timeout took back.
        commits: that ended in the window; in autocommit, statements.
        commit_latency_us: of COMMIT; None in autocommit, where it is part of the statement's.
    """

    committed: int
    updated: int
    rolled_back: int = 0
    commits: int = 0
    commit_latency_us: Latency | None = None


class KindTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time that the statements of one kind took in a script.

    Attributes:
        kind: `CREATE TABLE`, `ALTER TABLE`, `CREATE INDEX`, `INSERT`, …
        count: how many there were.
        seconds: all of them together.
        slowest_s: the slowest of them.
        slowest_line: where it begins in the script, from 1.
    """

    kind: str
    count: int
    seconds: float
    slowest_s: float
    slowest_line: int


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one measured window gave.

    An event is a transaction (OLTP) or a statement (`upsert`, `sql:`).

    Attributes:
        seconds: length of the window.
        events: completed inside the window.
        throughput: transactions, committed rows (`upsert`) or statements (`sql:`) per second.
        per_second: the same of each whole second of the window; empty for scripts.
        latency_us: of the events that ended in the window; None if there were none, and for scripts.
        errors: server errors in the window.
        client_cpu_us_per_event: user + system time of the load's threads, per event.
        rows: what became of the rows, where rows are counted.
        kinds: time per kind of statement of a script, the most time first; empty for others.
    """

    seconds: float
    events: int
    throughput: float
    per_second: tuple[int, ...]
    latency_us: Latency | None
    errors: tuple[ErrorCount, ...] = ()
    client_cpu_us_per_event: float | None = None
    rows: RowCounts | None = None
    kinds: tuple[KindTime, ...] = ()
