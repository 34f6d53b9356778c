"""A running server that falls silent in a statement: given up without a sign of life, waited for with one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.errors import FlushlabError, ServerDied, ServerError, StorageError, UsageError
from flushlab.record import Endpoint
from flushlab.server.control import ConnectionGone, Control, StatementFailed
from flushlab.server.remote import server as remote
from flushlab.server.remote.login import from_dsn, from_nodes, from_option_file
from flushlab.server.remote.server import Member, RemoteGroup, RemoteServer, require_whole
from tests.fakes.server import FakeServer
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


class Node(FakeServer):
    """A node that counts how often it is asked whether it lives."""

    asked = 0
    address: Any = None

    def alive(self) -> bool:
        self.asked += 1
        return super().alive()


def nodes_of(server: RemoteGroup) -> list[Any]:
    return list(server.nodes)


def cluster() -> RemoteGroup:
    nodes: list[Any] = [Node(answers={"SELECT @@node": [(number,)]}) for number in (1, 2)]
    return RemoteGroup(nodes)


def test_a_cluster_is_told_by_the_number_of_its_nodes() -> None:
    server = cluster()
    assert (server.identity.nodes, server.first) == (2, server.nodes[0])


def test_while_nodes_may_die_the_first_that_is_left_speaks_and_the_dead_are_not_asked_again() -> None:
    server = cluster()
    first, second = nodes_of(server)
    with server.losing_nodes():
        assert server.query("SELECT @@node") == [(1,)]
        first.die("killed")
        asked = first.asked
        assert [server.query("SELECT @@node") for _ in range(3)] == [[(2,)]] * 3
        assert server.alive()
        assert first.asked == asked + 1
        second.die("killed")
        assert not server.alive()
    with pytest.raises(ServerDied):
        server.query("SELECT @@node")


def test_a_dsn_names_user_password_host_port_and_database() -> None:
    found = from_dsn("mysql://me:p%40ss%2Fword@db.example.com:3307/shop")
    at = found.endpoint
    assert (at.user, at.password, at.host, at.port) == ("me", "p@ss/word", "db.example.com", 3307)
    assert (found.database, found.transport, found.ssl_mode) == ("shop", "tcp", "required")


@pytest.mark.parametrize(
    ("dsn", "mode"),
    [
        ("mysql://me@127.0.0.1/a", "disabled"),
        ("mysql://me@localhost/a", "disabled"),
        ("mysql://me@127.0.1.7/a", "disabled"),
        ("mysql://me@[::1]/a", "disabled"),
        ("mysql://me@127.example.com/a", "required"),
        ("mysql://me@db/a?ssl-mode=DISABLED", "disabled"),
        ("mysql://me@db/a?ssl-ca=/ca.pem", "verify_ca"),
        ("mysql://me@db/a?ssl-mode=verify_identity&ssl-ca=/ca.pem", "verify_identity"),
    ],
)
def test_tls_is_left_out_on_loopback_only_or_by_word(dsn: str, mode: str) -> None:
    assert from_dsn(dsn).ssl_mode == mode


def test_a_socket_is_taken_unless_a_host_is_named() -> None:
    assert from_dsn("mysql://me@localhost/a?socket=/run/mysqld.sock").transport == "socket"
    assert from_dsn("mysql://me@db/a?socket=/run/mysqld.sock").transport == "tcp"


@pytest.mark.parametrize(
    "dsn",
    ["", "shop", "postgres://me:secret@db/a", "mysql://me:secret@db:port/a", "mysql:///a", "mysql://db/?x"],
)
def test_what_is_no_dsn_is_refused_without_repeating_it(dsn: str) -> None:
    with pytest.raises(UsageError) as refused:
        from_dsn(dsn)
    assert "secret" not in f"{refused.value.message}{refused.value.hint}"


def test_an_option_file_is_read_as_the_clients_read_it(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(
        '[mysqld]\nport=1\n[client]\nuser = me\npassword = "a # b"\nhost=db\n[mysql]\ndatabase=shop\n'
    )
    found = from_option_file(file)
    at = found.endpoint
    assert (at.user, at.password, at.host, at.port, found.database) == ("me", "a # b", "db", 3306, "shop")


def test_an_option_file_without_a_clients_group_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my.cnf").write_text("[mysqld]\nuser=mysql\n")
    with pytest.raises(UsageError, match="has no group for clients"):
        from_option_file(tmp_path / "my.cnf")
    with pytest.raises(StorageError):
        from_option_file(tmp_path / "absent.cnf")


NODE = Member(
    name="db1:3306",
    version="10.11.6-MariaDB",
    on=True,
    node="1",
    cluster="c",
    size=3,
    primary=True,
    state="Synced",
    incoming=("db1:3306", "db2:3306", "db3:3306"),
)


def three(**third: Any) -> list[Member]:
    second = msgspec.structs.replace(NODE, name="db2:3306", node="2")
    return [NODE, second, msgspec.structs.replace(NODE, **{"name": "db3:3306", "node": "3", **third})]


def test_three_nodes_in_step_are_a_cluster() -> None:
    require_whole(three())


def test_an_arbitrator_is_no_node_that_could_be_reached() -> None:
    incoming = ("db1:3306", "", "db2:3306")
    require_whole([msgspec.structs.replace(one, incoming=incoming) for one in three()[:2]])


@pytest.mark.parametrize(
    ("third", "message"),
    [
        ({"on": False}, "db3:3306 is not a node of a cluster: wsrep_on is OFF"),
        ({"primary": False}, "db3:3306 has no quorum"),
        ({"state": "Donor/Desynced"}, "db3:3306 is Donor/Desynced, not Synced"),
        ({"cluster": "other"}, "db3:3306 and db1:3306 are nodes of different clusters"),
        ({"node": "2"}, "2 of the cluster's 3 nodes can be reached; db4:3306: refused"),
        ({"version": "11.8.2-MariaDB"}, "the nodes run different versions: .*db3:3306 runs 11.8.2-MariaDB"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_cluster_that_is_not_whole_is_refused_with_the_node(third: dict[str, Any], message: str) -> None:
    with pytest.raises(FlushlabError, match=message) as refused:
        require_whole(three(**third), ["db4:3306: refused"])
    assert refused.value.hint


def test_a_dsn_may_name_several_nodes() -> None:
    found = from_nodes("mysql://me:p%40ss@db1,db2:3307,[::1]:3308/shop?ssl-mode=required")
    assert [(one.endpoint.host, one.endpoint.port) for one in found] == [
        ("db1", 3306),
        ("db2", 3307),
        ("::1", 3308),
    ]
    assert {(one.endpoint.password, one.database, one.ssl_mode) for one in found} == {
        ("p@ss", "shop", "required")
    }
    assert from_nodes("mysql://me@db/a") == (from_dsn("mysql://me@db/a"),)
