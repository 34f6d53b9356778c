"""Report of the doctor on the server's machine: lines for the terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.diagnosis.findings.machine import rate
from flushlab.diagnosis.host import Host, Place
from flushlab.machine.describe import DiskUse
from flushlab.units import format_size

_OF_INTEREST = ("barrier", "nobarrier", "data=", "ro", "sync", "discard", "nobh", "compress", "recordsize")
"""Mount options that matter to writes, or begin so."""


def host_lines(host: Host) -> Iterator[str]:
    """The machine in the window; one fact per line."""
    pressure = host.pressure
    process = "" if host.pid is None else f" (process {host.pid})"
    memory = f"{format_size(host.memory_bytes)} for the server{process}" if host.memory_bytes else ""
    parts = [", ".join(one for one in (f"{host.cpus} CPUs" if host.cpus else "", memory) if one)]
    for name, share in (
        ("CPU", pressure.cpu_pressure_share),
        ("I/O", pressure.io_pressure_share),
        ("memory", pressure.memory_pressure_share),
    ):
        if share is not None:
            parts.append(f"tasks waited for {name} {share:.0%} of the time")
    parts.append(f"{pressure.steal_share:.0%} stolen")
    yield "; ".join(one for one in parts if one)
    yield from (_place(one) for one in host.places)
    yield from (_disk(one) for one in host.disks)
    if host.cpu_quota is not None:
        throttled = f", throttled in {host.cpu_throttled_share or 0.0:.0%} of the periods"
        yield f"control group: {host.cpu_quota:.1f} CPUs{throttled}"
    for limit in host.io_limits:
        yield f"control group: {limit.used:,.0f} of {limit.limit:,} {limit.unit} on {limit.disk}"
    if host.bytes_per_s is not None:
        yield f"written by the server: {format_size(host.bytes_per_s)}/s"
    for words, is_near in (("beside the data", True), ("elsewhere", False)):
        others = [
            f"{one.name} {format_size(one.bytes_per_s)}/s"
            for one in host.writers
            if (one.on_data is not False) == is_near
        ]
        if others:
            yield f"written by others, {words}: {', '.join(others)}"


def _place(place: Place) -> str:
    cache = {True: "volatile cache", False: "no volatile cache", None: "cache unknown"}[place.volatile_cache]
    model = f" ({place.model})" if place.model else ""
    disk = f" on {place.disk}{model}, {cache}" if place.disk else ", no disk to be seen"
    options = [one for one in place.options if one.startswith(_OF_INTEREST) and one != "rw"]
    mounted = f"; mounted {','.join(options)}" if options else ""
    return f"{', '.join(place.holds)}: {place.path}, {place.filesystem}{disk}{mounted}"


def _disk(use: DiskUse) -> str:
    parts = [
        text
        for name, requests in (("reads", use.reads), ("writes", use.writes), ("flushes", use.flushes))
        if requests is not None and (text := rate(name, requests))
    ]
    parts.append(f"busy {use.utilisation:.0%}, queue {use.queue:.1f}")
    return f"{use.disk}: {', '.join(parts)}"
