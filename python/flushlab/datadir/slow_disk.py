"""Slow disk: a disk as slow as somebody else's, for `--disk`. Sits in `datadir`, on the fault disk.

The disk is accepted only after two measurements, with overwrites of 4 KiB and an fdatasync each:

- at full speed, so that the latency of the path to the disk is known and subtracted
- at the requested latency

Limits: its file system is a fresh ext4. While it flushes it does nothing else, as loop devices do. A cloud
volume continues to write meanwhile, so the profiles of cloud volumes put the latency into the write.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from flushlab import _core
from flushlab.build.build import Progress, silent
from flushlab.datadir.data_root import DataRoot
from flushlab.datadir.fault_disk import LEAST_BYTES, Delay, FaultDisk, FileSystemName, require_fault_disk
from flushlab.errors import HarnessError
from flushlab.process import passing_folder
from flushlab.record import DiskEmulation, DiskProfile, RequestLatency
from flushlab.units import format_latency

BELIEVED = (0.75, 1.5)
"""Range of measured / asked within which a median is believed. On an idle machine it is within 0.15 of 1;
other load makes it longer."""
CARRYING_US = 500.0
"""What a busy machine may add to it."""
NEAR = 0.02
"""Of the latency that was asked for: what is as near needs no correction."""
WAKING = 0.1
"""Of the latency that was asked for: most that waking up adds to what the way takes."""
MOST_BYTES = 256 << 30
SPARED = 0.1
"""Of the free space that is left to others."""
_LEAST_OPERATIONS = 100
_Z99 = 2.3263
"""The 99th percentile of a standard normal distribution."""
_SECONDS = (0.5, 3.0)
_TRIES = 3


class SlowDisk:
    """A disk of its own in a data root; a context manager that removes it with all that is on it.

    Args:
        data_root: parent of the disk's blocks, on a disk or in memory.
        outlives: the disk may be kept; see `keep`.

    Raises:
        UsageError: no root rights.
        NoSpace: fewer bytes are free than its file system takes.
        HarnessError: no such disk can be made here, or it is not as slow as was asked for.
    """

    def __init__(
        self,
        data_root: DataRoot,
        profile: DiskProfile,
        fs: FileSystemName = "ext4",
        *,
        outlives: bool = False,
    ) -> None:
        self.profile = profile
        self._fs: FileSystemName = fs
        self.below = data_root
        size = min(MOST_BYTES, int(data_root.free_bytes() * (1 - SPARED)))
        self._way: _Known | None = None
        self._disk = FaultDisk(data_root.path, size, fs, punctual=True, outlives=outlives)

    def open(self, progress: Progress = silent) -> Self:
        """Makes it and measures it."""
        require_fault_disk(self._fs)
        self.below.require_free(int(LEAST_BYTES[self._fs] / (1 - SPARED)), "a disk of its own")
        progress(f"making a disk as slow as {self.profile.name} in {self.below.path} and measuring it")
        self._disk.open()
        try:
            self.record = self._measured()
            self.data_root = DataRoot.open(self._disk.mount)
        except BaseException:
            self._disk.close()
            raise
        progress(f"a write with its sync takes {format_latency(self.record.measured_sync_us_p50)} on it")
        return self

    def another(self, *, outlives: bool = False) -> SlowDisk:
        """One more like it, beside it: a node of a cluster has its own disk. It is the caller's to open.

        What the way to this one takes is not measured again.
        """
        other = SlowDisk(self.below, self.profile, self._fs, outlives=outlives)
        other._way = self._way
        return other

    def keep(self, name: str) -> None:
        """Leaves it to itself: it lives as long as there is a run record of that name, without flushlab."""
        self._disk.keep(name)

    def close(self) -> None:
        """Removes it."""
        self._disk.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _measured_way(self, folder: Path) -> _Known:
        write = _measure(folder, "direct", _SECONDS[0]).p50
        sync = _measure(folder, "fdatasync", _SECONDS[0]).p50
        way = Delay(flush_us=max(0.0, sync - write), write_us=write)
        return _Known(alone=way, way=way, fastest_sync_us=sync)

    def _measured(self) -> DiskEmulation:
        with passing_folder(self._disk.mount, "write-probe") as folder:
            known = self._way or self._measured_way(folder)
            way, sync = known.way, known.fastest_sync_us
            self._disk.write_out()
            asked = _asked(self.profile, sync)
            seconds = min(max(asked.p50_us * _LEAST_OPERATIONS / 1e6, _SECONDS[0]), _SECONDS[1])
            for _ in range(_TRIES):
                taken = way
                self._disk.be_slow(self.profile, taken)
                found = _measure(folder, "fdatasync", seconds)
                off_us = found.p50 - asked.p50_us
                if abs(off_us) > noise(asked, seconds) * asked.p50_us:
                    way = corrected(taken, known.alone, self.profile, asked.p50_us, off_us)
                if is_believed(asked.p50_us, found.p50) and (way == taken or self._way is not None):
                    break
        if not is_believed(asked.p50_us, found.p50):
            raise HarnessError(
                f"the disk was to take {format_latency(asked.p50_us)} for a write with its sync, but"
                f" {format_latency(found.p50)} were measured",
                hint="the machine may be too busy: try again when it is quiet",
            )
        self._way = known._replace(way=taken)
        return DiskEmulation(
            profile=self.profile,
            asked_sync_us_p50=asked.p50_us,
            measured_sync_us_p50=found.p50,
            measured_sync_us_p99=found.p99,
            fastest_sync_us_p50=sync,
        )


class _Known(NamedTuple):
    """What the way to such a disk takes: as it was measured alone, and with what waking up adds to it."""

    alone: Delay
    way: Delay
    fastest_sync_us: float


def is_believed(asked_us: float, measured_us: float) -> bool:
    """Whether a disk is as slow as was asked for."""
    low, high = BELIEVED
    return low * asked_us <= measured_us <= high * asked_us + CARRYING_US


def noise(asked: RequestLatency, seconds: float) -> float:
    """How far a median of so many seconds may lie from the true one by chance, as a share of it.

    Two standard errors of a log-normal's median: 1.25 of its spread over the root of how many there are.
    """
    spread = math.log(asked.p99_us / asked.p50_us) / _Z99
    return max(NEAR, 2 * 1.25 * spread / math.sqrt(seconds * 1e6 / asked.p50_us))


def corrected(way: Delay, alone: Delay, profile: DiskProfile, asked_us: float, off_us: float) -> Delay:
    """What the way takes, after a look at how long a write with its sync took on the slow disk.

    Args:
        way: latency of the path to the disk as assumed for that measurement.
        alone: the path's latency measured without the slow disk. A process takes longer to wake up from a
            long sleep, which adds to the latency. More than a tenth of the requested latency is other
            programs' load.
        profile: of the disk.
        asked_us: requested median, in microseconds.
        off_us: measured median minus `asked_us`.
    """
    parts = {name: one.p50_us for name in ("flush", "write") if (one := getattr(profile, name)) is not None}
    if not parts:
        return way
    word = f"{max(parts, key=lambda name: parts[name])}_us"
    least_us, most_us = (getattr(alone, word) + sign * WAKING * asked_us for sign in (-1, 1))
    taken_us = min(max(getattr(way, word) + off_us, least_us, 0.0), most_us)
    return msgspec.structs.replace(way, **{word: taken_us})


class _Latency(msgspec.Struct, frozen=True):
    p50: float
    p99: float


class _Figure(msgspec.Struct, frozen=True):
    latency_us: _Latency


class _Outcome(msgspec.Struct, frozen=True):
    measured: _Figure


def _asked(profile: DiskProfile, fastest_us: float) -> RequestLatency:
    """What a write with its sync should take."""
    parts = [one for one in (profile.flush, profile.write) if one is not None]
    by_rate = 1e6 / profile.iops if profile.iops else 0.0
    return RequestLatency(
        p50_us=max(sum(one.p50_us for one in parts), by_rate, fastest_us),
        p99_us=max(sum(one.p99_us for one in parts), by_rate, fastest_us),
    )


def _measure(folder: Path, way: str, seconds: float) -> _Latency:
    spec = {
        "directory": str(folder),
        "way": way,
        "bytes": 4096,
        "layout": "written",
        "order": "sequential",
        "depth": 1,
        "file_bytes": 1 << 20,
        "seconds": seconds,
    }
    try:
        outcome = _core.measure_disk(msgspec.json.encode(spec))
        return msgspec.json.decode(outcome, type=_Outcome).measured.latency_us
    except (OSError, msgspec.ValidationError) as error:
        raise HarnessError(f"the slow disk could not be measured: {error}") from error
