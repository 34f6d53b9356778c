"""Disk profiles: the words that `--disk` takes. Sits in `datadir`; reads its table of named disks only."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import msgspec

from flushlab.errors import UsageError
from flushlab.record import DiskProfile, RequestLatency
from flushlab.units import parse_latency, parse_size

LEAST_US = 100.0
"""The way to a disk that is served by a program, and back, takes nearly as long."""
MOST_US = 1e6
LEAST_IOPS, LEAST_BYTES_PER_S = 10, 100_000
"""Of far slower ones nothing can be measured in minutes: seen with iops=1 and bandwidth=10."""
_FILE = Path(__file__).with_name("disk_profiles.toml")
_REQUESTS = ("flush", "write", "read")
_EXAMPLE = "--disk flush=1ms,write=0.1ms,iops=3000"


class NamedDisk(msgspec.Struct, frozen=True):
    """A disk of the table.

    Attributes:
        disk: the words that say how slow it is.
        what: description of the disk.
        source: of the latencies and rates.
    """

    disk: str
    what: str
    source: str


@cache
def named_disks() -> dict[str, NamedDisk]:
    """Disks that have a name."""
    return msgspec.convert(tomllib.loads(_FILE.read_text()), dict[str, NamedDisk])


def parse_disk(text: str) -> DiskProfile:
    """`gp3`, or `flush=1ms,write=0.1ms/0.5ms,iops=3000,bandwidth=125M`.

    A latency is a median, or a median and a 99th percentile. The words may begin with a name; the following
    words replace its values: `gp3,iops=16000`.

    Raises:
        UsageError: it is no disk, or one that cannot be emulated.
    """
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
    latencies: dict[str, RequestLatency] = {}
    rates: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in _REQUESTS:
            latencies[name] = _latency(name, value)
        elif name == "iops" and value.isdecimal():
            rates["iops"] = _rate(word, int(value), LEAST_IOPS, f"{LEAST_IOPS} a second")
        elif name == "bandwidth":
            size = parse_size(value.removesuffix("/s"))
            rates["bytes_per_s"] = _rate(word, size, LEAST_BYTES_PER_S, "100K")
        else:
            raise UsageError(
                f"--disk {text}: {word!r} is not understood",
                hint=f"it takes flush=, write=, read=, iops= and bandwidth=, such as {_EXAMPLE}",
            )
    return DiskProfile(
        name=text,
        flush=latencies.get("flush"),
        write=latencies.get("write"),
        read=latencies.get("read"),
        iops=rates.get("iops"),
        bytes_per_s=rates.get("bytes_per_s"),
    )


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
