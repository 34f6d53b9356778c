"""InnoDB's monitor, as each version prints it."""

from __future__ import annotations

import pytest

from flushlab.diagnosis.evidence import Latch, Monitor
from flushlab.diagnosis.files import innodb_status
from flushlab.diagnosis.files.folder import tell
from flushlab.telemetry.live.questions import OpenTransaction
from tests.unit.diagnosis.files.outputs import MARIADB_INNODB, MYSQL51_INNODB, MYSQL80_INNODB


def only(text: str) -> Monitor:
    (found,) = innodb_status.parse(text).monitors
    return found


def test_mysql_8_tells_all_of_it() -> None:
    found = only(MYSQL80_INNODB)
    assert (found.lsn, found.checkpoint, found.checkpoint_age) == (96_000_000, 6_000_000, 90_000_000)
    assert (found.history_length, found.pages, found.free_pages, found.dirty_pages) == (321, 8192, 1, 6000)
    assert (found.averaged_s, found.rows_per_s, found.absent) == (12, 14.0, ())
    assert found.pending == {
        "reads": 3,
        "writes": 30,
        "syncs of the redo log": 1,
        "syncs of data files": 4,
        "page flushes to find a free page": 2,
    }
    assert [(one.thread, one.age_s) for one in found.transactions if one.prepared] == [(9, 2)]
    assert (found.flushed, found.flushing, found.main_flushes, found.syncs_log) == (
        95_000_000,
        0,
        False,
        True,
    )


def test_open_transactions_are_those_of_the_list_and_not_of_a_deadlock() -> None:
    first, *others = only(MYSQL80_INNODB).transactions
    assert first == OpenTransaction(
        id=9000, thread=8, waits=True, state="10.0.0.5 app updating", age_s=3, rows_locked=1, rows_modified=0
    )
    assert [(one.thread, one.age_s, one.idle, one.rows_locked, one.rows_modified) for one in others] == [
        (7, 45, True, 17, 12),
        (9, 2, False, 1, 1),
    ]


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
    assert (bool(found.absent), found.history_length, found.lsn) == (True, 321, None)
    assert only(MYSQL80_INNODB.replace("\nFILE I/O\n", "\n... truncated...\nFILE I/O\n")).absent


TRANSACTIONS = MYSQL80_INNODB.partition("LIST OF TRANSACTIONS FOR EACH SESSION:\n")[2].partition("FILE I/O")[
    0
]


@pytest.mark.parametrize(
    ("part", "absent"),
    [
        (MYSQL80_INNODB.partition("-----\nSEMAPHORES")[2], ("its first line",)),
        (TRANSACTIONS, ("its first line", "TRANSACTIONS", "LOG", "ROW OPERATIONS", "its last line")),
    ],
)
def test_a_part_of_an_output_is_one_without_its_first_line(part: str, absent: tuple[str, ...]) -> None:
    found = only(part)
    assert found.transactions == only(MYSQL80_INNODB).transactions
    assert found.absent == absent
    assert tell(part).keys() == {"SHOW ENGINE INNODB STATUS"}


@pytest.mark.parametrize("mark", ["> ", ">", "> > ", "    ", "\t"])
def test_an_output_that_is_quoted_or_indented_is_one_as_well(mark: str) -> None:
    quoted = "Hello,\n\n" + "".join(f"{mark}{line}\n" for line in MYSQL80_INNODB.splitlines())
    told = tell(quoted)["SHOW ENGINE INNODB STATUS"].monitors
    assert told == innodb_status.parse(MYSQL80_INNODB).monitors


def test_spaces_at_the_ends_of_lines_are_no_trouble() -> None:
    assert only(MYSQL80_INNODB.replace("\n", "  \n")) == only(MYSQL80_INNODB)


def test_a_word_of_an_output_in_another_text_is_none() -> None:
    assert not tell("we saw ---TRANSACTION in the log, and Log sequence number too\n")


def test_rates_over_no_time_are_none() -> None:
    assert only(MYSQL80_INNODB.replace("the last 12 sec", "the last 0 sec")).rows_per_s is None
