"""Replicated: whether replicas can go on with what came back from a crash. Sits in `crashed`.

Two real replicas are attached to the recovered server. The first had followed the server before the crash,
and has the events received by then. The second is new, and follows from the beginning of the binary log. When
both have received everything, or were refused, each connection of the load commits once more, as an
application would. The commit has the number after the connection's last one in the recovered server's tables.
Then all rows are compared.
"""

from __future__ import annotations

import os
import struct
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self

import msgspec

from flushlab.crashed import recovered_server
from flushlab.crashed.judge import ACKS_TABLE
from flushlab.crashed.recovered_server import AcksTable, Unreadable, said
from flushlab.crashed.replica import RELAY, LogPosition, Replica, Source, listening_replica
from flushlab.datadir import DataRoot
from flushlab.datadir.restore import copy_tree
from flushlab.errors import FlushlabError, StorageError
from flushlab.process.run_record import passing_folder
from flushlab.record import ReplicaOutcome, ReplicaState
from flushlab.server import Sandbox

FOLDER = "replica"
"""Beside the record: the replica's data directory and the receipts."""
_DATA, _RECEIPTS = "data", "received"
_RECEIPT = struct.Struct("<QQQQ")
_SAMPLE_S = 0.001


class Receipt(NamedTuple):
    """How long a relay log was when the disk's record was at `position`."""

    position: int
    file: int
    length: int
    time_ns: int


@contextmanager
def listening(server: Sandbox, acks: AcksTable, folder: Path, position: Path) -> Iterator[Listening]:
    """A new replica that listens to a server, and notes what it receives; `position`: 8 bytes, little
    endian."""
    with (
        listening_replica(server, acks, folder) as replica,
        Listening(replica, position) as found,
    ):
        yield found


class Listening:
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
        try:
            content = (folder / _RECEIPTS).read_bytes()
            self._receipts = [Receipt(*one) for one in _RECEIPT.iter_unpack(content)]
            self._ends = transaction_ends(self.datadir)
        except (OSError, struct.error, recovered_server.Unreadable) as error:
            raise StorageError(
                f"what the replica of {record} has received cannot be read: {error}", hint="record again"
            ) from error

    def before(self, at: int, moment_ns: int | None = None) -> LogPosition | None:
        """End of the last whole transaction that it had received at record `at`, or at a moment behind it."""
        known = [
            one
            for one in self._receipts
            if one.position <= at and (moment_ns is None or one.time_ns <= moment_ns)
        ]
        return _last(self._ends, known[-1].file, known[-1].length) if known else None


def there_is(record: Path) -> bool:
    return (record / FOLDER / _RECEIPTS).exists()


def transaction_ends(datadir: Path) -> Mapping[int, list[int]]:
    files = (file for file in datadir.glob(f"{RELAY}.*") if file.suffix[1:].isdigit())
    return {int(file.suffix[1:]): recovered_server.ends_in(file) for file in sorted(files)}


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


Commit = tuple[int, int]
"""Connection and counter."""


def of_crash_image(
    server: Sandbox,
    acks: AcksTable | None,
    received: Received | None,
    at: int,
    work: Path,
    moment_ns: int | None = None,
) -> tuple[ReplicaState, ReplicaState] | tuple[None, None]:
    """States of a replica that had listened, and of a new one, at a crash image; none where there is nothing
    to see."""
    if received is None or acks is None or not server.alive():
        return None, None
    try:
        with passing_folder(work, "replica", mode=0o711) as folder:
            copy_tree(received.datadir, folder / "data")
            root = DataRoot.open(work)
            with (
                Replica.adopt(server.build, server.settings, folder / "data", root) as old,
                Replica.start(server.build, server.settings, acks, root, number=3) as new,
            ):
                old.apply(received.before(at, moment_ns))
                return attach(server, acks, old, new)
    except (FlushlabError, OSError) as error:
        return unknown_replica(str(error)), unknown_replica(str(error))


def of_killed(
    server: Sandbox, acks: AcksTable, old: Replica, folder: Path
) -> tuple[ReplicaState, ReplicaState] | tuple[None, None]:
    """States of a replica that received until the kill, and of a new one."""
    if not server.alive():
        return None, None
    try:
        with Replica.start(server.build, server.settings, acks, DataRoot.open(folder), number=3) as new:
            old.apply(all_received(old.server.datadir))
            return attach(server, acks, old, new)
    except (FlushlabError, Unreadable, OSError) as error:
        return unknown_replica(str(error)), unknown_replica(str(error))


def attach(server: Sandbox, acks: AcksTable, old: Replica, new: Replica) -> tuple[ReplicaState, ReplicaState]:
    """What becomes of both replicas of a recovered server that goes on with new commits.

    Args:
        server, acked_inserts: the recovered server and its acknowledgement table.
        old: it has applied what it had received.
        new: it has the empty acknowledgement table.

    Raises:
        ServerError: one of the three does not answer.
    """
    source = Source(server)
    there = acked_rows(server, acks)
    ahead = len(acked_rows(old.server, acks).keys() - there.keys())
    old.follow(source)
    new.follow(source)
    _go_on(server, acks, there)
    states = [replica.await_all(source) for replica in (old, new)]
    there = acked_rows(server, acks)
    found = [acked_rows(replica.server, acks) for replica in (old, new)]
    of_old, of_new = (
        judge_replica(there, one, status.error, status.said)
        for one, status in zip(found, states, strict=True)
    )
    return msgspec.structs.replace(of_old, ahead=ahead), of_new


def judge_replica(
    source: Mapping[Commit, object], replica: Mapping[Commit, object], error: int = 0, words: str = ""
) -> ReplicaState:
    goes_on: ReplicaOutcome = "follows" if source == replica else "diverged"
    return ReplicaState(
        outcome="stopped" if error else goes_on,
        lacks=len(source.keys() - replica.keys()),
        error=error,
        said=said(words) if words else "",
    )


def unknown_replica(why: str) -> ReplicaState:
    return ReplicaState(outcome="unknown", said=said(why))


def acked_rows(server: Sandbox, acks: AcksTable) -> Mapping[Commit, tuple[int, int]]:
    """Rows of the acknowledgement table, by commit: their number and a sum over them."""
    found: Sequence[tuple[int, int, int, int]] = server.query(
        "SELECT c, n, COUNT(*), BIT_XOR(CRC32(CONCAT(part, ' ', pad)))"
        f" FROM {acks.database}.{ACKS_TABLE} GROUP BY c, n"
    )
    return {(int(c), int(n)): (int(count), int(total)) for c, n, count, total in found}


def _go_on(server: Sandbox, acks: AcksTable, there: Mapping[Commit, object]) -> None:
    last: dict[int, int] = {}
    for connection, counter in there:
        last[connection] = max(last.get(connection, 0), counter)
    for connection, counter in (last or {1: 0}).items():
        values = ", ".join(
            f"({connection}, {counter + 1}, {part}, 'after the crash')" for part in range(1, acks.rows + 1)
        )
        server.query(f"INSERT INTO {acks.database}.{ACKS_TABLE} (c, n, part, pad) VALUES {values}")
