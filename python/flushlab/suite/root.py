"""Root: decides whether the data directories of a suite fit in memory.

Suite layer. The kernel cannot reclaim the memory of a tmpfs: without free memory it kills processes and gains
nothing. So a data directory goes to the tmpfs only if a reserve of free memory remains (in the cgroup too),
and `monitor` samples the free memory.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from flushlab.datadir import DataRoot
from flushlab.datadir.data_root import storage_of
from flushlab.errors import NotWritable
from flushlab.machine import available_memory_bytes, memory_bytes
from flushlab.units import format_size

FOLDERS = ("/dev/shm", "/run/shm")

GROWTH_BYTES = 256 << 20
"""Room for what a suite writes on top of its template."""

SERVER_BYTES = 384 << 20
"""Memory of one server's process with the throwaway profile; largest seen: MySQL 9.7."""

_RESERVE_SHARE = 0.1
_LEAST_RESERVE_BYTES = 512 << 20


class ChosenRoot(msgspec.Struct, frozen=True, kw_only=True):
    """Folder of the data directories.

    Attributes:
        root: the data root.
        in_memory: the data root is on a tmpfs.
        reason: why not in memory; empty if in memory.
    """

    root: DataRoot
    in_memory: bool
    reason: str = ""


def reserve_bytes() -> int:
    """Memory that must stay free for the suite itself."""
    return max(_LEAST_RESERVE_BYTES, int(memory_bytes() * _RESERVE_SHARE))


def memory_for(root: ChosenRoot, template_bytes: int, servers: int) -> int:
    """Bytes of memory that so many servers may take, with their data directories if these are in it."""
    data = template_bytes + GROWTH_BYTES if root.in_memory else 0
    return servers * (data + SERVER_BYTES)


def has_room(root: ChosenRoot, template_bytes: int, servers: int) -> bool:
    """Whether so many more servers fit, with the reserve."""
    fits = memory_for(root, template_bytes, servers) + reserve_bytes() <= available_memory_bytes()
    return fits and servers * (template_bytes + GROWTH_BYTES) <= root.root.free_bytes()


def choose(template_bytes: int, servers: int, data_root: Path | None, *, memory: bool = True) -> ChosenRoot:
    """The tmpfs if the data directories of all servers fit, otherwise the data root on disk.

    Raises:
        NotWritable, NoSpace: the disk's folder cannot be used.
    """
    if not memory:
        return ChosenRoot(root=DataRoot.open(data_root), in_memory=False, reason="--no-in-memory")
    needed = servers * (template_bytes + GROWTH_BYTES)
    available, reserve = available_memory_bytes(), reserve_bytes()
    reason = "there is no writable tmpfs"
    if needed + servers * SERVER_BYTES + reserve > available:
        reason = (
            f"{format_size(available)} of memory is free; {servers} data director"
            f"{'y' if servers == 1 else 'ies'} with a reserve would need"
            f" {format_size(needed + servers * SERVER_BYTES + reserve)}"
        )
        return ChosenRoot(root=DataRoot.open(data_root), in_memory=False, reason=reason)
    for folder in FOLDERS:
        path = Path(folder)
        if not path.is_dir() or not storage_of(path).in_memory:
            continue
        facts = os.statvfs(path)
        free = facts.f_bavail * facts.f_frsize
        if free < needed:
            reason = f"{folder} has {format_size(free)} free of the {format_size(needed)} that may be needed"
            continue
        try:
            return ChosenRoot(root=DataRoot.open(path), in_memory=True)
        except NotWritable as error:
            reason = error.message
    return ChosenRoot(root=DataRoot.open(data_root), in_memory=False, reason=reason)
