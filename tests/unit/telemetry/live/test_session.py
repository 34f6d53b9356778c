"""A session spares a server where many connections wait for row locks, and questions that hold writers up."""

from __future__ import annotations

import time
from typing import Any

import pytest

from flushlab.telemetry.live import questions, session
from flushlab.telemetry.live.questions import MOST_WAITS, Question, doctor_questions, parse_pairs
from flushlab.telemetry.live.session import Answerer, Due, Session
from tests.unit.telemetry.live.told import MARIADB, MYSQL57, MYSQL97
from tests.unit.watch.test_poller import REACH, Server

ON = {"performance_schema": "ON"}
WAITERS = "Innodb_row_lock_current_waits"


class Locked(Server):
    """A server where so many connections wait for row locks."""

    def __init__(self, waiters: int) -> None:
        super().__init__()
        self.waiters = waiters

    def answer(self, sql: str) -> list[tuple[Any, ...]]:
        found = super().answer(sql)
        return [*found, (WAITERS, str(self.waiters))] if sql == "SHOW GLOBAL STATUS" else found


def doctor_asking(server: Server, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session with this server, of the doctor's questions."""
    monkeypatch.setattr(session, "connect", server.connect)
    return Session(REACH, choose=doctor_questions)


@pytest.mark.parametrize(("waiters", "asked"), [(MOST_WAITS, True), (MOST_WAITS + 1, False)])
def test_open_transactions_are_not_asked_for_while_many_wait(
    waiters: int, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Locked(waiters)
    asking = doctor_asking(server, monkeypatch)
    asking.ask_what_is_due()
    assert any("INNODB_TRX" in sql for sql in server.asked) == asked
    assert (questions.TRANSACTIONS in asking.seen.spared) != asked


def test_connections_are_listed_without_their_transactions_while_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Locked(MOST_WAITS + 1)
    monkeypatch.setattr(session, "connect", server.connect)
    asking = Session(REACH)
    asking.ask_what_is_due()
    assert not any("INNODB_TRX" in sql for sql in server.asked)
    assert asking.seen.threads
    server.waiters = 0
    asking.ask_now(questions.STATUS, questions.THREADS)
    assert any("INNODB_TRX" in sql for sql in server.asked)


def test_a_question_that_is_cut_short_keeps_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """One KILL QUERY is no reason to ask another way from then on."""
    server = Server()
    asking = doctor_asking(server, monkeypatch)
    asking.ask_now(questions.STATES)
    was = asking.seen.asked_s[questions.STATES]
    server.refuses = {"PROCESSLIST_ID": 1317}
    asking.ask_now(questions.STATES)
    assert asking.seen.asked_s[questions.STATES] == was and questions.STATES in asking.seen.failed
    server.refuses = {}
    asking.ask_now(questions.STATES)
    assert asking.seen.asked_s[questions.STATES] > was and not asking.seen.failed
    assert not any("information_schema.PROCESSLIST" in sql for sql in server.asked)


def test_what_is_asked_once_is_asked_again_if_it_was_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    asking = doctor_asking(server, monkeypatch)
    server.refuses = {"persisted_variables": 1317}
    asking.ask_now(questions.PERSISTED)
    due = next(one for one in asking._due if one.question.name == questions.PERSISTED)
    assert due.at_s < time.monotonic() + session.REFUSED_S


def test_a_status_that_is_cut_short_has_no_new_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old counters at a new moment would be a second in which nothing happened."""
    server = Server()
    asking = doctor_asking(server, monkeypatch)
    asking.ask_now(questions.STATUS)
    was = asking.seen.at_s
    server.refuses = {"GLOBAL STATUS": 1317}
    asking.ask_now(questions.STATUS)
    assert asking.seen.at_s == was and questions.STATUS in asking.seen.failed
    server.refuses = {}
    asking.ask_now(questions.STATUS)
    assert asking.seen.at_s > was


def test_a_monitor_that_latches_the_lock_system_is_not_asked_for_while_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SHOW ENGINE INNODB STATUS lists all transactions, as INNODB_TRX does."""

    class Old(Locked):
        def answer(self, sql: str) -> list[tuple[Any, ...]]:
            return [("5.7.44",)] if "VERSION()" in sql else super().answer(sql)

    for waiters in (MOST_WAITS, MOST_WAITS + 1):
        server = Old(waiters)
        monkeypatch.setattr(session, "connect", server.connect)
        Session(REACH, choose=doctor_questions).ask_what_is_due()
        assert ("SHOW ENGINE INNODB STATUS" in server.asked) == (waiters <= MOST_WAITS)


def test_who_holds_metadata_locks_is_asked_only_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waiting(Server):
        state = "updating"

        def answer(self, sql: str) -> list[tuple[Any, ...]]:
            if "metadata_locks" in sql or "'Sleep' ORDER BY" in sql:
                self.asked.append(sql)
                return []
            if "<> 'Sleep'" in sql:
                return [(8, "Query", 3, self.state, "update")]
            return super().answer(sql)

    server = Waiting()
    asking = doctor_asking(server, monkeypatch)
    asking.ask_what_is_due()
    assert not any("metadata_locks" in sql or "ORDER BY PROCESSLIST_TIME" in sql for sql in server.asked)
    server.state = "Waiting for table metadata lock"
    asking.ask_now(questions.STATES)
    asking.ask_what_is_due()
    assert any("metadata_locks" in sql for sql in server.asked)
    assert any("ORDER BY PROCESSLIST_TIME" in sql for sql in server.asked)


def test_prepared_transactions_are_asked_for_by_xid_only_while_one_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Prepared(Server):
        state = "LOCK WAIT"

        def answer(self, sql: str) -> list[tuple[Any, ...]]:
            if sql == "XA RECOVER":
                self.asked.append(sql)
                return [(1, 3, 0, "app"), (4660, 2, 2, b"a\x00b'")]
            if "trx_mysql_thread_id, trx_state" in sql:
                return [(0, self.state, 17, 1, 2, 1, 1614)]
            return super().answer(sql)

    for state, xids in (("LOCK WAIT", ()), ("RUNNING", ("'app'", "X'6100',X'6227',4660"))):
        server = Prepared()
        server.state = state
        monkeypatch.setattr(session, "connect", server.connect)
        asking = Session(REACH, choose=doctor_questions)
        for _ in range(2):
            asking.ask_what_is_due()
        assert (asking.seen.xids, "XA RECOVER" in server.asked) == (xids, bool(xids))


def test_errors_are_told_by_name_where_the_server_counts_them() -> None:
    """MySQL 8.0.15."""
    rows = [("ER_DUP_ENTRY", 900), (b"ER_TRANS_CACHE_FULL", 13)]
    assert questions.parse_errors(rows) == {"ER_DUP_ENTRY": 900, "ER_TRANS_CACHE_FULL": 13}
    asked = {one: [each.name for each in doctor_questions(one, ON)] for one in (MYSQL57, MYSQL97, MARIADB)}
    assert [questions.ERRORS in names for names in asked.values()] == [False, True, False]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (  # MySQL 9.7.4
            [
                (14, "SHARED_READ", "GRANTED", "TABLE", "app", "t"),
                (15, "EXCLUSIVE", "PENDING", "TABLE", "app", "t"),
                (23, "SHARED", "GRANTED", "GLOBAL", None, None),
            ],
            [
                (14, "SHARED_READ", True, "table app.t"),
                (15, "EXCLUSIVE", False, "table app.t"),
                (23, "SHARED", True, "global"),
            ],
        ),
        (  # MariaDB's plugin
            [
                (31, "MDL_SHARED_NO_READ_WRITE", "GRANTED", "Table metadata lock", "dbname", "exotics"),
                (32, "MDL_BACKUP_FTWRL2", "GRANTED", "Backup lock", "", ""),
            ],
            [
                (31, "SHARED_NO_READ_WRITE", True, "table dbname.exotics"),
                (32, "BACKUP_FTWRL2", True, "backup lock"),
            ],
        ),
    ],
)
def test_metadata_locks_are_told_in_two_ways(rows: Any, found: Any) -> None:
    told = questions.parse_locks(rows)
    assert [(one.thread, one.kind, one.granted, one.of) for one in told] == found


