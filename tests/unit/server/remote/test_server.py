"""A running server that falls silent in a statement: given up without a sign of life, waited for with one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flushlab.errors import ServerDied, ServerError
from flushlab.record import Endpoint
from flushlab.server.control import ConnectionGone, Control, StatementFailed
from flushlab.server.remote import server as remote
from flushlab.server.remote.login import from_nodes
from flushlab.server.remote.server import RemoteServer
from tests.waiting import PATIENCE_S

SLOW = "ALTER TABLE t ENGINE = InnoDB"


class Connection:
    """A control connection; its statement `SLOW` ends when it is cut, or after the last sign of life."""

    def __init__(self, signs: list[Exception | None]) -> None:
        self.signs, self.over, self.is_cut = signs, threading.Event(), False

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        if sql != SLOW:
            return [("version", "10.11.19-MariaDB")]
        assert self.over.wait(PATIENCE_S)
        if self.is_cut:
            raise ConnectionGone("Lost connection")
        return [("done",)]

    def cut(self) -> None:
        self.is_cut = True
        self.over.set()

    def close(self) -> None:
        """Nothing is open."""


class Probe(Connection):
    """Another connection, which gets the next sign of life; after the last one, the statement ends."""

    def __init__(self, main: Connection) -> None:
        super().__init__(main.signs)
        self.main = main

    def query(self, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        sign = self.signs.pop(0) if self.signs else None
        if not self.signs:
            self.main.over.set()
        if sign is not None:
            raise sign
        return [(1,)]


def server_of(monkeypatch: pytest.MonkeyPatch, *signs: Exception | None) -> tuple[RemoteServer, list[str]]:
    """A server that gives these signs, and what it said of its silence."""
    main = Connection([*signs])
    monkeypatch.setattr(RemoteServer, "_connection", lambda *_: main)
    server, said = RemoteServer(from_nodes("mysql://me@db1:3306")[0]), list[str]()
    monkeypatch.setattr(RemoteServer, "_connection", lambda *_: Probe(main))
    monkeypatch.setattr(remote, "SILENT_S", 0.001)
    server.when_silent = lambda: said.append("silent")
    return server, said


GONE = ConnectionGone("timed out")


def test_a_statement_of_a_server_without_signs_of_life_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    server, said = server_of(monkeypatch, GONE, GONE, None)  # the last one is never asked for
    with pytest.raises(ServerDied, match="db1:3306 does not answer"):
        server.query(SLOW)
    assert said == ["silent"]


@pytest.mark.parametrize("sign", [None, StatementFailed(1040, "Too many connections", "")])
def test_a_slow_statement_of_a_server_that_lives_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, sign: ServerError | None
) -> None:
    server, said = server_of(monkeypatch, sign, sign, sign)
    assert server.query(SLOW) == [("done",)]
    assert said == []


def test_a_server_that_answers_late_is_reported_and_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    server, said = server_of(monkeypatch, GONE, None, None)
    assert server.query(SLOW) == [("done",)]
    assert said == ["silent"]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Of a listener that accepts and never greets, as a stopped server or proxy does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("answer_s", [None, 300.0])
def test_the_greeting_is_not_waited_for_longer_than_a_connection(
    silent_port: int, answer_s: float | None
) -> None:
    control = Control(
        Endpoint(user="me", password="", host="127.0.0.1", port=silent_port), "tcp", connect_s=0.05
    )
    with pytest.raises(ConnectionGone):
        control.query("SELECT 1", answer_s=answer_s)


def test_a_wait_is_cut_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    control = Control(Endpoint(user="me", password="", host="127.0.0.1", port=1), "tcp")
    vars(control)["_connection"] = type("Connection", (), {"close": ours.close})()
    vars(vars(control)["_connection"])["_sock"] = ours
    threading.Timer(0.01, control.cut).start()
    assert ours.recv(1) == b""
    theirs.close()
    ours.close()
