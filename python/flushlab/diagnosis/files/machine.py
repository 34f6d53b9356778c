"""Machine: the machine's side of a window, from what pt-stalk copies of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from flushlab.diagnosis.files.tables import stamped
from flushlab.diagnosis.files.told import CpuTime, Source, Told
from flushlab.diagnosis.host import Host
from flushlab.machine import Pressure
from flushlab.machine.describe import DiskCounters, DiskUse, disk_use


def host_of(told: Iterable[Told], datadir: str) -> Host | None:
    """The machine; None if its processors' time is not told twice.

    Args:
        told: by all files.
        datadir: of the server's variables; empty if they are not known.
    """
    every = list(told)
    times = [one for part in every for one in part.cpu_times]
    if len(times) < 2 or times[-1].total <= times[0].total:
        return None
    devices = {mount: device for part in every for mount, device in part.devices.items()}
    use = _use(every, device_of(datadir, devices))
    unseen = ["pressure on processors and I/O: pt-stalk does not copy /proc/pressure"]
    if use is None:
        unseen.append("the disk of the data: df does not name one of /proc/diskstats")
    return Host(
        pid=None,
        cpus=times[-1].cpus,
        memory_bytes=max((part.memory_bytes for part in every), default=0),
        pressure=Pressure(
            steal_share=_share(times[-1].steal - times[0].steal, times[-1].total - times[0].total),
            cpu_pressure_share=None,
            io_pressure_share=None,
            memory_pressure_share=None,
        ),
        disks=() if use is None else (use,),
        unseen=tuple(unseen),
    )


def device_of(datadir: str, devices: Mapping[str, str]) -> str:
    """The device with that folder, by its longest mount point; empty if that is none, as on NFS and ZFS."""
    if not datadir.startswith("/"):
        return ""
    above = {str(one) for one in (PurePosixPath(datadir), *PurePosixPath(datadir).parents)}
    known = [mount for mount in devices if mount in above]
    device = devices[max(known, key=len)] if known else ""
    return PurePosixPath(device).name if device.startswith("/dev/") else ""


def _use(told: Iterable[Told], device: str) -> DiskUse | None:
    counters = [one for part in told for one in part.disks]
    return disk_use(counters[0], counters[-1], device) if device and len(counters) > 1 else None


def _share(part: int, whole: int) -> float:
    return min(1.0, max(0, part) / whole)


_ROW = re.compile(r"^(\S{1,200})\s+\d+\s+\d+\s+\d+\s+\d{1,3}%\s+(/.{0,500}?)\s*$", re.MULTILINE)


def parse_df(text: str) -> Told:
    """The device of each mount point."""
    return Told(devices={match[2]: match[1] for match in _ROW.finditer(text)})


DF = Source(name="df", marks=("/dev/",), parse=parse_df)


_DISKSTATS_ROW = re.compile(r"\s*\d{1,9}\s+\d{1,9}\s+(\S{1,64})((?:\s+\d{1,20}){11,20})\s*")


def parse_diskstats(text: str) -> Told:
    """The counters of each moment."""
    found = []
    for at_s, lines in stamped(text):
        rows = [match for line in lines if (match := _DISKSTATS_ROW.fullmatch(line)) is not None]
        disks = {row[1]: tuple(map(int, row[2].split())) for row in rows}
        if disks:
            found.append(DiskCounters(at_s=at_s, disks=disks))
    return Told(disks=tuple(found))


DISKSTATS = Source(name="/proc/diskstats", marks=("TS ",), parse=parse_diskstats)


_TOTAL = re.compile(r"^MemTotal:\s+(\d{1,15}) kB\s*$", re.MULTILINE)


def parse_meminfo(text: str) -> Told:
    """The machine's memory."""
    match = _TOTAL.search(text)
    return Told(memory_bytes=int(match[1]) * 1024 if match else 0)


MEMINFO = Source(name="/proc/meminfo", marks=("MemTotal:",), parse=parse_meminfo)


_ALL = re.compile(r"cpu(?:\s+\d{1,18}){8,10}\s*")
_ONE = re.compile(r"cpu\d{1,5} .*")
_STEAL = 7


def parse_procstat(text: str) -> Told:
    """The processors' time at each moment."""
    found = []
    for _, lines in stamped(text):
        whole = next((line for line in lines if _ALL.fullmatch(line)), None)
        if whole is not None:
            jiffies = [int(part) for part in whole.split()[1:9]]
            cpus = sum(_ONE.fullmatch(line) is not None for line in lines)
            found.append(CpuTime(cpus=cpus, steal=jiffies[_STEAL], total=sum(jiffies)))
    return Told(cpu_times=tuple(found))


PROCSTAT = Source(name="/proc/stat", marks=("\ncpu0 ",), parse=parse_procstat)
