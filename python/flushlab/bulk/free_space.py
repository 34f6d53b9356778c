"""Free space: whether rows fit on the disk, estimated before the load.

Sits in `bulk`. What a row takes in InnoDB is not known beforehand: numbers take less than as text, keys and
page headers more. So only what cannot fit by far is refused, and what may not fit is a doubt.
"""

from __future__ import annotations

import os

import msgspec

from flushlab.errors import UsageError
from flushlab.record import Warning
from flushlab.server.protocol import Server
from flushlab.units import format_size

_AT_LEAST = 1 / 4
"""Of a row's bytes as it is sent: what it takes in the table at least."""
_USUALLY = 1.7
"""Sysbench's rows with their index, and users with their two, took 1.2 to 1.7 times what was sent."""


class FreeSpace(msgspec.Struct, frozen=True, kw_only=True):
    """Free bytes of the file system below a server's data directory."""

    path: str
    free_bytes: int


def free_space(server: Server) -> FreeSpace | None:
    """Free space below a server's data directory; None if the directory is not visible from here."""
    if server.pid is None:
        return None
    ((path,),) = server.query("SELECT @@datadir")
    try:
        facts = os.statvfs(f"/proc/{server.pid}/root{path}")
    except OSError:
        return None
    return FreeSpace(path=str(path), free_bytes=facts.f_bavail * facts.f_frsize)


def require_free_space(found: FreeSpace, load_bytes: int) -> None:
    """Refuses rows that cannot fit.

    Args:
        found: free space below the data directory.
        load_bytes: size of the rows as they are sent.

    Raises:
        UsageError: the rows would take several times the free space.
    """
    if load_bytes * _AT_LEAST > found.free_bytes:
        raise UsageError(
            _sizes(found, load_bytes),
            hint="take fewer --rows, or a disk with more room (--data-root for a new sandbox)",
        )


def space_warning(found: FreeSpace, load_bytes: int) -> Warning | None:
    """A warning where rows may not fit."""
    if load_bytes * _USUALLY <= found.free_bytes:
        return None
    return Warning("disk-space", f"{_sizes(found, load_bytes)}: they may not fit")


def _sizes(found: FreeSpace, load_bytes: int) -> str:
    coming, free = format_size(load_bytes), format_size(found.free_bytes)
    return f"about {coming} of rows are to come, and {free} are free in {found.path}"
