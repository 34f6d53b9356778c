"""Method comparison: the rate of each load method, from one row per statement to the fastest settings.

Sits in `bulk`. Each method loads an empty scratch table for a few seconds. The first four methods differ in
the client; the others change the server and are left out unless the server is a sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from flushlab.bulk import choice, native
from flushlab.bulk.bound import bound
from flushlab.bulk.destinations import Destination
from flushlab.bulk.filled import LoadMethod, Step
from flushlab.bulk.native import Range, TableLoad
from flushlab.bulk.tables import own_table
from flushlab.generate.plan import PlanTable
from flushlab.machine import available_memory_bytes
from flushlab.progress import Progress
from flushlab.record import Value
from flushlab.server import Sandbox
from flushlab.telemetry import activity
from flushlab.units import format_size

_SCRATCH = "flushlab_probe"
_COMMITS = ("innodb_flush_log_at_trx_commit", "sync_binlog")
SECONDS = 8.0
POOL = 18
BATCH = 50
_LARGE_POOL = 1 << 30


def compare(
    place: Destination,
    table: PlanTable,
    rows: int,
    spec: Callable[[PlanTable, LoadMethod, tuple[Range, ...]], TableLoad],
    possible: choice.Possible,
    say: Progress,
) -> tuple[Step, ...]:
    """Loads `rows` rows of the table with each method; `spec` gives the load of a table for a method."""
    steps: list[Step] = []
    server = place.server
    with own_table(server, place.database, _SCRATCH, table.name) as scratch:
        for name, method in _methods(possible, place, say):
            server.query(f"TRUNCATE TABLE {scratch}")
            one = spec(table, method, choice.split(0, rows, method.connections))
            one = msgspec.structs.replace(one, into=scratch, notes=None, limit_seconds=SECONDS)
            if method.kind == "insert":
                one = msgspec.structs.replace(one, chunk_bytes=0)
            watched, loads = activity.Watched(), native.MeasuredLoads(server)
            with activity.watch(server, watched):
                loads.run(one)
                loaded = loads.loaded(one.connections)
            seen = loaded.evidence
            if watched.fsyncs:
                syncs = sum(watched.fsyncs.get(kind, 0) for kind in ("redo", "binlog"))
                seen = msgspec.structs.replace(seen, log_syncs=syncs)
            limit, rate = bound(seen), loaded.rows_per_s
            step = Step(
                name=name,
                rows=loaded.counts.committed,
                seconds=loaded.counts.seconds,
                rows_per_s=rate,
                ratio=_ratio(rate, steps),
                bound_by=limit.what,
                why=limit.why,
            )
            steps.append(step)
            times = f" ({step.times})" if step.times else ""
            say(f"{name}: {rate:,.0f} rows/s{times}, bound by {limit.what}")
    return tuple(steps)


def _ratio(rate: float, steps: Sequence[Step]) -> float | None:
    if not steps:
        return 1.0
    before = steps[-1].rows_per_s
    return rate / before if before else None


def _methods(
    possible: choice.Possible, place: Destination, say: Progress
) -> Iterator[tuple[str, LoadMethod]]:
    """Methods in their order, each with its name; the server is prepared before a method is yielded."""
    single = LoadMethod(kind="single", connections=1, batch_rows=1, packet_bytes=possible.packet_bytes)
    yield "single connection", single
    yield f"pool of {POOL}", msgspec.structs.replace(single, connections=POOL)
    batched = LoadMethod(
        kind="insert", connections=POOL, batch_rows=BATCH, packet_bytes=possible.packet_bytes
    )
    yield f"batches of {BATCH}", batched
    best = choice.first_method(possible, min(possible.connections, 4))
    yield "streamed LOAD DATA" if possible.load_data else "large batches", best
    if not isinstance(place.server, Sandbox):
        say("left out: buffer pool and flush policy, which are the server's own")
        return
    size = min(_LARGE_POOL, available_memory_bytes() // 2)
    now = place.server.read_back(["innodb_buffer_pool_size"])["innodb_buffer_pool_size"]
    if isinstance(now, int) and now < size:
        _apply(place.server, {"innodb_buffer_pool_size": size})
        yield f"buffer pool of {format_size(size)}", best
    _apply(place.server, {name: place.fast[name] for name in _COMMITS if name in place.fast})
    yield "flush policy", best
    if "innodb_doublewrite" in place.fast:  # a sandbox that was made for these rows: it may be restarted
        place.quicken()
        yield "throwaway", best


def _apply(server: Sandbox, settings: dict[str, Value]) -> None:
    server.apply(settings)
    server.query("SET GLOBAL local_infile = 1")
