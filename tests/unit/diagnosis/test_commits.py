"""Commits by counters, as they grew on real servers for a hundred transactions of each kind."""

from __future__ import annotations

import pytest

from flushlab.diagnosis.evidence import commits_counter, committed
from flushlab.telemetry.live.status import ServerStatus
from tests.unit.diagnosis.watched import evidence
from tests.unit.telemetry.live.told import MARIADB, seen

BINLOG = "binlog_cache_use"
NUMBERS = "innodb_max_trx_id"
GREW: list[tuple[str, str, dict[str, float], float]] = [
    ("updates", BINLOG, {BINLOG: 100, "handler_commit": 200}, 100),
    (
        "ROLLBACK of updates",
        BINLOG,
        {BINLOG: 100, "handler_commit": 200, "com_rollback": 100, "handler_rollback": 200},
        0,
    ),
    (
        "updates, and ROLLBACK of as many reads",
        BINLOG,
        {BINLOG: 100, "handler_commit": 300, "com_rollback": 100, "handler_rollback": 100},
        100,
    ),
    (
        "updates beside duplicate keys",
        BINLOG,
        {BINLOG: 100, "handler_commit": 200, "handler_rollback": 50},
        100,
    ),
    ("too large for the cache", BINLOG, {BINLOG: 100, "handler_commit": 0, "handler_rollback": 243}, 0),
    (
        "too large for the cache",
        "binlog_commits",
        {"binlog_commits": 0, NUMBERS: 213, "handler_rollback": 200},
        0,
    ),
    ("updates", NUMBERS, {NUMBERS: 200, "handler_commit": 100}, 100),
    ("ROLLBACK of updates", NUMBERS, {NUMBERS: 2000, "handler_commit": 1000, "innodb_log_writes": 1}, 9),
    ("updates in groups", NUMBERS, {NUMBERS: 200, "handler_commit": 100, "innodb_log_writes": 20}, 100),
    ("duplicate keys", NUMBERS, {NUMBERS: 100, "handler_commit": 0, "handler_rollback": 100}, 0),
    (
        "updates that change nothing",
        "binlog_commits",
        {"binlog_commits": 0, NUMBERS: 100, "handler_commit": 100},
        0,
    ),
    ("of a recording, without other counters", NUMBERS, {NUMBERS: 200}, 100),
]


@pytest.mark.parametrize(("kind", "counter", "grew", "commits"), GREW)
def test_what_is_rolled_back_is_no_commit(
    kind: str, counter: str, grew: dict[str, float], commits: float
) -> None:
    after = seen(
        MARIADB,
        variables={"innodb_flush_log_at_trx_commit": "1"},
        status={"threads_connected": "9"},
    )
    assert committed(counter, grew.get, after) == commits, kind


def test_a_counter_that_the_server_lacks_tells_nothing() -> None:
    assert committed("binlog_commits", dict[str, float]().get, seen(MARIADB)) is None


def test_where_commits_do_not_write_the_redo_log_its_writes_bound_nothing() -> None:
    relaxed = seen(
        MARIADB,
        variables={"innodb_flush_log_at_trx_commit": "0"},
        status={"threads_connected": "9"},
    )
    grew: dict[str, float] = {NUMBERS: 2000, "innodb_log_writes": 1}
    assert committed(NUMBERS, grew.get, relaxed) == 1000


def applying(logs: str, applies: str) -> ServerStatus:
    variables = {"log_bin": "ON", "log_slave_updates": logs}
    counters = {"binlog_commits": "0", NUMBERS: "9", "slaves_running": applies}
    return seen(MARIADB, variables=variables, status=counters)


def test_a_replica_that_does_not_log_what_it_applies_is_counted_by_innodb() -> None:
    assert commits_counter(applying("OFF", "1")) == NUMBERS
    assert commits_counter(applying("ON", "1")) == "binlog_commits"
    assert commits_counter(applying("OFF", "0")) == "binlog_commits"


def test_with_a_binary_log_that_nothing_enters_the_doctor_counts_no_commit() -> None:
    found = evidence({"binlog_commits": 0, NUMBERS: 5000, "handler_rollback": 5000}, identity=MARIADB)
    assert (found.commits, found.commits_by) == (0.0, "binlog_commits")
