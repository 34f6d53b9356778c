"""Scaling: the rate that a commit path would reach on more processors than this machine has. Pure.

Probe layer. The model is the universal scalability law (Gunther, "Guerrilla Capacity Planning", 2007).
Its term for coherence is left out, as one or two processors do not show coherence costs.

- T is the processor time of a commit; S is the part of T that only one thread at a time can spend.
- N processors reach N / (T + (N - 1) S): one processor 1/T, any number less than 1/S.
- S is measured: the longer of two stations in a row, the ordered section and the handover of the binlog to
  the kernel.

- Where every group is synced, the disk's syncs/s alone bound the gain: a write waits for the sync of its
  file, so S cannot be measured there. `serial` needs a pair of syncs, `redo` one sync of a file that is
  overwritten, `two-syncs` one of a file that grows.

Real machines stay below: caches and locks cost more with every processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from flushlab.probe.servers import ratio
from flushlab.probe.sync_settings import SyncSettings
from flushlab.record import BinlogStrategy, DiskResult, ProbeRecord, ServerRate

PROCESSORS = (1, 2, 4, 8, 16, 32, 64, 128)

STORY_PROCESSORS = (16, 64)
STORY_GAIN = (1.10, 1.30)
"""Binlog Parallel Flush as published (documentation of ApsaraDB RDS for MySQL, 2026-03): 10 to 30 % more
transactions/s on 16 and 64 processors, innodb_flush_log_at_trx_commit=2, sync_binlog=1000."""


OWN_FACTORS = (0.5, 1.0, 2.0)
"""The server's own time is an assumption: a gain's interval holds half of it and twice of it."""


class CommitCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one commit costs.

    Attributes:
        binlog_strategy: how the binlog reaches its file.
        cpu_ns: processor time, of all threads together.
        single_ns: the part of it that one thread at a time can spend.
    """

    binlog_strategy: BinlogStrategy
    cpu_ns: float
    single_ns: float

    def commits_per_s(self, processors: int, own_us: float = 0.0) -> float:
        """The ceiling on so many processors.

        Args:
            processors: 1 or more.
            own_us: a server's own processor time per transaction besides; it runs in parallel.
        """
        whole_ns = self.cpu_ns + own_us * 1000
        return 1e9 * processors / (whole_ns + (processors - 1) * self.single_ns)


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """One binlog write strategy over numbers of processors.

    Attributes:
        trx_commit, sync_binlog, threads: of the cell that it comes from.
        cost: of a commit there.
        own_us: the server's own time per commit.
        commits_per_s: the rate on each of `PROCESSORS`.
    """

    trx_commit: int
    sync_binlog: int
    threads: int
    own_us: float
    cost: CommitCost
    commits_per_s: tuple[float, ...]


def curves(servers: Iterable[ServerRate]) -> tuple[Curve, ...]:
    """A curve for each binlog write strategy at the first sync settings that permit `parallel`."""
    cells = [one for one in servers if cost_of(one) is not None]
    first = next((one for one in cells if one.binlog_strategy == "parallel"), None)
    if first is None:
        return ()
    settings = (first.trx_commit, first.sync_binlog)
    here = [one for one in cells if (one.trx_commit, one.sync_binlog) == settings]
    most = max(one.threads for one in here)
    return tuple(
        Curve(
            trx_commit=one.trx_commit,
            sync_binlog=one.sync_binlog,
            threads=one.threads,
            own_us=one.own_us,
            cost=cost,
            commits_per_s=tuple(cost.commits_per_s(processors, one.own_us) for processors in PROCESSORS),
        )
        for one in here
        if one.threads == most and (cost := cost_of(one)) is not None
    )


