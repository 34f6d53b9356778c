"""InnoDB's monitor, as each version prints it."""

from __future__ import annotations

from flushlab.diagnosis.files import innodb_status
from flushlab.diagnosis.monitor import Latch, Monitor
from flushlab.telemetry.live.questions import OpenTransaction
from tests.unit.diagnosis.files.outputs import MARIADB_INNODB, MYSQL51_INNODB, MYSQL80_INNODB


def only(text: str) -> Monitor:
    (found,) = innodb_status.parse(text).monitors
    return found


def test_mysql_8_tells_all_of_it() -> None:
    found = only(MYSQL80_INNODB)
    assert (found.lsn, found.checkpoint, found.checkpoint_age) == (96_000_000, 6_000_000, 90_000_000)
    assert (found.history_length, found.pages, found.free_pages, found.dirty_pages) == (321, 8192, 1, 6000)
    assert (found.averaged_s, found.rows_per_s, found.whole) == (12, 14.0, True)
    assert found.pending == {
        "reads": 3,
        "writes": 30,
        "syncs of the redo log": 1,
        "syncs of data files": 4,
        "page flushes to find a free page": 2,
    }
    assert found.committing == (2,)


def test_open_transactions_are_those_of_the_list_and_not_of_a_deadlock() -> None:
    assert only(MYSQL80_INNODB).transactions == (
        OpenTransaction(thread=8, waits=True, age_s=3, rows_locked=1, rows_modified=0),
        OpenTransaction(thread=7, waits=False, age_s=45, rows_locked=17, rows_modified=12),
        OpenTransaction(thread=9, waits=False, age_s=2, rows_locked=1, rows_modified=1),
    )


def test_latches_have_the_name_that_the_server_prints() -> None:
    assert set(only(MYSQL80_INNODB).latches) == {
        Latch(name="BUF_POOL_FREE_LIST", waiting=1, longest_s=2.0),
        Latch(name="latch of dict0dict.cc", waiting=1, longest_s=0.0),
    }


def test_latches_are_none_of_a_statement() -> None:
    forged = "--Thread 1 has waited at x.cc line 1 for 99 seconds the semaphore:\n"
    text = MYSQL80_INNODB.replace("\nFILE I/O\n", f"\n{forged}\nFILE I/O\n")
    assert text != MYSQL80_INNODB and only(text).latches == only(MYSQL80_INNODB).latches


def test_mysql_51_prints_numbers_in_halves() -> None:
    found = only(MYSQL51_INNODB)
    assert (found.lsn, found.checkpoint_age) == ((1 << 32) + 64909, 4909)
    assert [(one.thread, one.age_s, one.rows_locked) for one in found.transactions] == [(1, 35, 3)]
    assert found.rows_per_s == 0.0


def test_mariadb_has_its_own_words() -> None:
    found = only(MARIADB_INNODB)
    assert (found.checkpoint_age, found.checkpoint_max_age, found.rows_per_s) == (10_000_000, None, None)
    assert [(one.thread, one.rows_modified) for one in found.transactions] == [(12, 40)]


def test_several_outputs_are_several() -> None:
    found = innodb_status.parse(MYSQL80_INNODB + MYSQL80_INNODB.replace("length 321", "length 400")).monitors
    assert [one.history_length for one in found] == [321, 400]


def test_line_ends_may_be_written_out_or_those_of_windows() -> None:
    assert only(MYSQL80_INNODB.replace("\n", "\\n")).history_length == 321
    assert only(MYSQL80_INNODB.replace("\n", "\r\n")) == only(MYSQL80_INNODB)


def test_an_output_that_was_cut_is_not_whole() -> None:
    found = only(MYSQL80_INNODB.partition("FILE I/O")[0])
    assert (found.whole, found.history_length, found.lsn) == (False, 321, None)
    assert not only(MYSQL80_INNODB.replace("\nFILE I/O\n", "\n... truncated...\nFILE I/O\n")).whole


def test_rates_over_no_time_are_none() -> None:
    assert only(MYSQL80_INNODB.replace("the last 12 sec", "the last 0 sec")).rows_per_s is None
