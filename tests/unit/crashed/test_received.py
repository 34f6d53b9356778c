"""What a replica had received at a record: whole transactions, none of them too many."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from flushlab.crashed.replica import LogPosition, Received, all_received
from flushlab.errors import StorageError
from tests.unit.crashed.test_binlog import HEAD, transaction

FIRST, SECOND = (HEAD + b"".join(transaction(1, n) for n in range(1, number + 1)) for number in (1, 2))


def kept(record: Path, receipts: list[tuple[int, ...]], *relay_logs: bytes) -> Received:
    data = record / "replica" / "data"
    data.mkdir(parents=True)
    for number, content in enumerate(relay_logs, 1):
        (data / f"relay.{number:06d}").write_bytes(content)
    (data / "relay.index").write_text("./relay.000001\n")
    packed = b"".join(struct.pack("<QQQQ", *(*one, 0)[:4]) for one in receipts)
    (record / "replica" / "received").write_bytes(packed)
    return Received(record)


def test_what_was_noted_after_the_crash_does_not_count(tmp_path: Path) -> None:
    received = kept(tmp_path, [(3, 1, len(FIRST)), (7, 1, len(SECOND))], SECOND)
    assert Received.find(tmp_path)
    assert received.before(2) is None
    assert received.before(3) == received.before(6) == LogPosition("relay.000001", len(FIRST))
    assert received.before(7) == LogPosition("relay.000001", len(SECOND))


def test_what_came_after_the_moment_does_not_count(tmp_path: Path) -> None:
    """The disk may be silent for long between two records."""
    received = kept(tmp_path, [(3, 1, len(FIRST), 100), (3, 1, len(SECOND), 400)], SECOND)
    assert received.before(3) == LogPosition("relay.000001", len(SECOND))
    assert received.before(3, 399) == LogPosition("relay.000001", len(FIRST))
    assert received.before(3, 99) is None


def test_half_a_transaction_does_not_count(tmp_path: Path) -> None:
    received = kept(tmp_path, [(1, 1, len(FIRST) - 1), (2, 1, len(SECOND) - 1)], SECOND)
    assert received.before(1) is None
    assert received.before(2) == LogPosition("relay.000001", len(FIRST))


def test_a_file_without_any_leaves_the_end_of_the_one_before(tmp_path: Path) -> None:
    received = kept(tmp_path, [(5, 2, len(HEAD)), (6, 2, len(FIRST))], HEAD + transaction(1, 1), FIRST)
    assert received.before(5) == LogPosition("relay.000001", len(FIRST))
    assert received.before(6) == all_received(received.datadir) == LogPosition("relay.000002", len(FIRST))


def test_nothing_was_received(tmp_path: Path) -> None:
    assert Received.find(tmp_path) is None
    received = kept(tmp_path, [], HEAD)
    assert received.before(10) is all_received(received.datadir) is None


def test_what_is_no_receipt_is_refused(tmp_path: Path) -> None:
    kept(tmp_path, [], HEAD)
    (tmp_path / "replica" / "received").write_bytes(b"abc")
    with pytest.raises(StorageError, match="has received cannot be read"):
        Received(tmp_path)
