"""Extents: which file a place on a disk belongs to. Datadir layer; Linux, by FIEMAP.

Source: the kernel's Documentation/filesystems/fiemap.rst. Places are those on the device; btrfs tells
addresses of its own instead, so nothing is known there.
"""

from __future__ import annotations

import fcntl
import os
import struct
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_AT_ONCE = 512
_LAST, _UNKNOWN, _ENCODED, _INLINE = 0x1, 0x2, 0x8, 0x200
_NOWHERE = _UNKNOWN | _ENCODED | _INLINE
_SYNC = 0x1


class _Extent(NamedTuple):
    place: int
    length: int
    file: str
    offset: int


class Extents:
    """Of all files below a mount point, as they lie now.

    Args:
        mount: of a file system that has one device and reports places on it.
    """

    def __init__(self, mount: Path) -> None:
        self._found: list[_Extent] = []
        for folder, _, names in os.walk(mount):
            for file in (Path(folder), *(Path(folder, name) for name in names)):
                self._found += _extents(file, str(file.relative_to(mount)))
        self._found.sort()
        self._places = [one.place for one in self._found]

    def file_at(self, place: int) -> tuple[str, int] | None:
        """The file, and the place in it, of a byte of the device; None: the file system's own, or free."""
        at = bisect_right(self._places, place) - 1
        if at < 0:
            return None
        one = self._found[at]
        inside = place - one.place
        return (one.file, one.offset + inside) if inside < one.length else None


def _extents(file: Path, name: str) -> list[_Extent]:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []  # a link or a socket
    try:
        return _of(fd, name)
    except OSError:
        return []  # it has none
    finally:
        os.close(fd)


def _of(fd: int, name: str) -> list[_Extent]:
    found: list[_Extent] = []
    start = 0
    while True:
        request = bytearray(_HEAD.size + _AT_ONCE * _EXTENT.size)
        _HEAD.pack_into(request, 0, start, (1 << 64) - 1 - start, _SYNC, 0, _AT_ONCE, 0)
        fcntl.ioctl(fd, _FIEMAP, request)
        mapped = _HEAD.unpack_from(request, 0)[3]
        flags = _LAST
        for at in range(mapped):
            extent = _EXTENT.unpack_from(request, _HEAD.size + at * _EXTENT.size)
            offset, place, length, flags = extent[0], extent[1], extent[2], extent[5]
            start = offset + length
            if not flags & _NOWHERE:
                found.append(_Extent(place, length, name, offset))
        if flags & _LAST:
            return found
