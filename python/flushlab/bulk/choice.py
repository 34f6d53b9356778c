"""Choice: the fastest way to load a table, found on slices of its rows.

Sits in `bulk`. Slices are rows that stay loaded, and two ways take them in turns: other load on the machine
then slows both. The way tried first is kept unless another one wins three of those rounds more than it loses;
two that it loses end it. So a way that is a fifth slower is hardly ever taken, on a busy machine either.

Not tried, because slices cannot tell or nothing ever won: indexes wait wherever they can (on MariaDB 10.11
with 400,000 rows of sysbench's table that was 10 to 80 % faster, whatever slices had said), and MariaDB's
bulk insert, both checks off on an empty table, took the server 1.6 to 1.8 times the processor time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from flushlab import _core
from flushlab.bulk.filled import LoadMethod, Tried
from flushlab.bulk.native import Counts, Range
from flushlab.machine import cpu_count
from flushlab.record import ServerIdentity
from flushlab.server.identifier import quoted
from flushlab.server.protocol import Server

LEAST_ROWS = 500_000
"""Below, nothing is tried: a slice would take too short to tell."""
_BETTER = 1.05
_LEAD, _ARREARS = 3, 2
"""Rounds that a way is to win more often than it loses, and the other way round, until one of two is taken.
What is the better one in four rounds of five is taken in 98 of 100 trials (the gambler's ruin)."""
_MOST_ROUNDS = 9
_MOST_SLICES = 30
"""In all, of about forty that the rows come to."""
_BEHIND = 1.2
"""A load that is so much slower than another way was is reason to compare the two again."""
_SLICE_SHARE = 1 / 40
_MOST_SLICE_ROWS = 50_000
_PIECES = 8
"""Of what is left once ways have been tried: so often it is seen whether the load keeps its rate."""
INSERT_ROWS = 1000
INSERT_BYTES = 512 << 10
LOAD_BYTES = 256 << 10


class Possible(msgspec.Struct, frozen=True, kw_only=True):
    """What may be tried.

    Attributes:
        load_data: the server takes LOAD DATA LOCAL.
        prepared: an INSERT costs the server less if it is prepared.
        indexes_may_wait: the table is empty, and ours to change.
        connections: at most; of one's own choice if `fixed`.
        packet_bytes: longest statement or packet that the server takes.
    """

    load_data: bool
    prepared: bool
    indexes_may_wait: bool
    connections: int
    fixed: bool
    packet_bytes: int


def first_way(possible: Possible, connections: int) -> LoadMethod:
    """The way where nothing is tried."""
    packet_bytes = min(LOAD_BYTES, possible.packet_bytes)
    way = LoadMethod(method="load-data", connections=connections, batch_rows=1, packet_bytes=packet_bytes)
    return way if possible.load_data else inserts(way, possible)


def resumed_method(
    server: Server, database: str, table: str, possible: Possible, connections: int
) -> LoadMethod:
    """What is taken for ranges that an interrupted load has left, where nothing is tried."""
    way = first_way(possible, connections)
    turns = possible.load_data and connections > 1 and takes_turns(server, database, table)
    return inserts(way, possible) if turns else way


def start(server: Server, database: str, table: str, possible: Possible) -> LoadMethod:
    """What loading an empty table of `LEAST_ROWS` rows or more begins with: secondary indexes wait if they
    can."""
    way = first_way(possible, possible.connections if possible.fixed else 1)
    waits = possible.indexes_may_wait and late_parts(server, database, table) is not None
    return msgspec.structs.replace(way, indexes="after") if waits else way


def inserts(way: LoadMethod, possible: Possible) -> LoadMethod:
    """The same way with INSERT."""
    return msgspec.structs.replace(
        way,
        method="insert",
        batch_rows=INSERT_ROWS,
        prepared=possible.prepared,
        packet_bytes=min(INSERT_BYTES, possible.packet_bytes),
    )


def fastest(slices: Slices, way: LoadMethod, possible: Possible, *, turns: bool) -> LoadMethod:
    """The method and as many connections as prove fastest on slices of a table.

    `way` has one connection, or as many as are fixed; `turns`: several LOAD DATA would wait for each
    other."""
    if turns and way.method == "load-data":
        many = possible.connections if possible.fixed else min(cpu_count(), possible.connections)
        way = slices.better(inserts(msgspec.structs.replace(way, connections=many), possible), way)
        if way.method == "load-data":
            return way
    while not possible.fixed and way.connections < possible.connections:
        more = min(2 * way.connections, possible.connections)
        found = slices.better(msgspec.structs.replace(way, connections=more), way)
        if found is way:
            break
        way = found
    may_insert = way.method == "load-data" and possible.prepared
    return slices.better(inserts(way, possible), way) if may_insert else way


class Slices:
    """Ways compared on slices of a table's rows.

    Args:
        load: loads the next slice in a way; rows and seconds.
        left: number of slices in the remaining rows.
    """

    def __init__(self, load: Callable[[LoadMethod], tuple[int, float]], left: Callable[[], float]) -> None:
        self._load = load
        self._left = left
        self._rows: Counter[LoadMethod] = Counter()
        self._seconds: dict[LoadMethod, float] = {}
        self._slices = 0

    def better(self, one: LoadMethod, than: LoadMethod) -> LoadMethod:
        """One way if it wins rounds, the other if unclear."""
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

    def after(self, way: LoadMethod, rate: float) -> LoadMethod:
        """The way to go on in where a way comes to this rate: where it is far behind what another one had,
        the two are compared again."""
        others = [one for one in self._seconds if one != way]
        if not others:
            return way
        best = max(others, key=self._rate)
        return self.better(best, way) if rate * _BEHIND < self._rate(best) else way

    def tried(self) -> tuple[Tried, ...]:
        """All of them, in the order in which they were tried."""
        return tuple(
            Tried(way=way, rows=rows, rows_per_s=self._rate(way)) for way, rows in self._rows.items()
        )

    def _rate(self, way: LoadMethod) -> float:
        return self._rows[way] / self._seconds[way]

    def _slice(self, way: LoadMethod) -> float:
        rows, seconds = self._load(way)
        self._rows[way] += rows
        self._seconds[way] = self._seconds.get(way, 0.0) + seconds
        self._slices += 1
        return rows / seconds


LoadsRanges = Callable[[LoadMethod, tuple[Range, ...], Counts], Counts]
"""Loads ranges in a way, with the counts of what was loaded before."""


class Unloaded:
    """Rows of a table that are not loaded yet: loaded in slices as long as ways are tried, then in pieces."""

    def __init__(self, ranges: Iterable[Range], load: LoadsRanges) -> None:
        self._left = {one.id: one for one in ranges}
        self._load = load
        self._slice_rows = min(round(rows_of(self._left.values()) * _SLICE_SHARE), _MOST_SLICE_ROWS)
        self._counts = Counts()

    @property
    def slices(self) -> int:
        """Whole slices that are left."""
        return rows_of(self._left.values()) // max(1, self._slice_rows)

    def slice(self, way: LoadMethod) -> tuple[int, float]:
        """Loads the next slice; rows and seconds."""
        return self._next(way, self._slice_rows)

    def watched(self, way: LoadMethod, after: Callable[[LoadMethod, float], LoadMethod]) -> LoadMethod:
        """Loads all that is left in pieces, the first one in `way`; the way of the last one. `after` decides
        how to go on, from the way so far and its rows a second."""
        each = -(-rows_of(self._left.values()) // _PIECES)
        while rows_of(self._left.values()) > each:
            rows, seconds = self._next(way, each)
            way = after(way, rows / seconds)
        self.rest(way)
        return way

    def _next(self, way: LoadMethod, rows: int) -> tuple[int, float]:
        most_first = sorted(self._left.values(), key=lambda one: one.first - one.end)
        each = -(-rows // way.connections)
        ranges = tuple(
            msgspec.structs.replace(one, end=min(one.first + each, one.end))
            for one in most_first[: way.connections]
            if one.first < one.end
        )
        counts = self._take(way, ranges)
        return counts.committed, counts.seconds

    def rest(self, way: LoadMethod) -> None:
        """Loads all that is left, if anything is."""
        if ranges := tuple(one for one in self._left.values() if one.first < one.end):
            self._take(way, ranges)

    def _take(self, way: LoadMethod, ranges: tuple[Range, ...]) -> Counts:
        counts = self._load(way, ranges, self._counts)
        for one in ranges:
            self._left[one.id] = msgspec.structs.replace(self._left[one.id], first=one.end)
        self._counts = self._counts.plus(counts)
        return counts


def rows_of(ranges: Iterable[Range]) -> int:
    """Rows in all ranges."""
    return sum(one.end - one.first for one in ranges)


def gains_by_preparing(identity: ServerIdentity) -> bool:
    """Whether INSERT is cheaper prepared.

    Of the server's processor time a row of sysbench's table took 12.3 µs as text, 7.1 prepared and 8.8 in
    LOAD DATA on MariaDB 10.11; 14.8, 8.9 and 9.3 on MySQL 5.7; 20.3, 23.8 and 17.3 on MySQL 8.0 (medians of
    three or four runs each, in random order, on a busy machine).
    """
    return identity.flavor == "mariadb" or identity.version < (8, 0)


def takes_turns(server: Server, database: str, table: str) -> bool:
    """Whether LOAD DATA of one connection waits for that of another: it holds the lock of a table's
    AUTO_INCREMENT to its end unless innodb_autoinc_lock_mode is 2, also where rows bring their own numbers
    (`innobase_lock_autoinc` in ha_innodb.cc). INSERT with VALUES does not."""
    numbers = " AUTO_INCREMENT" in definition(server, database, table)
    return numbers and server.query("SELECT @@innodb_autoinc_lock_mode") != [(2,)]


def most_connections() -> int:
    """What is tried at most where nobody says."""
    return max(2, 2 * cpu_count())


def split(first: int, end: int, parts: int) -> tuple[Range, ...]:
    """Contiguous ranges of about the same size."""
    size = end - first
    cuts = [first + size * at // parts for at in range(parts + 1)]
    return tuple(
        Range(id=number, first=one, end=other)
        for number, (one, other) in enumerate(itertools.pairwise(cuts))
        if other > one
    )


def definition(server: Server, database: str, table: str) -> str:
    """SHOW CREATE TABLE."""
    return str(server.query(f"SHOW CREATE TABLE {quoted(database, table)}")[0][1])


def late_parts(server: Server, database: str, table: str) -> tuple[str, str] | None:
    """What follows ALTER TABLE to take a table's indexes away until its rows are there, and to give them
    back; None if none can wait."""
    referred = server.query(
        "SELECT 1 FROM information_schema.referential_constraints WHERE unique_constraint_schema = %s"
        " AND referenced_table_name = %s AND COALESCE(unique_constraint_name, '') <> 'PRIMARY'",
        (database, table),
    )
    return None if referred else _core.late_indexes(definition(server, database, table))
