"""Acks: what was acknowledged, as the load engine noted it outside the server. Pure but for reading.

`crates/load/src/workload/acks.rs` writes 32 bytes a commit: connection, counter, position of the disk's
record and nanoseconds of CLOCK_MONOTONIC, each 8 bytes, little-endian. The position was read after the
server's answer had come; whatever the server synced before it answered is at that position or before it.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from flushlab.errors import StorageError

TABLE = "flushlab_acks"
_NOTE = struct.Struct("<QQQQ")
NOTE_BYTES = _NOTE.size


class Note(NamedTuple):
    """An acknowledged commit.

    Attributes:
        connection: from 1.
        counter: of the connection's commits, from 1.
        position: how many records of the disk had been answered.
        time_ns: CLOCK_MONOTONIC.
    """

    connection: int
    counter: int
    position: int
    time_ns: int


def create(database: str, rows: int) -> str:
    """SQL that makes the acknowledgement table."""
    assert rows >= 1, "a transaction has a row"
    return (
        f"CREATE TABLE {database}.{TABLE} (c BIGINT NOT NULL, n BIGINT NOT NULL, part BIGINT NOT NULL,"
        " pad CHAR(60) NOT NULL, PRIMARY KEY (c, n, part)) ENGINE=InnoDB"
    )


def packed(note: Note) -> bytes:
    """A note as it is written."""
    return _NOTE.pack(*note)


def read_notes(file: Path) -> list[Note]:
    """The notes of a file, up to its last whole one; none if there is no file.

    Raises:
        StorageError: it is damaged: a connection's commits do not count from 1 without gaps.
    """
    if not file.exists():
        return []
    content = file.read_bytes()
    whole = len(content) - len(content) % _NOTE.size
    notes = [Note(*one) for one in _NOTE.iter_unpack(content[:whole])]
    numbers = Counter(note.connection for note in notes)
    if any(numbers[connection] != last for connection, last in counted(notes).items()):
        raise StorageError(
            f"{file} is damaged: acknowledged commits are missing in it",
            hint="remove the record, and record again",
        )
    return notes


def before(notes: Sequence[Note], at: int) -> list[Note]:
    """Those that were acknowledged when record `at` had been answered, and nothing later had."""
    return [note for note in notes if note.position <= at]


def begun_after(notes: Sequence[Note], at: int) -> int:
    """How many acknowledged commits began after record `at`. Of a connection's commits acknowledged later,
    the first does not count: it may have been synced before."""
    later = Counter(note.connection for note in notes if note.position > at)
    return later.total() - len(later)


def counted(notes: Sequence[Note]) -> Mapping[int, int]:
    """Acknowledged commits of each connection; they count from 1 without gaps."""
    found: dict[int, int] = {}
    for note in notes:
        found[note.connection] = max(found.get(note.connection, 0), note.counter)
    return found
