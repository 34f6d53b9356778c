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
    """`pids`: of all its nodes, as far as they can be seen; `driven_s`: None where nobody knows when it is
    driven."""

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
    """Latencies are of the events that ended in it; None if there were none."""

    number: int
    arm: str
    per_second: float
    p50_ms: float | None = None
    p99_ms: float | None = None


class FillProgress(msgspec.Struct, frozen=True, kw_only=True):
    table: str
    rows: int
    total: int
    bytes: int
    rows_per_s: float
    left_s: float
    bound_by: str
    rows_by_table: Mapping[str, int] = {}


class RunningMark(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    at: float
    kind: Literal["stage", "trial", "slice"]
    text: str


class ShownRatio(msgspec.Struct, frozen=True, kw_only=True):
    arm: str
    low: float
    mid: float
    high: float
    early: bool
    objective: Literal["throughput", "p99", "latency"] = "throughput"


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """`began`: Unix time; `servers`: the base's first; `ratios`: proven so far."""

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
