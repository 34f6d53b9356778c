"""Disk: the folder that a probe writes in, the ways of writing that are measured, honored flushes.

Probe layer. The folder is checked before and removed after, whatever happens; after SIGKILL the next flushlab
that reaps leftovers removes it. One measurement is `_core.measure_disk`.

Whether data survive a crash after fsync, a rate proves on one side only. A sync that is faster than any
medium reached none; a slower sync may still end in a volatile cache. The limits and their sources:

- Intel's Optane P4800X is the fastest block device that was sold widely. Its specification for a 4 KiB write
  is "typically under 10 µs". A read was measured at 8.9 µs, without file system and flush (AnandTech's
  reviews of April and November 2017). A median below `FASTEST_US`, half of that, reached no such device.
  A system call that only copies 4 KiB takes 1 to 2 µs. Persistent memory (`pmem`) is that fast and durable.
- A spinning disk returns to the block that it has just written after a whole turn: 4 ms at 15,000 turns a
  minute. `SPINNING_US` is a quarter of that.
- A device with a volatile cache needs a flush command of its own. If a synced write is no slower than the
  bare write, the flush cost nothing: the device has power-loss protection, or it ignored the command.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import msgspec

from flushlab import _core
from flushlab.datadir.data_root import free_bytes
from flushlab.errors import FlushlabError, NoSpace, NotWritable, StorageError
from flushlab.machine import file_system_of
from flushlab.process import passing_folder
from flushlab.record import DiskResult, Layout, Medium, Order, Warning, Way
from flushlab.units import format_size

MIN_FREE_BYTES = 256 << 20
"""Least free space for a probe."""

MAX_BYTES = 1 << 30
"""Limit of all of a probe's files; half of the free space if that is less."""

REMOVAL_SECONDS = 30.0
"""A disk that has not removed the files by then hangs: nobody waits for it."""

_TELLING = ("barrier", "nobarrier", "volatile", "sync", "async", "data", "flush")
_HINT = "choose a writable directory with --data-root"


def medium_of(directory: Path) -> Medium:
    under = file_system_of(directory)
    device = under.device
    return Medium(
        directory=str(directory),
        filesystem=under.filesystem,
        in_memory=under.in_memory,
        options=tuple(one for one in under.options if one.partition("=")[0] in _TELLING),
        device=device.name if device else None,
        disk=device.disk if device else None,
        scheduler=device.scheduler if device else None,
        rotational=device.rotational if device else None,
        volatile_cache=device.volatile_cache if device else None,
        logical_block_bytes=device.logical_block_bytes if device else None,
        free_bytes=free_bytes(directory, in_memory=under.in_memory),
    )


def most_bytes(medium: Medium) -> int:
    if medium.free_bytes < MIN_FREE_BYTES:
        raise NoSpace(
            f"a probe needs {format_size(MIN_FREE_BYTES)}, but only {format_size(medium.free_bytes)} is free"
            f" in {medium.directory}",
            hint="free some memory, or probe a disk with --data-root" if medium.in_memory else _SPACE_HINT,
        )
    return min(MAX_BYTES, medium.free_bytes // 2)


_SPACE_HINT = "free some space, or choose another directory with --data-root"


def existing(directory: Path) -> Path:
    found = directory.expanduser().absolute()
    if not found.exists():
        raise NotWritable(
            f"the directory {found} does not exist", hint="choose an existing one with --data-root"
        )
    if not found.is_dir():
        raise NotWritable(f"{found} is not a directory", hint=_HINT)
    return found.resolve()


@contextmanager
def probe_folder(directory: Path) -> Iterator[Path]:
    """If the disk hangs, the next flushlab removes the folder."""
    stack = ExitStack()
    with storage_errors(directory):
        folder = stack.enter_context(passing_folder(directory, "probe"))
    try:
        yield folder
    finally:
        removal = Thread(target=stack.close, daemon=True)
        removal.start()
        removal.join(REMOVAL_SECONDS)


@contextmanager
def storage_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _storage_error(directory, error) from error


def _storage_error(directory: Path, error: OSError) -> FlushlabError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"{directory} filled up during the probe", hint=_SPACE_HINT)
    if error.errno == errno.EROFS:
        return NotWritable(f"the directory {directory} is on a read-only file system", hint=_HINT)
    if error.errno in (errno.EACCES, errno.EPERM):
        return NotWritable(f"the directory {directory} is not writable: {error.strerror}", hint=_HINT)
    return StorageError(
        f"the disk under {directory} failed: {error.strerror or error}", hint="see dmesg; probe another disk"
    )


