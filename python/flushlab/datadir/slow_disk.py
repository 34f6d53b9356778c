"""Slow disk: a disk as slow as somebody else's, for `--disk`. Sits in `datadir`, on the fault disk.

The disk is accepted only after two measurements, with overwrites of 4 KiB and an fdatasync each:

- at full speed, so that the latency of the path to the disk is known and subtracted
- at the requested latency

Limits: its file system is a fresh ext4. While it flushes it does nothing else, as loop devices do. A cloud
volume continues to write meanwhile, so the profiles of cloud volumes put the latency into the write.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from flushlab import _core
from flushlab.datadir.data_root import DataRoot
from flushlab.datadir.fault_disk import LEAST_BYTES, Delay, FaultDisk, FileSystemName, require_fault_disk
from flushlab.errors import HarnessError, UsageError
from flushlab.machine import describe
from flushlab.process import passing_folder
from flushlab.progress import Progress, silent
from flushlab.record import DiskEmulation, DiskProfile, Machine, RequestLatency
from flushlab.undo import Closing
from flushlab.units import format_latency, parse_latency, parse_size

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


class SlowDisk(Closing):
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
        other = SlowDisk(self.below, self.profile, self._fs, outlives=outlives)
        other._way = self._way
        return other

    def keep(self, name: str) -> None:
        self._disk.keep(name)

    def close(self) -> None:
        self._disk.close()

    def __enter__(self) -> Self:
        return self.open()

    def _measured_way(self, folder: Path) -> _Known:
        write, sync = (_measure(folder, how, _SECONDS[0]).p50 for how in ("direct", "fdatasync"))
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
    alone: Delay
    way: Delay
    fastest_sync_us: float


def is_believed(asked_us: float, measured_us: float) -> bool:
    low, high = BELIEVED
    return low * asked_us <= measured_us <= high * asked_us + CARRYING_US


def noise(asked: RequestLatency, seconds: float) -> float:
    """How far a median of so many seconds may lie from the true one by chance, as a share of it.

    Two standard errors of a log-normal's median: 1.25 of its spread over the root of how many there are.
    """
    spread = math.log(asked.p99_us / asked.p50_us) / _Z99
    return max(NEAR, 2 * 1.25 * spread / math.sqrt(seconds * 1e6 / asked.p50_us))


def corrected(way: Delay, alone: Delay, profile: DiskProfile, asked_us: float, off_us: float) -> Delay:
    """Latency of the way alone, after a look at a write with its sync on the slow disk.

    A process takes longer to wake up from a long sleep, which adds to the latency. More than a tenth of the
    requested latency is other programs' load.
    """
    parts = {name: one.p50_us for name in ("flush", "write") if (one := getattr(profile, name)) is not None}
    if not parts:
        return way
    word = f"{max(parts, key=lambda name: parts[name])}_us"
    least_us, most_us = (getattr(alone, word) + sign * WAKING * asked_us for sign in (-1, 1))
    taken_us = min(max(getattr(way, word) + off_us, least_us, 0.0), most_us)
    return msgspec.structs.replace(way, **{word: taken_us})


class _Latency(NamedTuple):
    p50: float
    p99: float


def _asked(profile: DiskProfile, fastest_us: float) -> RequestLatency:
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
        latency = msgspec.json.decode(_core.measure_disk(msgspec.json.encode(spec)))["measured"]["latency_us"]
        return _Latency(latency["p50"], latency["p99"])
    except (OSError, KeyError, TypeError) as error:
        raise HarnessError(f"the slow disk could not be measured: {error}") from error


LEAST_US = 100.0
"""The way to a disk that is served by a program, and back, takes nearly as long."""
MOST_US = 1e6
LEAST_IOPS, LEAST_BYTES_PER_S = 10, 100_000
"""Of far slower ones nothing can be measured in minutes: seen with iops=1 and bandwidth=10."""
_FILE = Path(__file__).with_name("disk_profiles.toml")
_EXAMPLE = "--disk flush=1ms,write=0.1ms,iops=3000"


class NamedDisk(msgspec.Struct, frozen=True):
    disk: str
    what: str
    source: str


@cache
def named_disks() -> dict[str, NamedDisk]:
    return msgspec.convert(tomllib.loads(_FILE.read_text()), dict[str, NamedDisk])


def parse_disk(text: str) -> DiskProfile:
    first, *rest = words = [word.strip() for word in text.split(",")]
    known = named_disks().get(first.lower())
    if known is not None:
        words = [*known.disk.split(","), *rest]
    elif "=" not in first:
        names = ", ".join(named_disks())
        raise UsageError(f"no disk is named {first!r}", hint=f"there are {names}; or: {_EXAMPLE}")
    typed = [word.partition("=")[0] for word in (rest if known else words) if "=" in word]
    if twice := [name for name in typed if typed.count(name) > 1]:
        raise UsageError(f"--disk {text} has {twice[0]}= twice", hint="give it once")
    profile = DiskProfile(name=text)
    for word in words:
        name, _, value = word.partition("=")
        given: dict[str, RequestLatency | float]
        if name in ("flush", "write", "read"):
            given = {name: _latency(name, value)}
        elif name == "iops" and value.isdecimal():
            given = {"iops": _rate(word, int(value), LEAST_IOPS, f"{LEAST_IOPS} a second")}
        elif name == "bandwidth":
            size = parse_size(value.removesuffix("/s"))
            given = {"bytes_per_s": _rate(word, size, LEAST_BYTES_PER_S, "100K")}
        else:
            raise UsageError(
                f"--disk {text}: {word!r} is not understood",
                hint=f"it takes flush=, write=, read=, iops= and bandwidth=, such as {_EXAMPLE}",
            )
        profile = msgspec.structs.replace(profile, **given)
    return profile


def _rate(word: str, value: int, least: int, words: str) -> float:
    if value < least:
        raise UsageError(f"--disk {word} is out of range", hint=f"it takes at least {words}")
    return float(value)


def _latency(name: str, value: str) -> RequestLatency:
    median, _, tail = value.partition("/")
    try:
        p50_us = parse_latency(median) * 1e6
        p99_us = parse_latency(tail) * 1e6 if tail else p50_us
    except UsageError:
        raise UsageError(
            f"--disk {name}={value} is not a latency", hint=f"for example {name}=1ms, or {name}=1ms/5ms"
        ) from None
    if p50_us < LEAST_US:
        raise UsageError(
            f"a disk with {name}={value} cannot be emulated: any emulated disk takes about 0.1 ms to answer",
            hint="such a disk costs next to nothing: leave it out, or measure on the real one",
        )
    if p99_us < p50_us or p99_us > MOST_US:
        raise UsageError(
            f"{name}={value} is not a disk latency",
            hint="give a median and a 99th percentile, such as 1ms/5ms, of 1 s at most",
        )
    return RequestLatency(p50_us=p50_us, p99_us=p99_us)


@dataclass(frozen=True)
class Volume:
    data_root: DataRoot
    slow_disk: SlowDisk | None = None

    @property
    def below(self) -> DataRoot:
        return self.slow_disk.below if self.slow_disk else self.data_root

    def machine(self) -> Machine:
        return describe(self.data_root.path, self.slow_disk.record if self.slow_disk else None)


@contextmanager
def open_volume(
    data_root: Path | None, disk: str | None = None, progress: Progress = silent
) -> Iterator[Volume]:
    own_disk(disk)  # found out before anything is made
    with volume_in(DataRoot.open(data_root), disk, progress) as volume:
        yield volume


@contextmanager
def volume_in(root: DataRoot, disk: str | None = None, progress: Progress = silent) -> Iterator[Volume]:
    model = slow_disk_in(root, disk)
    if model is None:
        yield Volume(root)
        return
    with closing(model.open(progress)) as slow:
        yield Volume(slow.data_root, slow_disk=slow)


def slow_disk_in(root: DataRoot, disk: str | None) -> SlowDisk | None:
    profile = own_disk(disk)
    return None if profile is None else SlowDisk(root, profile)


def own_disk(disk: str | None) -> DiskProfile | None:
    return None if disk is None else parse_disk(disk)
