"""Machine: the machine's side of a window, from what pt-stalk copies of it. Pure.

The disk is that of the data directory, by `df`; of several, nobody tells which one is the server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from flushlab.diagnosis.files.told import Told
from flushlab.diagnosis.host import Host
from flushlab.machine import Pressure
from flushlab.machine.disk_use import DiskUse, disk_use


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
