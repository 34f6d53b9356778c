"""Status: what each machine of a fleet is, measured there.

Fleet layer. `facts` runs on a machine, as a task pinned to its node; `survey` asks all at once.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from flushlab.fleet.connect import FleetNode, task_on
from flushlab.record import OtherLoad
from flushlab.version import __version__

CELL_S = 1.0
"""Window of each measurement on the disk, and of the look at other load."""
ANSWER_S = 60.0
CLOCK_S = 60.0
"""A clock that is off by more makes certificates and the times in records wrong."""
_FILE_BYTES = 16 << 20


class MachineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`sync_us_p50`: of fdatasync after a write of 4 KiB; `ceiling_per_s`: commits/s of one session whose
    redo log and binary log are synced, without a server."""

    name: str
    address: str
    problem: str = ""
    flushlab: str = ""
    ray: str = ""
    python: str = ""
    is_root: bool = False
    cpu_model: str = ""
    cpu_count: int = 0
    memory_bytes: int = 0
    kernel: str = ""
    directory: str = ""
    filesystem: str = ""
    disk: str | None = None
    free_bytes: int = 0
    sync_us_p50: float | None = None
    ceiling_per_s: float | None = None
    servers: tuple[str, ...] = ()
    others: OtherLoad | None = None
    clock_ahead_s: float | None = None


def facts(name: str, address: str) -> bytes:
    return msgspec.json.encode(_measured(name, address))


def clock() -> float:
    return time.time()


def _measured(name: str, address: str) -> MachineStatus:
    from flushlab.build import survey as builds
    from flushlab.errors import FlushlabError
    from flushlab.fleet.connect import require_ray
    from flushlab.machine import describe, home
    from flushlab.machine.pressure import watch
    from flushlab.probe.disk import medium_of

    found = MachineStatus(
        name=name, address=address, flushlab=__version__, ray=require_ray(), python=platform.python_version()
    )
    try:
        directory = home()
        here, medium = describe(directory), medium_of(directory)
        found = replace(
            found,
            is_root=os.geteuid() == 0,
            cpu_model=here.cpu_model,
            cpu_count=here.cpu_count,
            memory_bytes=here.memory_bytes,
            kernel=here.kernel,
            directory=str(directory),
            filesystem=medium.filesystem,
            disk=medium.disk,
            free_bytes=medium.free_bytes,
            servers=tuple(sorted({one.name for one in builds().builds})),
            others=watch(CELL_S, directory),
        )
        sync_us, ceiling = _disk(directory)
    except FlushlabError as error:  # no room, say
        return replace(found, problem=str(error))
    return replace(found, sync_us_p50=sync_us, ceiling_per_s=ceiling)


def _disk(directory: Path) -> tuple[float | None, float | None]:
    from flushlab import _core
    from flushlab.probe import ceilings, disk
    from flushlab.probe.ceilings import STRICT, ProbePlace
    from flushlab.probe.disk import medium_of, most_bytes, probe_folder

    medium = medium_of(directory)
    cell = ceilings.CommitCell(sync_settings=STRICT, binlog_strategy="two-syncs", threads=1)
    with probe_folder(directory) as folder:
        written = disk.DiskCell(way="fdatasync", bytes=4096)
        synced = disk.measure(folder, written, seconds=CELL_S, file_bytes=_FILE_BYTES, medium=medium)
        place = ProbePlace(folder, medium, most_bytes(medium), _core.CommitPath)
        commits = ceilings.measure(place, cell, seconds=CELL_S)
    latency = None if synced.latency_us is None else synced.latency_us.p50
    return latency, None if commits is None else commits.commits_per_s


def survey(nodes: Sequence[FleetNode]) -> tuple[MachineStatus, ...]:
    import ray

    def status(node: FleetNode, call: Any) -> MachineStatus:
        try:
            found = msgspec.json.decode(ray.get(call, timeout=1.0), type=MachineStatus)
        except ray.exceptions.GetTimeoutError:
            problem = f"no answer within {ANSWER_S:.0f} s"
        except ray.exceptions.RayTaskError as error:
            is_absent = "No module named 'flushlab" in str(error)
            problem = "flushlab is not installed there" if is_absent else str(error).strip().splitlines()[-1]
        except ray.exceptions.RayError as error:
            problem = f"it is gone: {type(error).__name__}"
        else:
            return replace(found, clock_ahead_s=clock_ahead(node))
        return MachineStatus(name=node.name, address=node.address, problem=problem, flushlab=node.flushlab)

    def clock_ahead(node: FleetNode) -> float | None:
        before = time.time()
        try:
            there = float(ray.get(task_on(node.id, clock).remote(), timeout=ANSWER_S))
        except ray.exceptions.RayError:
            return None
        after = time.time()
        ahead = there - (before + after) / 2
        return ahead if abs(ahead) > after - before else 0.0

    calls = [task_on(node.id, facts).remote(node.name, node.address) for node in nodes]
    with suppress(ray.exceptions.RayError):
        ray.wait(calls, num_returns=len(calls), timeout=ANSWER_S)
    return tuple(status(node, call) for node, call in zip(nodes, calls, strict=True))
