"""Ceilings: which cells of the matrix are measured, and one cell. The work is `_core.CommitPath`.

Probe layer. A cell is a pair of sync settings (innodb_flush_log_at_trx_commit and sync_binlog), a binlog
write strategy and a number of connections. One or two threads drive them without sleeping; `servers` has the
other instrument, a thread per connection. The commit path refuses a strategy that the sync settings do not
permit, with a reason: a value here.

A switching run steps through the permitted binlog write strategies and back to the first, as SET GLOBAL would
on a server. The strict checker then reads the binlogs of the run.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, get_args

import msgspec

from flushlab import _core
from flushlab.errors import MeasurementError, UsageError
from flushlab.probe.disk import storage_errors
from flushlab.record import BinlogStrategy, Ceiling, Medium, RefusedStrategy, Switching, SwitchPhase

BINLOG_STRATEGIES: tuple[BinlogStrategy, ...] = get_args(BinlogStrategy)

MAX_SYNC_BINLOG = 4_294_967_295


class SyncSettings(msgspec.Struct, frozen=True, order=True):
    """One pair of settings; 3 is MariaDB's, and a sync_binlog of 0 leaves syncs to the kernel."""

    trx_commit: int
    sync_binlog: int

    @property
    def name(self) -> str:
        floor = FLOORS.get(self)
        return f"{floor} {self.pair}" if floor else self.pair

    @property
    def pair(self) -> str:
        return f"{self.trx_commit}/{self.sync_binlog}"

    @property
    def is_timed(self) -> bool:
        return self.trx_commit in (0, 2)

    @property
    def is_strict(self) -> bool:
        return not self.is_timed and self.sync_binlog == 1

    @property
    def format(self) -> str:
        return MARIADB if self.trx_commit == 3 else MYSQL


MYSQL, MARIADB = "9.7.4", "10.11.19-MariaDB"
STRICT, MARIADB_STRICT, SECOND, RELAXED = (
    SyncSettings(1, 1),
    SyncSettings(3, 1),
    SyncSettings(2, 1000),
    SyncSettings(0, 0),
)
FLOORS = {STRICT: "strict", MARIADB_STRICT: "strict", SECOND: "second", RELAXED: "relaxed"}
"""Names of the durability floors with these settings."""

_BY_NAME = {"strict": STRICT, "second": SECOND, "relaxed": RELAXED}
_PAIR = re.compile(r"(\d{1,10})/(\d{1,10})")


def parse_sync_settings(text: str) -> SyncSettings:
    if text in _BY_NAME:
        return _BY_NAME[text]
    found = _PAIR.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--trx-commit {text!r} is neither a floor nor two settings",
            hint="use strict, second, relaxed, or innodb_flush_log_at_trx_commit/sync_binlog such as 2/1000",
        )
    settings = SyncSettings(int(found[1]), int(found[2]))
    if settings.trx_commit > 3:
        raise UsageError(
            f"--trx-commit {text}: innodb_flush_log_at_trx_commit={settings.trx_commit} does not exist",
            hint="it is 0, 1 or 2, on MariaDB also 3",
        )
    if settings.sync_binlog > MAX_SYNC_BINLOG:
        raise UsageError(
            f"--trx-commit {text}: sync_binlog={settings.sync_binlog} is too large",
            hint=f"it takes 0 to {MAX_SYNC_BINLOG}",
        )
    return settings


def parse_binlog_strategy(text: str) -> BinlogStrategy:
    for strategy in BINLOG_STRATEGIES:
        if text == strategy:
            return strategy
    raise UsageError(
        f"--binlog-strategy {text!r} is not a binlog write strategy",
        hint=f"one of {', '.join(BINLOG_STRATEGIES)}",
    )


MAX_THREADS = 256

THREADS, QUICK_THREADS = (1, 4, 16, 64), (1, 64)
"""Committers."""

DRIVERS = 2
"""Threads that drive the connections of a ceiling: while one waits for a sync, the other encodes."""

TIMED_SECONDS = 1.15
"""Window, if the redo log is synced once a second: each window holds one such sync."""

SYNCED_SECONDS = 0.4
"""Window, if every group is synced."""

WARM_UP_SECONDS = 0.08
_SLICE_SECONDS = 0.05
_SECONDS_TO_END = 30.0
_SHAPE = {"kind": "oltp_update_non_index", "tables": 100, "rows": 100_000}
"""The transactions that are committed: those of one OLTP workload."""
BYTES_PER_COMMIT = 1_024
"""Of the binlog, at most, in the shape that is committed."""

REDO_BYTES = 64 << 20
"""Of the redo log, which is a circle: four log buffers of 16 MiB, the least there is. Twice as much gave the
same commits/s, and took a quarter of a second more to make."""


