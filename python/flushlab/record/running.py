"""What a flushlab process is doing: what it tells whoever watches it.

Told over a socket that only its own user can open (`process.running`), never stored: endpoints have
passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record.load import Endpoint, LoadSeen, SslMode

RunningKind = Literal["tune", "series", "compare", "bench", "fill", "test", "crash"]


class WatchedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that stands for what runs.

    Attributes:
        key: unlike that of any other server of this process.
        arm: whose settings it has; empty where there are no arms.
        endpoint, transport, ssl_mode, ssl_ca: how it is reached.
        pids: of the processes of all its nodes, as far as they can be seen.
        driven_s: how long load has driven it; None where nobody knows when it is driven.
    """

    key: str
    endpoint: Endpoint
    arm: str = ""
    transport: Literal["socket", "tcp"] = "socket"
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
    pid: int | None = None
    pids: tuple[int, ...] = ()
    driven_s: float | None = None


class LoadSecond(msgspec.Struct, frozen=True, kw_only=True):
    """A second of load, or a slice.

    Attributes:
        number: grows by one.
        per_second: transactions, rows or statements.
        p50_ms, p99_ms: of the events that ended in it; None if there were none.
    """

    number: int
    arm: str
    per_second: float
    p50_ms: float | None = None
    p99_ms: float | None = None


class FillProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a load of rows is; `rows_by_table` counts all tables."""

    table: str
    rows: int
    total: int
    bytes: int
    rows_per_s: float
    left_s: float
    bound_by: str
    rows_by_table: Mapping[str, int] = {}


class RunningMark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that began; `number` grows by one."""

    number: int
    at: float
    kind: Literal["stage", "trial", "slice"]
    text: str


class ShownRatio(msgspec.Struct, frozen=True, kw_only=True):
    """A gain over the base that an interim analysis has proven, by the objective.

    `early`: later analyses follow."""

    arm: str
    low: float
    mid: float
    high: float
    early: bool
    objective: Literal["throughput", "p99", "latency"] = "throughput"


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What runs.

    Attributes:
        kind, campaign, server, workload, floor: what was asked for.
        began: Unix time.
        arm, stage, round, trial, left_s: of the current measurement; `trial` counts from 1.
        servers: the servers that run, the base's first; the one that is driven is of the arm `arm`.
        pids: processes of all servers.
        seconds: the latest.
        trial_results: of each arm's last trial.
        ratios: proven so far.
        marks: the latest.
    """

    kind: RunningKind
    campaign: str = ""
    server: str = ""
    workload: str = ""
    floor: str = ""
    pid: int
    began: float
    arm: str = ""
    stage: str = ""
    round: int | None = None
    trial: int = 0
    left_s: float | None = None
    servers: tuple[WatchedServer, ...] = ()
    pids: tuple[int, ...] = ()
    unit: str = ""
    seconds: tuple[LoadSecond, ...] = ()
    totals: LoadSeen = LoadSeen()
    trial_results: Mapping[str, float] = {}
    fill: FillProgress | None = None
    ratios: tuple[ShownRatio, ...] = ()
    marks: tuple[RunningMark, ...] = ()
