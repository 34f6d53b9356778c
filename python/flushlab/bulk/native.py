"""Native: one load of a table's rows through the native loader, with what it was seen to cost.

Sits in `bulk`. The specs are JSON of what `crates/load/src/bulk/spec.rs` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from flushlab import _core
from flushlab.bulk.limits import SUMS, Counts, LimitEvidence, Throttle
from flushlab.errors import ServerError, UsageError
from flushlab.generate.plan import FillPlan
from flushlab.machine import MachineSample, between, cpu_count, sample
from flushlab.record import Endpoint
from flushlab.server.protocol import Server
from flushlab.telemetry import observation, status
from flushlab.workload.engine import native

Method = Literal["load-data", "insert", "prepared"]
SAMPLE_S = 0.2


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that one connection loads in their order; `id` is of its note, `end` the number behind the last
    row."""

    id: int
    first: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")


class TableLoad(msgspec.Struct, frozen=True, kw_only=True):
    """As `crates/load/src/bulk/spec.rs` reads it; `chunk_bytes`: 0 commits each statement by itself."""

    endpoint: Endpoint
    transport: str = "socket"
    ssl_mode: str = "disabled"
    ssl_ca: str = ""
    database: str
    plan: str
    table: str
    into: str
    method: Method
    connections: int
    ranges: tuple[Range, ...]
    batch_rows: int = 1_000_000
    packet_bytes: int = 256 << 10
    chunk_bytes: int = 64 << 20
    session: tuple[str, ...] = ()
    notes: str | None = None
    limit_seconds: float | None = None


Show = Callable[[Counts, LimitEvidence], None]


class MeasuredLoads:
    """A sample takes some milliseconds, as much as ten thousand rows, so there is none before and after each
    load."""

    def __init__(self, server: Server, throttle: Throttle | None = None) -> None:
        self._server = server
        self._throttle = throttle
        self._counts = Counts()
        self._begin = self._last = self._sample(self._counts)

    def run(self, spec: TableLoad, show: Show | None = None) -> Counts:
        server, throttle = self._server, self._throttle
        held = throttle is not None and throttle.holds() is not None  # asked first: it takes a while
        load = native(lambda: _core.FillRun(msgspec.json.encode(spec)), server)
        try:
            load.hold(held)
            while (done := native(lambda: load.wait(SAMPLE_S), server)) is None:
                if throttle is not None:
                    load.hold(throttle.holds() is not None)
                if show is not None:
                    counts = msgspec.json.decode(load.progress(), type=Counts)
                    now = self._sample(self._counts.plus(counts))
                    show(counts, _evidence(spec.connections, self._last, now))
                    self._last = now
        except BaseException as error:
            load.stop()
            if isinstance(error, ServerError) and error.hint is None and spec.notes:
                error.hint = "--continue loads what is missing"
            raise
        counts = msgspec.json.decode(done, type=Counts)
        self._counts = self._counts.plus(counts)
        return counts

    def loaded(self, connections: int) -> LimitEvidence:
        return _evidence(connections, self._begin, self._sample(self._counts))

    def _sample(self, counts: Counts) -> _Sample:
        waited = dict(self._throttle.waited) if self._throttle is not None else {}
        server = self._server
        return _Sample(counts, observation.cpu_times(server.pid), sample(), status.counters(server), waited)


def sample_rows(server: Server, plan: FillPlan, table: str, rows: Sequence[int]) -> str:
    try:
        return native(lambda: _core.sample_rows(plan.json.decode(), table, list(rows)), server)
    except UsageError as error:
        if error.message.endswith(_CTRL_C):
            raise KeyboardInterrupt from error
        raise


_CTRL_C = ": KeyboardInterrupt: "
"""How the text of a function's error ends that Ctrl-C ended."""


class _Sample(msgspec.Struct, frozen=True):
    counts: Counts
    cpu: observation.CpuTimes
    machine: MachineSample
    counters: dict[str, int]
    waited: dict[str, float]


def _evidence(connections: int, before: _Sample, now: _Sample) -> LimitEvidence:
    grown = {name: getattr(now.counts, name) - getattr(before.counts, name) for name in SUMS}
    deltas = status.deltas(before.counters, now.counters)
    then_s, now_s = before.cpu.server_s, now.cpu.server_s
    return LimitEvidence(
        **{**grown, "seconds": max(grown["seconds"], 1e-6)},
        notes=now.counts.notes,
        retried=now.counts.retried,
        cores=cpu_count(),
        connections=connections,
        server_cpu_s=None if then_s is None or now_s is None else now_s - then_s,
        log_syncs=deltas.get("Innodb_os_log_fsyncs"),
        pool_waits=deltas.get("Innodb_buffer_pool_wait_free", 0),
        io_share=between(before.machine, now.machine).io_pressure_share,
        held={what: seconds - before.waited.get(what, 0.0) for what, seconds in now.waited.items()},
        others_share=observation.foreign_share(
            before.cpu, now.cpu, now.machine.at_s - before.machine.at_s, cpu_count()
        ),
    )
