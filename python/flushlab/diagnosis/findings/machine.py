"""Machine: disk, processors, and whoever else uses them. Pure."""

from __future__ import annotations

import msgspec

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, counter
from flushlab.diagnosis.shares import TimeShare
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK
from flushlab.machine.describe import Requests
from flushlab.units import counted, format_size

REACHED = 0.9
"""Part of a limit from which on requests wait for it: a limiter counts in slices, and a window has both ends
of some."""


def find_disk(evidence: Evidence) -> Finding | None:
    host = evidence.host
    if host is None:
        return None
    reached = [one for one in host.io_limits if one.used >= REACHED * one.limit]
    full = [one for one in host.disks if one.utilisation >= 0.8 and one.queue >= 4]
    if not reached and not full:
        return None
    # Of a request in a queue of q, (q-1)/q of its time is that of the others, while the disk is busy.
    part = 1.0 if reached else max(one.utilisation * (1.0 - 1.0 / one.queue) for one in full)
    seen = [
        f"{one.used:,.0f} {one.unit} on {one.disk}; the server's control group may do {one.limit:,}"
        for one in reached
    ]
    for use in host.disks:
        kinds = (("reads", use.reads), ("writes", use.writes), ("flushes", use.flushes))
        rates = [text for name, requests in kinds if requests is not None and (text := rate(name, requests))]
        rates.append(f"busy {use.utilisation:.0%} of the time, {use.queue:.1f} requests at once")
        seen.append(f"{use.disk}: {', '.join(rates)} (/proc/diskstats)")
    if (io := host.pressure.io_pressure_share) is not None:
        seen.append(f"tasks waited for I/O {io:.0%} of the time (/proc/pressure/io)")
    return Finding(
        name="disk",
        title="the control group's limit on the disk is reached"
        if reached
        else "the disk is saturated, so requests queue",
        names_cause=bool(reached),
        shows_in=("commit_sync",) if reached else (),
        share=evidence.time.within(part, "statement", "commit", "reading", delays=(ROW_LOCK,)),
        seen=tuple(map(Seen, seen)),
        advice=(
            "Raise the limit (io.max, blkio.throttle; a container's or a cloud volume's size), or sync less"
            " often: more rows per commit."
            if reached
            else "Find who writes; a faster disk, or fewer page writes (larger redo log, larger pool)."
        ),
    )


def rate(name: str, requests: Requests) -> str:
    if not requests.per_s or requests.mean_ms is None:
        return ""
    return f"{requests.per_s:,.0f} {name}/s of {requests.mean_ms:.2f} ms"


_MUCH = 0.25
"""Of the bytes that the server and the others write."""
_WORTH_A_LINE = 0.1


