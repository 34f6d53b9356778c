"""Ceilings: which cells of the matrix are measured, and one cell. The work is `_core.CommitPath`.

Probe layer. A cell is a pair of sync settings, a binlog write strategy and a number of connections. One or
two threads drive them without sleeping; `servers` has the other instrument, a thread per connection. The
commit path refuses a strategy that the sync settings do not permit, with a reason: a value here.

A switching run steps through the permitted binlog write strategies and back to the first, as SET GLOBAL would
on a server. The strict checker then reads the binlogs of the run.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from flushlab import _core
from flushlab.errors import MeasurementError, UsageError
from flushlab.probe.folder import storage_errors
from flushlab.probe.sync_settings import (
    BINLOG_STRATEGIES,
    MARIADB_STRICT,
    RELAXED,
    SECOND,
    STRICT,
    SyncSettings,
)
from flushlab.record import BinlogStrategy, Ceiling, Medium, RefusedStrategy, Switching, SwitchPhase

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
    def words(self) -> str:
        return f"{self.sync_settings.name} · {self.binlog_strategy} · {self.threads} connections"

    @property
    def natural_seconds(self) -> float:
        return TIMED_SECONDS if self.sync_settings.is_timed else SYNCED_SECONDS


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured.

    Attributes:
        sync_settings, strategies, threads: all combinations, except refused ones and `left_out`.
        left_out: combinations that the usual time does not hold; not measured and not told as refused.
    """

    sync_settings: tuple[SyncSettings, ...] = (STRICT, MARIADB_STRICT, SECOND, RELAXED)
    strategies: tuple[BinlogStrategy, ...] = BINLOG_STRATEGIES
    threads: tuple[int, ...] = THREADS
    left_out: tuple[tuple[SyncSettings, BinlogStrategy], ...] = ()


FULL = Matrix(left_out=((MARIADB_STRICT, "redo"), (MARIADB_STRICT, "two-syncs"), (RELAXED, "parallel")))
QUICK = Matrix(sync_settings=(STRICT, SECOND), threads=QUICK_THREADS)


class CommitShape(msgspec.Struct, frozen=True, kw_only=True):
    kind: str = "oltp_update_non_index"
    tables: int = 100
    rows: int = 100_000


class StrategyChange(msgspec.Struct, frozen=True, kw_only=True):
    after_seconds: float
    binlog_strategy: BinlogStrategy


class CommitSpec(msgspec.Struct, frozen=True, kw_only=True):
    directory: str
    keep: bool = False
    format: str
    trx_commit: int
    sync_binlog: int
    binlog_strategy: BinlogStrategy
    threads: int
    committers: int
    shape: CommitShape = CommitShape()
    think_us: float = 0
    warmup_seconds: float = WARM_UP_SECONDS
    seconds: float
    seed: int = 1
    redo_capacity_bytes: int
    changes: tuple[StrategyChange, ...] = ()


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
"""Makes a run from the JSON of a CommitSpec; raises CoreError of the kind `usage` for one that contradicts
itself."""


class _Progress(msgspec.Struct, frozen=True):
    phase: str
    seconds: float
    commits: int


def plan(
    matrix: Matrix, folder: Path, make: Maker
) -> tuple[tuple[CommitCell, ...], tuple[RefusedStrategy, ...]]:
    """The cells in their order, strategies side by side, and what the commit path refuses."""
    cells, refused = [], []
    permitted: dict[SyncSettings, list[BinlogStrategy]] = {}
    for settings in matrix.sync_settings:
        permitted[settings] = []
        for strategy in matrix.strategies:
            if (settings, strategy) in matrix.left_out:
                continue
            reason = refusal(settings, strategy, folder, make)
            if reason is None:
                permitted[settings].append(strategy)
            else:
                refused.append(
                    RefusedStrategy(
                        **msgspec.structs.asdict(settings), binlog_strategy=strategy, reason=reason[0]
                    )
                )
    for settings in matrix.sync_settings:
        for threads in matrix.threads:
            cells += [
                CommitCell(sync_settings=settings, binlog_strategy=strategy, threads=threads)
                for strategy in permitted[settings]
            ]
    return tuple(cells), tuple(refused)


def refusal(
    settings: SyncSettings, strategy: BinlogStrategy, folder: Path, make: Maker
) -> tuple[str, str | None] | None:
    """The rule that the combination breaks and the way out; None if it is permitted."""
    cell = CommitCell(sync_settings=settings, binlog_strategy=strategy, threads=1)
    try:
        make(msgspec.json.encode(_spec(cell, folder, SYNCED_SECONDS)))
    except _core.CoreError as error:
        if error.kind != "usage":
            raise
        return error.message, error.hint
    return None


def measure(
    folder: Path, cell: CommitCell, *, seconds: float, most_bytes: int, medium: Medium, make: Maker
) -> Ceiling | None:
    """One cell in the probe's own folder; None if no commit ended. Ends early when files reach
    `most_bytes`."""
    result, noise = run_of(folder, cell, seconds=seconds, most_bytes=most_bytes, medium=medium, make=make)
    if is_empty(result):
        return None
    settings = msgspec.structs.asdict(cell.sync_settings)
    of_cell = {**settings, "binlog_strategy": cell.binlog_strategy, "threads": cell.threads, "noise": noise}
    return msgspec.convert({**result, **of_cell}, Ceiling)