def test_changes_without_an_index_are_asked_for_where_performance_schema_is_on() -> None:
    for told, is_asked in (("ON", True), ("OFF", False)):
        asked = questions.doctor_questions(MYSQL97, {"performance_schema": told})
        assert (questions.SCANS in {one.name for one in asked}) == is_asked
    assert questions.parse_scans([(b"shop", "stock", 9000, 9)]) == {"shop.stock": (9000, 9)}


def test_a_transaction_without_a_connection_that_runs_is_prepared() -> None:
    """MySQL 8.0.15, after XA PREPARE and the end of its connection."""
    rows = [
        (0, "RUNNING", 17, 1, 2, 1, 1614),
        (0, "ROLLING BACK", 17, 9, 9, 1, 1613),
        (31, "LOCK WAIT", 3, 1, 0, 0, 1616),
    ]
    told = questions.parse_transactions(rows)
    assert [(one.key, one.is_left, one.idle) for one in told] == [
        (-1614, True, True),
        (-1613, False, True),
        (31, False, False),
    ]


def test_a_question_that_holds_writers_up_is_asked_less_often() -> None:
    late = []
    for latches in (False, True):
        due = Due(Question("any", 1.0, ("SELECT 1",), "status", parse_pairs, latches=latches))
        for _ in range(3):
            due.asked(100.0, 0.1)
        late.append(due.at_s - 100.0)
    assert late == pytest.approx([0.1 / session.MOST_SHARE, 0.1 / session.MOST_LATCHED])


