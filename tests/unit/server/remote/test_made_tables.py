"""Tables on a server that is not flushlab's: only those with the mark are dropped, whatever their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.errors import ServerDied, ServerError
from flushlab.machine import state
from flushlab.process.identity import ProcessIdentity
from flushlab.record import Endpoint
from flushlab.server.control import StatementFailed
from flushlab.server.remote import journal, made_tables
from flushlab.server.remote.login import Address
from flushlab.server.remote.made_tables import FOLDER, MadeTables, drop_left

pytestmark = pytest.mark.usefixtures("private_home")

DEAD = ProcessIdentity(pid=1, start_ticks=1 << 60)


class Theirs:
    """Somebody's server, as far as made tables ask it.

    Attributes:
        tables: comment of each table, by database and name.
        databases: those that there are.
        routines: databases that have one.
        running: statements of other connections, each for so many looks.
        said: statements that change something.
        silent: it does not answer any more.
        busy: so many statements get no answer, and the next ones do.
        looks: how often running statements were asked for.
        on_drop: called when a table is dropped.
    """

    name = "db1:3306"

    def __init__(self, *addresses: str) -> None:
        hosts = addresses or ("db1",)
        self.nodes = [type("Node", (), {"address": address(host)})() for host in hosts]
        self.tables: dict[tuple[str, str], str] = {}
        self.databases = {"theirs"}
        self.routines: set[str] = set()
        self.running: list[str] = []
        self.said: list[str] = []
        self.mark = ""
        self.silent = False
        self.busy = 0
        self.looks = 0
        self.on_drop: Callable[[], object] = int

    @contextmanager
    def losing_nodes(self) -> Iterator[None]:
        yield

    def query(self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None) -> list[Any]:
        if self.silent:
            raise ServerDied("gone")
        if self.busy:
            self.busy -= 1
            raise ServerDied("busy")
        if sql.startswith("SHOW DATABASES"):
            return [(args[0],)] if args[0] in self.databases else []
        if sql.startswith("SELECT table_name"):
            asked = (args[0], args[1])
            return [(name,) for (database, name), mark in self.tables.items() if (database, mark) == asked]
        if sql.startswith("SELECT 1 FROM information_schema.tables"):
            return [(1,) for database, _ in self.tables if database == args[0]]
        if sql.startswith("SELECT 1 FROM information_schema."):
            return [(1,)] if "routines" in sql and args[0] in self.routines else []
        if sql == "SELECT CONNECTION_ID()":
            return [(7,)]
        if sql == "SHOW FULL PROCESSLIST":
            self.looks += 1
            assert self.looks < 100, "nobody else's statement is waited for"
            others = [(8, self.running.pop(0))] if self.running else []
            return [(7, f"SHOW FULL PROCESSLIST {self.mark}"), *others]
        if sql != "SELECT 1":
            self.said.append(sql)
            self._change(sql)
        return []

    def _change(self, sql: str) -> None:
        if table := re.fullmatch(r"DROP TABLE IF EXISTS `(.*)`\.`(.*)`", sql):
            self.tables.pop((table[1], table[2]))
            self.on_drop()
        elif database := re.fullmatch(r"(CREATE|DROP) DATABASE (?:IF EXISTS )?`(.*)`", sql):
            (self.databases.add if database[1] == "CREATE" else self.databases.remove)(database[2])


def address(host: str) -> Address:
    return Address(endpoint=Endpoint(user="me", password="", host=host, port=3306))


def begun(server: Theirs, database: str = "theirs") -> MadeTables:
    group: Any = server
    made = MadeTables(group, database)
    made.begin()
    return made


def entries() -> list[Path]:
    return sorted((state() / FOLDER).glob("*.json"))


def killed(path: Path) -> None:
    """As if the flushlab that wrote it were gone."""
    entry = msgspec.json.decode(path.read_bytes(), type=made_tables._Written)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(entry, owner=DEAD)))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Theirs]:
    """Servers that the next flushlab reaches, by host."""
    servers: dict[str, Theirs] = {}

    @contextmanager
    def reached(there: Address, *, connect_s: float) -> Iterator[Theirs]:
        if there.endpoint.host not in servers:
            raise ServerError(f"{there.name} does not answer")
        server = servers[there.endpoint.host]
        server.address = there  # type: ignore[attr-defined]
        yield server

    monkeypatch.setattr(made_tables, "RemoteServer", reached)
    return servers


def test_only_tables_with_the_mark_are_dropped_whatever_their_names_are() -> None:
    server = Theirs()
    server.tables = {("theirs", "sbtest1"): "", ("theirs", "flushlab"): "made and dropped by flushlab run"}
    made = begun(server)
    server.tables |= {("theirs", "orders"): server.mark, ("other", "orders"): server.mark}
    assert made.names == ["orders"]
    made.drop(print)
    assert set(server.tables) == {("theirs", "sbtest1"), ("theirs", "flushlab"), ("other", "orders")}
    assert "theirs" in server.databases
    assert (server.mark, entries()) == ("", [])


def test_marks_are_never_the_same() -> None:
    one, other = Theirs(), Theirs()
    begun(one), begun(other)
    assert one.mark != other.mark
    assert re.fullmatch("made and dropped by flushlab run [0-9a-f]{32}", one.mark)


def test_the_mark_is_written_down_before_the_server_is_touched() -> None:
    server = Theirs()
    server.silent = True
    with pytest.raises(ServerDied):
        begun(server)
    (path,) = entries()
    assert path.stat().st_mode & 0o777 == 0o600
    assert server.mark == "", "no table is made without the mark"


def test_a_database_that_was_there_stays_even_if_it_is_empty() -> None:
    server = Theirs()
    begun(server).drop(print)
    assert server.databases == {"theirs"}


def test_a_database_of_ours_goes_when_nothing_is_left_in_it() -> None:
    server = Theirs()
    made = begun(server, "ours")
    assert server.databases == {"theirs", "ours"}
    made.drop(print)
    assert server.databases == {"theirs"}


def test_a_database_that_somebody_has_dropped_is_not_dropped_again() -> None:
    server = Theirs()
    made = begun(server, "ours")
    server.databases.remove("ours")
    made.drop(print)
    assert not any(sql.startswith("DROP DATABASE") for sql in server.said)
    assert entries() == []


@pytest.mark.parametrize("left", ["a table", "a routine"])
def test_a_database_of_ours_stays_with_what_others_put_in_it(left: str) -> None:
    server = Theirs()
    made = begun(server, "ours")
    server.tables[("ours", "t")] = server.mark
    if left == "a table":
        server.tables[("ours", "precious")] = ""
    else:
        server.routines.add("ours")
    made.drop(print)
    assert "ours" in server.databases
    assert ("ours", "t") not in server.tables


def test_a_database_that_somebody_makes_in_the_same_moment_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Theirs()

    def refuses(sql: str) -> None:
        if sql.startswith("CREATE DATABASE"):
            server.databases.add("ours")
            raise StatementFailed(1007, "database exists", sql)

    monkeypatch.setattr(server, "_change", refuses)
    begun(server, "ours").drop(print)
    assert "ours" in server.databases
    assert not any(sql.startswith("DROP") for sql in server.said)


def test_what_the_server_refuses_otherwise_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Theirs()

    def refuses(sql: str) -> None:
        raise StatementFailed(1044, "Access denied", sql)

    monkeypatch.setattr(server, "_change", refuses)
    with pytest.raises(StatementFailed):
        begun(server, "ours")


def test_nothing_is_dropped_twice() -> None:
    server = Theirs()
    made = begun(server)
    made.drop(print)
    said = [*server.said]
    made.drop(print)
    assert server.said == said


def test_a_server_that_is_gone_leaves_the_file_for_the_next_flushlab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_RESTART_S", 0.0)
    server, said = Theirs(), list[str]()
    made = begun(server)
    mark, server.silent = server.mark, True
    made.drop(said.append)
    assert "could not be dropped: gone. The next flushlab command tries again" in said[-1]
    assert mark in said[-1]
    assert len(entries()) == 1


def test_a_server_that_is_busy_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server, said = Theirs(), list[str]()
    made = begun(server)
    server.tables = {("theirs", "t"): server.mark}
    server.busy = 1
    monkeypatch.setattr(journal, "CONNECT_S", 0.0)
    made.drop(said.append)
    assert (server.tables, entries()) == ({}, [])
    assert "db1:3306 does not answer: waiting" in said[-1]


def test_somebody_who_reads_a_table_holds_up_the_next_flushlab_for_a_minute_only() -> None:
    server = Theirs()
    made = begun(server)
    server.tables = {("theirs", "t"): server.mark}
    made.drop(print)
    assert server.said == ["SET SESSION lock_wait_timeout = 60", "DROP TABLE IF EXISTS `theirs`.`t`"]


def test_a_command_that_fails_drops_what_it_has_made() -> None:
    server = Theirs()
    group: Any = server
    with pytest.raises(ZeroDivisionError), made_tables.made_tables(group, "ours", print) as made:
        server.tables[("ours", "t")] = server.mark
        assert made.names == ["t"]
        raise ZeroDivisionError
    assert (server.tables, server.databases, entries()) == ({}, {"theirs"}, [])


def test_a_file_that_somebody_has_removed_is_no_error(found: dict[str, Theirs]) -> None:
    server, said = Theirs(), list[str]()
    made = begun(server)
    entries()[0].unlink()
    made.drop(said.append)
    begun(server)
    path, found["db1"] = entries()[0], server
    server.tables = {("theirs", "t"): server.mark}
    killed(path)
    server.on_drop = path.unlink
    drop_left(said.append)
    assert (server.tables, entries()) == ({}, [])
    assert said == ["db1:3306: dropped what an interrupted flushlab had made: theirs.t"]


def test_a_create_that_still_runs_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Theirs()
    made = begun(server)
    server.running = [f"CREATE TABLE t COMMENT '{server.mark}'"] * 3 + ["SELECT 1"]
    slept = list[float]()
    monkeypatch.setattr("flushlab.server.remote.made_tables.time.sleep", slept.append)
    made.drop(print)
    assert slept == [0.05] * 3, "the server is not asked without a pause"
    assert server.running == [], "until none of them has the mark"
    server = Theirs()
    made, said = begun(server), list[str]()
    server.running = [f"CREATE TABLE t COMMENT '{server.mark}'"] * 1000
    monkeypatch.setattr(made_tables, "_RUNNING_LIMIT_S", 0.0)
    made.drop(said.append)
    assert "it is still making a table" in said[-1]
    assert len(entries()) == 1


def test_the_next_flushlab_drops_what_a_killed_one_left(found: dict[str, Theirs]) -> None:
    server, said = Theirs(), list[str]()
    begun(server, "ours")
    server.tables = {("ours", "t"): server.mark, ("theirs", "t"): ""}
    found["db1"] = server
    drop_left(said.append)
    assert ("ours", "t") in server.tables, "its author lives"
    killed(entries()[0])
    drop_left(said.append)
    assert set(server.tables) == {("theirs", "t")}
    assert server.databases == {"theirs"}
    assert said == ["db1:3306: dropped what an interrupted flushlab had made: ours.t, the database ours"]
    assert entries() == []


def test_after_a_kill_an_empty_database_without_a_marked_table_is_nobodys(found: dict[str, Theirs]) -> None:
    server, said = Theirs(), list[str]()
    begun(server, "ours")
    found["db1"] = server
    killed(entries()[0])
    drop_left(said.append)
    assert "ours" in server.databases
    assert (said, entries()) == ([], [])


@pytest.mark.parametrize("hosts", [("db1", "db2"), ("db1", "db2", "db3")])
def test_the_first_node_that_answers_is_asked(hosts: tuple[str, ...], found: dict[str, Theirs]) -> None:
    server = Theirs(*hosts)
    begun(server)
    server.tables = {("theirs", "t"): server.mark}
    found["db2"] = server
    killed(entries()[0])
    drop_left(print)
    assert server.tables == {}
    assert "SET SESSION wsrep_sync_wait = 7" in server.said


def test_a_server_that_no_longer_is_keeps_its_file_and_is_reported(found: dict[str, Theirs]) -> None:
    begun(Theirs())
    said = list[str]()
    killed(entries()[0])
    drop_left(said.append)
    assert said[-1].endswith(f"If that server is gone, remove {entries()[0]}")
