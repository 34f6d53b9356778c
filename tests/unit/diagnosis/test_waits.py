"""What a connection waits for, from states as real servers under load had them."""

from __future__ import annotations

import pytest

from flushlab.diagnosis.waits import Wait, is_write, wait_of
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import ThreadState
from tests.unit.telemetry.live.told import MARIADB, MYSQL57, MYSQL97

SEEN: list[tuple[ServerIdentity, str, int, str, str, Wait | None]] = [
    (MYSQL97, "Execute", 0, "waiting for handler commit", "update", "commit"),
    (MYSQL97, "Execute", 0, "waiting for handler commit", "commit", "commit"),
    (MYSQL97, "Execute", 3, "updating", "update", "statement"),
    (MYSQL97, "Execute", 0, "query end", "update", "statement"),
    (MYSQL97, "Execute", 0, "statistics", "select", "reading"),
    (MYSQL97, "Query", 9, "Waiting for table metadata lock", "insert", "metadata lock"),
    (MYSQL97, "Query", 0, "Waiting for semi-sync ACK from replica", "commit", "semi-sync"),
    (MYSQL97, "Daemon", 99, "Suspending", "", None),
    (MYSQL97, "Binlog Dump GTID", 99, "Source has sent all binlog to replica", "", None),
    (MYSQL97, "Sleep", 0, "", "", "client"),
    (MYSQL97, "Sleep", 1, "", "", None),
    (MYSQL57, "Execute", 0, "query end", "update", "commit"),
    (MYSQL57, "Execute", 0, "starting", "commit", "commit"),
    (MYSQL57, "Query", 0, "Waiting for semi-sync ACK from slave", "insert", "semi-sync"),
    (MARIADB, "Execute", 0, "Commit", "commit", "commit"),
    (MARIADB, "Execute", 0, "Updating", "update", "statement"),
    (MARIADB, "Execute", 0, "Sending data", "select", "reading"),
    (MARIADB, "Execute", 0, "Updating", "/*", "statement"),
    (MYSQL97, "Query", 0, "update", "/*", "statement"),
    (MYSQL97, "Query", 0, "statistics", "/*", "reading"),
    (MARIADB, "Query", 0, "Waiting for certification", "commit", "certification"),
    (MYSQL57, "Query", 0, "wsrep: replicating and certifying write set(2)", "commit", "certification"),
    (MYSQL57, "Query", 0, "wsrep: pre-commit/certification passed (2)", "update", "certification"),
    (MYSQL57, "Query", 0, "wsrep: initiating replication for write set (2)", "commit", "certification"),
    (MYSQL57, "Query", 0, "starting", "xa", "commit"),
    (MYSQL97, "Query", 0, "waiting for handler commit", "select", "reading"),
    (MARIADB, "Query", 0, "Commit", "(select", "reading"),
    (MARIADB, "Query", 0, "starting", "", None),
    (MARIADB, "Query", 0, "Updating status", "update", "commit"),  # without a binary log
    (MARIADB, "Query", 0, "Updating status", "commit", "commit"),
    (MARIADB, "Query", 0, "Updating status", "call", "commit"),
    (MARIADB, "Query", 0, "Updating status", "select", "reading"),
    (MARIADB, "Query", 0, "Freeing items", "insert", "commit"),  # in a pool of threads
    (MARIADB, "Query", 0, "starting", "begin", "commit"),  # of the transaction before it
    (MARIADB, "Query", 0, "Writing to binlog", "xa", "commit"),
    (MARIADB, "Query", 0, "Writing to binlog", "create", "commit"),
    (MARIADB, "Query", 0, "Waiting for prior transaction to commit", "commit", "commit"),
    (MYSQL97, "Query", 0, "waiting for handler commit", "begin", "commit"),
    (MYSQL97, "Query", 0, "Waiting for Binlog Group Commit ticket", "update", "commit"),
    (MYSQL97, "Query", 0, "starting", "rollback", "commit"),  # which syncs the redo log
    (MYSQL97, "Query", 0, "freeing items", "insert", "statement"),
]


@pytest.mark.parametrize(("identity", "command", "seconds", "state", "verb", "wait"), SEEN)
def test_a_state_is_a_wait(
    identity: ServerIdentity, command: str, seconds: int, state: str, verb: str, wait: Wait | None
) -> None:
    assert wait_of(ThreadState(1, command, seconds, state, verb), identity) == wait


def test_who_reads_is_no_writer() -> None:
    assert not is_write(ThreadState(1, "Query", 0, "statistics", "select"))
    assert not is_write(ThreadState(1, "Query", 0, "Commit", "select"))
    assert not is_write(ThreadState(1, "Query", 0, "starting", "begin"))
    assert not is_write(ThreadState(1, "Query", 0, "starting", "rollback"))
    assert is_write(ThreadState(1, "Query", 0, "Commit", "call"))
    assert is_write(ThreadState(1, "Query", 0, "Updating status", "call"))
    assert is_write(ThreadState(1, "Query", 0, "updating", "delete"))
    assert is_write(ThreadState(1, "Query", 0, "Updating", "/*"))
    assert not is_write(ThreadState(1, "Query", 0, "statistics", "/*"))
