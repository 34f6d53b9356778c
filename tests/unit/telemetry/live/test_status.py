"""What a server told, under one name for every flavor and version, and rates between two samples."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.record import ServerSample
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import FileEvents, parse_threads
from flushlab.telemetry.live.status import MOST_GROUPS, OTHERS, Rates, Redo
from flushlab.telemetry.status import parse_monitor
from tests.unit.telemetry.live.told import MARIADB, MYSQL57, MYSQL97, STATUS, seen


def test_redo_of_mariadb() -> None:
    told = seen(
        MARIADB,
        status={"innodb_checkpoint_age": "16"},
        variables={"innodb_log_file_size": "100663296"},
    )
    assert told.redo == Redo(checkpoint_age=16, capacity=100663296, limit=100663296)


def test_redo_of_mysql_is_the_distance_of_two_lsns() -> None:
    lsns = {"innodb_redo_log_current_lsn": "5000", "innodb_redo_log_checkpoint_lsn": "2000"}
    told = seen(MYSQL97, status=lsns).redo
    assert (told.checkpoint_age, told.capacity) == (3000, 104857600)
    assert told.limit is not None and told.limit / 104857600 == pytest.approx(0.883, abs=0.001)


GIB = 1 << 30


@pytest.mark.parametrize(
    ("resized", "capacity", "size", "files", "is_in_force"),
    [
        (4 * GIB, 100 << 20, 2 * GIB, 2, 4 * GIB),
        (None, 100 << 20, 2 * GIB, 2, 4 * GIB),
        (None, 100 << 20, 48 << 20, 2, 100 << 20),
        (None, GIB, 2 * GIB, 2, GIB),
    ],
)
def test_older_variables_of_the_redo_log_count_where_the_new_one_has_its_default(
    resized: int | None, capacity: int, size: int, files: int, is_in_force: int
) -> None:
    """An option file that was carried over an upgrade; MySQL shows the default of the new variable."""
    told = seen(
        MYSQL97,
        status={} if resized is None else {"innodb_redo_log_capacity_resized": str(resized)},
        variables={
            "innodb_redo_log_capacity": str(capacity),
            "innodb_log_file_size": str(size),
            "innodb_log_files_in_group": str(files),
        },
    )
    assert told.redo.capacity == is_in_force


def test_redo_of_old_mysql_comes_from_the_monitor() -> None:
    files = {"innodb_log_file_size": "50331648", "innodb_log_files_in_group": "2"}
    told = seen(MYSQL57, variables=files, monitor=ServerSample(checkpoint_age_bytes=9))
    assert (told.redo.checkpoint_age, told.redo.capacity) == (9, 100663296)
    assert told.redo.limit is not None and told.redo.limit / 100663296 == pytest.approx(0.803, abs=0.001)


def test_what_is_not_told_is_none() -> None:
    told = seen(status={}, variables={}, threads=None)
    assert (told.redo, told.dirty, told.connections, told.variable("wait_timeout")) == (
        Redo(),
        None,
        (),
        None,
    )
    assert Rates(None, told).per_s("questions") is None


def test_connections_are_by_user_and_command_and_daemons_are_none() -> None:
    first, second = seen().connections
    assert (first.user, first.command, first.count, first.oldest_s, first.in_transaction) == (
        *("app", "Sleep", 120, 300),
        2,
    )
    assert (second.command, second.count) == ("Query", 3)


def test_users_beyond_a_limit_are_counted_together() -> None:
    rows = [(f"user{number}", "", "Sleep", "", 2, 0, number, None) for number in range(MOST_GROUPS + 50)]
    found = seen(threads=parse_threads(rows)).connections
    assert len(found) == MOST_GROUPS + 1
    assert (found[0].user, found[0].count) == (OTHERS, 100)


def test_rates_are_differences_over_the_time_between() -> None:
    after = seen(at_s=12.0, status={**STATUS, "uptime": "102", "questions": "1500"})
    rates = Rates(seen(), after)
    assert rates.per_s("questions") == 250
    assert rates.rows["inserted"] == 0
    assert (rates.lock_waits.now, rates.lock_waits.per_s) == (2, 0)


def test_a_server_that_takes_slices_is_judged_by_the_time_it_was_driven() -> None:
    after = seen(at_s=20.0, driven_s=1.5, status={**STATUS, "questions": "1500"})
    assert Rates(seen(driven_s=1.0), after).per_s("questions") == 1000


@pytest.mark.parametrize("news", [{"key": "two"}, {"status": {**STATUS, "uptime": "1"}}, {"at_s": 10.0}])
def test_there_is_no_rate_between_two_servers_or_two_lives_of_one(news: dict[str, Any]) -> None:
    facts: dict[str, Any] = {"at_s": 12.0, "status": {**STATUS, "questions": "1500"}}
    after = seen(**(facts | news))
    assert Rates(seen(), after).per_s("questions") is None


def test_syncs_and_groups_of_mysql() -> None:
    before = seen(
        status={"innodb_os_log_fsyncs": "10", "innodb_data_fsyncs": "15", "binlog_cache_use": "100"}
    )
    after = seen(
        at_s=12.0,
        status={"innodb_os_log_fsyncs": "30", "innodb_data_fsyncs": "45", "binlog_cache_use": "140"},
        files={"binlog": FileEvents(syncs=20, bytes_written=5000)},
    )
    rates = Rates(before, after)
    assert rates.syncs == {"redo": 10, "data": 5, "binlog": 5}
    assert (rates.commits_per_group, rates.binlog_bytes) == (4, 2000)


def test_groups_of_mariadb() -> None:
    before = seen(MARIADB, status={"binlog_commits": "100", "binlog_group_commits": "50"}, files={})
    after = seen(
        MARIADB, at_s=11.0, status={"binlog_commits": "400", "binlog_group_commits": "150"}, files={}
    )
    assert Rates(before, after).commits_per_group == 3
    assert Rates(before, after).syncs["redo"] is None


def test_nothing_that_froze_servers_is_asked() -> None:
    for identity in (MARIADB, MYSQL57, MYSQL97):
        for is_on in ("ON", "OFF"):
            asked = questions.questions(identity, {"performance_schema": is_on})
            text = " ".join(form for one in asked for form in one.forms).lower()
            for never in (
                "data_lock",
                "innodb_lock_waits",
                "show processlist",
                "binary log",
                "master status",
            ):
                assert never not in text
            for changes in ("update ", "set global", "innodb_monitor", "setup_"):
                assert changes not in text


def test_syncs_that_the_kernel_counted_win() -> None:
    before = seen(MARIADB, syncs={"redo": 100, "data": 7})
    after = seen(MARIADB, at_s=12.0, syncs={"redo": 300, "data": 7, "undo": 1})
    found = Rates(before, after).syncs
    assert found == {"redo": 100, "data": 0, "binlog": None}


def test_a_counter_of_waits_below_zero_tells_nothing() -> None:
    """MySQL 8.0.15, idle after waits for one row: 18446744073709551615 transactions wait."""
    for text, waiters in (("18446744073709551615", None), ("3", 3.0)):
        assert seen(MYSQL97, status={"innodb_row_lock_current_waits": text}).row_lock_waiters == waiters


# SHOW ENGINE INNODB STATUS, the parts that matter, as the servers print them.
MARIADB_10_11 = """
------------
TRANSACTIONS
------------
Trx id counter 60731
Purge done for trx's n:o < 60731 undo n:o < 0 state: running but idle
History list length 17
---
LOG
---
Log sequence number 52961234
Log flushed up to   52961000
Pages flushed up to 46981
Last checkpoint at  46969
----------------------
BUFFER POOL AND MEMORY
----------------------
Total large memory allocated 167772160
Free buffers       6700
Database pages     1328
Modified db pages  1017
"""
MYSQL_5_7 = """
History list length 3
---
LOG
---
Log sequence number 12219480
Log flushed up to   12219480
Pages flushed up to 12219480
Last checkpoint at  12219471
0 pending log flushes, 0 pending chkp writes
----------------------
BUFFER POOL AND MEMORY
----------------------
Database pages     2511
Modified db pages  0
"""


def test_mariadb_tells_everything() -> None:
    sample = parse_monitor(MARIADB_10_11, pool_reads=5)
    assert sample.checkpoint_age_bytes == 52961234 - 46969
    assert (sample.history_length, sample.dirty_pages, sample.pool_reads) == (17, 1017, 5)
    assert sample.redo_written_bytes == 52961234


def test_mysql_tells_everything() -> None:
    sample = parse_monitor(MYSQL_5_7)
    assert (sample.checkpoint_age_bytes, sample.history_length, sample.dirty_pages) == (9, 3, 0)


def test_what_a_server_does_not_tell_is_none_not_zero() -> None:
    sample = parse_monitor("Log sequence number 10\n")
    assert (sample.redo_written_bytes, sample.checkpoint_age_bytes, sample.dirty_pages) == (10, None, None)
