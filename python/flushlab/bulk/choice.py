"""Choice: the fastest method of loading a table, found on slices of its rows.

Sits in `bulk`. Slices are rows that stay loaded. Two methods load slices alternately, so that other load on
the machine slows both alike. The first method is kept unless the other wins three rounds more than it loses;
two rounds more lost than won end the comparison. A method that is a fifth slower is hardly ever chosen, even
on a busy machine.

Two choices are not tried on slices:

- Secondary indexes are always built after the rows if possible. On MariaDB 10.11 with 400,000 rows of
  sysbench's table, this was 10 to 80 % faster, even where slices had shown the opposite.
- MariaDB's bulk insert (both checks off, empty table) is never used. It took the server 1.6 to 1.8 times the
  processor time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from flushlab import _core
from flushlab.bulk.destinations import Destination
from flushlab.bulk.filled import FillStep, LoadMethod, Tried
from flushlab.bulk.limits import Counts, bound
from flushlab.bulk.native import MeasuredLoads, Range, TableLoad
from flushlab.bulk.tables import own_table
from flushlab.generate.plan import PlanTable
from flushlab.machine import available_memory_bytes, cpu_count
from flushlab.progress import Progress
from flushlab.record import ServerIdentity, Value
from flushlab.server import Sandbox
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted
from flushlab.telemetry import activity
from flushlab.units import format_size

LEAST_ROWS = 500_000
"""Below, nothing is tried: a slice would take too short to tell."""
_BETTER = 1.05
_LEAD, _ARREARS = 3, 2
"""Lead in rounds that chooses the other method, and arrears in rounds that end the comparison. A method that
is better in four rounds of five is chosen in 98 of 100 trials (the gambler's ruin)."""
_MOST_ROUNDS = 9
_MOST_SLICES = 30
"""In all, of about forty that the rows come to."""
_BEHIND = 1.2
"""If the load falls behind the rate of another method by this factor, the two are compared again."""
_SLICE_SHARE = 1 / 40
_MOST_SLICE_ROWS = 50_000
_PIECES = 8
"""Pieces of the rows left after the trials: the rate of the load is checked after each piece."""
INSERT_ROWS = 1000
INSERT_BYTES = 512 << 10
LOAD_BYTES = 256 << 10


class Possible(msgspec.Struct, frozen=True, kw_only=True):
    load_data: bool
    prepared: bool
    indexes_may_wait: bool
    connections: int
    fixed: bool
    packet_bytes: int


def first_method(possible: Possible, connections: int) -> LoadMethod:
    packet_bytes = min(LOAD_BYTES, possible.packet_bytes)
    method = LoadMethod(kind="load-data", connections=connections, batch_rows=1, packet_bytes=packet_bytes)
    return method if possible.load_data else inserts(method, possible)


def resumed_method(
    server: Server, database: str, table: str, possible: Possible, connections: int
) -> LoadMethod:
    method = first_method(possible, connections)
    serial = possible.load_data and connections > 1 and loads_one_at_a_time(server, database, table)
    return inserts(method, possible) if serial else method


def start(server: Server, database: str, table: str, possible: Possible) -> LoadMethod:
    method = first_method(possible, possible.connections if possible.fixed else 1)
    waits = possible.indexes_may_wait and late_parts(server, database, table) is not None
    return msgspec.structs.replace(method, indexes="after") if waits else method


def inserts(method: LoadMethod, possible: Possible) -> LoadMethod:
    return msgspec.structs.replace(
        method,
        kind="insert",
        batch_rows=INSERT_ROWS,
        prepared=possible.prepared,
        packet_bytes=min(INSERT_BYTES, possible.packet_bytes),
    )


def fastest(slices: Slices, method: LoadMethod, possible: Possible, *, serial: bool) -> LoadMethod:
    if serial and method.kind == "load-data":
        many = possible.connections if possible.fixed else min(cpu_count(), possible.connections)
        method = slices.better(inserts(msgspec.structs.replace(method, connections=many), possible), method)
        if method.kind == "load-data":
            return method
    while not possible.fixed and method.connections < possible.connections:
        more = min(2 * method.connections, possible.connections)
        found = slices.better(msgspec.structs.replace(method, connections=more), method)
        if found is method:
            break
        method = found
    may_insert = method.kind == "load-data" and possible.prepared
    return slices.better(inserts(method, possible), method) if may_insert else method


class Slices:
    def __init__(self, load: Callable[[LoadMethod], tuple[int, float]], left: Callable[[], float]) -> None:
        self._load = load
        self._left = left
        self._rows: Counter[LoadMethod] = Counter()
        self._seconds: dict[LoadMethod, float] = {}
        self._slices = 0

    def better(self, one: LoadMethod, than: LoadMethod) -> LoadMethod:
        lead = 0
        for number in range(_MOST_ROUNDS):
            if self._slices + 2 > _MOST_SLICES or self._left() < 2:
                break
            first, second = (than, one) if number % 2 == 0 else (one, than)
            rates = {first: self._slice(first), second: self._slice(second)}
            lead += 1 if rates[one] >= _BETTER * rates[than] else -1
            if lead in (_LEAD, -_ARREARS):
                break
        return one if lead > 0 else than

    def after(self, method: LoadMethod, rate: float) -> LoadMethod:
        others = [one for one in self._seconds if one != method]
        if not others:
            return method
        best = max(others, key=self._rate)
        return self.better(best, method) if rate * _BEHIND < self._rate(best) else method

    def tried(self) -> tuple[Tried, ...]:
        return tuple(
            Tried(method=method, rows=rows, rows_per_s=self._rate(method))
            for method, rows in self._rows.items()
        )

    def _rate(self, method: LoadMethod) -> float:
        return self._rows[method] / self._seconds[method]

    def _slice(self, method: LoadMethod) -> float:
        rows, seconds = self._load(method)
        self._rows[method] += rows
        self._seconds[method] = self._seconds.get(method, 0.0) + seconds
        self._slices += 1
        return rows / seconds


LoadsRanges = Callable[[LoadMethod, tuple[Range, ...], Counts], Counts]


class Unloaded:
    def __init__(self, ranges: Iterable[Range], load: LoadsRanges) -> None:
        self._left = {one.id: one for one in ranges}
        self._load = load
        self._slice_rows = min(round(rows_of(self._left.values()) * _SLICE_SHARE), _MOST_SLICE_ROWS)
        self._counts = Counts()

    @property
    def slices(self) -> int:
        return rows_of(self._left.values()) // max(1, self._slice_rows)

    def slice(self, method: LoadMethod) -> tuple[int, float]:
        return self._next(method, self._slice_rows)

    def watched(self, method: LoadMethod, after: Callable[[LoadMethod, float], LoadMethod]) -> LoadMethod:
        each = -(-rows_of(self._left.values()) // _PIECES)
        while rows_of(self._left.values()) > each:
            rows, seconds = self._next(method, each)
            method = after(method, rows / seconds)
        self.rest(method)
        return method

    def _next(self, method: LoadMethod, rows: int) -> tuple[int, float]:
        most_first = sorted(self._left.values(), key=lambda one: one.first - one.end)
        each = -(-rows // method.connections)
        ranges = tuple(
            msgspec.structs.replace(one, end=min(one.first + each, one.end))
            for one in most_first[: method.connections]
            if one.first < one.end
        )
        counts = self._take(method, ranges)
        return counts.committed, counts.seconds

    def rest(self, method: LoadMethod) -> None:
        if ranges := tuple(one for one in self._left.values() if one.first < one.end):
            self._take(method, ranges)

    def _take(self, method: LoadMethod, ranges: tuple[Range, ...]) -> Counts:
        counts = self._load(method, ranges, self._counts)
        for one in ranges:
            self._left[one.id] = msgspec.structs.replace(self._left[one.id], first=one.end)
        self._counts = self._counts.plus(counts)
        return counts


def rows_of(ranges: Iterable[Range]) -> int:
    return sum(one.end - one.first for one in ranges)


def gains_by_preparing(identity: ServerIdentity) -> bool:
    """INSERT is cheaper prepared on some servers.

    The server's processor time for a row of sysbench's table, in µs, as text, prepared and in LOAD DATA:

    - MariaDB 10.11: 12.3, 7.1 and 8.8
    - MySQL 5.7: 14.8, 8.9 and 9.3
    - MySQL 8.0: 20.3, 23.8 and 17.3

    (Medians of three or four runs each, in random order, on a busy machine.)
    """
    return identity.flavor == "mariadb" or identity.version < (8, 0)


def loads_one_at_a_time(server: Server, database: str, table: str) -> bool:
    """LOAD DATA holds the table's AUTO_INCREMENT lock to its end unless innodb_autoinc_lock_mode is 2, even
    if the rows bring their own numbers (`innobase_lock_autoinc` in ha_innodb.cc). INSERT with VALUES does
    not."""
    numbers = " AUTO_INCREMENT" in definition(server, database, table)
    return numbers and server.query("SELECT @@innodb_autoinc_lock_mode") != [(2,)]


def most_connections() -> int:
    return max(2, 2 * cpu_count())


def split(first: int, end: int, parts: int) -> tuple[Range, ...]:
    size = end - first
    cuts = [first + size * at // parts for at in range(parts + 1)]
    return tuple(
        Range(id=number, first=one, end=other)
        for number, (one, other) in enumerate(itertools.pairwise(cuts))
        if other > one
    )


def definition(server: Server, database: str, table: str) -> str:
    return str(server.query(f"SHOW CREATE TABLE {quoted(database, table)}")[0][1])


def late_parts(server: Server, database: str, table: str) -> tuple[str, str] | None:
    referred = server.query(
        "SELECT 1 FROM information_schema.referential_constraints WHERE unique_constraint_schema = %s"
        " AND referenced_table_name = %s AND COALESCE(unique_constraint_name, '') <> 'PRIMARY'",
        (database, table),
    )
    return None if referred else _core.late_indexes(definition(server, database, table))


# -- comparison of all methods -------------------------------------------------------------------------------


_SCRATCH = "flushlab_probe"
_FLUSH_POLICY = ("innodb_flush_log_at_trx_commit", "sync_binlog")
COMPARED_S = 8.0
POOL = 18
BATCH = 50
_LARGE_POOL = 1 << 30


def compare_methods(
    place: Destination,
    table: PlanTable,
    rows: int,
    spec: Callable[[PlanTable, LoadMethod, tuple[Range, ...]], TableLoad],
    possible: Possible,
    say: Progress,
) -> tuple[FillStep, ...]:
    steps: list[FillStep] = []
    server = place.server
    with own_table(server, place.database, _SCRATCH, table.name) as scratch:
        for name, method in _methods(possible, place, say):
            server.query(f"TRUNCATE TABLE {scratch}")
            one = spec(table, method, split(0, rows, method.connections))
            one = msgspec.structs.replace(one, into=scratch, notes=None, limit_seconds=COMPARED_S)
            if method.kind == "insert":
                one = msgspec.structs.replace(one, chunk_bytes=0)
            watched, loads = activity.Watched(), MeasuredLoads(server)
            with activity.watch(server, watched):
                loads.run(one)
                loaded = loads.loaded(one.connections)
            seen = loaded
            if watched.fsyncs:
                syncs = sum(watched.fsyncs.get(kind, 0) for kind in ("redo", "binlog"))
                seen = msgspec.structs.replace(seen, log_syncs=syncs)
            limit, rate = bound(seen), loaded.rows_per_s
            step = FillStep(
                name=name,
                rows=loaded.committed,
                seconds=loaded.seconds,
                rows_per_s=rate,
                ratio=_ratio(rate, steps),
                bound_by=limit.what,
                why=limit.why,
            )
            steps.append(step)
            times = f" ({step.times})" if step.times else ""
            say(f"{name}: {rate:,.0f} rows/s{times}, bound by {limit.what}")
    return tuple(steps)


def _ratio(rate: float, steps: Sequence[FillStep]) -> float | None:
    if not steps:
        return 1.0
    before = steps[-1].rows_per_s
    return rate / before if before else None


def _methods(possible: Possible, place: Destination, say: Progress) -> Iterator[tuple[str, LoadMethod]]:
    single = LoadMethod(kind="single", connections=1, batch_rows=1, packet_bytes=possible.packet_bytes)
    yield "single connection", single
    yield f"pool of {POOL}", msgspec.structs.replace(single, connections=POOL)
    batched = LoadMethod(
        kind="insert", connections=POOL, batch_rows=BATCH, packet_bytes=possible.packet_bytes
    )
    yield f"batches of {BATCH}", batched
    best = first_method(possible, min(possible.connections, 4))
    yield "streamed LOAD DATA" if possible.load_data else "large batches", best
    if not isinstance(place.server, Sandbox):
        say("left out: buffer pool and flush policy, which are the server's own")
        return
    size = min(_LARGE_POOL, available_memory_bytes() // 2)
    now = place.server.read_back(["innodb_buffer_pool_size"])["innodb_buffer_pool_size"]
    if isinstance(now, int) and now < size:
        _apply(place.server, {"innodb_buffer_pool_size": size})
        yield f"buffer pool of {format_size(size)}", best
    _apply(place.server, {name: place.fast[name] for name in _FLUSH_POLICY if name in place.fast})
    yield "flush policy", best
    if "innodb_doublewrite" in place.fast:  # a sandbox that was made for these rows: it may be restarted
        place.quicken()
        yield "throwaway", best


def _apply(server: Sandbox, settings: dict[str, Value]) -> None:
    server.apply(settings)
    server.query("SET GLOBAL local_infile = 1")
