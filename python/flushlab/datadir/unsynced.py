"""Unsynced: what no flush had made durable before a crash, and disks on which other parts of it were kept.

Datadir layer. Such a disk is a record of its own, which shares the data of the one that it comes from: all
that was certain, and of the rest the parts that were chosen. It is looked at like any other: `FaultImage` at
its last record, after a crash that keeps all.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab import _core
from flushlab.datadir.recording import ENTRY, Recording
from flushlab.errors import StorageError
from flushlab.machine import ownership
from flushlab.record import Failure

SECTOR_BYTES = 512
_ZEROS = (1 << 64) - 1
_SHARED = ("data", "base")


class Part(NamedTuple):
    """Sectors of one write that follow each other.

    Attributes:
        number: of the write's record.
        sector: the first one, of 512 bytes, on the disk.
        sectors: how many.
    """

    number: int
    sector: int
    sectors: int

    def single(self) -> list[Part]:
        """Each sector by itself."""
        return [Part(self.number, self.sector + at, 1) for at in range(self.sectors)]


class Unsynced(NamedTuple):
    """What may have been left by a crash.

    Attributes:
        kept: parts that were.
        missing: parts that were not.
    """

    kept: tuple[Part, ...]
    missing: tuple[Part, ...]


class _Told(msgspec.Struct, frozen=True):
    number: int
    sector: int
    sectors: int
    kept: bool


def unsynced(record: Path, at: int, fail: Failure, seed: int) -> Unsynced:
    """Parts of writes that a crash may have left; arguments and errors: as of `FaultImage`."""
    spec = {"record": str(record), "at": at, "failure": msgspec.to_builtins(fail), "seed": seed}
    try:
        said = _core.unsynced_parts(msgspec.json.encode(spec))
    except OSError as error:
        raise StorageError(f"the record {record} cannot be read: {error}") from error
    parts = msgspec.json.decode(said, type=list[_Told])
    return Unsynced(
        tuple(Part(one.number, one.sector, one.sectors) for one in parts if one.kept),
        tuple(Part(one.number, one.sector, one.sectors) for one in parts if not one.kept),
    )


def with_parts(record: Path, at: int, among: Collection[int], kept: Sequence[Part], folder: Path) -> int:
    """Makes a record, in a new folder, whose disk has only these of the parts that may have been left.

    Args:
        record: source of the image; must stay.
        at: number of the last write that counts.
        among: numbers of the records that parts are of; all others are certain.
        kept: parts, in the order of their numbers.

    Returns:
        The number of its last record.

    Raises:
        StorageError: it cannot be made.
    """
    mark = ownership.read_mark(str(record)) or {}
    by_number: dict[int, list[Part]] = {}
    for part in kept:
        by_number.setdefault(part.number, []).append(part)
    try:
        ownership.make(str(folder), mark)
        for name in _SHARED:
            if (record / name).exists():
                (folder / name).symlink_to((record / name).absolute())
        shutil.copyfile(record / "record.json", folder / "record.json")
        entries = (record / "entries").read_bytes()[: at * ENTRY.size]
        found = bytearray()
        for number, (kind, length, time_ns, offset, data, before) in enumerate(ENTRY.iter_unpack(entries), 1):
            if number not in among:
                found += ENTRY.pack(kind, length, time_ns, offset, data, before)
            for part in by_number.get(number, ()):
                begin = part.sector * SECTOR_BYTES
                place = data if data == _ZEROS else data + begin - offset
                found += ENTRY.pack(kind, part.sectors * SECTOR_BYTES, time_ns, begin, place, before)
        last = len(found) // ENTRY.size
        (folder / "entries").write_bytes(found)
        (folder / "position").write_bytes(struct.pack("<Q", last))
    except OSError as error:
        raise StorageError(f"no record can be made in {folder.parent}: {error}") from error
    assert last <= Recording(folder).last, "it is whole"
    return last
