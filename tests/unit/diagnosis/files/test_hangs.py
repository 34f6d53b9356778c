"""Servers that hang, from their files: nobody says that nothing bounds their writes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flushlab.diagnosis.diagnose import Diagnosis
from flushlab.report.doctor import document
from tests.golden.test_reports import text_of
from tests.unit.diagnosis.files import hangs, outputs
from tests.unit.diagnosis.files.outputs import (
    VARIABLES,
    box,
    connection,
    diagnosis,
    processlists,
    tabs,
    vertical,
)


def first(found: Diagnosis) -> tuple[str, str, object]:
    one = found.findings[0]
    return one.name, one.strength, one.at_most


def shown(found: Diagnosis) -> str:
    """The short report, its lines joined."""
    return " ".join(text_of(document(found)).split())


def test_ddl_that_waits_for_a_table_is_the_answer_and_its_holder_is_named() -> None:
    found = diagnosis(a=processlists([hangs.BEHIND_DDL] * 30))
    assert found.answer == (
        "The files show no writer at work, but 21 statements wait for a metadata lock, which connection 9"
        " probably holds, for up to 770 s."
    )
    assert first(found) == ("metadata_locks", "unmeasured", None)
    assert "ALTER of connection 10: Waiting for table metadata lock for 770 s; 20 more statements" in shown(
        found
    )
    assert "connection 9 probably holds it: asleep for 771 s" in shown(found)
    assert "then KILL 9" in shown(found)


def test_one_list_is_enough_to_see_who_waits_for_whom() -> None:
    found = diagnosis(a=vertical(hangs.BEHIND_DDL))
    assert found.answer.startswith(
        "21 statements wait for a metadata lock, which connection 9 probably holds"
    )
    assert found.answer.endswith("cannot be judged: the files have no rates and only 1 list of connections.")


def test_of_those_asleep_the_one_in_a_transaction_is_the_likeliest() -> None:
    """MariaDB 10.11 lists a transaction that has read only; MySQL's monitor does not."""
    reading = (
        "---TRANSACTION (0x7fd42d11b180), ACTIVE 772 sec\n0 lock struct(s), heap size 1128, 0 row lock(s)\n"
        "MariaDB thread id 9, OS thread handle 140549584742080, query id 25 localhost flushlab \n"
        "Trx read view will not see trx with id >= 31, sees < 31\n--------\nFILE I/O"
    )
    asleep = [connection(number, "Sleep", 3000 + number, "") for number in range(40, 54)]
    monitor = hangs.STUCK_MARIADB.partition("---TRANSACTION 24")[0] + reading
    alone = diagnosis(a=vertical([*hangs.BEHIND_DDL, *asleep]))
    assert "connection 53 probably holds it: asleep for 3,053 s; 14 other connections were there" in shown(
        alone
    )
    assert "KILL" not in shown(alone)
    found = diagnosis(a=vertical([*hangs.BEHIND_DDL, *asleep]), b=monitor)
    assert "which connection 9 probably holds" in found.answer
    assert "connection 9 probably holds it: asleep for 771 s, its transaction is open for 772 s" in shown(
        found
    )


@pytest.mark.parametrize(
    ("rows", "holder", "what"),
    [
        (hangs.STOPPED_MYSQL, 20, "FLUSH TABLES WITH READ LOCK stops"),
        (hangs.STOPPED_MARIADB, 19, "FLUSH TABLES WITH READ LOCK or BACKUP STAGE stops"),
    ],
)
def test_a_lock_that_stops_all_writes_is_that_of_the_last_who_fell_asleep_before(
    rows: Sequence[dict[str, str]], holder: int, what: str
) -> None:
    found = diagnosis(a=processlists([rows] * 6))
    assert first(found)[:2] == ("metadata_locks", "binds")
    assert found.answer.startswith(f"Writes are bound: {what} all writes.")
    assert f"connection {holder} probably holds it: asleep for 31 s" in shown(found)


