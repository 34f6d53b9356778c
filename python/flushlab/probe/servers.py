"""As in a server: pipelines beside `serial`, a thread per connection, the server's own time per commit.

Probe layer. Each round runs every binlog write strategy once, in rotating order; ratios are those of a round:
what changes on the machine meanwhile changes both. The interval is Student's t of their logarithms.

The rate on more processors than this machine has is computed by the universal scalability law (Gunther,
"Guerrilla Capacity Planning", 2007). Its term for coherence is left out, as one or two processors do not show
coherence costs.

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

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from flushlab.probe.ceilings import CommitCell, ProbePlace, StrategyGroup, SyncSettings, is_empty, run_of
from flushlab.record import BinlogStrategy, DiskResult, ProbeRecord, ServerRate

OWN_US = 60.0
"""Processor time of a server and its client per small transaction, besides the commit: an assumption.

`benchmarks/commit_path.py --part calibration` measures it for MySQL 9.7 and MariaDB 10.11."""

ROUNDS = 5
ROUND_SECONDS = 0.3
_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Student's t at 97.5 % by the number of rounds."""


def measure_servers(
    place: ProbePlace, group: StrategyGroup, *, seconds: float, own_us: float = OWN_US
) -> tuple[ServerRate, ...] | None:
    each = seconds / (ROUNDS * len(group.strategies))
    found: dict[BinlogStrategy, list[dict[str, Any]]] = {strategy: [] for strategy in group.strategies}
    for number in range(ROUNDS):
        shift = number % len(group.strategies)
        for strategy in (*group.strategies[shift:], *group.strategies[:shift]):
            cell = CommitCell(
                sync_settings=group.sync_settings, binlog_strategy=strategy, threads=group.threads
            )
            result, _ = run_of(place, cell, seconds=each, own_us=own_us)
            if is_empty(result):
                return None
            found[strategy].append(result)
    serial = [result["commits_per_s"] for result in found["serial"]]
    cell_facts = {**msgspec.structs.asdict(group.sync_settings), "threads": group.threads, "own_us": own_us}
    return tuple(
        _rate({**cell_facts, "binlog_strategy": strategy}, results, serial)
        for strategy, results in found.items()
    )


def _rate(facts: dict[str, Any], results: Sequence[dict[str, Any]], serial: Sequence[float]) -> ServerRate:
    middle = sorted(results, key=lambda result: result["commits_per_s"])[len(results) // 2]
    known: dict[str, Any] = {
        **middle,
        **facts,
        "rounds": len(results),
        "seconds": sum(result["seconds"] for result in results),
        "ratio": 1.0,
    }
    if all(one["cpu_us_per_commit"] and one["ordered_ns_per_commit"] for one in results):
        known["round_costs"] = [
            {
                "cpu_us": one["cpu_us_per_commit"],
                "single_ns": max(one["ordered_ns_per_commit"], one.get("write_ns_per_commit") or 0.0),
            }
            for one in results
        ]
    if facts["binlog_strategy"] != "serial":
        rates = [result["commits_per_s"] for result in results]
        known["ratio"], known["ratio_low"], known["ratio_high"] = ratio(rates, serial)
    return msgspec.convert(known, ServerRate)


def ratio(rates: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of the ratios of each round, with its 95 % interval; two rounds at least."""
    logs = [math.log(one / other) for one, other in zip(rates, base, strict=True)]
    mean = statistics.fmean(logs)
    half = _T_95[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


PROCESSORS = (1, 2, 4, 8, 16, 32, 64, 128)

STORY_PROCESSORS = (16, 64)
STORY_GAIN = (1.10, 1.30)
"""Binlog Parallel Flush as published (documentation of ApsaraDB RDS for MySQL, 2026-03): 10 to 30 % more
transactions/s on 16 and 64 processors, innodb_flush_log_at_trx_commit=2, sync_binlog=1000."""


OWN_FACTORS = (0.5, 1.0, 2.0)
"""The server's own time is an assumption: a gain's interval holds half of it and twice of it."""


class CommitCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one commit.

    Attributes:
        binlog_strategy: how the binlog reaches its file.
        cpu_ns: processor time, of all threads together.
        single_ns: the part of it that one thread at a time can spend.
    """

    binlog_strategy: BinlogStrategy
    cpu_ns: float
    single_ns: float

    def commits_per_s(self, processors: int, own_us: float = 0.0) -> float:
        """The ceiling; a server's own processor time per transaction runs in parallel."""
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
    found = []
    for one in record.servers:
        settings = SyncSettings(one.trx_commit, one.sync_binlog)
        serial = next(
            other
            for other in record.servers
            if SyncSettings(other.trx_commit, other.sync_binlog) == settings
            and other.binlog_strategy == "serial"
        )
        if one is serial:
            continue
        bound = _of_syncs(one, record.disk) if settings.is_strict else None
        for count in processors:
            if settings.is_strict:
                ratios = None if bound is None else (bound,) * 3
            else:
                ratios = _of_processors(one, serial, count)
            if ratios is not None:
                found.append(
                    Gain(
                        **msgspec.structs.asdict(settings),
                        binlog_strategy=one.binlog_strategy,
                        processors=count,
                        ratio=ratios[0],
                        low=ratios[1],
                        high=ratios[2],
                        limit="disk" if settings.is_strict else "processors",
                    )
                )
    return tuple(found)


def _of_syncs(one: ServerRate, disk: Sequence[DiskResult]) -> float | None:
    """None where the syncs are unknown, or the bound is refuted: one sync takes no longer than a pair, and no
    measured ratio is above a bound."""
    syncs, of_serial = _syncs(one.binlog_strategy, disk), _syncs("serial", disk)
    if not syncs or not of_serial or syncs / of_serial < max(1.0, one.ratio_low or 0.0):
        return None
    return syncs / of_serial


def _of_processors(one: ServerRate, serial: ServerRate, processors: int) -> tuple[float, float, float] | None:
    if not len(one.round_costs) == len(serial.round_costs) > 1:
        return None

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
    return ratios[OWN_FACTORS.index(1.0)][0], low, high


def _syncs(strategy: BinlogStrategy, disk: Sequence[DiskResult]) -> float | None:
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
