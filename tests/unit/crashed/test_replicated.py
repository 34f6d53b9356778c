"""What is said of a replica that went on with a recovered server."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.crashed.measured import Spread, counts, measured, replica_in_words
from flushlab.crashed.replica import judge_replica
from flushlab.record import Crash, CrashArm, CrashPoint, ReplicaState

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
