"""Scaling: the rate that a commit path would reach on more processors than this machine has. Pure.

Probe layer. The model is the universal scalability law (Gunther, "Guerrilla Capacity Planning", 2007).
Its term for coherence is left out, as one or two processors do not show coherence costs.

- T is the processor time of a commit; S is the part of T that only one thread at a time can spend.
- N processors reach N / (T + (N - 1) S): one processor 1/T, any number less than 1/S.
- S is measured: the longer of two stations in a row, the ordered section and the handover of the binlog to
  the kernel.

Real machines stay below: caches and locks cost more with every processor.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flushlab.record import BinlogStrategy, ServerRate

PROCESSORS = (1, 2, 4, 8, 16, 32, 64, 128)

STORY_PROCESSORS = (16, 64)
STORY_GAIN = (1.10, 1.30)
"""Binlog Parallel Flush as published (documentation of ApsaraDB RDS for MySQL, 2026-03): 10 to 30 % more
transactions/s on 16 and 64 processors, innodb_flush_log_at_trx_commit=2, sync_binlog=1000."""


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
