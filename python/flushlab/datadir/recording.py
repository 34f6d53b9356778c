"""Recording: what a fault disk was asked to write, and when. Sits in `datadir`; read only.

The folder outlives its disk, and can be read after a kill at any moment: up to its last whole record.
Records count from 1, in the order in which they were answered. `crates/faultfs/src/record.rs` has the format.

From a record, another disk can be made that keeps other parts of the writes that no flush had made durable
before a crash. Such a disk is a record of its own, which shares the data of its original. Like any record,
`FaultImage` mounts it: at its last record, after a crash that keeps all writes.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from flushlab import _core
from flushlab.errors import StorageError
from flushlab.machine import ownership
from flushlab.record import Failure

ENTRY = struct.Struct("<IIQQQQ")
"""An entry: kind, length, time, offset, place of the data, records before."""
_KINDS: dict[int, Kind] = {1: "write", 2: "flush", 3: "failed"}
_READ_AT_ONCE = 4096

Kind = Literal["write", "flush", "failed"]


class Record(NamedTuple):
    """One write or flush.

    Attributes:
        number: from 1.
        time_ns: when it was answered, CLOCK_MONOTONIC.
        kind: `write`, `flush`, or a flush that `failed`.
        offset: on the disk, in bytes; 0 for a flush.
        length: in bytes; 0 for a flush.
        before: how many records had been answered when it arrived: what a flush makes durable, and what a
            failed one may lose of them.
    """

    number: int
    time_ns: int
    kind: Kind
    offset: int
    length: int
    before: int


class _Header(msgspec.Struct, frozen=True):
    version: int
    size: int


class Recording:
    """A folder with a record of a disk or of an image, as it stands now; a StorageError if it is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            header = msgspec.json.decode((folder / "record.json").read_bytes(), type=_Header)
            counted = int.from_bytes((folder / "position").read_bytes()[:8], "little")
            whole = (folder / "entries").stat().st_size // ENTRY.size
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"{folder} is no record of a disk: {error}") from error
        if header.version != 1:
            raise StorageError(
                f"the record {folder} has version {header.version}; this flushlab reads version 1"
            )
        self.size_bytes = header.size
        self.last = min(counted, whole)
        """Number of the last record; 0 if there is none."""

    def records(self, kind: Kind | None = None, first: int = 1, last: int | None = None) -> Iterator[Record]:
        """Records in their order, all or of one kind."""
        end = self.last if last is None else min(last, self.last)
        with (self.folder / "entries").open("rb") as file:
            file.seek((first - 1) * ENTRY.size)
            number = first
            while number <= end:
                chunk = file.read(min(_READ_AT_ONCE, end - number + 1) * ENTRY.size)
                for code, length, time_ns, offset, _, before in ENTRY.iter_unpack(chunk):
                    found = _KINDS.get(code)
                    if found is None:
                        raise StorageError(
                            f"the record {self.folder} is damaged: entry {number:,} is none",
                            hint="remove it, and record again",
                        )
                    if kind is None or found == kind:
                        yield Record(number, time_ns, found, offset, length, before)
                    number += 1

    def flushes(self) -> list[int]:
        """Numbers of the flushes."""
        return [record.number for record in self.records("flush")]


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
