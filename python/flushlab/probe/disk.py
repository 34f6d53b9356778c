"""Disk: the ways of writing that are measured, and one measurement by `_core.measure_disk`.

Probe layer. A way that the file system refuses comes back as a result with the reason, not as an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from flushlab import _core
from flushlab.probe.folder import storage_errors
from flushlab.record import DiskLatency, DiskResult, Layout, Medium, Order, Way

SIZES = (512, 4096, 16384)
"""What InnoDB's redo log, small binlog writes and InnoDB's pages write."""

STALL_SECONDS = 60.0
"""Files are written for 2 s and synced once before a window; a disk that needs longer for that hangs."""

DURABLE: tuple[Way, ...] = ("fsync", "fdatasync", "dsync", "direct_dsync")


class DiskCell(msgspec.Struct, frozen=True, kw_only=True):
    way: Way
    bytes: int
    layout: Layout = "written"
    order: Order = "sequential"
    depth: int = 1

    @property
    def words(self) -> str:
        size = f"{self.bytes >> 10} KiB" if self.bytes >= 1024 else f"{self.bytes} B"
        return f"disk · {self.way} {size}" + (f" · {self.depth} at once" if self.depth > 1 else "")


class DiskSpec(DiskCell, frozen=True, kw_only=True):
    directory: str
    file_bytes: int
    seconds: float
    stall_seconds: float


class _Measured(msgspec.Struct, frozen=True):
    operations: int
    seconds: float
    latency_us: DiskLatency
    file_bytes: int


class _Outcome(msgspec.Struct, frozen=True):
    measured: _Measured | None = None
    refused: str = ""


def cells(*, quick: bool) -> tuple[DiskCell, ...]:
    """The measurements in their order: what the readings need stands first."""
    chosen = (
        DiskCell(way="fdatasync", bytes=4096),
        DiskCell(way="pair", bytes=512),
        DiskCell(way="direct", bytes=4096),
        *(DiskCell(way=way, bytes=size) for size in SIZES for way in DURABLE if (way, size) != _FIRST),
        *(DiskCell(way="fdatasync", bytes=4096, layout=layout) for layout in _OTHER_LAYOUTS),
        *(DiskCell(way="direct", bytes=16384, depth=depth) for depth in (1, 8)),
        *(DiskCell(way="direct", bytes=16384, order="random", depth=depth) for depth in (1, 4, 16, 64)),
    )
    return tuple(cell for cell in chosen if not quick or _in_quick(cell))


_FIRST: tuple[Way, int] = ("fdatasync", 4096)
_OTHER_LAYOUTS: tuple[Layout, ...] = ("allocated", "extending")


def _in_quick(cell: DiskCell) -> bool:
    """Every way once at 4 KiB, fdatasync at every size, random writes at both ends."""
    if cell.order == "random":
        return cell.depth in (1, 16)
    return cell.bytes == 4096 or cell.way in ("pair", "fdatasync")


def measure(folder: Path, cell: DiskCell, *, seconds: float, file_bytes: int, medium: Medium) -> DiskResult:
    """Measures one cell in `folder`, which is the probe's own."""
    given = msgspec.structs.asdict(cell)
    spec = DiskSpec(
        **given,
        directory=str(folder),
        file_bytes=file_bytes,
        seconds=seconds,
        stall_seconds=STALL_SECONDS,
    )
    with storage_errors(Path(medium.directory)):
        answer = _core.measure_disk(msgspec.json.encode(spec))
    outcome = msgspec.json.decode(answer, type=_Outcome | Literal["stopped"])
    if outcome == "stopped":
        raise KeyboardInterrupt
    return _figure(cell, outcome, medium)


def _figure(cell: DiskCell, outcome: _Outcome, medium: Medium) -> DiskResult:
    done = outcome.measured
    given = msgspec.structs.asdict(cell)
    if done is None:
        return DiskResult(**given, refused=_reason(cell, outcome.refused, medium))
    return DiskResult(
        **given,
        operations_per_s=done.operations / done.seconds if done.seconds else 0.0,
        latency_us=done.latency_us,
        operations=done.operations,
        seconds=done.seconds,
        file_bytes=done.file_bytes,
    )


def _reason(cell: DiskCell, refused: str, medium: Medium) -> str:
    """What was refused, with the rule if the kernel tells it."""
    block = medium.logical_block_bytes
    if cell.way in ("direct", "direct_dsync") and block is not None and cell.bytes < block:
        return f"not possible: the device's logical block has {block:,} bytes"
    return f"not possible: {refused}"
