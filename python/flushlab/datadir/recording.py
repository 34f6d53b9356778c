"""Recording: what a fault disk was asked to write, and when. Sits in `datadir`; read only.

The folder outlives its disk, and can be read after a kill at any moment: up to its last whole record.
Records count from 1, in the order in which they were answered. `crates/faultfs/src/record.rs` has the format.
"""

from __future__ import annotations

import fcntl
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from flushlab.errors import StorageError

ENTRY = struct.Struct("<IIQQQQ")
"""An entry: kind, length, time, offset, place of the data, records before."""
_KINDS: dict[int, Kind] = {1: "write", 2: "flush", 3: "failed"}
_READ_AT_ONCE = 4096

Kind = Literal["write", "flush", "failed"]


class Record(NamedTuple):
    number: int
    time_ns: int
    kind: Kind
    offset: int
    length: int
    before: int


class Recording:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            header = msgspec.json.decode((folder / "record.json").read_bytes(), type=dict[str, Any])
            version, self.size_bytes = int(header["version"]), int(header["size"])
            counted = int.from_bytes((folder / "position").read_bytes()[:8], "little")
            whole = (folder / "entries").stat().st_size // ENTRY.size
        except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{folder} is no record of a disk: {error}") from error
        if version != 1:
            raise StorageError(f"the record {folder} has version {version}; this flushlab reads version 1")
        self.last = min(counted, whole)

    def records(self, kind: Kind | None = None, first: int = 1, last: int | None = None) -> Iterator[Record]:
        end = self.last if last is None else min(last, self.last)
        with (self.folder / "entries").open("rb") as file:
            file.seek((first - 1) * ENTRY.size)
            number = first
            while number <= end:
                chunk = file.read(min(_READ_AT_ONCE, end - number + 1) * ENTRY.size)
                for code, length, time_ns, offset, _, before in ENTRY.iter_unpack(chunk):
                    if code not in _KINDS:
                        raise StorageError(
                            f"the record {self.folder} is damaged: entry {number:,} is none",
                            hint="remove it, and record again",
                        )
                    if kind is None or _KINDS[code] == kind:
                        yield Record(number, time_ns, _KINDS[code], offset, length, before)
                    number += 1

    def flushes(self) -> list[int]:
        return [record.number for record in self.records("flush")]


_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_AT_ONCE = 512
_LAST, _UNKNOWN, _ENCODED, _INLINE = 0x1, 0x2, 0x8, 0x200
_NOWHERE = _UNKNOWN | _ENCODED | _INLINE
_SYNC = 0x1


_Extent = tuple[int, int, str, int]


class Extents:
    def __init__(self, mount: Path) -> None:
        self._found: list[_Extent] = []
        for folder, _, names in os.walk(mount):
            for file in (Path(folder), *(Path(folder, name) for name in names)):
                self._found += _extents(file, str(file.relative_to(mount)))
        self._found.sort()

    def file_at(self, place: int) -> tuple[str, int] | None:
        at = bisect_right(self._found, place, key=itemgetter(0)) - 1
        if at < 0:
            return None
        begins, length, file, offset = self._found[at]
        inside = place - begins
        return (file, offset + inside) if inside < length else None


def _extents(file: Path, name: str) -> list[_Extent]:
    with suppress(OSError):  # a link, a socket, or one that has none
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _of(fd, name)
        finally:
            os.close(fd)
    return []


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
                found.append((place, length, name, offset))
        if flags & _LAST:
            return found
