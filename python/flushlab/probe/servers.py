"""As in a server: pipelines beside `serial`, a thread per connection, the server's own time per commit.

Probe layer. Each round runs every binlog write strategy once, in rotating order; ratios are those of a round:
what changes on the machine meanwhile changes both. The interval is Student's t of their logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from flushlab.probe.ceilings import CommitCell, Maker, is_empty, run_of
from flushlab.probe.sync_settings import SyncSettings
from flushlab.record import BinlogStrategy, Medium, ServerRate

OWN_US = 60.0
"""Processor time of a server and its client per small transaction, besides the commit: an assumption.

`benchmarks/commit_path.py --part calibration` measures it for MySQL 9.7 and MariaDB 10.11."""

ROUNDS = 5
ROUND_SECONDS = 0.3
_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Student's t at 97.5 % by the number of rounds."""


class ServerCell(msgspec.Struct, frozen=True, kw_only=True):
    """Strategies to be compared at one pair of sync settings, `serial` first."""

    sync_settings: SyncSettings
    strategies: tuple[BinlogStrategy, ...]
    threads: int
    own_us: float = OWN_US

    @property
    def words(self) -> str:
        """For whoever watches."""
        return f"{self.sync_settings.name} · as in a server · {self.threads} connections"

    @property
    def natural_seconds(self) -> float:
        """All rounds."""
        return ROUNDS * ROUND_SECONDS * len(self.strategies)


def server_cells(of: Sequence[CommitCell], own_us: float) -> tuple[ServerCell, ...]:
    """For each pair of sync settings that permits `serial` and another one, with the most connections."""
    permitted: dict[SyncSettings, dict[BinlogStrategy, None]] = {}
    for cell in of:
        permitted.setdefault(cell.sync_settings, {})[cell.binlog_strategy] = None
    most = max(cell.threads for cell in of)
    return tuple(
        ServerCell(sync_settings=settings, strategies=tuple(strategies), threads=most, own_us=own_us)
        for settings, strategies in permitted.items()
        if len(strategies) > 1 and "serial" in strategies
    )


def measure_servers(
    folder: Path, cell: ServerCell, *, seconds: float, most_bytes: int, medium: Medium, make: Maker
) -> tuple[ServerRate, ...] | None:
    """Measures one cell in the probe's own folder; its files are gone afterwards.

    Returns:
        None if a window ended without a commit. Errors: as of `ceilings.measure`.
    """
    each = seconds / (ROUNDS * len(cell.strategies))
    found: dict[BinlogStrategy, list[dict[str, Any]]] = {strategy: [] for strategy in cell.strategies}
    for number in range(ROUNDS):
        shift = number % len(cell.strategies)
        for strategy in (*cell.strategies[shift:], *cell.strategies[:shift]):
            one = CommitCell(sync_settings=cell.sync_settings, binlog_strategy=strategy, threads=cell.threads)
            result, _ = run_of(
                folder, one, seconds=each, most_bytes=most_bytes, medium=medium, make=make, own_us=cell.own_us
            )
            if is_empty(result):
                return None
            found[strategy].append(result)
    serial = [result["commits_per_s"] for result in found["serial"]]
    return tuple(_rate(cell, strategy, results, serial) for strategy, results in found.items())


def _rate(
    cell: ServerCell, strategy: BinlogStrategy, results: Sequence[dict[str, Any]], serial: Sequence[float]
) -> ServerRate:
    middle = sorted(results, key=lambda result: result["commits_per_s"])[len(results) // 2]
    rates = [result["commits_per_s"] for result in results]
    known: dict[str, Any] = {
        **middle,
        **msgspec.structs.asdict(cell.sync_settings),
        "binlog_strategy": strategy,
        "threads": cell.threads,
        "own_us": cell.own_us,
        "rounds": len(results),
        "seconds": sum(result["seconds"] for result in results),
        "round_costs": _costs(results),
        "ratio": 1.0,
    }
    if strategy != "serial":
        known["ratio"], known["ratio_low"], known["ratio_high"] = ratio(rates, serial)
    return msgspec.convert(known, ServerRate)


def _costs(results: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    known = [one for one in results if one["cpu_us_per_commit"] and one["ordered_ns_per_commit"]]
    if len(known) < len(results):
        return []
    return [
        {
            "cpu_us": one["cpu_us_per_commit"],
            "single_ns": max(one["ordered_ns_per_commit"], one.get("write_ns_per_commit") or 0.0),
        }
        for one in known
    ]


def ratio(rates: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of the ratios of each round, with its 95 % interval; two rounds at least."""
    logs = [math.log(one / other) for one, other in zip(rates, base, strict=True)]
    mean = statistics.fmean(logs)
    half = _T_95[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)