def find_other_io(evidence: Evidence) -> Finding | None:
    """Another process writes much to the server's disk, which is busy, while commits wait.

    That all of it happens in one window is no proof. The experiment that separates them is to stop the other
    process.
    """
    host = evidence.host
    disk = host.data_disk if host else None
    is_nobody_waiting = evidence.write_time is not None and not evidence.time.total
    if host is None or disk is None or disk.utilisation < 0.5 or is_nobody_waiting:
        return None
    others = [one for one in host.writers if one.on_data is not False]
    per_s = sum(one.bytes_per_s for one in others)
    # Without the server's own figure, the disk's has both.
    whole = per_s + host.bytes_per_s if host.bytes_per_s is not None else disk.writes.bytes_per_s or 0.0
    part = min(1.0, per_s / whole) if whole else 0.0
    if part < _MUCH:
        return None
    name, busy = others[0].name, f"busy {disk.utilisation:.0%} of the time"
    own = "" if host.bytes_per_s is None else f"; the server {format_size(host.bytes_per_s)}/s"
    seen = []
    for one in others:
        if one.bytes_per_s >= _WORTH_A_LINE * per_s:
            which = "process" if len(one.pids) == 1 else f"{len(one.pids)} processes, most by"
            text = f"{one.name} ({which} {one.pids[0]}) wrote {format_size(one.bytes_per_s)}/s{own}"
            seen.append(Seen(f"{text} (/proc/PID/io)"))
    seen.append(Seen(f"{disk.disk} was {busy} (/proc/diskstats)"))
    return Finding(
        name="other_io",
        title=f"{name} writes to the server's disk, which is {busy}",
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


def find_cpu(evidence: Evidence) -> Finding | None:
    pressure = evidence.pressure.cpu_pressure_share if evidence.pressure else None
    if pressure is None or pressure < 0.5:
        return None
    waits = ("statement", "reading", "commit")
    share = evidence.time.share(*waits, delays=(ROW_LOCK, PROCESSOR))
    waiting = evidence.host.cpu_waiting if evidence.host is not None else None
    if share is not None:
        share = share.at_most_all(pressure)
    if share is not None and waiting is not None:
        # Until a thread has read its next statement, its state is that of the client's turn.
        # Threads of readers wait as well: a writer's part is taken to be that of everybody at work.
        part = min(1.0, waiting / max(evidence.time.total + evidence.time.others, 1e-9))
        share = msgspec.structs.replace(share, mid=part, high=max(part, share.high))
    seen = [Seen(f"tasks waited for a processor {pressure:.0%} of the time (/proc/pressure/cpu)")]
    if waiting is not None:
        seen.append(Seen(f"{waiting:.1f} server threads waited for a processor, on average (schedstat)"))
    running = evidence.after.number("threads_running")
    if running is not None and evidence.cpus:
        text = f"{counted(round(running), 'connection')} at work on {counted(evidence.cpus, 'processor')}"
        seen.append(counter(text, "Threads_running"))
    return Finding(
        name="cpu",
        title="the machine is short of processor time",
        share=share,
        waits=waits if waiting is None else (*waits, "client"),
        shows_in=("client",) if waiting is not None else (),
        seen=tuple(seen),
        advice="Find the busiest processes (top, pidstat). Fewer, larger statements use less CPU time.",
    )


def find_cpu_quota(evidence: Evidence) -> Finding | None:
    """The server's control group has used up its processor time for the period.

    A server that is stopped answers nobody, the doctor neither, so the states of connections do not show the
    time. The lower end is the time in which all processors were stopped, if they were stopped together. A
    group that uses its quota on all processors runs for quota/processors of a period at least; the rest is
    the upper end.

    No bound comes of it. Background threads use up the same quota, and so do threads that spin for a latch
    whose holder is stopped: a larger quota may bring more than in proportion. 14 times as many transactions
    were seen with 10 times the processor time (MariaDB 10.11).
    """
    host = evidence.host
    throttled = host.cpu_throttled_share or 0.0 if host else 0.0
    if host is None or host.cpu_quota is None or throttled < 0.1:
        return None
    most = throttled * max(0.0, 1.0 - host.cpu_quota / host.cpus)
    least = min(most, host.cpu_stopped_share or 0.0)
    text = f"throttled in {throttled:.0%} of the periods, stopped for {least:.0%} of the time or more,"
    return Finding(
        name="cpu_quota",
        title="the server's control group is out of processor time",
        shows_in=("cpu", "client"),
        share=TimeShare(least, (least + most) / 2, most, proportional=False) if evidence.time.total else None,
        seen=(Seen(f"{text} at {host.cpu_quota:.1f} of {host.cpus} processors (cpu.stat)"),),
        advice="Raise the limit of the container or service (cpu.max, CPUQuota=); bursts are cut off too.",
    )


def find_steal(evidence: Evidence) -> Finding | None:
    stolen = evidence.pressure.steal_share if evidence.pressure else 0.0
    if stolen < 0.05:
        return None
    waits, delays = ("statement", "reading", "commit"), (ROW_LOCK, PROCESSOR)
    return Finding(
        name="steal",
        title="the hypervisor takes processor time from this machine",
        share=evidence.time.within(stolen, *waits, delays=delays),
        seen=(Seen(f"{stolen:.0%} of all processor time was stolen (/proc/stat)"),),
        advice="No setting helps: use a host with fewer neighbors, or an instance with its own processors.",
    )
