"""Binlog: transactions of the acknowledgement table in a recovered server's binary log. Reads files only.

Only statements and rows of the acknowledgement table are read, and which transactions are whole. A
file counts up to its first event that is not: that is what a replica could have read of it. Formats: MySQL
Internals Manual, "Binary Log"; MariaDB knowledge base, "Binlog Event Types".
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from flushlab.crashed.acks import TABLE
from flushlab.crashed.judge import Commits

_MAGIC = b"\xfebin"
_ENCRYPTED = b"\xfdbin"
"""How MySQL's encrypted files begin."""
_START_ENCRYPTION = 164
"""MariaDB's encrypted files are like others up to this event."""
_IN_INNODB = ".ibb"
"""Of MariaDB's `binlog_storage_engine=innodb`."""
_HEADER = struct.Struct("<IBIIIH")
_QUERY, _FORMAT, _XID, _TABLE_MAP = 2, 15, 16, 19
_WRITE_ROWS = {23: 8, 30: 10}
"""Event type: bytes in front of the number of columns (version 2 has a length of extra data there)."""
_GTIDS = (33, 34, 162)  # MySQL's, its anonymous one, MariaDB's
_COMPRESSED = (40, 165, 166)
_INSERT = re.compile(rb"INSERT INTO `?" + TABLE.encode() + rb"`? \(.*?\) VALUES \((\d+), ?(\d+),")


class Unreadable(Exception):
    """It has events that are not read here; the message says which."""


class _Event(NamedTuple):
    kind: int
    body: bytes
    end: int


def commits(files: Iterable[Path]) -> dict[int, Commits]:
    """Whole transactions of the acknowledgement table in files of the binary log, by connection.

    Raises:
        Unreadable: they are compressed, encrypted or in another format.
        OSError: they cannot be read.
    """
    found: dict[int, set[int]] = {}
    for file in files:
        if file.suffix == _IN_INNODB:
            raise Unreadable(f"it lies in InnoDB ({file.name})")
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            content = b""  # its name was durable, and the file was not
        try:
            for connection, counter in _transactions(content):
                found.setdefault(connection, set()).add(counter)
        except (struct.error, IndexError):
            continue  # without checksums, an event that is not whole may look as if it were
    return {one: Commits(len(counters), max(counters)) for one, counters in found.items()}


def transaction_ends(content: bytes) -> list[int]:
    """Where whole transactions end in a file of a binary or relay log: offsets, in ascending order.

    Raises:
        Unreadable: they are compressed, encrypted or in another format.
    """
    ends = []
    for event in _events(content):
        if event.kind in _COMPRESSED:
            raise Unreadable(f"it is compressed (event type {event.kind})")
        if event.kind == _XID or (event.kind == _QUERY and _text(event.body) == b"COMMIT"):
            ends.append(event.end)
    return ends


def _transactions(content: bytes) -> Iterator[tuple[int, int]]:
    pending: set[tuple[int, int]] = set()
    ours: set[bytes] = set()
    for event in _events(content):
        if event.kind in _COMPRESSED:
            raise Unreadable(f"it is compressed (event type {event.kind})")
        if event.kind in _GTIDS:
            pending.clear()
        elif event.kind == _TABLE_MAP:
            if f"\0{chr(len(TABLE))}{TABLE}\0".encode() in event.body:
                ours.add(event.body[:6])
            else:
                ours.discard(event.body[:6])
        elif event.kind in _WRITE_ROWS and event.body[:6] in ours:
            pending.add(_row(event))
        elif event.kind == _QUERY:
            text = _text(event.body)
            if text == b"COMMIT":
                yield from pending
                pending.clear()
            elif text == b"BEGIN":
                pending.clear()
            elif insert := _INSERT.match(text):
                pending.add((int(insert[1]), int(insert[2])))
        elif event.kind == _XID:
            yield from pending
            pending.clear()


def _events(content: bytes) -> Iterator[_Event]:
    """Whole events; a checksum that does not hold ends them."""
    head = content[: len(_MAGIC)]
    if head == _ENCRYPTED:
        raise Unreadable("it is encrypted")
    if head != _MAGIC:
        if any(head) and not _MAGIC.startswith(head):  # zeros are what was never written out
            raise Unreadable(f"its format is not known (it begins with {head.hex()})")
        return
    at, checked = len(_MAGIC), False
    while at + _HEADER.size <= len(content):
        _, kind, _, size, _, _ = _HEADER.unpack_from(content, at)
        event = content[at : at + size]
        if size < _HEADER.size or len(event) < size:
            return
        if kind == _FORMAT:
            checked = event[-5] == 1
            if checked:
                # Its sum is over the event as it was first written, without the flag that it is in use.
                at += size
                continue
        if checked:
            if zlib.crc32(event[:-4]) != int.from_bytes(event[-4:], "little"):
                return
            event = event[:-4]
        if kind == _START_ENCRYPTION:
            raise Unreadable(f"it is encrypted (event type {kind})")
        at += size
        yield _Event(kind, event[_HEADER.size :], at)


def _row(event: _Event) -> tuple[int, int]:
    """Connection and counter of an inserted row; the engine inserts one at a time."""
    at = _WRITE_ROWS[event.kind]
    if event.kind == 30:
        at += int.from_bytes(event.body[8:10], "little") - 2
    at += 1 + 1 + 1  # number of columns, which are there, which are NULL: four columns fit in a byte each
    connection, counter = struct.unpack_from("<qq", event.body, at)
    return connection, counter


def _text(body: bytes) -> bytes:
    database, status = body[8], int.from_bytes(body[11:13], "little")
    return body[13 + status + database + 1 :]
