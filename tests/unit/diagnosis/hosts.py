"""Hosts for tests of the doctor: what a server's machine could have shown."""

from __future__ import annotations

from typing import Any

from flushlab.diagnosis.host import Host, OtherWriter, Place
from flushlab.machine import Pressure
from flushlab.machine.describe import DiskUse, Requests

QUIET = Pressure(steal_share=0.0, cpu_pressure_share=0.1, io_pressure_share=0.0, memory_pressure_share=0.0)
NEIGHBOR = OtherWriter(name="rsync", pids=(77, 78), bytes_per_s=3e6, on_data=True)


def disk(**more: Any) -> DiskUse:
    """A disk that is busy for half of the time."""
    facts: dict[str, Any] = {
        "disk": "vda",
        "reads": Requests(per_s=10.0, mean_ms=0.2, bytes_per_s=1e5),
        "writes": Requests(per_s=800.0, mean_ms=0.5, bytes_per_s=4e6),
        "flushes": Requests(per_s=400.0, mean_ms=0.7),
        "utilisation": 0.5,
        "queue": 1.0,
    }
    return DiskUse(**(facts | more))


def host(**more: Any) -> Host:
    """A quiet machine with ext4 on a disk with a volatile cache."""
    place = Place(
        holds=("data", "redo log"),
        path="/var/lib/mysql",
        filesystem="ext4",
        options=("rw", "nobarrier"),
        disk="vda",
        model="INTEL SSDPE2",
        volatile_cache=True,
    )
    facts: dict[str, Any] = {
        "pid": 1234,
        "cpus": 8,
        "memory_bytes": 16 << 30,
        "pressure": QUIET,
        "places": (place,),
        "disks": (disk(),),
    }
    return Host(**(facts | more))


__all__ = ["NEIGHBOR", "QUIET", "disk", "host"]
