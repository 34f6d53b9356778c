"""How the server is asked: read-only, with deadlines, less often if it is slow, again once it is back."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pymysql
import pytest

from flushlab.record import Endpoint
from flushlab.record.running import WatchedServer
from flushlab.telemetry.live import session
from flushlab.telemetry.live.questions import Question, parse_pairs
from flushlab.telemetry.live.status import ServerStatus
from flushlab.watch import poller
from flushlab.watch.live_diagnosis import LiveDiagnosis
from flushlab.watch.poller import Poller, PollResult
from flushlab.watch.threads import Meter
from tests.unit.telemetry.live.told import STATUS, THREADS, VARIABLES
from tests.waiting import wait_until

REACH = WatchedServer(key="one", endpoint=Endpoint(user="me", password="secret", socket="/s"))
HERE = WatchedServer(key="one", endpoint=REACH.endpoint, pid=os.getpid())
Answer = Callable[[str], list[tuple[Any, ...]]]


class Server:
    """A server whose answers a test decides on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.connections = 0
        self.refuses: dict[str, int] = {}
        self.gone = False
        self.logins = 0
        self.lets_in: Callable[[int], int | None] = lambda _: None

    def connect(self, *_: object, **how: Any) -> Any:
        assert how["answer_s"] and how["connect_s"]
        if self.gone:
            raise pymysql.err.OperationalError(2003, "Can't connect to MySQL server on 'db'")
        self.logins += 1
        if errno := self.lets_in(self.logins):
            raise pymysql.err.OperationalError(errno, "refused")
        self.connections += 1
        return _Connection(self)

    def answer(self, sql: str) -> list[tuple[Any, ...]]:
        if self.gone:
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
        self.asked.append(sql)
        for part, errno in self.refuses.items():
            if part in sql:
                raise pymysql.err.OperationalError(errno, "no")
        if "VERSION()" in sql:
            return [("8.0.36",)]
        if "GLOBAL STATUS" in sql:
            return list(STATUS.items())
        if "GLOBAL VARIABLES" in sql:
            return [*VARIABLES.items(), ("performance_schema", "ON")]
        if "PROCESSLIST" in sql and "GROUP BY" not in sql:
            return [(7, "Execute", 0, "waiting for handler commit", "update")]
        if "PROCESSLIST" in sql:
            return THREADS
        return []


class _Connection:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._rows: list[tuple[Any, ...]] = []

    def cursor(self) -> _Connection:
        return self

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, sql: str) -> None:
        self._rows = self._server.answer(sql)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def close(self) -> None:
        self._server.connections -= 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(session, "connect", found.connect)
    monkeypatch.setattr(poller, "PATIENCE_S", (0.01,))
    return found


@pytest.fixture
def asking(server: Server) -> Iterator[Callable[[Callable[[], WatchedServer | None]], Poller]]:
    started: list[Poller] = []

    class Counted(Poller):
        turns = 0

        def _turn(self) -> float:
            self.turns += 1
            return min(super()._turn(), 0.05)

    def start(reach: Callable[[], WatchedServer | None]) -> Poller:
        found = Counted(reach, Meter())
        started.append(found)
        found.start()
        return found

    yield start
    for one in started:
        one.close()
    assert server.connections == 0


def known_of(one: Poller) -> PollResult:
    wait_until(lambda: one.known.up and one.known.seen and one.known.seen.threads, "it is known")
    return one.known


def test_one_connection_that_changes_nothing_is_used(server: Server, asking: Any) -> None:
    seen = known_of(asking(lambda: REACH)).seen
    assert seen is not None and seen.identity.version == (8, 0, 36)
    assert server.connections == 1
    settings = [sql for sql in server.asked if not sql.startswith(("SELECT", "SHOW"))]
    assert settings == [
        "SET SESSION TRANSACTION READ ONLY",
        "SET SESSION time_zone = 'SYSTEM'",
        "SET SESSION lock_wait_timeout = 1, max_execution_time = 2000",
    ]
    assert any("performance_schema.threads" in sql for sql in server.asked)
    assert not any("information_schema.PROCESSLIST" in sql for sql in server.asked)


def test_the_states_of_connections_are_asked_for_over_the_same_connection(server: Server) -> None:
    live = LiveDiagnosis()
    with contextlib.closing(Poller(lambda: REACH, Meter(), live)) as one:
        one.start()
        wait_until(lambda: one.known.seen and one.known.seen.states is not None, "they are known")
        assert server.connections == 1
    asked = [sql for sql in server.asked if "PROCESSLIST_ID" in sql and "GROUP BY" not in sql]
    assert asked and not any("INFO FROM" in sql for sql in asked)


def test_the_diagnosis_hears_of_a_server_on_this_machine(server: Server) -> None:
    heard: list[int | None] = []

    class Hearing(LiveDiagnosis):
        def note(self, seen: ServerStatus, at_s: float, pid: int | None = None) -> None:
            heard.append(pid)

    with contextlib.closing(Poller(lambda: HERE, Meter(), Hearing())) as one:
        one.start()
        wait_until(lambda: heard, "it has noted something")
    assert set(heard) == {os.getpid()}


