"""Machine: disk, processors, and whoever else uses them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.host import HeldLimit, Host
from flushlab.diagnosis.shares import Share
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK
from flushlab.machine.describe import DiskUse, Requests
from flushlab.units import counted, format_size

_BUSY = 0.5


def find_cpu(evidence: Evidence) -> Finding | None:
    """A machine short of processor time, if flushlab sees the machine."""
    machine = evidence.pressure
    if machine is None or machine.cpu_pressure_share is None:
        return None
    if machine.cpu_pressure_share < _BUSY:
        return None
    waits = ("statement", "reading", "commit")
    share = evidence.time.share(*waits, delays=(ROW_LOCK, PROCESSOR))
    waiting = evidence.host.cpu_waiting if evidence.host is not None else None
    if share is not None:
        share = share.at_most_all(machine.cpu_pressure_share)
    if share is not None and waiting is not None:
        # Until a thread has read its next statement, its state is that of the client's turn.
        # Threads of readers wait as well: a writer's part is taken to be that of everybody at work.
        part = min(1.0, waiting / max(evidence.time.total + evidence.time.others, 1e-9))
        share = msgspec.structs.replace(share, mid=part, high=max(part, share.high))
    running = evidence.after.number("threads_running")
    seen = [
        Seen(
            f"tasks waited for a processor {machine.cpu_pressure_share:.0%} of the time (/proc/pressure/cpu)"
        )
    ]
    if waiting is not None:
        seen.append(Seen(f"{waiting:.1f} server threads waited for a processor, on average (schedstat)"))
    if running is not None and evidence.cpus:
        text = f"{counted(round(running), 'connection')} at work on {counted(evidence.cpus, 'processor')}"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Threads_running'"))
    return Finding(
        name="cpu",
        title="the machine is short of processor time",
        share=share,
        waits=waits if waiting is None else (*waits, "client"),
        shows_in=("client",) if waiting is not None else (),
        seen=tuple(seen),
        advice="Find the busiest processes (top, pidstat). Fewer, larger statements use less CPU time.",
    )


_OFTEN = 0.1


def find_cpu_quota(evidence: Evidence) -> Finding | None:
    """Throttled periods, if the server's control group has a quota and is in sight."""
    host = evidence.host
    if host is None or host.cpu_quota is None or (host.cpu_throttled_share or 0.0) < _OFTEN:
        return None
    throttled = host.cpu_throttled_share or 0.0
    most = throttled * max(0.0, 1.0 - host.cpu_quota / host.cpus)
    least = min(most, host.cpu_stopped_share or 0.0)
    return Finding(
        name="cpu_quota",
        title="the server's control group is out of processor time",
        shows_in=("cpu", "client"),
        share=Share(least, (least + most) / 2, most, proportional=False) if evidence.time.total else None,
        seen=(
            Seen(
                f"throttled in {throttled:.0%} of the periods, stopped for {least:.0%} of the time or more,"
                f" at {host.cpu_quota:.1f} of {host.cpus} processors (cpu.stat)"
            ),
        ),
        advice="Raise the limit of the container or service (cpu.max, CPUQuota=); bursts are cut off too.",
    )


REACHED = 0.9
"""Part of a limit from which on requests wait for it: a limiter counts in slices, and a window has both ends
of some."""
_DISK_BUSY, _QUEUE = 0.8, 4.0


def find_disk(evidence: Evidence) -> Finding | None:
    """A limit that is reached, or a full queue on a disk of the server, if its machine is in sight."""
    host = evidence.host
    if host is None:
        return None
    reached = [one for one in host.io_limits if one.used >= REACHED * one.limit]
    full = [one for one in host.disks if one.utilisation >= _DISK_BUSY and one.queue >= _QUEUE]
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


_MUCH = 0.25
"""Of the bytes that the server and the others write."""
_WORTH_A_LINE = 0.1


def find_other_io(evidence: Evidence) -> Finding | None:
    """Others that write much to a busy disk, if they are in sight."""
    host = evidence.host
    if evidence.write_time is not None and not evidence.time.total:
        return None  # nobody waits
    disk = host.data_disk if host else None
    if host is None or disk is None or disk.utilisation < _BUSY:
        return None
    others = [one for one in host.writers if one.on_data is not False]
    rate = sum(one.bytes_per_s for one in others)
    # Without the server's own figure, the disk's has both.
    whole = rate + host.bytes_per_s if host.bytes_per_s is not None else disk.writes.bytes_per_s or 0.0
    part = min(1.0, rate / whole) if whole else 0.0
    if part < _MUCH:
        return None
    name = others[0].name
    own = "" if host.bytes_per_s is None else f"; the server {format_size(host.bytes_per_s)}/s"
    seen = [
        Seen(
            f"{one.name} ({'process' if len(one.pids) == 1 else f'{len(one.pids)} processes, most by'}"
            f" {one.pids[0]}) wrote {format_size(one.bytes_per_s)}/s{own} (/proc/PID/io)"
        )
        for one in others
        if one.bytes_per_s >= _WORTH_A_LINE * rate
    ]
    seen.append(Seen(f"{disk.disk} was busy {disk.utilisation:.0%} of the time (/proc/diskstats)"))
    return Finding(
        name="other_io",
        title=f"{name} writes to the server's disk, which is busy {disk.utilisation:.0%} of the time",
        # Commits wait for syncs; statements may wait for pages that are written or read.
        share=evidence.time.within(part, "commit", delays=("statement", ROW_LOCK, PROCESSOR)),
        waits=("commit",),
        seen=tuple(seen),
        advice=(
            f"flushlab cannot see whether writers wait for {name}. Stop it for a minute and run doctor again:"
            " if writes become faster, limit it or move it elsewhere."
        ),
        is_proven=False,
    )


_STEAL_MUCH = 0.05


def find_steal(evidence: Evidence) -> Finding | None:
    """Stolen processor time, if flushlab sees the machine."""
    machine = evidence.pressure
    if machine is None or machine.steal_share < _STEAL_MUCH:
        return None
    return Finding(
        name="steal",
        title="the hypervisor takes processor time from this machine",
        share=evidence.time.within(
            machine.steal_share, "statement", "reading", "commit", delays=(ROW_LOCK, PROCESSOR)
        ),
        seen=(Seen(f"{machine.steal_share:.0%} of all processor time was stolen (/proc/stat)"),),
        advice="No setting helps: use a host with fewer neighbors, or an instance with its own processors.",
    )