def run_of(
    folder: Path,
    cell: CommitCell,
    *,
    seconds: float,
    most_bytes: int,
    medium: Medium,
    make: Maker,
    changes: tuple[StrategyChange, ...] = (),
    own_us: float | None = None,
) -> tuple[dict[str, Any], float | None]:
    """One run of the commit path, and the noise of its rate; with changes its files are left."""
    spec = _spec(cell, folder, seconds)
    spec = msgspec.structs.replace(spec, changes=changes, keep=bool(changes))
    if own_us is not None:
        spec = msgspec.structs.replace(spec, threads=cell.threads, think_us=own_us)
    with core_errors(Path(medium.directory)):
        run = make(msgspec.json.encode(spec))
        with _stopped(run):
            run.start()
            return _follow(run, seconds, most_bytes - REDO_BYTES)


def _spec(cell: CommitCell, folder: Path, seconds: float) -> CommitSpec:
    return CommitSpec(
        directory=str(folder),
        format=cell.sync_settings.format,
        **msgspec.structs.asdict(cell.sync_settings),
        binlog_strategy=cell.binlog_strategy,
        threads=min(DRIVERS, cell.threads),
        committers=cell.threads,
        seconds=seconds,
        redo_capacity_bytes=REDO_BYTES,
    )


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
    """Ends a run whatever happens, and waits until its threads have left its folder."""
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
        progress = msgspec.json.decode(run.progress(), type=_Progress)
        if progress.phase == "measuring" and (not seen or progress.seconds > seen[-1][0]):
            seen.append((progress.seconds, progress.commits))
        if progress.commits * BYTES_PER_COMMIT > most_bytes:
            run.stop()
        if time.monotonic() > end:
            raise MeasurementError(
                f"the commit path did not end within {seconds + _SECONDS_TO_END:.0f} s",
                hint="the disk hangs; see dmesg",
            )
    return msgspec.json.decode(answer), noise(seen)


def is_empty(result: Mapping[str, Any]) -> bool:
    """Whether a window ended without a commit: one that ends with the window has a latency, and is not
    counted."""
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


class SwitchCell(msgspec.Struct, frozen=True, kw_only=True):
    sync_settings: SyncSettings
    strategies: tuple[BinlogStrategy, ...]
    threads: int

    @property
    def words(self) -> str:
        return f"{self.sync_settings.name} · switching · {self.threads} connections"

    @property
    def natural_seconds(self) -> float:
        return PHASE_SECONDS * len(self.strategies)


def switch_cells(of: Sequence[CommitCell]) -> tuple[SwitchCell, ...]:
    """A run for each pair of sync settings that permits two binlog write strategies, with the most
    threads."""
    permitted: dict[SyncSettings, dict[BinlogStrategy, None]] = {}
    for cell in of:
        permitted.setdefault(cell.sync_settings, {})[cell.binlog_strategy] = None
    most = max(cell.threads for cell in of)
    found = tuple(
        SwitchCell(sync_settings=settings, strategies=(*strategies, next(iter(strategies))), threads=most)
        for settings, strategies in permitted.items()
        if len(strategies) > 1
    )
    if not found:
        raise UsageError(
            "--switch needs sync settings that permit two binlog write strategies",
            hint="repeat --binlog-strategy, as in --trx-commit 2/1000 --binlog-strategy serial"
            " --binlog-strategy parallel",
        )
    return found


def measure_switching(
    folder: Path, cell: SwitchCell, *, seconds: float, most_bytes: int, medium: Medium, make: Maker
) -> Switching | None:
    """Switches through the strategies of a cell; its files are left. None if no commit ended."""
    first, *others = cell.strategies
    each = seconds / len(cell.strategies)
    changes = tuple(
        StrategyChange(after_seconds=WARM_UP_SECONDS + each * number, binlog_strategy=strategy)
        for number, strategy in enumerate(others, 1)
    )
    begin = CommitCell(sync_settings=cell.sync_settings, binlog_strategy=first, threads=cell.threads)
    result, _ = run_of(
        folder, begin, seconds=seconds, most_bytes=most_bytes, medium=medium, make=make, changes=changes
    )
    if is_empty(result):
        return None
    return Switching(
        **msgspec.structs.asdict(cell.sync_settings),
        threads=cell.threads,
        phases=msgspec.convert(result["phases"], tuple[SwitchPhase, ...]),
        longest_commit_us=result["latency_us"]["max"],
        transactions=result["last_gtid"],
        binlog_is_whole=_is_whole(folder, result["last_gtid"]),
    )


def _is_whole(folder: Path, transactions: int) -> bool:
    """Whether the strict checker finds every transaction, each once and without a gap in the GTIDs."""
    files = [str(file) for file in sorted(folder.glob("binlog.0*"))]
    reports = msgspec.json.decode(_core.check_binlogs(files))
    whole = all(one["verdict"] == "whole" and not one["problem_count"] for one in reports)
    return whole and sum(one["transactions"] for one in reports) == transactions
