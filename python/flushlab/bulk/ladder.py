"""Ladder: the same rows from one at a time up to all that the server takes, a rung at a time, with figures.

Sits in `bulk`. Every rung is loaded into an empty scratch table for a few seconds. The first four change
what the client does; those above change the server, and are left out where it is not a sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from flushlab.bulk import choice, native
from flushlab.bulk.bound import bound
from flushlab.bulk.destinations import Destination
from flushlab.bulk.filled import LoadMethod, Step
from flushlab.bulk.native import Range, TableLoad
from flushlab.bulk.own_tables import scratch_table
from flushlab.bulk.source import SourceTable
from flushlab.machine import available_memory_bytes
from flushlab.record import Value
from flushlab.server.protocol import Server
from flushlab.telemetry import activity
from flushlab.units import format_size

SECONDS = 8.0
POOL = 18
BATCH = 50
_LARGE_POOL = 1 << 30


def climb(
    server: Server,
    database: str,
    table: SourceTable,
    spec: Callable[[LoadMethod, tuple[Range, ...]], TableLoad],
    possible: choice.Possible,
    place: Destination | None,
    say: Callable[[str], None],
) -> tuple[Step, ...]:
    """Climbs.

    Args:
        server: target of the rows.
        database: of the table.
        table: to load.
        spec: of a load in a way.
        possible: ways of loading that the server accepts.
        place: the sandbox; None if it is none.
        say: told of every rung.
    """
    steps: list[Step] = []
    with scratch_table(server, database, table.name) as scratch:
        for name, way in _rungs(possible, place, say):
            server.query(f"TRUNCATE TABLE {scratch}")
            ranges = choice.split(0, table.rows, way.connections)
            one = msgspec.structs.replace(spec(way, ranges), into=scratch, notes=None, limit_seconds=SECONDS)
            if way.method == "insert":
                one = msgspec.structs.replace(one, chunk_bytes=0)
            watched = activity.Watched()
            with activity.watch(server, watched):
                loaded = native.run(one, server)
            syncs = (
                sum(watched.fsyncs.get(kind, 0) for kind in ("redo", "binlog")) if watched.fsyncs else None
            )
            seen = loaded.evidence
            if syncs is not None:
                seen = msgspec.structs.replace(seen, log_syncs=syncs)
            limit, rate = bound(seen), loaded.rows_per_s
            steps.append(
                Step(
                    name=name,
                    rows=loaded.counts.committed,
                    seconds=loaded.counts.seconds,
                    rows_per_s=rate,
                    ratio=_ratio(rate, steps),
                    bound_by=limit.what,
                    why=limit.why,
                )
            )
            times = f" ({steps[-1].times})" if steps[-1].times else ""
            say(f"{name}: {rate:,.0f} rows/s{times}, bound by {limit.what}")
    return tuple(steps)


def _ratio(rate: float, steps: Sequence[Step]) -> float | None:
    if not steps:
        return 1.0
    before = steps[-1].rows_per_s
    return rate / before if before else None


def _rungs(
    possible: choice.Possible, place: Destination | None, say: Callable[[str], None]
) -> Iterator[tuple[str, LoadMethod]]:
    """The rungs in their order; the server is made ready for each before it is yielded."""
    single = LoadMethod(method="single", connections=1, batch_rows=1, packet_bytes=possible.packet_bytes)
    yield "single connection", single
    yield f"pool of {POOL}", msgspec.structs.replace(single, connections=POOL)
    batched = LoadMethod(
        method="insert", connections=POOL, batch_rows=BATCH, packet_bytes=possible.packet_bytes
    )
    yield f"batches of {BATCH}", batched
    best = choice.first_way(possible, min(possible.connections, 4))
    yield "streamed LOAD DATA" if possible.load_data else "large batches", best
    if place is None:
        say("left out: buffer pool and flush policy, which are the server's own")
        return
    settings = place.fast[0]
    size = min(_LARGE_POOL, available_memory_bytes() // 2)
    now = place.server.read_back(["innodb_buffer_pool_size"])["innodb_buffer_pool_size"]
    if isinstance(now, int) and now < size:
        _apply(place, {"innodb_buffer_pool_size": size})
        yield f"buffer pool of {format_size(size)}", best
    commits = {name: settings[name] for name in _COMMITS if name in settings}
    _apply(place, commits)
    yield "flush policy", best
    if place.new and "innodb_doublewrite" in settings:
        place.quicken()
        yield "throwaway", best


_COMMITS = ("innodb_flush_log_at_trx_commit", "sync_binlog")


def _apply(place: Destination, settings: dict[str, Value]) -> None:
    place.server.apply(settings)
    place.server.query("SET GLOBAL local_infile = 1")
