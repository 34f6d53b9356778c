"""Recording: what a fault disk was asked to write, and when. Sits in `datadir`; read only.

The folder outlives its disk, and can be read after a kill at any moment: up to its last whole record.
Records count from 1, in the order in which they were answered. `crates/faultfs/src/record.rs` has the format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from flushlab.errors import StorageError

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
