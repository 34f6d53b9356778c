"""Probes as tests need them: the record of a disk whose figures are round."""

from __future__ import annotations

from typing import Any

import msgspec

from flushlab.probe.reading import headline, read
from flushlab.record import (
    BinlogStrategy,
    Ceiling,
    CommitLatency,
    DiskLatency,
    DiskResult,
    Machine,
    Medium,
    ProbeRecord,
    RefusedStrategy,
    RoundCost,
    ServerRate,
    Share,
    Switching,
    SwitchPhase,
    Warning,
)

MEDIUM = Medium(
    directory="/srv/data",
    filesystem="xfs",
    device="nvme0n1p2",
    disk="nvme0n1",
    scheduler="none",
    rotational=False,
    volatile_cache=True,
    logical_block_bytes=4096,
    free_bytes=50 << 30,
)
MACHINE = Machine(
    cpu_model="AMD EPYC",
    cpu_count=2,
    memory_bytes=16 << 30,
    kernel="6.1.0",
    filesystem="xfs",
    device="nvme0n1p2",
)


def disk_result(way: str = "fdatasync", p50: float = 500.0, **changes: Any) -> DiskResult:
    """4 KiB, over written blocks, one after the other, unless told otherwise."""
    facts: dict[str, Any] = {
        "way": way,
        "bytes": 4096,
        "layout": "written",
        "order": "sequential",
        "depth": 1,
        "operations_per_s": 1e6 / p50,
        "latency_us": DiskLatency(p50=p50, p99=3 * p50, max=10 * p50),
        "operations": 400,
        "seconds": 0.2,
        "file_bytes": 64 << 20,
    }
    return DiskResult(**{**facts, **changes})


def ceiling(
    pair: str, strategy: BinlogStrategy, threads: int, commits_per_s: float, **changes: Any
) -> Ceiling:
    """A cell of the matrix: `ceiling("1/1", "serial", 64, 20_000)`."""
    trx_commit, sync_binlog = map(int, pair.split("/"))
    facts: dict[str, Any] = {
        "trx_commit": trx_commit,
        "sync_binlog": sync_binlog,
        "binlog_strategy": strategy,
        "threads": threads,
        "commits_per_s": commits_per_s,
        "latency_us": CommitLatency(p50=threads * 1e6 / commits_per_s, p99=3e6 * threads / commits_per_s),
        "group_size": threads / 2 + 0.5,
        "fsyncs_per_s": 0.9,
        "bytes_at_risk": 0,
        "noise": 0.01,
        "cpu_us_per_commit": 10.0,
        "ordered_ns_per_commit": 400.0,
        "encode_ns_per_commit": 350.0,
        "seconds": 1.15,
    }
    return Ceiling(**{**facts, **changes})


def server_rate(
    pair: str, strategy: BinlogStrategy, commits_per_s: float, *ratio: float, **changes: Any
) -> ServerRate:
    """As in a server with 64 connections: `server_rate("1/1", "redo", 9_000, 1.5, 1.4, 1.6)`."""
    facts = msgspec.structs.asdict(ceiling(pair, strategy, 64, commits_per_s))
    mean, low, high = ratio or (1.0, None, None)
    facts |= {"own_us": 60.0, "rounds": 5, "ratio": mean, "ratio_low": low, "ratio_high": high}
    facts |= {"cpu_us_per_commit": 70.0, **changes}
    single_ns = facts["ordered_ns_per_commit"]
    if single_ns is not None:
        costs = (0.9, 1.0, 1.1, 1.0, 1.0)
        facts["round_costs"] = tuple(RoundCost(cpu_us=70.0, single_ns=one * single_ns) for one in costs)
    return ServerRate(**facts)


SERVERS = (
    server_rate("1/1", "serial", 9_000),
    server_rate("1/1", "redo", 13_500, 1.5, 1.42, 1.58),
    server_rate("1/1", "two-syncs", 9_450, 1.05, 0.98, 1.12),
    server_rate("2/1000", "serial", 28_000, ordered_ns_per_commit=3_000.0),
    server_rate("2/1000", "parallel", 28_600, 1.02, 1.01, 1.04),
)
DISK = (
    disk_result("fdatasync", 500.0),
    disk_result("pair", 1000.0, bytes=512),
    disk_result("direct", 40.0),
    disk_result(
        "direct_dsync", bytes=512, operations_per_s=0.0, latency_us=None, operations=0, seconds=0.0,
        refused="not possible: the device's logical block has 4,096 bytes",
    ),
    disk_result("fdatasync", 1000.0, layout="extending"),
    disk_result("direct", 80.0, bytes=16384, order="random"),
    disk_result("direct", 400.0, bytes=16384, order="random", depth=16, operations_per_s=40_000.0),
)  # fmt: skip
CEILINGS = (
    ceiling("1/1", "serial", 1, 950, fsyncs_per_s=1900),
    ceiling("1/1", "redo", 1, 1_850, fsyncs_per_s=1850),
    ceiling("1/1", "serial", 64, 21_040, fsyncs_per_s=1960),
    ceiling("1/1", "redo", 64, 39_000, fsyncs_per_s=1900),
    ceiling("2/1000", "serial", 1, 61_000, bytes_at_risk=40 << 20),
    ceiling("2/1000", "parallel", 1, 60_000, bytes_at_risk=40 << 20),
    ceiling("2/1000", "serial", 64, 150_000, bytes_at_risk=100 << 20, ordered_ns_per_commit=3_000.0),
    ceiling("2/1000", "parallel", 64, 240_000, bytes_at_risk=160 << 20),
)
REFUSED = (
    RefusedStrategy(
        trx_commit=1,
        sync_binlog=1,
        binlog_strategy="parallel",
        reason="binlog strategy parallel contradicts sync_binlog=1: it acknowledges a commit before the"
        " binlog is synced",
    ),
)
SHARE = Share(
    trial="tune-20261121-104206-79a6:12",
    server="mysql@9.7.0",
    trx_commit=2,
    sync_binlog=1000,
    threads=64,
    commits_per_s=30_000,
    ceiling_per_s=150_000,
    best_strategy="parallel",
    best_per_s=240_000,
    share=0.2,
    warnings=(Warning("client-bound", "base: the client is the limit, not the server"),),
)


SWITCHING = Switching(
    trx_commit=2,
    sync_binlog=1000,
    threads=64,
    phases=(
        SwitchPhase(binlog_strategy="serial", switch_us=0, seconds=0.4, commits=60_000),
        SwitchPhase(binlog_strategy="parallel", switch_us=320.0, seconds=0.4, commits=96_000),
        SwitchPhase(binlog_strategy="serial", switch_us=180.0, seconds=0.4, commits=59_000),
    ),
    longest_commit_us=4_200.0,
    transactions=221_000,
    binlog_is_whole=True,
)


def probe_record(**changes: Any) -> ProbeRecord:
    """A whole one, with the reading that follows from its figures."""
    facts: dict[str, Any] = {
        "started_at": "2026-11-21T10:42:06+00:00",
        "seconds": 14.2,
        "quick": True,
        "machine": MACHINE,
        "medium": MEDIUM,
        "flushlab": "0.1.0",
        "disk": DISK,
        "servers": SERVERS,
        "ceilings": CEILINGS,
        "refused": REFUSED,
        "warnings": (Warning("disturbed", "12% of the CPU time was used by other programs"),),
    }
    record = ProbeRecord(**{**facts, **changes})
    return msgspec.structs.replace(record, headline=headline(record), reading=read(record))
