"""What a replica had received before a crash, and what becomes of it afterwards."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from flushlab.crashed.measured import Spread, counts, measured, replica_in_words
from flushlab.crashed.replica import LogPosition, Received, all_received, judge_replica
from flushlab.errors import StorageError
from flushlab.record import Crash, CrashArm, CrashPoint, ReplicaState
from tests.unit.crashed.test_recovered_server import HEAD, transaction

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


ROWS = {(1, 1): (1, 5), (1, 2): (1, 6)}


@pytest.mark.parametrize(
    ("replica", "error", "outcome", "lacks"),
    [
        (ROWS, 0, "follows", 0),
        ({(1, 1): (1, 5)}, 0, "diverged", 1),
        ({**ROWS, (1, 3): (1, 7)}, 0, "diverged", 0),
        ({**ROWS, (1, 2): (1, 9)}, 0, "diverged", 0),
        ({(1, 1): (1, 5)}, 1236, "stopped", 1),
        (ROWS, 1062, "stopped", 0),
    ],
)
def test_it_follows_if_nothing_stops_it_and_all_rows_are_equal(
    replica: Any, error: int, outcome: str, lacks: int
) -> None:
    found = judge_replica(ROWS, replica, error, "Got fatal error" if error else "")
    assert (found.outcome, found.lacks, found.error) == (outcome, lacks, error)


def crash(replica: ReplicaState | None) -> Crash:
    point = CrashPoint(at=1, kind="random", seed=1)
    return Crash(point=point, outcome="kept", acknowledged=9, replica=replica)


STOPPED = ReplicaState(outcome="stopped", ahead=3, lacks=5, error=1236)
FOLLOWS, UNKNOWN = ReplicaState(outcome="follows"), ReplicaState(outcome="unknown")
CRASHES = tuple(crash(one) for one in (STOPPED, FOLLOWS, UNKNOWN, None))


def test_replicas_are_counted_with_their_errors_and_a_bound() -> None:
    found = counts(CRASHES)
    assert found.new_replica is None
    replica = found.replica
    assert replica is not None
    assert (replica.crashes, replica.follows, replica.stopped) == (3, 1, 1)
    assert replica.errors == {"1236": 1}
    assert replica.ahead_commits == Spread(p50=3, max=3)
    assert round(replica.bound_95 or 0, 3) == 0.975, "1 of 2 that were judged does not follow"


def test_replicas_in_words() -> None:
    found = counts(CRASHES).replica
    assert found is not None
    assert replica_in_words(found) == (
        "follows in 1 of 3, stops in 1 (error 1236 in 1), not judged in 1; before that it had up to"
        " 3 commits that the server lacked, in 1; in the end it lacks up to 5 commits of the server's, in 1"
    )
    words = measured(CrashArm(name="base", settings={}, crashes=CRASHES))
    assert words[-1] == "replica: follows in 1 of 3, stops in 1 (error 1236 in 1), not judged in 1"
