"""Disk: requests wait for a limit of the server's control group, or in the disk's queue. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.host import HeldLimit, Host
from flushlab.diagnosis.waits import ROW_LOCK
from flushlab.machine.disk_use import DiskUse, Requests

REACHED = 0.9
"""Part of a limit from which on requests wait for it: a limiter counts in slices, and a window has both ends
of some."""
_BUSY, _QUEUE = 0.8, 4.0


def find(evidence: Evidence) -> Finding | None:
    """A limit that is reached, or a full queue on a disk of the server, if its machine is in sight."""
    host = evidence.host
    if host is None:
        return None
    reached = [one for one in host.io_limits if one.used >= REACHED * one.limit]
    full = [one for one in host.disks if one.utilisation >= _BUSY and one.queue >= _QUEUE]
    if not reached and not full:
        return None
    # Of a request in a queue of q, (q-1)/q of its time is that of the others, while the disk is busy.
    part = 1.0 if reached else max(one.utilisation * (1.0 - 1.0 / one.queue) for one in full)
    seen = [_limit(one) for one in reached]
    seen += [Seen(text) for one in host.disks for text in _of(one)]
    seen += [Seen(text) for text in _pressure(host)]
    return Finding(
        name="disk",
        title="the control group's limit on the disk is reached"
        if reached
        else "the disk is saturated, so requests queue",
        names_cause=bool(reached),
        shows_in=("commit_sync",) if reached else (),
        share=evidence.time.within(part, "statement", "commit", "reading", delays=(ROW_LOCK,)),
        seen=tuple(seen),
        advice=(
            "Raise the limit (io.max, blkio.throttle; a container's or a cloud volume's size), or sync less"
            " often: more rows per commit."
            if reached
            else "Find who writes; a faster disk, or fewer page writes (larger redo log, larger pool)."
        ),
    )


def _limit(limit: HeldLimit) -> Seen:
    return Seen(
        f"{limit.used:,.0f} {limit.unit} on {limit.disk}; the server's control group may do {limit.limit:,}"
    )


def _of(use: DiskUse) -> Iterator[str]:
    parts = (("reads", use.reads), ("writes", use.writes), ("flushes", use.flushes))
    told = [text for name, requests in parts if requests is not None and (text := rate(name, requests))]
    told.append(f"busy {use.utilisation:.0%} of the time, {use.queue:.1f} requests at once")
    yield f"{use.disk}: {', '.join(told)} (/proc/diskstats)"


def rate(name: str, requests: Requests) -> str:
    """`450 flushes/s of 0.70 ms`; empty if there were none."""
    if not requests.per_s or requests.mean_ms is None:
        return ""
    return f"{requests.per_s:,.0f} {name}/s of {requests.mean_ms:.2f} ms"


def _pressure(host: Host) -> Iterator[str]:
    if host.pressure.io_pressure_share is not None:
        yield f"tasks waited for I/O {host.pressure.io_pressure_share:.0%} of the time (/proc/pressure/io)"
