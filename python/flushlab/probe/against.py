"""Against: what share of the ceiling a measured server reaches. Pure.

Probe layer. The ceiling has the same sync settings, the same number of threads and the binlog write
strategy `serial`, as servers do; a share names the fastest binlog write strategy too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from flushlab.errors import UsageError
from flushlab.probe.ceilings import BINLOG_STRATEGIES, MAX_THREADS, CommitCell, SyncSettings
from flushlab.record import Ceiling, Medium, ProbeRecord, Share, Storage, Trial, Warning

MOST_SERVERS = 12


class MeasuredServer(msgspec.Struct, frozen=True, kw_only=True):
    """`sync_settings` are as read back; sync_binlog is 0 without a binlog."""

    trial: str
    server: str
    sync_settings: SyncSettings
    threads: int
    commits_per_s: float
    storage: Storage | None = None
    warnings: tuple[Warning, ...] = ()


Connections = Callable[[Trial], int | None]


def of_campaign(
    campaign: str, number: int | None, connections: Connections, trials: Sequence[Trial]
) -> list[MeasuredServer]:
    if number is not None and not 1 <= number <= len(trials):
        raise UsageError(
            f"campaign {campaign} has no trial {number}",
            hint=f"it has 1 to {len(trials)}" if trials else "it has none",
        )
    if number is not None:
        trial = trials[number - 1]
        return [of_trial(f"{campaign}:{number}", trial, connections(trial))]
    servers = arms_of(campaign, connections, trials)
    if not servers:
        raise UsageError(
            f"campaign {campaign} has no trial that counts commits",
            hint="choose another; `flushlab report --list` lists them",
        )
    return servers


def arms_of(campaign: str, connections: Connections, trials: Sequence[Trial]) -> list[MeasuredServer]:
    found = []
    for number, trial in _medians(trials):
        threads = connections(trial)
        if threads is not None and threads <= MAX_THREADS and trial.server is not None:
            found.append(of_trial(f"{campaign}:{number}", trial, threads))
    return found[:MOST_SERVERS]


def is_here(server: MeasuredServer, record: ProbeRecord) -> bool:
    theirs, medium = server.storage, record.medium
    return theirs is not None and (theirs.filesystem, theirs.device) == (medium.filesystem, medium.device)


def of_trial(name: str, trial: Trial, threads: int | None) -> MeasuredServer:
    """One trial as a measured server; UsageError without commits/s, or with more connections than ceilings
    have."""
    rate = _commits_per_s(trial)
    if rate is None or trial.server is None:
        why = f"it is {trial.outcome}" if trial.result is None else f"it is measured in {trial.unit}"
        raise UsageError(
            f"trial {name} has no commits per second: {why}",
            hint="choose a measured trial that counts commits",
        )
    if threads is None or not 1 <= threads <= MAX_THREADS:
        raise UsageError(
            f"trial {name} ran with {threads or 'an unknown number of'} connections",
            hint=f"a ceiling has 1 to {MAX_THREADS} threads",
        )
    has_binlog = trial.settings.get("log_bin", "OFF") == "ON"
    trx_commit = int(trial.settings.get("innodb_flush_log_at_trx_commit", 1))
    sync_binlog = int(trial.settings.get("sync_binlog", 0)) if has_binlog else 0
    return MeasuredServer(
        trial=name,
        server=trial.server.name,
        sync_settings=SyncSettings(trx_commit, sync_binlog),
        threads=threads,
        commits_per_s=rate,
        storage=trial.storage,
        warnings=tuple(_caveats(trial, has_binlog)),
    )


def cells(servers: Iterable[MeasuredServer]) -> tuple[CommitCell, ...]:
    return tuple(
        CommitCell(sync_settings=server.sync_settings, binlog_strategy=strategy, threads=server.threads)
        for server in servers
        for strategy in BINLOG_STRATEGIES
    )


def shares(
    servers: Iterable[MeasuredServer], ceilings: Iterable[Ceiling], medium: Medium
) -> tuple[Share, ...]:
    reached: dict[tuple[SyncSettings, int], list[Ceiling]] = {}
    for one in ceilings:
        reached.setdefault((SyncSettings(one.trx_commit, one.sync_binlog), one.threads), []).append(one)
    return tuple(
        share
        for server in servers
        if (share := _share(server, reached.get((server.sync_settings, server.threads), []), medium))
        is not None
    )


def _share(server: MeasuredServer, here: list[Ceiling], medium: Medium) -> Share | None:
    serial = next((one for one in here if one.binlog_strategy == "serial"), None)
    if serial is None or not serial.commits_per_s:
        return None
    best = max(here, key=lambda one: one.commits_per_s)
    return Share(
        trial=server.trial,
        server=server.server,
        trx_commit=server.sync_settings.trx_commit,
        sync_binlog=server.sync_settings.sync_binlog,
        threads=server.threads,
        commits_per_s=server.commits_per_s,
        ceiling_per_s=serial.commits_per_s,
        best_strategy=best.binlog_strategy,
        best_per_s=best.commits_per_s,
        share=server.commits_per_s / serial.commits_per_s,
        warnings=(*server.warnings, *_other_disk(server, medium)),
    )


def _other_disk(server: MeasuredServer, medium: Medium) -> Iterator[Warning]:
    theirs = server.storage
    if (
        theirs is not None
        and theirs.visible
        and (theirs.filesystem, theirs.device) != (medium.filesystem, medium.device)
    ):
        yield Warning(
            "other-disk",
            f"{server.trial} ran on {theirs.filesystem} ({theirs.device or 'no device'}), the ceiling is for"
            f" {medium.filesystem} ({medium.device or 'no device'})",
        )


def _caveats(trial: Trial, has_binlog: bool) -> Iterator[Warning]:
    if not has_binlog:
        yield Warning(
            "no-binlog", f"{trial.arm.name} writes no binlog, but the ceiling does: its share may be too high"
        )
    if trial.load is not None and trial.load.client_bound:
        yield Warning("client-bound", f"{trial.arm.name}: the client is the limit, not the server")


def _commits_per_s(trial: Trial) -> float | None:
    if trial.result is None or trial.load is None:
        return None
    if trial.load.rows is not None:
        return trial.load.rows.commits / trial.load.seconds if trial.load.seconds else None
    return trial.result if trial.unit == "transactions/s" else None


def _medians(trials: Sequence[Trial]) -> Iterator[tuple[int, Trial]]:
    groups: dict[tuple[str, int], list[tuple[int, Trial]]] = {}
    for number, trial in enumerate(trials, 1):
        if _commits_per_s(trial) is not None and trial.outcome == "measured":
            groups.setdefault((trial.arm.name, trial.variant), []).append((number, trial))
    for group in groups.values():
        middle = statistics.median(_commits_per_s(trial) or 0.0 for _, trial in group)
        yield min(group, key=lambda one: abs((_commits_per_s(one[1]) or 0.0) - middle))
