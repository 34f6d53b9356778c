"""A server of a suite, while a copy of its data directory is made for the next reset."""

from __future__ import annotations

import secrets
import shutil
import threading
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flushlab.datadir import Snapshot, Snapshots
from flushlab.record import Endpoint
from flushlab.server import Sandbox
from flushlab.server.sandbox.contents import exchange
from flushlab.suite import servers
from flushlab.suite.servers import Clones, Pristine, SuiteServer
from tests.unit.builds import MARIADB
from tests.waiting import PATIENCE_S

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
