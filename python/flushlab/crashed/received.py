"""Received: what a replica had received when its source crashed. Sits in `crashed`.

While the source's disk is recorded, `Listening` looks all the time how long the replica's relay log is, then
at the position of the record. What is noted at a position <= n was in the relay log when record n + 1 had not
been answered: the replica had it before a crash at record n, whatever was sent later. As notes of commits do.
"""

from __future__ import annotations

import os
import struct
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self

from flushlab.crashed import binlog
from flushlab.crashed.recovered_server import AcksTable
from flushlab.crashed.replica import RELAY, LogPosition, Replica, listening_replica
from flushlab.errors import StorageError
from flushlab.server import Sandbox

FOLDER = "replica"
"""Beside the record: the replica's data directory and the receipts."""
_DATA, _RECEIPTS = "data", "received"
_RECEIPT = struct.Struct("<QQQQ")
_SAMPLE_S = 0.001


class Receipt(NamedTuple):
    """How long a relay log was.

    Attributes:
        position: of the disk's record, read afterwards.
        file: number of its last file.
        length: of that, in bytes.
        time_ns: CLOCK_MONOTONIC, read afterwards.
    """

    position: int
    file: int
    length: int
    time_ns: int


@contextmanager
def listening(server: Sandbox, acks: AcksTable, folder: Path, position: Path) -> Iterator[Listening]:
    """A new replica that listens to a server until the context ends, and notes what it receives.

    Args:
        server, acks, folder: as of `listening_replica`, as errors are.
        position: of the server's disk's record; 8 bytes, little endian.
    """
    with (
        listening_replica(server, acks, folder) as replica,
        Listening(replica, position) as found,
    ):
        yield found


class Listening:
    """Notes when a replica has received what; a context manager."""

    def __init__(self, replica: Replica, position: Path) -> None:
        self._replica, self._position = replica, position
        self._receipts: list[Receipt] = []
        self._over = Event()
        self._failed: OSError | None = None
        self._thread = Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def keep(self, record: Path) -> None:
        """Ends the replica, and moves what it has received to its place beside the record.

        Raises:
            StorageError: it does not fit there, or the relay log could not be read.
            ServerError: the replica does not answer.
        """
        self._over.set()
        self._thread.join()
        if self._failed is not None:
            raise StorageError(
                f"the relay log of the replica that listened cannot be read: {self._failed}",
                hint="leave out --replica, or look at the disk that holds flushlab's data directories",
            ) from self._failed
        self._replica.stop_listening()
        self._replica.server.stop()
        folder = record / FOLDER
        folder.mkdir(mode=0o700)
        self._replica.server.move_datadir(folder / _DATA)
        (folder / _RECEIPTS).write_bytes(b"".join(_RECEIPT.pack(*one) for one in self._receipts))

    def _sample(self) -> None:
        try:
            self._note()
        except OSError as error:
            self._failed = error

    def _note(self) -> None:
        datadir, number, last = self._replica.server.datadir, 1, (0, 0)
        position = os.open(self._position, os.O_RDONLY)
        try:
            while not self._over.wait(_SAMPLE_S):
                while _file(datadir, number + 1).exists():
                    number += 1
                seen = number, _length(_file(datadir, number))
                if seen != last:
                    at = int.from_bytes(os.pread(position, 8, 0), "little")
                    self._receipts.append(Receipt(at, *seen, time.monotonic_ns()))
                    last = seen
        finally:
            os.close(position)


class Received:
    """Receipts of a replica that listened, as they stand beside a record; a StorageError if unreadable."""

    def __init__(self, record: Path) -> None:
        folder = record / FOLDER
        self.datadir = folder / _DATA
        """Its own; to be copied."""
        try:
            content = (folder / _RECEIPTS).read_bytes()
            self._receipts = [Receipt(*one) for one in _RECEIPT.iter_unpack(content)]
            self._ends = transaction_ends(self.datadir)
        except (OSError, struct.error, binlog.Unreadable) as error:
            raise StorageError(
                f"what the replica of {record} has received cannot be read: {error}", hint="record again"
            ) from error

    def before(self, at: int, moment_ns: int | None = None) -> LogPosition | None:
        """End of the last whole transaction that it had received at record `at`; None: there was none.

        Args:
            at: number of the record.
            moment_ns: CLOCK_MONOTONIC of a crash between this record and the next; None: at the next one.
        """
        known = [
            one
            for one in self._receipts
            if one.position <= at and (moment_ns is None or one.time_ns <= moment_ns)
        ]
        return _last(self._ends, known[-1].file, known[-1].length) if known else None


def there_is(record: Path) -> bool:
    """Whether a replica has listened while that was recorded."""
    return (record / FOLDER / _RECEIPTS).exists()


def transaction_ends(datadir: Path) -> Mapping[int, list[int]]:
    """Where whole transactions end, by the number of the relay log's file.

    Raises:
        binlog.Unreadable: their format is not known.
        OSError: they cannot be read.
    """
    files = (file for file in datadir.glob(f"{RELAY}.*") if file.suffix[1:].isdigit())
    return {int(file.suffix[1:]): binlog.transaction_ends(file) for file in sorted(files)}


def all_received(datadir: Path) -> LogPosition | None:
    """End of the last whole transaction that a replica has received at all; None: there is none."""
    ends = transaction_ends(datadir)
    return _last(ends, max(ends, default=0), 1 << 62)


def _last(ends: Mapping[int, list[int]], file: int, length: int) -> LogPosition | None:
    for number in sorted((one for one in ends if one <= file), reverse=True):
        whole = bisect_right(ends[number], length) if number == file else len(ends[number])
        if whole:
            return LogPosition(_file(Path(), number).name, ends[number][whole - 1])
    return None


def _file(datadir: Path, number: int) -> Path:
    return datadir / f"{RELAY}.{number:06d}"


def _length(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
