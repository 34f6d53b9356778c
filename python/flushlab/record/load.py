"""What goes down to the load engine and what comes up: the boundary of `flushlab._core`.

Both directions are JSON of these structs. The password is in LoadSpec only, and LoadSpec is
never stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

NOTHING = 0.5
"""Events that a window without a commit is counted as. A ratio needs a number above 0. To measure the window
once more would select by the result."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`get_server_public_key` lets `caching_sha2_password` accept the server's RSA key unchecked: set it only
    where nobody can intercept the connection, as on loopback."""

    user: str
    password: str
    socket: str | None = None
    host: str | None = None
    port: int | None = None
    option_file: str | None = None
    connect_timeout_s: float = 10.0
    get_server_public_key: bool = False

    def __repr__(self) -> str:
        """Never shows the password."""
        return f"Endpoint(user={self.user!r}, socket={self.socket!r}, host={self.host!r}, port={self.port!r})"


SslMode = Literal["disabled", "required", "verify_ca", "verify_identity"]
"""No `preferred`: a measurement knows what it measures."""


class UpsertSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Each connection commits after the statement that brings it to `commit_rows`, or that ends
    `commit_seconds` after its last commit; neither: autocommit."""

    rows: int = 1
    key: Literal["unique", "primary"] = "primary"
    hit_ratio: float = 0.5
    commit_rows: int | None = None
    commit_seconds: float | None = None


class RandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the distributions, under sysbench's names without `rand_`."""

    spec_iter: int = 12
    spec_pct: int = 1
    spec_res: int = 75
    pareto_h: float = 0.2
    zipfian_exp: float = 0.8


class OltpSpec(msgspec.Struct, frozen=True, kw_only=True):
    """sysbench's options of its OLTP workloads, and its defaults (src/lua/oltp_common.lua)."""

    point_selects: int = 10
    simple_ranges: int = 1
    sum_ranges: int = 1
    order_ranges: int = 1
    distinct_ranges: int = 1
    index_updates: int = 1
    non_index_updates: int = 1
    delete_inserts: int = 1
    range_size: int = 100
    range_selects: bool = True
    skip_trx: bool = False
    auto_inc: bool = True
    secondary: bool = False
    create_secondary: bool = True


class SequenceParameter(msgspec.Struct, frozen=True, kw_only=True, tag="sequence", tag_field="kind"):
    start: int = 1
    step: int = 1
    shared: bool = True


class TextDraw(msgspec.Struct, frozen=True, kw_only=True, tag="text", tag_field="kind"):
    low: int
    high: int
    alphabet: str


class UuidParameter(msgspec.Struct, frozen=True, kw_only=True, tag="uuid", tag_field="kind"):
    ascending: bool = False
    binary: bool = False


class ColumnParameter(msgspec.Struct, frozen=True, kw_only=True, tag="column", tag_field="kind"):
    rows: int
    column: int


Parameter = SequenceParameter | TextDraw | UuidParameter | ColumnParameter


class TxnStatement(msgspec.Struct, frozen=True, kw_only=True):
    """`parameters`: numbers of `TxnSpec.parameters`, in the order of the `?`; `fresh`: drawn each time."""

    name: str
    sql: str
    place: str
    parameters: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()
    repeat: int = 1
    writes: bool = True
    think_us: int = 0
    exponential: bool = False


class TxnTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """`think_us` is no part of the latency; with `exponential`, a mean."""

    name: str
    weight: int = 1
    explicit: bool = True
    think_us: int = 0
    exponential: bool = False
    statements: tuple[TxnStatement, ...]


class TxnRows(msgspec.Struct, frozen=True, kw_only=True):
    """`columns`: whole numbers, or bytes in hexadecimal and None."""

    columns: tuple[tuple[int | str | None, ...], ...]
    own: bool = False
    rand_type: str = "uniform"
    rand: RandSpec = RandSpec()


class TxnSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`parameters`: each a `Parameter`, or the JSON that `flushlab.plan.draws` makes of one of a file."""

    parameters: tuple[Any, ...]
    transactions: tuple[TxnTransaction, ...]
    rows: tuple[TxnRows, ...] = ()


class AcksSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`flushlab.crashed.judge` has the format of `file`; an empty `position`: there is no disk's record."""

    file: str
    position: str = ""
    rows: int = 1


IGNORED_ERRORS = (1213, 1020, 1205)
"""As sysbench's: a deadlock, a row that has changed, a lock wait timeout."""


class ShareSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers count from 0; keys and sequences of each generator are its own."""

    generator: int
    generators: int
    first_connection: int
    connections: int


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One load, or the preparation of its tables.

    Attributes:
        workload: one of sysbench 1.0.20's OLTP workloads by its name, `upsert`, `txn` or `acked_inserts`.
        ssl_ca: file of the certificates that `verify_ca` and `verify_identity` trust.
        database: schema that holds the tables.
        threads: connections; one thread drives them all.
        share: which part of a load these connections are; None: all of it. A rate or a profile is that of the
            whole load.
        rand_type: distribution of ids; sysbench 1.0.20's default is `special`.
        rate: intended transactions or rows per second over all connections (open loop: latency counts from
            the intended start), or 0 for as fast as the server answers (closed loop).
        rate_kind: `constant` intervals or a `poisson` process.
        profile: instead of a rate, one that changes: `ramp:FROM-TO/60s`, `step:R1,R2,…/10s` (each for so
            long) or `burst:LOW-HIGH/1s/10s` (HIGH in the last second of every ten). It begins with the
            window; before, its first rate above 0 holds; after it, its last, but bursts go on.
        client_sched: `batch`: the load's thread runs under SCHED_BATCH; `normal`: as the process.
        reconnect: a lost connection is counted under errno 2013 and opened anew, at once and then after
            pauses of 50 ms to 1 s. Without `reconnect` a lost connection ends the load.
        hdr_log: file that each second's latencies are written to as it ends, in nanoseconds, as
            HdrHistogram's log; empty: none.
        per_second: file that a CSV line for each second is written to, as soon as no transaction in it is
            open; empty: none.
        seed: of the generators; the arrivals, each connection and each table have a stream of their own.
        ignored_errors: errnos after which the event is retried and counted, as sysbench does; with a rate it
            counts from its intended start. A transaction of several statements is then rolled back whole.
        oltp: options of an OLTP workload; None: sysbench's defaults.
        cluster_load: nodes of a cluster that the load goes to: `one`; `spread`: connections go to one after
            the other; `failover`: to the first that takes them.
        peers: the nodes besides `endpoint`, the first one.
        mark: comment of the tables that are prepared: letters, digits and spaces; empty: none.
        acks: acknowledgement table beside the workload, or alone (`acked_inserts`); `database` must have the
            table `flushlab_acks`.
    """

    workload: str
    endpoint: Endpoint
    transport: Literal["socket", "tcp"] = "socket"
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
    database: str = "sbtest"
    threads: int = 1
    share: ShareSpec | None = None
    tables: int = 1
    table_size: int = 10_000
    rand_type: str = "special"
    rand: RandSpec = RandSpec()
    rate: float = 0.0
    rate_kind: Literal["constant", "poisson"] = "constant"
    profile: str = ""
    client_sched: Literal["batch", "normal"] = "batch"
    reconnect: bool = False
    hdr_log: str = ""
    per_second: str = ""
    seed: int = 1
    ignored_errors: tuple[int, ...] = IGNORED_ERRORS
    upsert: UpsertSpec | None = None
    oltp: OltpSpec | None = None
    txn: TxnSpec | None = None
    cluster_load: Literal["one", "spread", "failover"] = "one"
    peers: tuple[Endpoint, ...] = ()
    mark: str = ""
    acks: AcksSpec | None = None


