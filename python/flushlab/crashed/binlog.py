"""Binlog: transactions of the acknowledgement table in a recovered server's binary log.

The native core reads the files (`crates/binlog`). A file counts up to its first event that is not whole: a
replica could read no more of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from flushlab import _core
from flushlab.crashed.acks import TABLE
from flushlab.crashed.judge import Commits

_IN_INNODB = ".ibb"
"""Of MariaDB's `binlog_storage_engine=innodb`."""
_INSERT = re.compile(r"INSERT INTO `?" + TABLE + r"`? \(.*?\) VALUES \((\d+), ?(\d+),")


class Unreadable(Exception):
    """The file has events that the native core cannot read; the message names them."""


class _Transaction(msgspec.Struct, frozen=True):
    end: int
    inserted: list[list[int]]
    statements: list[str]


class _Log(msgspec.Struct, frozen=True):
    transactions: list[_Transaction]
    unreadable: str | None


def commits(files: Iterable[Path]) -> dict[int, Commits]:
    """Whole transactions of the acknowledgement table in files of the binary log, by connection.

    Raises:
        Unreadable: they are encrypted, too large when uncompressed, or in another format.
        OSError: they cannot be read.
    """
    found: dict[int, set[int]] = {}
    for file in files:
        if file.suffix == _IN_INNODB:
            raise Unreadable(f"it lies in InnoDB ({file.name})")
        try:
            log = _read(file)
        except FileNotFoundError:
            continue  # its name was durable, and the file was not
        for transaction in log:
            for connection, counter in _acks(transaction):
                found.setdefault(connection, set()).add(counter)
    return {one: Commits(len(counters), max(counters)) for one, counters in found.items()}


def transaction_ends(file: Path) -> list[int]:
    """Where whole transactions end in a file of a binary or relay log: offsets, in ascending order.

    Raises:
        Unreadable: it is encrypted, too large when uncompressed, or in another format.
        OSError: it cannot be read.
    """
    return [transaction.end for transaction in _read(file)]


def _read(file: Path) -> list[_Transaction]:
    log = msgspec.json.decode(_core.read_binlog(str(file), TABLE), type=_Log)
    if log.unreadable is not None:
        raise Unreadable(log.unreadable)
    return log.transactions


def _acks(transaction: _Transaction) -> Iterator[tuple[int, int]]:
    """Connection and counter of the rows that a transaction inserts."""
    for connection, counter, *_ in transaction.inserted:
        yield connection, counter
    for statement in transaction.statements:
        if insert := _INSERT.match(statement):
            yield int(insert[1]), int(insert[2])
