"""Choice: the fastest way to load a table, found on slices of its rows.

Sits in `bulk`. Ways are tried one question at a time: several connections? Do indexes wait? Does MariaDB's
bulk insert help? What is tried first is kept unless another way is faster by a twentieth. Where only the
first question is open, slices are rows that stay loaded. The others need a scratch table of the same shape,
and trying ends once it has taken a twelfth of the time that the load is expected to take.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from flushlab import _core
from flushlab.bulk import native
from flushlab.bulk.filled import Tried, Way
from flushlab.bulk.native import Range, Spec
from flushlab.bulk.own_tables import scratch_table
from flushlab.bulk.source import SourceTable
from flushlab.machine import cpu_count
from flushlab.server.identifier import quoted
from flushlab.server.protocol import Server

LEAST_ROWS = 500_000
"""Below, nothing is tried: a slice would take too short to tell."""
TELLING_ROWS = 2_000_000
"""Of a table: from here on it is asked whether its indexes should wait; slices of fewer than 20,000 rows say
nothing of indexes. With 400,000 rows of sysbench's table on MariaDB 10.11, indexes that waited won by 10 to
80 % over others and over bulk mode, whatever slices of 4,000 rows had said."""
_SLICE_SHARE = 0.01
_MOST_SLICE_ROWS = 50_000
_BETTER = 1.05
_MUCH_BETTER = 1.15
"""For indexes that do not wait: those of a slice are small, and kept in order for less than those of all
rows. And for INSERT instead of LOAD DATA that would take turns: a row costs the server more, which is slower
as soon as anybody else wants the processors."""
_CLOSE = 1.15
"""Two ways whose rates differ by less have another slice each."""
_MOST_SHARE = 0.08
INSERT_ROWS = 1000
INSERT_BYTES = 512 << 10
LOAD_BYTES = 256 << 10


class Possible(msgspec.Struct, frozen=True, kw_only=True):
    """What may be tried.

    Attributes:
        load_data: the server takes LOAD DATA LOCAL.
        indexes_may_wait: the table is empty, and ours to change.
        bulk: it is MariaDB, and the table is empty and ours.
        connections: at most; of one's own choice if `fixed`.
        packet_bytes: longest statement or packet that the server takes.
    """

    load_data: bool
    indexes_may_wait: bool
    bulk: bool
    connections: int
    fixed: bool
    packet_bytes: int


def first_way(possible: Possible, connections: int) -> Way:
    """What is taken where nothing is tried."""
    if possible.load_data:
        return Way(
            method="load-data",
            connections=connections,
            batch_rows=1,
            packet_bytes=min(LOAD_BYTES, possible.packet_bytes),
        )
    return inserts(
        Way(
            method="insert",
            connections=connections,
            batch_rows=INSERT_ROWS,
            packet_bytes=possible.packet_bytes,
        )
    )


def untried(server: Server, database: str, table: str, possible: Possible, connections: int) -> Way:
    """What is taken for ranges that an interrupted load has left, where nothing is tried."""
    way = first_way(possible, connections)
    turns = possible.load_data and connections > 1 and takes_turns(server, database, table)
    return inserts(way) if turns else way


def start(server: Server, database: str, table: str, possible: Possible) -> Way:
    """What loading an empty table of `LEAST_ROWS` rows or more begins with: secondary indexes wait if they
    can."""
    way = first_way(possible, possible.connections if possible.fixed else 1)
    waits = possible.indexes_may_wait and late_parts(server, database, table) is not None
    return msgspec.structs.replace(way, indexes="after") if waits else way


def inserts(way: Way) -> Way:
    """The same way with INSERT."""
    return msgspec.structs.replace(
        way,
        method="insert",
        bulk=False,
        batch_rows=INSERT_ROWS,
        packet_bytes=min(INSERT_BYTES, way.packet_bytes),
    )


def choose(
    server: Server,
    spec: Callable[[Way], Spec],
    database: str,
    table: SourceTable,
    possible: Possible,
) -> tuple[Way, tuple[Tried, ...]]:
    """The way to load a table of `TELLING_ROWS` rows or more, and what was tried.

    Args:
        server: where.
        spec: of a load of that table in a way.
        database: of the table.
        table: the largest of the plan.
        possible: what may be tried.

    Raises:
        ServerError: it did not take the slice.
    """
    with scratch_table(server, database, table.name) as scratch:
        slices = _Scratch(server, spec, scratch, late_parts(server, database, table.name), table)
        way = start(server, database, table.name, possible)
        slices.warm_up(way)
        way = with_connections(slices, way, possible, turns=takes_turns(server, database, table.name))
        if way.indexes == "after":
            way = slices.better(msgspec.structs.replace(way, indexes="before"), way, by=_MUCH_BETTER)
        if possible.bulk and possible.load_data and way.indexes == "before":
            bulk = msgspec.structs.replace(first_way(possible, 1), bulk=True)
            way = slices.better(bulk, way)
        return way, slices.tried()


def with_connections(slices: Slices, way: Way, possible: Possible, *, turns: bool) -> Way:
    """The way with as many connections as prove fastest.

    Args:
        slices: what it is tried on.
        way: with one connection, or as many as are fixed.
        possible: what may be tried.
        turns: several LOAD DATA would wait for each other.
    """
    if turns and way.method == "load-data":
        many = possible.connections if possible.fixed else min(cpu_count(), possible.connections)
        if many == 1:
            return way
        return slices.better(inserts(msgspec.structs.replace(way, connections=many)), way, by=_MUCH_BETTER)
    while not possible.fixed and way.connections < possible.connections:
        more = min(2 * way.connections, possible.connections)
        found = slices.better(msgspec.structs.replace(way, connections=more), way)
        if found is way:
            break
        way = found
    return way


class Slices:
    """Ways compared on slices of a table's rows.

    Args:
        load: loads the next slice in a way; rows and seconds.
    """

    def __init__(self, load: Callable[[Way], tuple[int, float]]) -> None:
        self._load = load
        self._took: dict[Way, tuple[int, float]] = {}
        self._slices: Counter[Way] = Counter()

    def better(self, one: Way, than: Way, by: float = _BETTER) -> Way:
        """One way if it is so much faster than the other; in doubt each has another slice."""
        for way in (than, one):
            if way not in self._took:
                self._slice(way)
        if max(self._rate(one), self._rate(than)) < _CLOSE * min(self._rate(one), self._rate(than)):
            self._slice(one)
            if self._slices[than] < self._slices[one]:
                self._slice(than)
        return one if self._rate(one) >= by * self._rate(than) else than

    def tried(self) -> tuple[Tried, ...]:
        """All of them, in the order in which they were tried."""
        return tuple(
            Tried(way=way, rows=rows, rows_per_s=self._rate(way)) for way, (rows, _) in self._took.items()
        )

    def _rate(self, way: Way) -> float:
        rows, seconds = self._took[way]
        return rows / seconds

    def _slice(self, way: Way) -> None:
        rows, seconds = self._load(way)
        before_rows, before_s = self._took.get(way, (0, 0.0))
        self._took[way] = (before_rows + rows, before_s + seconds)
        self._slices[way] += 1


class _Scratch(Slices):
    """The same on a scratch table, as long as trying costs little of what the load will take.

    Args:
        parts: what takes the scratch table's indexes away, and gives them back; None if none can wait.
    """

    def __init__(
        self,
        server: Server,
        spec: Callable[[Way], Spec],
        scratch: str,
        parts: tuple[str, str] | None,
        table: SourceTable,
    ) -> None:
        super().__init__(lambda way: (self._rows, self._seconds(way, self._rows)))
        self._server = server
        self._spec = spec
        self._scratch = scratch
        self.parts = parts
        self._all_rows = table.rows
        self._rows = round(min(table.rows * _SLICE_SHARE, _MOST_SLICE_ROWS))
        self._no_rows_s = 0.0
        self._index_s: float | None = None
        self._is_bare = False
        self._began = time.perf_counter()

    def warm_up(self, way: Way) -> None:
        """A slice that does not count, for the server's sake; how long indexes without rows take."""
        self._seconds(way, self._rows // 4)
        if self._is_bare:
            self._server.query(f"TRUNCATE TABLE {self._scratch}")
            self._no_rows_s = self._alter()

    def better(self, one: Way, than: Way, by: float = _BETTER) -> Way:
        """As long as it is worth it."""
        spent = time.perf_counter() - self._began
        if than in self._took and spent > _MOST_SHARE * self._all_rows / self._rate(than):
            return than
        return super().better(one, than, by)

    def _seconds(self, way: Way, rows: int) -> float:
        """From the first row to the last index, without what indexes take that have no rows. Building them
        takes as long whatever way the rows came, and is done once."""
        self._server.query(f"TRUNCATE TABLE {self._scratch}")
        waits = way.indexes == "after" and self.parts is not None
        if waits != self._is_bare:
            self._alter()
        ranges = split(0, rows, way.connections)
        one = msgspec.structs.replace(self._spec(way), into=self._scratch, ranges=ranges, notes=None)
        seconds = native.run(one, self._server).counts.seconds
        if waits and self._index_s is None and rows == self._rows:
            self._index_s = max(self._alter() - self._no_rows_s, 0.0)
        return seconds + ((self._index_s or 0.0) if waits else 0.0)

    def _alter(self) -> float:
        """Takes the indexes away, or gives them back; seconds."""
        assert self.parts is not None
        began = time.perf_counter()
        self._server.query(f"ALTER TABLE {self._scratch} {self.parts[self._is_bare]}")
        self._is_bare = not self._is_bare
        return time.perf_counter() - began


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
