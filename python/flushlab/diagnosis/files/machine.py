"""Machine: the machine's side of a window, from what pt-stalk copies of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from flushlab.diagnosis.files.tables import stamped
from flushlab.diagnosis.files.told import Told
from flushlab.diagnosis.host import Host
from flushlab.machine import Pressure
from flushlab.machine.describe import DiskCounters, disk_use


def host_of(every: Sequence[Told], datadir: str) -> Host | None:
    """None if the processors' time is not told twice; of several disks, the server's is that of `datadir`, by
    `df`."""
    times = [time for told in every for time in told.cpu_times]
    if len(times) < 2 or times[-1][2] <= times[0][2]:
        return None
    (_, stolen_before, before), (cpus, stolen_after, after) = times[0], times[-1]
    device = device_of(datadir, {mount: name for told in every for mount, name in told.devices.items()})
    counters = [one for told in every for one in told.disks]
    use = disk_use(counters[0], counters[-1], device) if device and len(counters) > 1 else None
    unseen = ["pressure on processors and I/O: pt-stalk does not copy /proc/pressure"]
    if use is None:
        unseen.append("the disk of the data: df does not name one of /proc/diskstats")
    return Host(
        pid=None,
        cpus=cpus,
        memory_bytes=max((told.memory_bytes for told in every), default=0),
        pressure=Pressure(
            steal_share=min(1.0, max(0, stolen_after - stolen_before) / (after - before)),
            cpu_pressure_share=None,
            io_pressure_share=None,
            memory_pressure_share=None,
        ),
        disks=() if use is None else (use,),
        unseen=tuple(unseen),
    )


def device_of(datadir: str, devices: Mapping[str, str]) -> str:
    if not datadir.startswith("/"):
        return ""
    above = {str(one) for one in (PurePosixPath(datadir), *PurePosixPath(datadir).parents)}
    known = [mount for mount in devices if mount in above]
    device = devices[max(known, key=len)] if known else ""
    return PurePosixPath(device).name if device.startswith("/dev/") else ""


_DF_ROW = re.compile(r"^(\S{1,200})\s+\d+\s+\d+\s+\d+\s+\d{1,3}%\s+(/.{0,500}?)\s*$", re.MULTILINE)


def parse_df(text: str) -> Told:
    return Told(devices={match[2]: match[1] for match in _DF_ROW.finditer(text)})


_DISKSTATS_ROW = re.compile(r"\s*\d{1,9}\s+\d{1,9}\s+(\S{1,64})((?:\s+\d{1,20}){11,20})\s*")


def parse_diskstats(text: str) -> Told:
    counters = []
    for at_s, lines in stamped(text):
        rows = [match for line in lines if (match := _DISKSTATS_ROW.fullmatch(line)) is not None]
        disks = {row[1]: tuple(map(int, row[2].split())) for row in rows}
        if disks:
            counters.append(DiskCounters(at_s=at_s, disks=disks))
    return Told(disks=tuple(counters))


def parse_meminfo(text: str) -> Told:
    match = re.search(r"^MemTotal:\s+(\d{1,15}) kB\s*$", text, re.MULTILINE)
    return Told(memory_bytes=int(match[1]) * 1024 if match else 0)


_ALL_CPUS = re.compile(r"cpu(?:\s+\d{1,18}){8,10}\s*")
_ONE_CPU = re.compile(r"cpu\d{1,5} .*")


def parse_procstat(text: str) -> Told:
    times = []
    for _, lines in stamped(text):
        whole = next((line for line in lines if _ALL_CPUS.fullmatch(line)), None)
        if whole is not None:
            jiffies = [int(part) for part in whole.split()[1:9]]
            cpus = sum(_ONE_CPU.fullmatch(line) is not None for line in lines)
            times.append((cpus, jiffies[7], sum(jiffies)))
    return Told(cpu_times=tuple(times))
