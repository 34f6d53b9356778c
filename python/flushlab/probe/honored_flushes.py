"""Honored flushes: does data survive a crash after fsync? Pure: rates and facts in, warnings out.

Probe layer. A rate proves only one side: a sync that is faster than any medium reached none. A slower sync
may still end in a volatile cache. The limits and their sources:

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

from collections.abc import Iterable, Iterator

from flushlab.record import DiskResult, Medium, Warning, Way

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
    """Median latency of 4 KiB over written blocks, one at a time."""
    for one in figures:
        plain = one.layout == "written" and one.order == "sequential" and one.bytes == 4096
        if one.way == way and plain and one.latency_us is not None:
            return one.latency_us.p50
    return None
