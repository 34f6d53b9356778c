"""What goes over the wire to a server that is only read: a proxy in between passes the list alone."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest

from flushlab.diagnosis import sampling
from flushlab.record import Endpoint
from flushlab.record.running import WatchedServer
from flushlab.server import Sandbox
from flushlab.telemetry.live import session
from flushlab.telemetry.live.questions import (
    COMMENT,
    FIRST_QUESTIONS,
    NUMBER,
    doctor_questions,
    questions,
)
from flushlab.telemetry.live.session import Session
from tests.conftest import flavors

PASSWORD = "aZ9-wire"
QUIT, QUERY, PING = 1, 3, 14
PASSED = (QUIT, PING)
HARMFUL = (
    "performance_schema.data_lock",
    "innodb_lock_waits",
    "SHOW PROCESSLIST",
    "SHOW FULL PROCESSLIST",
    "SHOW BINARY LOG",
    "SHOW MASTER",
    "SHOW BINLOG EVENTS",
    "information_schema.TABLES",
    "UPDATE performance_schema.setup",
    "innodb_monitor_enable",
    "SET GLOBAL",
    "SET @@GLOBAL",
)
"""Statements that have frozen servers, and those that change one."""


class Wire:
    """Between a client and a server; ends a connection that sends anything else than it may.

    Args:
        port: of the server.
        passes: whether a statement may go through.

    Attributes:
        port: to connect to.
        sent: statements.
        refused: commands and statements that were not passed on.
        most: connections at the same time.
    """

    def __init__(self, port: int, passes: Callable[[str], bool]) -> None:
        self._server, self._passes = port, passes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.sent: set[str] = set()
        self.refused: list[str] = []
        self.most = 0
        self._open = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._threads:
            one.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._open += 1
                self.most = max(self.most, self._open)
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server:
            back = threading.Thread(target=self._pump, args=(server, client))
            back.start()
            with contextlib.suppress(OSError):
                while self._pass_packet(client, server):
                    pass
            for one in (server, client):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            back.join()
        self._open -= 1

    def _pass_packet(self, client: socket.socket, server: socket.socket) -> bool:
        head = _exactly(client, 4)
        body = _exactly(client, int.from_bytes(head[:3], "little"))
        if head[3] == 0 and not self._may(body):
            return False
        server.sendall(head + body)
        return True

    def _may(self, command: bytes) -> bool:
        if command[0] in PASSED:
            return True
        text = command[1:].decode()
        if command[0] == QUERY and self._passes(text):
            self.sent.add(text)
            return True
        self.refused.append(f"{command[0]}: {text}")
        return False

    @staticmethod
    def _pump(server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)


def _exactly(one: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        data = one.recv(count - len(found))
        if not data:
            raise ConnectionResetError
        found += data
    return found


@contextlib.contextmanager
def wire(server: Sandbox, passes: Callable[[str], bool]) -> Iterator[Wire]:
    assert server.endpoint.port is not None
    made = Wire(server.endpoint.port, passes)
    try:
        yield made
    finally:
        made.close()


def listed(server: Sandbox) -> set[str]:
    """All that may be sent."""
    variables = {str(name).lower(): str(value) for name, value in server.query("SHOW GLOBAL VARIABLES")}
    identity = server.identity
    asked = (
        *FIRST_QUESTIONS,
        *questions(identity, variables),
        *doctor_questions(identity, variables),
    )
    limits = [f"max_statement_time = {seconds}" for seconds in (session.FIRST_S, session.DEADLINE_S)]
    if identity.flavor == "mysql":
        limits = [
            f"max_execution_time = {seconds * 1000:.0f}" for seconds in (session.FIRST_S, session.DEADLINE_S)
        ]
    return {
        *(form for one in asked for form in one.forms),
        "SET NAMES utf8mb4",
        "SET AUTOCOMMIT = 1",
        "SELECT VERSION()",
        COMMENT,
        NUMBER,
        "SET SESSION TRANSACTION READ ONLY",
        "SET SESSION time_zone = 'SYSTEM'",
        *(f"SET SESSION lock_wait_timeout = 1, {limit}" for limit in limits),
    }


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "build",
    flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=2),
)
def test_nothing_but_the_list_goes_to_a_server(build: str, shared_sandbox: Any) -> None:
    server: Sandbox = shared_sandbox(build)
    server.query("CREATE USER wire@'%%' IDENTIFIED BY %s", (PASSWORD,))
    server.query("GRANT PROCESS ON *.* TO wire@'%'")
    if server.identity.flavor == "mysql":
        server.query("GRANT SELECT ON performance_schema.* TO wire@'%'")
    # After one login over the socket, the server takes the password without encryption.
    pymysql.connect(unix_socket=server.endpoint.socket, user="wire", password=PASSWORD).close()
    allowed = listed(server)
    assert not [text for text in allowed for word in HARMFUL if word.lower() in text.lower()]
    with wire(server, allowed.__contains__) as between:
        endpoint = Endpoint(host="127.0.0.1", port=between.port, user="wire", password=PASSWORD)
        reach = WatchedServer(key="wire", endpoint=endpoint, transport="tcp")
        found = sampling.watch(reach, 2.0, lambda _: None)
        watching = Session(reach)
        watching.ask_what_is_due()
        watching.close()
    assert between.refused == []
    assert found.write_time is not None and found.missing == ()
    assert {form for one in questions(server.identity, {}) for form in one.forms[:1]} & between.sent
    assert between.most <= 2


@pytest.mark.usefixtures("patient")
def test_the_wire_refuses_what_is_not_listed(shared_sandbox: Any) -> None:
    server: Sandbox = shared_sandbox("mariadb@10.11")
    with wire(server, lambda text: "STATUS" not in text) as between:
        own = server.endpoint
        endpoint = Endpoint(host="127.0.0.1", port=between.port, user=own.user, password=own.password)
        with pytest.raises(Exception, match="wire"):
            sampling.watch(WatchedServer(key="wire", endpoint=endpoint, transport="tcp"), 2.0, lambda _: None)
    assert [text for text in between.refused if "SHOW GLOBAL STATUS" in text]
