"""The window: what is kept of it if the server goes, starts anew, or Ctrl-C ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from flushlab.diagnosis import sampling
from flushlab.diagnosis.evidence import Evidence
from flushlab.errors import FlushlabError, MeasurementError, ServerDied, ServerError
from flushlab.record import Endpoint
from flushlab.record.running import WatchedServer
from flushlab.telemetry.live import session
from tests.unit.telemetry.live.told import STATUS, VARIABLES

REACH = WatchedServer(key="db1:3306", endpoint=Endpoint(user="me", password="secret", socket="/s"))
LOST = pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")


class Server:
    """A server with one writer; `status` is called with the number of the status query."""

    def __init__(self) -> None:
        self.status: Callable[[int], dict[str, str]] = lambda _: STATUS
        self.goes_after_status = 1_000_000
        self._asked = 0

    def connect(self, *_: object, **how: Any) -> Any:
        assert how["answer_s"] and how["connect_s"]
        return self

    def cursor(self) -> Server:
        return self

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, sql: str) -> None:
        if "VERSION()" in sql:
            self._rows: list[tuple[Any, ...]] = [("8.0.36",)]
        elif "GLOBAL STATUS" in sql:
            self._rows = list(self.status(self._asked).items())
            self._asked += 1
        elif "GLOBAL VARIABLES" in sql:
            self._rows = [*VARIABLES.items(), ("performance_schema", "ON")]
        elif "file_summary" in sql and self._asked >= self.goes_after_status:
            raise LOST
        elif "PROCESSLIST_ID" in sql:
            self._rows = [(7, "Execute", 0, "waiting for handler commit", "update")]
        else:
            self._rows = []

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def close(self) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(session, "connect", found.connect)
    monkeypatch.setattr(sampling, "LEAST_S", 0.0)
    return found


def seen_of(seconds: float = 0.3) -> Evidence:
    return sampling.watch(REACH, seconds, lambda _: None)


def test_a_window_has_its_ends_and_its_samples(server: Server) -> None:
    """The status is asked for at both ends, however short the window is."""
    server.status = lambda number: STATUS | {"innodb_log_waits": str(number)}
    found = seen_of()
    assert found.seconds > 0
    assert found.grew("innodb_log_waits") >= 1
    assert found.write_time is not None and found.write_time.samples >= 1
    assert found.write_time.connections == {"commit": 1.0}
    assert found.settings["innodb_redo_log_capacity"] == 104857600
    assert (found.interrupted, found.missing) == ("", ())


def test_a_server_that_starts_anew_makes_the_answer_doubtful(server: Server) -> None:
    server.status = lambda number: (
        STATUS | ({"uptime": "1", "questions": "2"} if number else {"uptime": "100"})
    )
    assert "started anew" in seen_of().interrupted


def gone_from(number: int) -> Callable[[int], dict[str, str]]:
    def status(asked: int) -> dict[str, str]:
        if asked >= number:
            raise LOST
        return STATUS

    return status


def test_what_was_seen_of_a_server_that_goes_is_too_little_to_judge(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "LEAST_S", 0.1)
    server.status = gone_from(1)
    with pytest.raises(ServerDied, match="stopped answering"):
        seen_of()


def test_a_server_that_goes_leaves_what_was_seen(server: Server) -> None:
    """It has told its status twice by then."""
    server.goes_after_status = 2
    assert "stopped answering" in seen_of().interrupted


@pytest.mark.parametrize(
    ("error", "name"), [(KeyboardInterrupt(), "Ctrl-C"), (KeyboardInterrupt("SIGTERM"), "SIGTERM")]
)
def test_a_signal_ends_the_window_early_and_is_named(
    server: Server, monkeypatch: pytest.MonkeyPatch, error: KeyboardInterrupt, name: str
) -> None:
    def pressed(_: float) -> None:
        raise error

    monkeypatch.setattr("flushlab.diagnosis.sampling.time.sleep", pressed)
    found = seen_of(600.0)
    assert found.interrupted == name
    assert found.seconds < 600.0


def test_an_answer_that_ctrl_c_cuts_short_is_no_server_that_stops_answering(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(_: float) -> None:
        server.status = gone_from(0)  # the connection is closed in the middle of an answer
        raise KeyboardInterrupt

    monkeypatch.setattr("flushlab.diagnosis.sampling.time.sleep", pressed)
    assert seen_of(600.0).interrupted == "Ctrl-C"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pymysql.err.OperationalError(1045, "Access denied for user 'me'@'db'"), ServerError),
        (pymysql.err.OperationalError(2003, "Can't connect to MySQL server"), ServerError),
        (OSError("no route to host"), ServerError),
    ],
)
def test_a_server_that_is_not_reached_is_a_clear_error(
    error: Exception, kind: type[FlushlabError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(session, "connect", refuse)
    with pytest.raises(kind, match="db1:3306 cannot be watched") as raised:
        seen_of()
    assert "secret" not in str(raised.value) and raised.value.hint


def test_a_failed_connection_has_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise pymysql.err.OperationalError(1040, "Too many connections")

    monkeypatch.setattr(session, "connect", refuse)
    with pytest.raises(ServerError, match="Too many connections") as raised:
        seen_of()
    assert "max_connections" in str(raised.value.hint)


def test_too_few_answers_are_no_measurement(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LEAST_S", 60.0)
    with pytest.raises(MeasurementError, match="too few answers"):
        seen_of()