class ScriptSpec(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    transport: Literal["socket", "tcp"] = "socket"
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
    database: str
    limit_s: float


class StreamSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`leave_out`: beginnings of statements, as words in capitals; `late_indexes_from_bytes`: of a table's
    rows, from which on its plain indexes are built after all rows; None: never."""

    endpoint: Endpoint
    database: str | None
    leave_out: tuple[str, ...] = ()
    leave_out_databases: tuple[str, ...] = ()
    leave_out_modes: tuple[str, ...] = ()
    late_indexes_from_bytes: int | None = None
    connections: int = 1


class StreamProgress(msgspec.Struct, frozen=True, kw_only=True):
    statements: int
    bytes: int
    left_out: Mapping[str, int]
    beside: int = 0
    building: tuple[str, ...] = ()


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Latency of events in microseconds, from an HDR histogram with three significant digits.

    Attributes:
        mean: arithmetic mean.
        p50, p90, p95, p99, p999: percentiles; the last one is the 99.9th.
        max: the longest.
    """

    mean: float
    p50: int
    p95: int
    p99: int
    p999: int
    max: int
    p90: int | None = None


class ErrorCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often a server error came.

    Attributes:
        errno: the server's number of the error.
        sqlstate: its SQLSTATE.
        message: the first message seen.
        count: how often it came.
    """

    errno: int
    sqlstate: str
    message: str
    count: int


class StatementLatency(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the statements of one kind were answered.

    Attributes:
        statement: as the workload calls it: `UPDATE`, `COMMIT`, …
        count: answers in the window.
        latency_us: from sending it to the end of its answer.
    """

    statement: str
    count: int
    latency_us: Latency


class TransactionLatency(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the transactions of one kind were.

    Attributes:
        transaction: as the workload calls the kind.
        count: of those that ended in the window.
        throughput: the same per second.
        latency_us: of these; None if there were none.
    """

    transaction: str
    count: int
    throughput: float
    latency_us: Latency | None


class FailedAttempts(msgspec.Struct, frozen=True, kw_only=True):
    """How long attempts at an event, and COMMITs, took that ended in an error.

    Attributes:
        count: of those that failed in the window.
        latency_us: from the start of the attempt to the error. In a closed loop no other latency includes it.
    """

    count: int
    latency_us: Latency


class OpenLoop(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a rate or a profile.

    Attributes:
        intended: events due per second of the window.
        backlog_max: most events that were due and not begun.
        backlog_end: due but not started at the window's end.
        lag_us: how late events were begun although a connection was free: the generator's own part.
    """

    intended: float
    backlog_max: int
    backlog_end: int
    lag_us: Latency | None = None


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True):
    """`per_second`: of the last whole seconds since start, committed or not; at most 60."""

    elapsed_s: float
    events: int
    per_second: tuple[int, ...]
    errors: int
    failed: str | None = None
    hint: str | None = None


class LoadSeen(msgspec.Struct, frozen=True, kw_only=True):
    """`latencies_us`: ascending, alike in two digits; `backlog` and `lag_p99_us`: None in a closed loop."""

    events: int = 0
    errors: tuple[tuple[int, int], ...] = ()
    latencies_us: tuple[tuple[int, int], ...] = ()
    latency_sum_s: float = 0.0
    backlog: int | None = None
    lag_p99_us: int | None = None


def seen_together(parts: Sequence[LoadSeen]) -> LoadSeen:
    errors, latencies = Counter[int](), Counter[int]()
    for part in parts:
        errors.update(dict(part.errors))
        latencies.update(dict(part.latencies_us))
    return LoadSeen(
        events=sum(part.events for part in parts),
        errors=tuple(sorted(errors.items())),
        latencies_us=tuple(sorted(latencies.items())),
        latency_sum_s=sum(part.latency_sum_s for part in parts),
    )


class RowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that were written in a window, by their fate.

    A row counts at the moment when its statement ended, but only if its transaction was committed. The
    commit may come after the window's end: the load finishes the transactions that are open then. So a
    transaction that lies across an end of the window counts with the rows that it wrote inside.

    Attributes:
        committed: rows acknowledged by a commit.
        updated: rows that existed already.
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
        slowest_line: line of the slowest statement in the script, from 1.
    """

    kind: str
    count: int
    seconds: float
    slowest_s: float
    slowest_line: int


class ClientCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the load's thread took in a window.

    Attributes:
        user_us_per_event: its CPU time in user space; None if no event ended, or the window was too short for
            the kernel's accounting.
        system_us_per_event: its CPU time in the kernel.
        voluntary_switches: how often the thread slept to wait.
        involuntary_switches: how often the kernel took the CPU from the thread.
        waits: how often the thread waited for several connections at once; 0 with one connection, whose
            answer a blocking read waits for.
        answers_per_wait: connections that were ready when such a wait ended, on average; None without waits.
    """

    voluntary_switches: int
    involuntary_switches: int
    waits: int = 0
    answers_per_wait: float | None = None
    user_us_per_event: float | None = None
    system_us_per_event: float | None = None


class LoadClient(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that drove a part of a load over the network.

    Attributes:
        machine: its name in the fleet.
        connections: of its part.
        round_trip_us: of COM_PING on one connection, before the load began.
        busy: share of the window that its load's thread was on a CPU.
    """

    machine: str
    connections: int
    round_trip_us: Latency
    busy: float


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one measured window gave.

    An event is a transaction (OLTP) or a statement (`upsert`, `sql:`).

    Attributes:
        seconds: length of the window.
        events: completed inside the window.
        throughput: transactions, committed rows (`upsert`) or statements (`sql:`) per second.
        per_second: the same of each whole second of the window; empty for scripts.
        latency_us: of the events that ended in the window; None if there were none, and for scripts.
        statements: latency per kind of statement, in the workload's order.
        transactions: rate and latency per kind of transaction, where a workload has kinds (`txn:`).
        commits: acknowledged in the window; None in records of earlier versions.
        errors: server errors in the window, by errno and SQLSTATE. Events that end in an ignored one begin
            anew; with a rate latency counts from the intended start, in a closed loop from the last try.
        failed: attempts that ended in an error, ignored or a lost connection; None if there were none.
        capped: events whose latency exceeded a day; each counts as a day.
        client_busy: share of the window that the load's thread was on a CPU.
        client_bound: that share is 90 % or more: the rate is the client's limit, not the server's.
        stalls: whole seconds of the window, from 0, under a tenth of the median second.
        open_loop: intended and achieved rate; None in a closed loop.
        lost_connections: in the window.
        unwritten: why the files of the window's seconds are not whole, if they are not.
        client_cpu_us_per_event: user + system time of the load's thread, per event.
        client: how that thread took the time; None in records of earlier versions, and without `/proc`.
        rows: inserted, updated and so on, where rows are counted.
        kinds: time per kind of statement of a script, the most time first; empty for others.
        clients: machines that drove the load, if they are others than the server's. The fields above are of
            all of them together; `client_busy` is of the busiest.
        clients_skew_us: between the first and the last of these machines that opened its window.
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
    statements: tuple[StatementLatency, ...] = ()
    transactions: tuple[TransactionLatency, ...] = ()
    commits: int | None = None
    client_busy: float | None = None
    client_bound: bool = False
    stalls: tuple[int, ...] = ()
    open_loop: OpenLoop | None = None
    lost_connections: int = 0
    failed: FailedAttempts | None = None
    capped: int = 0
    unwritten: str | None = None
    client: ClientCost | None = None
    clients: tuple[LoadClient, ...] = ()
    clients_skew_us: int = 0

    @property
    def is_stall(self) -> bool:
        return 0 < self.throughput * self.seconds < (1 + NOTHING) / 2

    def stalled(self) -> LoadResult:
        return msgspec.structs.replace(self, throughput=NOTHING / self.seconds)