@pytest.mark.parametrize("monitor", [hangs.STUCK_MYSQL57, hangs.STUCK_MARIADB])
@pytest.mark.parametrize("times", [1, 2])
def test_a_prepared_transaction_that_is_old_is_a_commit_stuck_in_its_sync(monitor: str, times: int) -> None:
    found = diagnosis(a=monitor * times)
    assert "commit has not returned for 264 s" in found.answer
    assert first(found) == ("commits_in_flight", "unmeasured", None)
    assert found.findings[0].title.startswith("a commit is stuck in its sync: the file system or the device")
    assert "idle_transactions" not in [one.name for one in found.findings]


def test_redo_that_is_not_synced_between_two_outputs_is_stuck_as_well() -> None:
    """Without a binary log, InnoDB has committed already, and no line has an age."""
    once, twice = hangs.STUCK_WITHOUT_BINLOG, hangs.STUCK_WITHOUT_BINLOG.replace("06:38:33", "06:39:33")
    assert diagnosis(a=once).findings == ()
    found = diagnosis(a=once + twice.replace("18991663", "18991700"))
    assert found.answer.startswith("Nothing of the redo log was synced between two outputs")
    assert first(found) == ("commits_in_flight", "unmeasured", None)


def test_a_commit_of_very_many_rows_may_take_long() -> None:
    large = hangs.STUCK_MARIADB.replace("undo log entries 1", "undo log entries 3000000")
    found = {one.name: one for one in diagnosis(a=large).findings}
    assert found["commits_in_flight"].title == "commits take seconds"


def test_xa_transactions_that_nobody_ends_are_found_without_a_connection() -> None:
    found = diagnosis(a=hangs.XA_RECOVERED)
    assert found.answer == (
        "The files show no writer at work, but 2 XA transactions have been prepared for 86,400 s, with 5,024"
        " row locks."
    )
    assert first(found) == ("xa_transactions", "unmeasured", None)
    assert "2 prepared, 2 of them without a connection" in shown(found)
    assert "XA RECOVER lists them" in shown(found)


def test_an_xa_transaction_whose_connection_does_nothing_is_left_as_well() -> None:
    found = diagnosis(a=hangs.XA_CONNECTED)
    assert first(found)[0] == "xa_transactions"
    assert "1 prepared, 0 of them without a connection" in shown(found)


def test_who_waits_for_rows_waits_for_the_prepared_transaction() -> None:
    found = diagnosis(a=hangs.WAITS_FOR_XA)
    assert "1 transaction waits for row locks" in found.answer
    assert "an XA transaction has been prepared for 90 s, with 1 row lock" in found.answer
    assert "prepared by XA, without a connection, open for 90 s" in shown(found)


def test_one_list_tells_of_waits_without_a_share() -> None:
    acks = [
        connection(one, "Query", 0, "Waiting for semi-sync ACK from replica", "COMMIT") for one in range(15)
    ]
    found = diagnosis(
        a=tabs(VARIABLES), b=vertical([*acks, connection(20, "Query", 0, "updating", "UPDATE t")])
    )
    assert found.answer.startswith(
        "In 1 list of connections, 15 of 16 busy writers wait for a semi-synchronous replica,"
    )
    assert found.findings[0].name == "semi_sync"
    assert {one.share for one in found.findings} == {None}
    assert "Time of" not in shown(found)


def test_one_list_alone_tells_how_long_statements_take() -> None:
    rows = [connection(one, "Query", 43 + one, "updating", "UPDATE t SET n=n+1 WHERE id=1") for one in (1, 2)]
    found = diagnosis(a=vertical(rows))
    assert found.answer.startswith(
        "In 1 list of connections, 2 of 2 busy writers execute, for up to 45 s. What"
    )
    assert any(one.startswith("row locks") for one in found.not_judged)


