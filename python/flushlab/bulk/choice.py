"""Choice: the fastest way to load a table, found on a slice of its rows.

Sits in `bulk`. Ways are tried one question at a time, on a scratch table of the same shape in the same
database: do indexes wait? How many connections? Does MariaDB's bulk insert help? A way must be faster by a
twentieth to be preferred to the one before it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from flushlab import _core
from flushlab.bulk import native
from flushlab.bulk.filled import Tried, Way
from flushlab.bulk.native import Range, Spec
from flushlab.bulk.source import SourceTable
from flushlab.errors import UsageError
from flushlab.machine import cpu_count
from flushlab.server.identifier import quoted
from flushlab.server.protocol import Server

SCRATCH = "flushlab_probe"
_MARK = "made by flushlab fill"
LEAST_ROWS = 200_000
"""Below, probing takes longer than it saves."""
_SLICE_SHARE = 0.01
_SLICE_ROWS = (4_000, 50_000)
_BETTER = 1.05
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
    return Way(
        method="insert",
        connections=connections,
        batch_rows=INSERT_ROWS,
        packet_bytes=min(INSERT_BYTES, possible.packet_bytes),
    )


def choose(
    server: Server,
    spec: Callable[[Way], Spec],
    database: str,
    table: SourceTable,
    possible: Possible,
) -> tuple[Way, tuple[Tried, ...]]:
    """The way to load a table, and what was tried.

    Args:
        server: where.
        spec: of a load of that table in a way.
        database: of the table.
        table: the largest of the plan.
        possible: what may be tried.

    Raises:
        ServerError: it did not take the slice.
    """
    if table.rows < LEAST_ROWS:
        few = possible.connections if possible.fixed else 1
        return first_way(possible, few), ()
    rows = round(min(max(table.rows * _SLICE_SHARE, _SLICE_ROWS[0]), _SLICE_ROWS[1]))
    tried: list[Tried] = []
    with scratch_table(server, database, table.name) as scratch:
        parts = _core.late_indexes(definition(server, database, table.name))

        def rate(way: Way) -> float:
            server.query(f"TRUNCATE TABLE {scratch}")
            began = time.perf_counter()
            if way.indexes == "after" and parts is not None:
                server.query(f"ALTER TABLE {scratch} {parts[0]}")
            ranges = split(0, rows, way.connections)
            one = msgspec.structs.replace(spec(way), into=scratch, ranges=ranges, notes=None)
            native.run(one, server)
            if way.indexes == "after" and parts is not None:
                server.query(f"ALTER TABLE {scratch} {parts[1]}")
            tried.append(Tried(way=way, rows=rows, rows_per_s=rows / (time.perf_counter() - began)))
            return tried[-1].rows_per_s

        def better(one: Way, best: float) -> tuple[Way, float] | None:
            found = rate(one)
            return (one, found) if found >= _BETTER * best else None

        way = first_way(possible, possible.connections if possible.fixed else 1)
        rate(way)  # the first one warms the server up
        tried.clear()
        best = rate(way)
        if parts is not None and possible.indexes_may_wait:
            way, best = better(msgspec.structs.replace(way, indexes="after"), best) or (way, best)
        while not possible.fixed and way.connections < possible.connections:
            more = min(2 * way.connections, possible.connections)
            found = better(msgspec.structs.replace(way, connections=more), best)
            if found is None:
                break
            way, best = found
        if possible.bulk and possible.load_data:
            bulk = msgspec.structs.replace(way, connections=1, indexes="before", bulk=True)
            way, best = better(bulk, best) or (way, best)
    return way, tuple(tried)


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


def remake(server: Server, database: str, name: str, like: str) -> None:
    """An empty table of flushlab's own, of the shape of another; an earlier one of its mark goes.

    Raises:
        UsageError: a table of that name is somebody else's.
    """
    found = server.query(
        "SELECT table_comment FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
        (database, name),
    )
    if found and found[0][0] != _MARK:
        raise UsageError(
            f"the table {database}.{name} was not made by flushlab, which needs that name for a while",
            hint="rename it, or fill another database",
        )
    table = quoted(database, name)
    if found:
        server.query(f"DROP TABLE {table}")
    server.query(f"CREATE TABLE {table} LIKE {quoted(database, like)}")
    server.query(f"ALTER TABLE {table} COMMENT = '{_MARK}'")


@contextmanager
def scratch_table(server: Server, database: str, table: str) -> Iterator[str]:
    """An empty table of the same shape, as SQL has it; gone behind it."""
    scratch = quoted(database, SCRATCH)
    remake(server, database, SCRATCH, table)
    try:
        yield scratch
    finally:
        if server.alive():
            server.query(f"DROP TABLE IF EXISTS {scratch}")