class CommitCell(msgspec.Struct, frozen=True, kw_only=True):
    sync_settings: SyncSettings
    binlog_strategy: BinlogStrategy
    threads: int

    @property
    def natural_seconds(self) -> float:
        return TIMED_SECONDS if self.sync_settings.is_timed else SYNCED_SECONDS


class StrategyGroup(NamedTuple):
    sync_settings: SyncSettings
    strategies: tuple[BinlogStrategy, ...]
    threads: int


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    sync_settings: tuple[SyncSettings, ...] = (STRICT, MARIADB_STRICT, SECOND, RELAXED)
    strategies: tuple[BinlogStrategy, ...] = BINLOG_STRATEGIES
    threads: tuple[int, ...] = THREADS
    left_out: tuple[tuple[SyncSettings, BinlogStrategy], ...] = ()


FULL = Matrix(left_out=((MARIADB_STRICT, "redo"), (MARIADB_STRICT, "two-syncs"), (RELAXED, "parallel")))
QUICK = Matrix(sync_settings=(STRICT, SECOND), threads=QUICK_THREADS)


class CommitRun(Protocol):
    """One run of the commit path, as `_core.CommitPath` has it."""

    def start(self) -> None:
        """Starts the threads."""

    def progress(self) -> bytes:
        """JSON: phase, seconds, commits."""

    def wait(self, seconds: float) -> bytes | None:
        """JSON of the result once it has ended, within `seconds`."""

    def stop(self) -> None:
        """Ends it; its files go."""


Maker = Callable[[bytes], CommitRun]
"""Makes a run from the JSON of its specification; raises CoreError of the kind `usage` for a
contradiction."""


class ProbePlace(NamedTuple):
    folder: Path
    medium: Medium
    most_bytes: int
    make: Maker


def plan(matrix: Matrix, place: ProbePlace) -> tuple[tuple[CommitCell, ...], tuple[RefusedStrategy, ...]]:
    cells, refused = [], []
    for settings in matrix.sync_settings:
        permitted = []
        for strategy in matrix.strategies:
            if (settings, strategy) in matrix.left_out:
                continue
            if (reason := refusal(settings, strategy, place)) is None:
                permitted.append(strategy)
            else:
                facts = {**msgspec.structs.asdict(settings), "binlog_strategy": strategy}
                refused.append(RefusedStrategy(**facts, reason=reason[0]))
        cells += [
            CommitCell(sync_settings=settings, binlog_strategy=strategy, threads=threads)
            for threads in matrix.threads
            for strategy in permitted
        ]
    return tuple(cells), tuple(refused)


def refusal(
    settings: SyncSettings, strategy: BinlogStrategy, place: ProbePlace
) -> tuple[str, str | None] | None:
    cell = CommitCell(sync_settings=settings, binlog_strategy=strategy, threads=1)
    try:
        place.make(msgspec.json.encode(_spec(cell, place.folder, SYNCED_SECONDS)))
    except _core.CoreError as error:
        if error.kind != "usage":
            raise
        return error.message, error.hint
    return None


def measure(place: ProbePlace, cell: CommitCell, *, seconds: float) -> Ceiling | None:
    """None if no commit ended in the window. Ends early when files reach `most_bytes`. Raises
    KeyboardInterrupt on Ctrl-C, StorageError if the file system fails, MeasurementError if the commit path
    does not end, or finds no threads.
    """
    result, noise = run_of(place, cell, seconds=seconds)
    if is_empty(result):
        return None
    settings = msgspec.structs.asdict(cell.sync_settings)
    of_cell = {**settings, "binlog_strategy": cell.binlog_strategy, "threads": cell.threads, "noise": noise}
    return msgspec.convert({**result, **of_cell}, Ceiling)


def run_of(
    place: ProbePlace,
    cell: CommitCell,
    *,
    seconds: float,
    changes: Sequence[Mapping[str, Any]] = (),
    own_us: float | None = None,
) -> tuple[dict[str, Any], float | None]:
    """`changes` are to other binlog write strategies, seconds after the start, the warm-up included; with
    them, files are left. `own_us` is a server's time before each commit; None: the disk's ceiling."""
    spec = _spec(cell, place.folder, seconds) | {"changes": changes, "keep": bool(changes)}
    if own_us is not None:
        spec |= {"threads": cell.threads, "think_us": own_us}
    with core_errors(Path(place.medium.directory)):
        run = place.make(msgspec.json.encode(spec))
        with _stopped(run):
            run.start()
            return _follow(run, seconds, place.most_bytes - REDO_BYTES)


def _spec(cell: CommitCell, folder: Path, seconds: float) -> dict[str, Any]:
    return {
        "directory": str(folder),
        "keep": False,
        "format": cell.sync_settings.format,
        **msgspec.structs.asdict(cell.sync_settings),
        "binlog_strategy": cell.binlog_strategy,
        "threads": min(DRIVERS, cell.threads),
        "committers": cell.threads,
        "shape": _SHAPE,
        "think_us": 0,
        "warmup_seconds": WARM_UP_SECONDS,
        "seconds": seconds,
        "seed": 1,
        "redo_capacity_bytes": REDO_BYTES,
        "changes": (),
    }