def cost_of(one: ServerRate) -> CommitCost | None:
    """What a commit of this cell costs besides the server's own time; None if that was not measured."""
    if not one.cpu_us_per_commit or not one.ordered_ns_per_commit:
        return None
    single_ns = max(one.ordered_ns_per_commit, one.write_ns_per_commit or 0.0)
    cpu_ns = max(0.0, one.cpu_us_per_commit - one.own_us) * 1000
    return CommitCost(binlog_strategy=one.binlog_strategy, cpu_ns=max(cpu_ns, single_ns), single_ns=single_ns)


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """Computed gain of a binlog write strategy over `serial` on a number of processors.

    Attributes:
        trx_commit, sync_binlog, binlog_strategy, processors: where.
        ratio: commits/s ÷ those of `serial`.
        low, high: 95 % interval over the rounds, widened to half and twice of the server's own time; both are
            the ratio where the disk limits.
        limit: what both rates are limited by.
    """

    trx_commit: int
    sync_binlog: int
    binlog_strategy: BinlogStrategy
    processors: int
    ratio: float
    low: float
    high: float
    limit: Literal["processors", "disk"]


def gains(record: ProbeRecord, processors: Sequence[int] = STORY_PROCESSORS) -> tuple[Gain, ...]:
    """Of each strategy that was measured beside `serial`, where the costs of its commits are known."""
    found = []
    for one in record.servers:
        serial = next(
            other
            for other in record.servers
            if (other.trx_commit, other.sync_binlog, other.binlog_strategy)
            == (one.trx_commit, one.sync_binlog, "serial")
        )
        if one is serial:
            continue
        if SyncSettings(one.trx_commit, one.sync_binlog).is_strict:
            found += _of_syncs(one, record.disk, processors)
        elif len(one.round_costs) == len(serial.round_costs) > 1:
            found += [_of_processors(one, serial, count) for count in processors]
    return tuple(found)


def _of_syncs(one: ServerRate, disk: Sequence[DiskResult], processors: Sequence[int]) -> list[Gain]:
    """The same on every number of processors; none where the syncs are unknown, or the bound is refuted."""
    syncs, of_serial = _syncs(one.binlog_strategy, disk), _syncs("serial", disk)
    # One sync takes no longer than a pair, and no measured ratio is above a bound.
    if not syncs or not of_serial or syncs / of_serial < max(1.0, one.ratio_low or 0.0):
        return []
    return [_gain(one, count, (syncs / of_serial,) * 3, "disk") for count in processors]


def _of_processors(one: ServerRate, serial: ServerRate, processors: int) -> Gain:
    def rates(of: ServerRate, factor: float) -> list[float]:
        costs = [
            CommitCost(
                binlog_strategy=of.binlog_strategy,
                cpu_ns=max(1000 * (cost.cpu_us - of.own_us), cost.single_ns),
                single_ns=cost.single_ns,
            )
            for cost in of.round_costs
        ]
        return [cost.commits_per_s(processors, of.own_us * factor) for cost in costs]

    ratios = [ratio(rates(one, factor), rates(serial, factor)) for factor in OWN_FACTORS]
    low, high = min(low for _, low, _ in ratios), max(high for _, _, high in ratios)
    return _gain(one, processors, (ratios[OWN_FACTORS.index(1.0)][0], low, high), "processors")


def _gain(
    one: ServerRate, processors: int, found: tuple[float, float, float], limit: Literal["processors", "disk"]
) -> Gain:
    return Gain(
        trx_commit=one.trx_commit,
        sync_binlog=one.sync_binlog,
        binlog_strategy=one.binlog_strategy,
        processors=processors,
        ratio=found[0],
        low=found[1],
        high=found[2],
        limit=limit,
    )


def _syncs(strategy: BinlogStrategy, disk: Sequence[DiskResult]) -> float | None:
    """Groups/s that the disk makes durable, one after the other."""
    way, layout = {
        "redo": ("fdatasync", "written"),
        "two-syncs": ("fdatasync", "extending"),
    }.get(strategy, ("pair", "written"))
    syncs = [
        figure.operations_per_s
        for figure in disk
        if (figure.way, figure.layout, figure.order, figure.depth) == (way, layout, "sequential", 1)
        and (figure.bytes == 4096 or way == "pair")
    ]
    return syncs[0] if syncs else None