@pytest.mark.parametrize(
    ("greeting", "comment", "proxy"),
    [
        ("8.0.11", "(ProxySQL)", "ProxySQL"),
        ("5.5.30 (ProxySQL Admin Module)", "", "ProxySQL"),
        ("5.5.5-10.2.12 2.2.3-maxscale", "mariadb.org binary distribution", "MaxScale"),
        ("8.0.36", "MySQL Community Server - GPL", ""),
        ("5.5.5-10.11.19-MariaDB-0+deb12u1", "Debian 12", ""),
    ],
)
def test_a_proxy_names_itself(greeting: str, comment: str, proxy: str) -> None:
    assert Answerer(greeting=greeting, version="8.0.36", comment=comment).proxy == proxy


@pytest.mark.parametrize(
    ("version", "comment", "stranger"),
    [
        ("8.0.11-TiDB-v7.5.0", "TiDB Server (Apache License 2.0)", "TiDB"),
        ("8.0.30-Vitess", "Version: 18.0", "Vitess"),
        ("8.0.33", "Dolt", "Dolt"),
        ("8.0.36-28", "Percona Server (GPL), Release 28, Revision 47601f19", ""),
        ("10.11.19-MariaDB", "mariadb.org binary distribution", ""),
    ],
)
def test_a_stranger_has_its_name_in_its_version(version: str, comment: str, stranger: str) -> None:
    assert Answerer(greeting=version, version=version, comment=comment).stranger == stranger


@pytest.mark.parametrize(
    ("greeted", "numbered", "is_between"),
    [(7, 7, False), (7, (1 << 32) + 7, False), (7, 4711, True), (None, 7, False), (7, None, False)],
)
def test_two_numbers_of_one_connection_mean_a_proxy(
    greeted: int | None, numbered: int | None, is_between: bool
) -> None:
    found = Answerer(greeting="8.0.36", version="8.0.36", greeted=greeted, numbered=numbered)
    assert bool(found.between) == is_between
