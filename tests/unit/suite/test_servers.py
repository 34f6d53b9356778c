"""A server of a suite, while a copy of its data directory is made for the next reset."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flushlab.datadir import Snapshot, Snapshots
from flushlab.errors import NoSpace, ServerError
from flushlab.record import Endpoint
from flushlab.server import Sandbox
from flushlab.server.sandbox.contents import exchange
from flushlab.suite import servers
from flushlab.suite.servers import BY_ITSELF, WORTH_IT, Check, Clones, Pristine, SuiteServer
from tests.unit.builds import MARIADB
from tests.waiting import PATIENCE_S, wait_until

MOVED_TOO_EARLY_S = 0.3
"""So long a copy waits for a move that must not come before it is made."""


class Moving:
    """What a suite asks of a sandbox, on folders alone."""

    name, build = "moving", MARIADB

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoint = Endpoint(user="flushlab", password="", socket=str(folder / "mysql.sock"), port=1)
        self.datadir = folder / "memory/data"
        self.moved = threading.Event()
        copied(self.datadir)

    def move_to_own_folder(self) -> None:
        """As a sandbox's: the folder in memory goes, whatever is in it."""
        self.moved.set()
        target = self.datadir.parents[1] / "disk/data"
        shutil.copytree(self.datadir, target)
        shutil.rmtree(self.datadir.parent)
        self.datadir = target

    def replace_datadir(self, fresh: Path) -> Path:
        """As a sandbox's."""
        return exchange(self.datadir, fresh)

    def __getattr__(self, name: str) -> Any:
        assert name in ("kill", "begin_kill", "stop", "start_again", "set_before_start")
        return lambda *_: None


class Clone:
    """A server that waits."""

    def __init__(self, folder: Path, events: list[str]) -> None:
        self.folder = folder
        self.endpoint = Endpoint(user="flushlab", password="", socket=str(folder / "clone.sock"), port=2)
        self.close = lambda: events.append("clone closed")


def suite_server(sandbox: Moving, folder: Path, clone: Clone | None = None) -> SuiteServer:
    clones = Clones(lambda _: Pristine(cast(Sandbox, clone), None), 0 if clone is None else 1)
    first = Pristine(cast(Sandbox, sandbox), None)
    return SuiteServer(first, cast(Snapshot, None), Snapshots(folder / "snapshots"), clones)


def copied(target: Path) -> Path:
    target.mkdir(parents=True)
    (target / "rows").write_text("pristine")
    return target


def test_a_server_that_moves_while_its_next_copy_is_made_is_reset_where_it_lies_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Moving(tmp_path)
    begun, copies, too_early = threading.Event(), list[Path](), list[bool]()

    def copy(_snapshot: object, _snapshots: object, datadir: Path) -> Path:
        copies.append(datadir)
        if len(copies) == 2:  # behind the one that the reset itself puts in place
            begun.set()
            too_early.append(sandbox.moved.wait(MOVED_TOO_EARLY_S))
        return copied(datadir.with_name(f"next-{secrets.token_hex(4)}"))

    monkeypatch.setattr(servers, "fresh_copy", copy)
    server = suite_server(sandbox, tmp_path)
    server.reset()
    assert begun.wait(PATIENCE_S)
    server.move_to_disk({})
    (sandbox.datadir / "rows").write_text("what a test left")
    server.reset()
    assert (sandbox.datadir / "rows").read_text() == "pristine"
    assert sandbox.datadir.parent == tmp_path / "disk"
    assert too_early == [False], "the folder goes once no copy is made in it"


def test_a_copy_that_somebody_removed_costs_one_reset_and_not_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Moving(tmp_path)
    monkeypatch.setattr(servers, "fresh_copy", lambda *_: tmp_path / "memory/removed")
    server = suite_server(sandbox, tmp_path)
    with pytest.raises(OSError, match="removed"):
        server.reset()
    numbers = count()  # the copy for the reset after this one is made meanwhile
    monkeypatch.setattr(servers, "fresh_copy", lambda *_: copied(tmp_path / f"memory/next{next(numbers)}"))
    (sandbox.datadir / "rows").write_text("what a test left")
    server.reset()
    assert (sandbox.datadir / "rows").read_text() == "pristine"


def test_a_clone_takes_over_the_port_and_the_socket_that_callers_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxies = []

    def proxy(to: Sandbox, instead_of: Sandbox) -> Any:
        proxies.append((to.endpoint.port, instead_of.endpoint.port))
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(servers, "_proxy", proxy)
    sandbox, clone = Moving(tmp_path), Clone(tmp_path, [])
    server = suite_server(sandbox, tmp_path, clone)
    before = server.endpoint
    assert Path(str(before.socket)).readlink() == Path(str(sandbox.endpoint.socket))
    server.expect_resets()
    server.reset()
    assert server.endpoint == before
    assert Path(str(before.socket)).readlink() == Path(str(clone.endpoint.socket))
    assert proxies == [(2, 1)]
    assert server.sandbox is cast(Any, clone)