@contextlib.contextmanager
def core_errors(directory: Path) -> Iterator[None]:
    try:
        with storage_errors(directory):
            yield
    except _core.CoreError as error:
        if error.kind == "storage":
            with storage_errors(directory):
                raise OSError(error.errno or 0, error.message) from error
        kind = UsageError if error.kind == "usage" else MeasurementError
        raise kind(error.message, hint=error.hint) from error


@contextlib.contextmanager
def _stopped(run: CommitRun) -> Iterator[None]:
    try:
        yield
    finally:
        run.stop()
        with contextlib.suppress(_core.CoreError):
            run.wait(_SECONDS_TO_END)


def _follow(run: CommitRun, seconds: float, most_bytes: int) -> tuple[dict[str, Any], float | None]:
    seen: list[tuple[float, int]] = []
    end = time.monotonic() + seconds + _SECONDS_TO_END
    while (answer := run.wait(_SLICE_SECONDS)) is None:
        progress = msgspec.json.decode(run.progress())
        at, commits = progress["seconds"], progress["commits"]
        if progress["phase"] == "measuring" and (not seen or at > seen[-1][0]):
            seen.append((at, commits))
        if commits * BYTES_PER_COMMIT > most_bytes:
            run.stop()
        if time.monotonic() > end:
            raise MeasurementError(
                f"the commit path did not end within {seconds + _SECONDS_TO_END:.0f} s",
                hint="the disk hangs; see dmesg",
            )
    return msgspec.json.decode(answer), noise(seen)


def is_empty(result: Mapping[str, Any]) -> bool:
    """A commit that ends with the window has a latency, and is not counted."""
    return result["latency_us"] is None or not result["commits"]


def noise(seen: Sequence[tuple[float, int]]) -> float | None:
    """Relative standard error of a rate from counts at several moments; None of fewer than four slices."""
    slices = [
        (count - before_count) / (at - before)
        for (before, before_count), (at, count) in itertools.pairwise(seen)
        if at > before
    ]
    if len(slices) < 4:
        return None
    mean = sum(slices) / len(slices)
    if mean <= 0:
        return None
    variance = sum((one - mean) ** 2 for one in slices) / (len(slices) - 1)
    return math.sqrt(variance / len(slices)) / mean


PHASE_SECONDS = 0.4


def strategy_groups(cells: Sequence[CommitCell]) -> tuple[StrategyGroup, ...]:
    permitted: dict[SyncSettings, dict[BinlogStrategy, None]] = {}
    for cell in cells:
        permitted.setdefault(cell.sync_settings, {})[cell.binlog_strategy] = None
    most = max(cell.threads for cell in cells)
    return tuple(
        StrategyGroup(settings, tuple(strategies), most)
        for settings, strategies in permitted.items()
        if len(strategies) > 1
    )


def switching_groups(cells: Sequence[CommitCell]) -> tuple[StrategyGroup, ...]:
    groups = strategy_groups(cells)
    if not groups:
        raise UsageError(
            "--switch needs sync settings that permit two binlog write strategies",
            hint="repeat --binlog-strategy, as in --trx-commit 2/1000 --binlog-strategy serial"
            " --binlog-strategy parallel",
        )
    return tuple(one._replace(strategies=(*one.strategies, one.strategies[0])) for one in groups)


def measure_switching(place: ProbePlace, group: StrategyGroup, *, seconds: float) -> Switching | None:
    first, *others = group.strategies
    each = seconds / len(group.strategies)
    changes = [
        {"after_seconds": WARM_UP_SECONDS + each * number, "binlog_strategy": strategy}
        for number, strategy in enumerate(others, 1)
    ]
    begin = CommitCell(sync_settings=group.sync_settings, binlog_strategy=first, threads=group.threads)
    result, _ = run_of(place, begin, seconds=seconds, changes=changes)
    if is_empty(result):
        return None
    return Switching(
        **msgspec.structs.asdict(group.sync_settings),
        threads=group.threads,
        phases=msgspec.convert(result["phases"], tuple[SwitchPhase, ...]),
        longest_commit_us=result["latency_us"]["max"],
        transactions=result["last_gtid"],
        binlog_is_whole=_is_whole(place.folder, result["last_gtid"]),
    )


def _is_whole(folder: Path, transactions: int) -> bool:
    files = [str(file) for file in sorted(folder.glob("binlog.0*"))]
    reports = msgspec.json.decode(_core.check_binlogs(files))
    whole = all(one["verdict"] == "whole" and not one["problem_count"] for one in reports)
    return whole and sum(one["transactions"] for one in reports) == transactions