def test_an_account_that_may_see_less_is_shown_the_rest(server: Server, asking: Any) -> None:
    server.refuses = {"INNODB_TRX": 1227, "INNODB_METRICS": 1227, "file_summary": 1142}
    seen = known_of(asking(lambda: REACH)).seen
    assert seen is not None and seen.threads and seen.status
    assert seen.failed == {"info_schema.innodb_metrics", "perf_schema.file_events"}
    assert seen.missing == ("PROCESS", "SELECT on performance_schema")


def test_a_server_that_is_gone_is_found_again_by_itself(server: Server, asking: Any) -> None:
    one = asking(lambda: REACH)
    before = known_of(one)
    server.gone = True
    wait_until(lambda: not one.known.up, "it is seen to be gone")
    gone = one.known
    assert "2003" in gone.why or "2013" in gone.why
    assert gone.since is not None and before.since is not None and gone.since != before.since
    assert gone.seen is not None and before.seen is not None
    assert gone.seen.identity == before.seen.identity
    server.gone = False
    wait_until(lambda: one.known.up, "it is back")
    assert one.known.why == ""


@pytest.mark.parametrize("errno", [1045, 1129, 1184, 1698, 1862, 3118, 3159, 3955, 4151])
def test_a_first_login_that_is_refused_is_not_tried_again(server: Server, asking: Any, errno: int) -> None:
    server.lets_in = lambda _: errno
    one = asking(lambda: REACH)
    wait_until(lambda: one.known.refused, "it gives up")
    turns = one.turns
    wait_until(lambda: one.turns > turns + 2, "it goes on without another try")
    assert (server.logins, one.known.up) == (1, False)
    assert f"(error {errno})" in one.known.refused.message and one.known.refused.hint


def test_a_login_that_is_refused_later_is_tried_once_more(
    server: Server, asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "REFUSED_S", 0.01)
    server.lets_in = lambda number: 1045 if number in (2, 4, 5) else None
    one = asking(lambda: REACH)
    known_of(one)
    server.gone = True
    wait_until(lambda: not one.known.up, "it is seen to be gone")
    server.gone = False
    wait_until(lambda: server.logins == 3 and one.known.up, "the other try is let in")
    server.gone = True
    wait_until(lambda: not one.known.up, "it is seen to be gone")
    server.gone = False
    wait_until(lambda: one.known.refused, "it gives up")
    assert server.logins == 5


def test_a_server_that_is_full_is_tried_until_it_lets_in(server: Server, asking: Any) -> None:
    server.lets_in = lambda number: 1040 if number < 5 else None
    one = asking(lambda: REACH)
    assert known_of(one).refused is None
    assert server.logins == 5


def test_another_server_is_asked_after_one_that_refused_the_login(server: Server, asking: Any) -> None:
    there = [REACH]
    server.lets_in = lambda number: 1045 if number == 1 else None
    one = asking(lambda: there[0])
    wait_until(lambda: one.known.refused, "it gives up")
    there[0] = msgspec.structs.replace(REACH, key="another")
    assert known_of(one).refused is None


def test_without_a_server_nothing_is_asked_until_there_is_one(server: Server, asking: Any) -> None:
    there: list[WatchedServer] = []
    one = asking(lambda: there[0] if there else None)
    wait_until(lambda: one.known.why == poller.NOBODY, "it searches")
    assert server.asked == []
    there.append(REACH)
    known_of(one)
    there.clear()
    wait_until(lambda: one.known.seen is None, "it is forgotten")


def test_a_question_that_takes_long_is_asked_less_often() -> None:
    due = session.Due(Question("x", 1.0, ("SELECT 1",), "status", parse_pairs))
    due.asked(100.0, 0.001)
    assert due.at_s == pytest.approx(100.9)
    due.asked(101.0, 3.0)
    assert due.at_s == pytest.approx(101.9)  # a hiccup
    due.asked(102.0, 3.0)
    assert due.at_s == pytest.approx(102.0 + 3.0 / session.MOST_SHARE)


def test_a_password_is_in_no_message(server: Server, asking: Any) -> None:
    server.gone = True
    one = asking(lambda: REACH)
    wait_until(lambda: one.known.why, "it is seen to be gone")
    assert "secret" not in one.known.why
    assert "secret" not in repr(REACH)
    assert time.time() - (one.known.since or 0) < 3600


def test_an_error_that_nobody_expected_is_said_and_the_server_is_asked_again(
    server: Server, asking: Any
) -> None:
    error: list[Exception] = []

    def reach() -> WatchedServer:
        for one in error:
            raise one
        return REACH

    watched = asking(reach)
    known_of(watched)
    error.append(KeyError("x"))
    wait_until(lambda: watched.known.failed, "it says so")
    assert (watched.known.failed, watched.known.up) == ("internal error: KeyError: 'x'", False)
    wait_until(lambda: server.connections == 0, "the connection is let go of")
    error.clear()
    wait_until(lambda: watched.known.up and not watched.known.failed, "it is asked again")