def test_a_port_that_somebody_took_costs_the_clone_and_not_the_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_proxy", lambda *_: None)
    monkeypatch.setattr(servers, "fresh_copy", lambda *_: copied(tmp_path / f"memory/{secrets.token_hex(4)}"))
    events: list[str] = []
    sandbox = Moving(tmp_path)
    server = suite_server(sandbox, tmp_path, Clone(tmp_path, events))
    server.expect_resets()
    (sandbox.datadir / "rows").write_text("what a test left")
    server.reset()
    assert events == ["clone closed"]
    assert server.sandbox is cast(Any, sandbox)
    assert (sandbox.datadir / "rows").read_text() == "pristine"


class Server:
    """What a start yields."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Starting:
    """Starts servers, or fails from a number on."""

    def __init__(self, fails_from: int = 99) -> None:
        self.started: list[Server] = []
        self.fails_from = fails_from
        self._lock = threading.Lock()

    def __call__(self, check: Check) -> Server:
        with self._lock:
            if len(self.started) >= self.fails_from:
                raise NoSpace("memory is full")
            self.started.append(Server(len(self.started)))
            return self.started[-1]


def clones(start: Starting, count: int | None) -> Clones:
    return Clones(cast(Callable[[Check], Pristine], start), count)


def test_none_without_being_asked_for() -> None:
    start = Starting()
    none = clones(start, 0)
    none.fill(0)
    assert none.take() is None
    none.end()
    assert start.started == []


def test_as_many_wait_as_there_should_be() -> None:
    start = Starting()
    waiting = clones(start, 2)
    waiting.fill(0)
    taken = [waiting.take(), waiting.take()]
    assert {id(one) for one in taken} == {id(one) for one in start.started}
    assert waiting.take() is None, "nobody has filled up"
    waiting.fill(0)
    assert waiting.take() is not None
    waiting.end()


def test_those_that_wait_are_ended_and_those_that_were_taken_are_not() -> None:
    start = Starting()
    waiting = clones(start, 2)
    waiting.fill(0)
    taken = waiting.take()
    waiting.end()
    assert taken is not None
    assert all(one.closed == (id(one) != id(taken)) for one in start.started)
    waiting.fill(0)
    assert waiting.take() is None, "it starts no more"


def test_one_that_is_being_started_is_given_up_at_the_end() -> None:
    begun, seen = threading.Event(), []

    def start(check: Check) -> Pristine:
        begun.set()
        try:
            wait_until(partial(check), "the start is given up")  # what it raises gets out
        except ServerError as error:
            seen.append(error.message)
            raise
        raise AssertionError

    waiting = Clones(start, 1)
    waiting.fill(0)
    assert begun.wait(PATIENCE_S)
    waiting.end()
    assert seen == ["the suite has ended"]


def test_one_that_does_not_start_is_none() -> None:
    waiting = clones(Starting(fails_from=1), 2)
    waiting.fill(0)
    assert {waiting.take() is None, waiting.take() is None} == {True, False}
    waiting.end()


def test_a_suite_whose_resets_often_cannot_be_undone_gets_one_by_itself() -> None:
    start, said = Starting(), list[str]()
    waiting = Clones(cast(Callable[[Check], Pristine], start), None, say=said.append)
    for resets in range(WORTH_IT):
        waiting.fill(resets)
    assert not waiting.begun
    assert said == []
    assert waiting.take() is None
    waiting.fill(WORTH_IT)
    assert waiting.begun
    assert {waiting.take() is None for _ in range(BY_ITSELF)} == {False}
    assert waiting.take() is None
    waiting.fill(WORTH_IT + 1)
    waiting.end()
    (line,) = said
    assert line.startswith("1 standby server for resets that cannot be undone, after 3 of them")


def test_none_by_itself_where_memory_has_no_room_for_all_that_are_missing() -> None:
    asked, free = [], BY_ITSELF - 1

    def room(servers: int) -> bool:
        asked.append(servers)
        return servers <= free

    waiting = Clones(cast(Callable[[Check], Pristine], Starting()), None, room)
    waiting.fill(WORTH_IT)
    assert not waiting.begun
    assert asked == [BY_ITSELF]
    free = BY_ITSELF
    waiting.fill(WORTH_IT + 1)
    assert waiting.begun, "there is room now"
    waiting.end()


def test_who_says_how_many_is_not_asked_for_room() -> None:
    waiting = Clones(cast(Callable[[Check], Pristine], Starting()), 1, lambda _: False)
    waiting.fill(0)
    assert waiting.begun
    waiting.end()