def test_many_lists_alone_do_not_tell_that_nothing_binds() -> None:
    rows = [
        vertical([connection(1, "Query", 43 + at, "updating", "UPDATE t SET n=n+1 WHERE id=1")])
        for at in range(6)
    ]
    assert diagnosis(a="".join(rows)).answer == (
        "What bounds writes cannot be judged: writers execute statements 100% of their time, for up to 48 s,"
        " and no file tells whether they wait for row locks."
    )


def test_an_applier_that_a_backup_holds_up_is_no_idle_server() -> None:
    """MariaDB 10.11.19, FLUSH TABLES WITH READ LOCK on a replica."""
    rows = [
        vertical(
            [
                connection(7, "Slave_worker", 3 + at, "Waiting for backup lock", "NULL"),
                connection(
                    6, "Slave_SQL", 24, "Slave has read all relay log; waiting for more updates", "NULL"
                ),
                connection(11, "Sleep", 4 + at, "", "NULL"),
            ]
        )
        for at in range(6)
    ]
    found = diagnosis(a="".join(rows))
    assert found.answer.startswith("The files show no writer at work, but 1 statement waits for ")
    texts = [one.text for one in found.findings[0].seen]
    assert "the replica's applier of connection 7: Waiting for backup lock for 8 s" in texts


def test_one_list_with_a_monitor_tells_of_waits_for_rows() -> None:
    rows = [connection(9, "Query", 45, "updating", "UPDATE t SET n=n+1 WHERE id=1")]
    found = diagnosis(a=vertical(rows), b=hangs.WAITS_FOR_XA)
    assert found.evidence.time.connections == {"statement": 0.0, "row lock": 1.0}
    assert [one.name for one in found.findings[:2]] == ["xa_transactions", "row_locks"]
    assert "Nothing bounds" not in found.answer


def test_connections_that_stay_at_work_while_nothing_writes_are_no_idle_server() -> None:
    hang = "".join(box(outputs.status(at, Questions=at, Threads_running=38)) for at in (0, 15, 30))
    assert diagnosis(a=hang).answer == (
        "What bounds writes cannot be judged: no statement that writes began in 30 s, but 39 or more"
        " connections were at work at every status, and the files have no lists of connections."
    )
    reads = "".join(box(outputs.status(at, Questions=900 * at, Threads_running=8)) for at in (0, 15, 30))
    assert diagnosis(a=reads).answer.startswith("Nothing bounds writes")


def test_sessions_that_wait_for_a_replica_are_seen_in_a_status() -> None:
    waiting = {**outputs.status(), "Rpl_semi_sync_source_wait_sessions": "12"}
    found = diagnosis(a=box(waiting))
    assert found.answer.startswith("12 sessions wait for a semi-synchronous replica. ")


def test_a_statement_at_work_that_changes_no_row_is_no_idle_server() -> None:
    working = hangs.XA_CONNECTED.replace("(PREPARED) ", "").replace(
        "localhost flushlab\n", "localhost\nUPDATE t\n"
    )
    assert diagnosis(a=working).answer.startswith(
        "What bounds writes cannot be judged: InnoDB changed 0 rows/s in the 5 s before SHOW ENGINE INNODB"
        " STATUS, but lists 1 transaction with a statement at work."
    )


def test_ddl_that_runs_is_mentioned() -> None:
    found = diagnosis(a=processlists([hangs.ALTERS] * 6))
    assert found.answer == ("The files show no writer at work, but ALTER of connection 22 has run for 95 s.")
    assert "altering table, for 95 s" in shown(found)


def test_a_long_wait_for_a_latch_is_no_idle_server() -> None:
    """MySQL 9.7.4 with its file system stopped."""
    waits = "--Thread 139932212418240 has waited at buf0buf.cc line 3615 for 4 seconds the semaphore:\n"
    found = diagnosis(a=hangs.XA_CONNECTED.replace("OS WAIT ARRAY INFO: reservation count 6\n", waits))
    assert "threads wait for InnoDB's latches, for up to 4 s" in found.answer
