"""Probe: what a disk allows, as frozen facts."""

from __future__ import annotations

from typing import Literal

import msgspec

from flushlab.record.arm import Warning
from flushlab.record.machine import Machine

Way = Literal["fsync", "fdatasync", "dsync", "direct_dsync", "direct", "pair"]

Layout = Literal["written", "allocated", "extending"]

Order = Literal["sequential", "random"]

BinlogStrategy = Literal["serial", "parallel", "redo", "two-syncs"]
"""How redo and binlog of a group reach the disk; see docs/how-to/probe.md."""


class Medium(msgspec.Struct, frozen=True, kw_only=True):
    """The place that was probed, as the kernel reports it.

    Attributes:
        directory: absolute path.
        filesystem: type, as the kernel names it.
        in_memory: whether the contents are lost in an OS crash.
        options: mount options that affect durability, as the kernel spells them.
        device: the block device, a partition included, or None.
        disk: the whole disk, or None.
        scheduler: I/O scheduler of the disk, or None.
        rotational: a spinning disk, for the kernel; None if unknown, or if a virtual disk says so.
        volatile_cache: the disk reports a volatile write cache; None if unknown.
        logical_block_bytes: smallest write that the disk takes, or None.
        free_bytes: free space before the probe.
    """

    directory: str
    filesystem: str
    in_memory: bool = False
    options: tuple[str, ...] = ()
    device: str | None = None
    disk: str | None = None
    scheduler: str | None = None
    rotational: bool | None = None
    volatile_cache: bool | None = None
    logical_block_bytes: int | None = None
    free_bytes: int = 0


class DiskLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Latency of one operation, its sync included, in microseconds.

    Attributes:
        p50, p99, max: median, 99th percentile and maximum.
    """

    p50: float
    p99: float
    max: float


class DiskResult(msgspec.Struct, frozen=True, kw_only=True):
    """One way of writing to the disk.

    Attributes:
        way: `fsync`, `fdatasync`: after each write; `dsync`: file open with O_DSYNC; `direct_dsync`: O_DIRECT
            and O_DSYNC; `pair`: fdatasync of a redo log and a binlog, one after the other; `direct`
            (O_DIRECT): no flush, nothing is durable.
        bytes: size of one write.
        layout: `written`: over blocks written before; `allocated`: over blocks reserved by fallocate;
            `extending`: the file grows.
        order: `sequential` or `random`.
        depth: writes in flight.
        operations_per_s: writes with their syncs; 0 if refused.
        latency_us: None if refused.
        operations: number of writes measured.
        seconds: length of the window.
        file_bytes: size of the file that was written over.
        refused: why this is not possible here (no O_DIRECT, a block smaller than the device's); else empty.
    """

    way: Way
    bytes: int
    layout: Layout
    order: Order
    depth: int
    operations_per_s: float = 0.0
    latency_us: DiskLatency | None = None
    operations: int = 0
    seconds: float = 0.0
    file_bytes: int = 0
    refused: str = ""


class CommitLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Latency of a commit, from its request to its acknowledgement, in microseconds.

    Attributes:
        p50, p99: median and 99th percentile.
    """

    p50: float
    p99: float


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """The disk's ceiling: what one or two threads reach that drive all connections.

    Attributes:
        trx_commit: `innodb_flush_log_at_trx_commit`.
        sync_binlog: as the server spells it.
        binlog_strategy: `serial`, `parallel`, `redo` or `two-syncs`; see [the guide](../how-to/probe.md).
        threads: connections, each with one commit under way.
        commits_per_s: acknowledged in the window.
        latency_us: of a commit.
        group_size: commits that went to the disk together, on average.
        fsyncs_per_s: of redo log and binlog.
        bytes_at_risk: the most that was acknowledged but not synced at any moment: an OS crash would have
            lost it.
        noise: standard error of `commits_per_s` as a share of it, from the window's slices; None if unknown.
        cpu_us_per_commit: user and system time of the whole path, polling included; None if unknown.
        ordered_ns_per_commit: time that only one thread can spend; None if unknown.
        encode_ns_per_commit: time that goes into the events themselves; None if unknown.
        write_ns_per_commit: time of handing the binlog to the kernel, one thread at a time; None if unknown.
        seconds: length of the window.
    """

    trx_commit: int
    sync_binlog: int
    binlog_strategy: BinlogStrategy
    threads: int
    commits_per_s: float
    latency_us: CommitLatency
    group_size: float
    fsyncs_per_s: float
    bytes_at_risk: int
    noise: float | None = None
    cpu_us_per_commit: float | None = None
    ordered_ns_per_commit: float | None = None
    encode_ns_per_commit: float | None = None
    write_ns_per_commit: float | None = None
    seconds: float = 0.0


class RoundCost(msgspec.Struct, frozen=True, kw_only=True):
    """Costs of a commit in one round.

    Attributes:
        cpu_us: processor time, the server's own included.
        single_ns: the part of it that only one thread at a time can spend.
    """

    cpu_us: float
    single_ns: float


class ServerRate(Ceiling, frozen=True, kw_only=True):
    """As in a server: a thread per connection spends the server's own time before each commit, then sleeps.

    Rates and latencies are those of the median round, the ratio is of all rounds.

    Attributes:
        own_us: processor time before each commit.
        ratio: commits/s ÷ those of `serial` in the same round, geometric mean; 1 for `serial`.
        ratio_low, ratio_high: its 95 % interval (Student's t of the logarithms); None for `serial`.
        rounds: pairs of runs.
        round_costs: of each round; empty if one of them is unknown.
    """

    own_us: float
    ratio: float
    ratio_low: float | None = None
    ratio_high: float | None = None
    rounds: int
    round_costs: tuple[RoundCost, ...] = ()


class RefusedStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """A binlog write strategy that the sync settings do not permit.

    Attributes:
        trx_commit, sync_binlog, binlog_strategy: the combination.
        reason: the rule that it breaks.
    """

    trx_commit: int
    sync_binlog: int
    binlog_strategy: BinlogStrategy
    reason: str


class SwitchPhase(msgspec.Struct, frozen=True, kw_only=True):
    """The commits under one binlog write strategy of a run that switches.

    Attributes:
        binlog_strategy: the strategy.
        switch_us: how long the switch to it took, commits going on; 0 for the first.
        seconds: length.
        commits: acknowledged in it.
    """

    binlog_strategy: BinlogStrategy
    switch_us: float
    seconds: float
    commits: int


class Switching(msgspec.Struct, frozen=True, kw_only=True):
    """A run in which the binlog write strategy changed while threads committed.

    Attributes:
        trx_commit, sync_binlog, threads: the run's.
        phases: in their order.
        longest_commit_us: from the request to the acknowledgement, over all phases: no stop was longer.
        transactions: in the binlog.
        binlog_is_whole: the strict checker finds them all in its files, without a gap in the GTIDs.
    """

    trx_commit: int
    sync_binlog: int
    threads: int
    phases: tuple[SwitchPhase, ...]
    longest_commit_us: float
    transactions: int
    binlog_is_whole: bool


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A measured server and the ceiling at its sync settings.

    Attributes:
        trial: what was measured: a trial of the store, or a short bench.
        server: `mysql@9.7.0`.
        trx_commit, sync_binlog, threads: as the trial ran.
        commits_per_s: of the server.
        ceiling_per_s: the disk's, with the same sync settings, as many connections and strategy `serial`.
        best_strategy: the binlog write strategy with the highest ceiling at these sync settings.
        best_per_s: the ceiling.
        share: `commits_per_s / ceiling_per_s`.
        warnings: caveats about the comparison.
    """

    trial: str
    server: str
    trx_commit: int
    sync_binlog: int
    threads: int
    commits_per_s: float
    ceiling_per_s: float
    best_strategy: BinlogStrategy
    best_per_s: float
    share: float
    warnings: tuple[Warning, ...] = ()


class ProbeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one probe found.

    Attributes:
        started_at: ISO 8601, UTC.
        seconds: wall time.
        quick: the short matrix with short windows.
        command: the command line that repeats it.
        machine: of the measurement.
        medium: the place.
        flushlab: version.
        disk: rates and latencies of small writes.
        servers: commits/s as in a server, per sync settings and binlog write strategy.
        ceilings: the disk's ceiling per sync settings, binlog write strategy and connections.
        refused: binlog write strategies that the sync settings do not permit.
        switches: runs that switched the binlog write strategy live, with `--switch`.
        against: measured servers beside their ceilings.
        headline: the answer in one line.
        reading: the answer in plain words, a sentence or a few for each subject.
        warnings: caveats about the disk and about the results.
    """

    started_at: str
    seconds: float
    quick: bool
    machine: Machine
    medium: Medium
    flushlab: str
    disk: tuple[DiskResult, ...] = ()
    servers: tuple[ServerRate, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    refused: tuple[RefusedStrategy, ...] = ()
    switches: tuple[Switching, ...] = ()
    against: tuple[Share, ...] = ()
    headline: str = ""
    command: str = "flushlab probe"
    reading: tuple[str, ...] = ()
    warnings: tuple[Warning, ...] = ()