SIZES = (512, 4096, 16384)
"""Writes of InnoDB's redo log, small binlog writes, and writes of InnoDB's pages."""

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
        return f"{self.way} {size}" + (f" · {self.depth} at once" if self.depth > 1 else "")


def cells(*, quick: bool) -> tuple[DiskCell, ...]:
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
    if cell.order == "random":
        return cell.depth in (1, 16)
    return cell.bytes == 4096 or cell.way in ("pair", "fdatasync")


def measure(folder: Path, cell: DiskCell, *, seconds: float, file_bytes: int, medium: Medium) -> DiskResult:
    given = msgspec.structs.asdict(cell)
    spec = {
        **given,
        "directory": str(folder),
        "file_bytes": file_bytes,
        "seconds": seconds,
        "stall_seconds": STALL_SECONDS,
    }
    with storage_errors(Path(medium.directory)):
        answer = msgspec.json.decode(_core.measure_disk(msgspec.json.encode(spec)))
    if answer == "stopped":
        raise KeyboardInterrupt
    if (done := answer.get("measured")) is None:
        return DiskResult(**given, refused=_reason(cell, answer["refused"], medium))
    rate = done["operations"] / done["seconds"] if done["seconds"] else 0.0
    return msgspec.convert({**given, **done, "operations_per_s": rate}, DiskResult)


def _reason(cell: DiskCell, refused: str, medium: Medium) -> str:
    block = medium.logical_block_bytes
    if cell.way in ("direct", "direct_dsync") and block is not None and cell.bytes < block:
        return f"not possible: the device's logical block has {block:,} bytes"
    return f"not possible: {refused}"


FASTEST_US = 5.0
SPINNING_US = 1_000.0
FREE_FLUSH = 1.3
"""A synced write that takes less than this much of a bare one was not followed by a flush."""

_MEMORY_ON_A_BUS = "pmem"
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs"})


def flush_warnings(medium: Medium, disk: Iterable[DiskResult]) -> tuple[Warning, ...]:
    figures = [one for one in disk if one.latency_us is not None and one.depth == 1]
    return (*_of_medium(medium), *_of_rates(medium, figures))


def _of_medium(medium: Medium) -> Iterator[Warning]:
    if medium.in_memory:
        yield Warning(
            "in-memory",
            f"{medium.directory} is in memory ({medium.filesystem}): fsync does nothing, and nothing"
            " survives an OS crash",
        )
    if {"nobarrier", "barrier=0"} & set(medium.options):
        yield Warning(
            "no-barrier",
            "the file system is mounted without barriers: fsync does not flush the device's cache",
        )
    if medium.filesystem == "overlay" and "volatile" in medium.options:
        yield Warning("overlay-volatile", "the overlay is mounted volatile: its fsync does nothing")
    if medium.filesystem in _NETWORK:
        yield Warning(
            "other-machine",
            f"{medium.filesystem} sends writes to another machine: what a sync does there is not visible",
        )


def _of_rates(medium: Medium, figures: list[DiskResult]) -> Iterator[Warning]:
    synced = _p50(figures, "fdatasync")
    if synced is None or medium.in_memory:
        return
    if (medium.disk or "").startswith(_MEMORY_ON_A_BUS):
        return
    if synced < FASTEST_US:
        yield Warning(
            "fsync-too-fast",
            f"an fdatasync takes {synced:.1f} µs: no medium is that fast, so it does not reach one (a cache,"
            " a library or a hypervisor swallows it)",
        )
        return
    if medium.rotational and synced < SPINNING_US:
        yield Warning(
            "fsync-too-fast",
            f"an fdatasync takes {synced:,.0f} µs on a spinning disk: its cache answers; check whether that"
            " cache survives a power failure",
        )
        return
    bare = _p50(figures, "direct")
    if medium.volatile_cache and bare is not None and synced < FREE_FLUSH * bare:
        yield Warning(
            "flush-is-free",
            f"{medium.disk} reports a volatile cache, but a synced write ({synced:,.0f} µs) takes no"
            f" longer than an unsynced one ({bare:,.0f} µs): its cache is protected, or flushes are ignored",
        )


def _p50(figures: list[DiskResult], way: Way) -> float | None:
    for one in figures:
        plain = one.layout == "written" and one.order == "sequential" and one.bytes == 4096
        if one.way == way and plain and one.latency_us is not None:
            return one.latency_us.p50
    return None
