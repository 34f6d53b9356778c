"""Engine options: schedule, connections and seed of every workload that the load engine drives."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

import msgspec

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.record import Endpoint, LoadSpec, RandSpec, SslMode, Value
from flushlab.server.protocol import Server
from flushlab.workload import engine
from flushlab.workload.options import (
    CONNECTING,
    RAND,
    RAND_TYPE,
    RATE,
    TABLE_SIZE,
    TABLES,
    THREADS,
    switch_option,
    text_option,
    word_option,
)
from flushlab.workload.protocol import Driving, Measured, Reset, Timing, Window, Workload

OPTIONS = (
    RATE,
    word_option(
        "rate_kind",
        "constant",
        ("constant", "poisson"),
        "How a rate's events are spaced: evenly, or at random as from many independent users.",
    ),
    text_option(
        "profile",
        "",
        "A rate that changes: ramp:100-5000/60s, step:1000,2000,4000/10s or burst:1000-5000/1s/10s.",
    ),
    word_option(
        "client_sched",
        "batch",
        ("batch", "normal"),
        "How the kernel schedules the client's thread: batch (SCHED_BATCH) or normal.",
    ),
    switch_option(
        "reconnect", "off", "On: a lost connection is counted and reopened; off: it ends the load."
    ),
    word_option(
        "cluster_load",
        "one",
        ("one", "spread", "failover"),
        "Where connections to a cluster go: one node, spread over all, or to the first that takes them.",
    ),
)

ON_TABLES = (THREADS, TABLES, TABLE_SIZE, *CONNECTING, RAND_TYPE, *RAND, *OPTIONS)
"""Of workloads on tables of their own."""

_SEEDS = 1 << 31


def check_schedule(options: Mapping[str, Value]) -> None:
    """Refuses settled OPTIONS that make no schedule, before there is a server.

    Raises:
        UsageError: they do not.
    """
    try:
        _core.check_schedule(float(options["rate"]), str(options["profile"]), str(options["rate_kind"]))
    except _core.CoreError as error:
        raise UsageError(error.message, hint=error.hint) from error


class EngineOptions(engine.Connected, frozen=True, kw_only=True):
    """The options of workloads that the engine drives; see `flushlab.record.LoadSpec`.

    Attributes:
        threads: connections.
        seed: of the rows, keys and draws.
        rate, rate_kind, profile: when events are due; none of them: a closed loop.
        client_sched: `batch` or `normal`.
        reconnect: `on` or `off`.
        cluster_load: `one`, `spread` or `failover`, which reconnects.
        hdr_log, per_second: files that each second is written to as it ends.
    """

    reset: ClassVar[Reset] = "each"

    threads: int = 16
    seed: int = 1
    rate: float = 0.0
    rate_kind: Literal["constant", "poisson"] = "constant"
    profile: str = ""
    client_sched: Literal["batch", "normal"] = "batch"
    reconnect: str = "off"
    cluster_load: Literal["one", "spread", "failover"] = "one"
    hdr_log: str = ""
    per_second: str = ""

    @property
    def slice_s(self) -> float | None:
        """Any; but a profile, and files of its seconds, take a window in one piece."""
        return None if self.profile or self.hdr_log or self.per_second else 0.0

    def load(self, endpoint: Endpoint, **what: Any) -> LoadSpec:
        """The engine's input: these options, and `what` as further fields."""
        fields = {name: getattr(self, name) for name in EngineOptions.__struct_fields__} | what
        fields["reconnect"] = self.reconnect == "on" or self.cluster_load == "failover"
        return LoadSpec(endpoint=endpoint, **fields)

    def driving(self, server: Server) -> Driving:
        """As of `Workload.driving`."""
        raise NotImplementedError

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Reads its data, warms up until throughput is level, measures one window."""
        return engine.drive(self.driving(server), server, timing, window)


class TableOptions(EngineOptions, frozen=True, kw_only=True):
    """The options of workloads on tables of their own. Rows are drawn by sysbench's distributions.

    Attributes:
        tables, table_size: number of tables and of their rows.
        rand_type: the distribution.
        rand_spec_iter, rand_spec_pct, rand_spec_res: of `special`; the first also of `gaussian`.
        rand_pareto_h: of `pareto`.
        rand_zipfian_exp: of `zipfian`.
    """

    tables: int = 8
    table_size: int = 10_000
    rand_type: str = "special"
    rand_spec_iter: int = 12
    rand_spec_pct: int = 1
    rand_spec_res: int = 75
    rand_pareto_h: float = 0.2
    rand_zipfian_exp: float = 0.8

    @property
    def rand(self) -> RandSpec:
        """The parameters as the engine takes them."""
        return RandSpec(**{name: getattr(self, f"rand_{name}") for name in RandSpec.__struct_fields__})

    def load(self, endpoint: Endpoint, **what: Any) -> LoadSpec:
        """As above, with the tables and how rows are drawn."""
        fields = {name: getattr(self, name) for name in ("tables", "table_size", "rand_type", "rand")}
        return super().load(endpoint, **fields, **what)


def drawing(workload: Workload, number: int) -> Workload:
    """The workload with other draws for each number, 0 for its own.

    Loads that change the same data need different draws. With the same draws, the second load would find
    every row already changed, and a transaction that changes nothing costs next to nothing.
    """
    if not isinstance(workload, EngineOptions):
        return workload
    return _with(workload, seed=workload.seed + number)


def reaching(workload: EngineOptions, transport: str, ssl_mode: SslMode, ssl_ca: str) -> Workload:
    """The workload with connections of that kind."""
    return _with(workload, transport=transport, ssl_mode=ssl_mode, ssl_ca=ssl_ca)


def seeded(workload: Workload, seed: int | None) -> Workload:
    """The workload with the draws of that seed; with some of its own for data that earlier runs may have
    changed, if None.

    Raises:
        UsageError: the engine draws nothing for it.
    """
    if isinstance(workload, EngineOptions):
        return _with(workload, seed=secrets.randbelow(_SEEDS) if seed is None else seed)
    if seed is not None:
        raise UsageError(f"{workload.name} takes no --seed", hint="remove it")
    return workload


def _with(workload: EngineOptions, **changes: object) -> Workload:
    return cast(Workload, msgspec.structs.replace(workload, **changes))
