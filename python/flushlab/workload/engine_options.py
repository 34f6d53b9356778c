"""Engine options: schedule, connections and seed of every workload that the load engine drives."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, cast

import msgspec

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.record import Endpoint, LoadSpec, NodesLoadSpec, SslMode, Value
from flushlab.workload.options import RATE, OptionInfo
from flushlab.workload.protocol import Reset, Workload

OPTIONS = (
    RATE,
    OptionInfo(
        name="rate_kind",
        kind="word",
        default="constant",
        words=("constant", "poisson"),
        help="How a rate's events are spaced: evenly, or at random as from many independent users.",
    ),
    OptionInfo(
        name="profile",
        kind="text",
        default="",
        help="A rate that changes: ramp:100-5000/60s, step:1000,2000,4000/10s or burst:1000-5000/1s/10s.",
    ),
    OptionInfo(
        name="client_sched",
        kind="word",
        default="batch",
        words=("batch", "normal"),
        help="How the kernel schedules the client's thread: batch (SCHED_BATCH) or normal.",
    ),
    OptionInfo(
        name="reconnect",
        kind="switch",
        default="off",
        help="On: a lost connection is counted and reopened; off: it ends the load.",
    ),
    OptionInfo(
        name="cluster_load",
        kind="word",
        default="one",
        words=("one", "spread", "failover"),
        help="Where connections to a cluster go: one node, spread over all, or to the first that takes them.",
    ),
)

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


def require_cluster(cluster_load: object, nodes: int) -> None:
    """Refuses to drive a single server's nodes.

    Raises:
        UsageError: connections are to go to several nodes, and there is one server.
    """
    if cluster_load != "one" and nodes == 1:
        raise UsageError(
            f"--cluster-load {cluster_load} needs a cluster, but there is one server",
            hint="remove it, or use --cluster 3",
        )


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of workloads that the engine drives; see `flushlab.record.LoadSpec`.

    Attributes:
        threads: connections.
        transport: `socket` or `tcp`.
        ssl_mode, ssl_ca: TLS over `tcp`.
        seed: of the rows, keys and draws.
        rate, rate_kind, profile: when events are due; none of them: a closed loop.
        client_sched: `batch` or `normal`.
        reconnect: `on` or `off`.
        cluster_load: `one`, `spread` or `failover`, which reconnects.
        hdr_log, per_second: files that each second is written to as it ends.
    """

    reset: ClassVar[Reset] = "each"

    threads: int = 16
    transport: Literal["socket", "tcp"] = "socket"
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
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
        """What the engine is told: these options, and `what` is to be done as further fields."""
        kind: Callable[..., LoadSpec] = LoadSpec
        if self.cluster_load != "one":
            kind, what = NodesLoadSpec, {**what, "cluster_load": self.cluster_load}
        return kind(
            endpoint=endpoint,
            threads=self.threads,
            transport=self.transport,
            ssl_mode=self.ssl_mode,
            ssl_ca=self.ssl_ca,
            seed=self.seed,
            rate=self.rate,
            rate_kind=self.rate_kind,
            profile=self.profile,
            client_sched=self.client_sched,
            reconnect=self.reconnect == "on" or self.cluster_load == "failover",
            hdr_log=self.hdr_log,
            per_second=self.per_second,
            **what,
        )


def drawing(workload: Workload, number: int) -> Workload:
    """The workload with other draws for each number, 0 for its own.

    Loads that change the same data need it: of two with the same draws, the second one finds every row as it
    is to be, and a transaction that changes nothing costs next to nothing.
    """
    if not isinstance(workload, EngineOptions):
        return workload
    return cast(Workload, msgspec.structs.replace(workload, seed=workload.seed + number))


def reaching(workload: EngineOptions, transport: str, ssl_mode: SslMode, ssl_ca: str) -> Workload:
    """The workload with connections of that kind."""
    found = msgspec.structs.replace(workload, transport=transport, ssl_mode=ssl_mode, ssl_ca=ssl_ca)
    return cast(Workload, found)


def seeded(workload: Workload, seed: int | None) -> Workload:
    """The workload with the draws of that seed; with some of its own for data that earlier runs may have
    changed, if None.

    Raises:
        UsageError: the engine draws nothing for it.
    """
    if isinstance(workload, EngineOptions):
        return cast(
            Workload,
            msgspec.structs.replace(workload, seed=secrets.randbelow(_SEEDS) if seed is None else seed),
        )
    if seed is not None:
        raise UsageError(f"{workload.name} takes no --seed", hint="remove it")
    return workload
