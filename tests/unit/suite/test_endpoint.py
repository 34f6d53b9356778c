"""What is watched while a suite runs: memory, and schema changes that it makes anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flushlab.errors import NoSpace
from flushlab.record import Value
from flushlab.suite import endpoint as module
from flushlab.suite.endpoint import OBJECTS, Habits, SuiteMonitor
from flushlab.suite.pool import Pool
from flushlab.suite.servers import SuiteServer

GIB = 1 << 30


class InMemory:
    """A server in memory that can be moved, or cannot."""

    def __init__(self, folder: Path, *, moves: bool = True, clones: bool = False) -> None:
        self.clones = clones
        self.sandbox = SimpleNamespace(
            storage=SimpleNamespace(in_memory=True), name="s1", datadir=folder / "data", alive=lambda: True
        )
        self.name = "s1"
        self.stopped_for = ""
        self.moves = moves

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return []

    def trim_log(self) -> None:
        """It has none."""

    def give_up_clones(self) -> bool:
        waited, self.clones = self.clones, False
        return waited

    def move_to_disk(self, settings: Mapping[str, Value]) -> None:
        if not self.moves:
            raise NoSpace("the disk is full")
        self.sandbox.storage.in_memory = False


def watching(servers: list[InMemory], monkeypatch: pytest.MonkeyPatch, free: list[int]) -> SuiteMonitor:
    """A watch that finds so much memory free, sample by sample."""
    monkeypatch.setattr(module, "reserve_bytes", lambda: GIB)
    monkeypatch.setattr(module, "available_memory_bytes", lambda: free.pop(0))
    return SuiteMonitor(cast(list[SuiteServer], servers), {})


def test_enough_memory_moves_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = InMemory(tmp_path)
    watch = watching([server], monkeypatch, [GIB])
    watch._make_room()
    assert server.sandbox.storage.in_memory
    assert watch.notes == []


def test_servers_that_stand_by_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = InMemory(tmp_path, clones=True)
    watch = watching([server], monkeypatch, [GIB // 4, GIB])
    watch._make_room()
    watch._make_room()
    assert server.sandbox.storage.in_memory
    assert not server.clones
    assert len(watch.notes) == 1
    assert "the standby servers of s1 were stopped" in watch.notes[0]


def test_servers_move_one_by_one_until_enough_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [InMemory(tmp_path) for _ in range(3)]
    watch = watching(servers, monkeypatch, [GIB // 4, GIB // 3, GIB])
    watch._make_room()
    assert [server.sandbox.storage.in_memory for server in servers] == [False, False, True]
    assert len(watch.notes) == 2
    assert "was moved to disk during the suite" in watch.notes[0]


def test_a_server_that_cannot_move_is_stopped_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = InMemory(tmp_path, moves=False)
    watch = watching([server], monkeypatch, [0])
    watch._make_room()
    assert "the disk is full" in server.stopped_for
    watch._make_room()  # it is gone: nobody looks at memory for it again


class Pooled:
    """A pool with free servers, and some that tests have."""

    def __init__(self, free: int, leased: list[InMemory]) -> None:
        self.free = free
        self.leased = tuple(leased)

    def give_up(self) -> bool:
        had, self.free = self.free, 0
        return had > 0


def test_short_memory_costs_the_pools_free_servers_before_anybody_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, leased = InMemory(tmp_path), InMemory(tmp_path)
    pool = Pooled(2, [leased])
    watch = watching([own], monkeypatch, [0] * 9)
    watch._pool = cast(Pool, pool)
    watch._make_room()
    assert (pool.free, own.sandbox.storage.in_memory, leased.sandbox.storage.in_memory) == (0, True, True)
    assert watch.notes == ["memory ran short (0 B left): free servers of the pool were stopped"]
    watch._make_room()
    assert (own.sandbox.storage.in_memory, leased.sandbox.storage.in_memory) == (False, False)


class Counting:
    """A server of which only counters are known."""

    def __init__(self, there: int) -> None:
        self.there = there
        self.counters: dict[str, int] = {}
        self.busy = False

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        if self.busy:
            return []
        return [(self.there,)] if sql == OBJECTS else list(self.counters.items())


def habits(server: Counting) -> Habits:
    return Habits(cast(SuiteServer, server))


def test_a_suite_that_leaves_its_schema_alone() -> None:
    server = Counting(there=40)
    watched = habits(server)
    server.counters = {"Com_create_table": 2, "Com_drop_table": 2}
    watched.sample()
    assert watched.recreated is None
    assert watched.created is None


def test_a_suite_that_drops_and_creates_everything() -> None:
    server = Counting(there=40)
    watched = habits(server)
    for count in (10, 41):
        server.counters = {"Com_create_table": count, "Com_drop_table": count}
        watched.sample()
    assert watched.recreated is not None
    assert watched.recreated.count == 41
    assert watched.recreated.seconds > 0


@pytest.mark.parametrize("there", [0, 40])
def test_a_suite_whose_subject_is_ddl_gets_no_advice(there: int) -> None:
    server = Counting(there=there)
    watched = habits(server)
    for count in (500, 1026):
        server.counters = {"Com_create_table": count, "Com_drop_table": count - 3}
        watched.sample()
    assert watched.recreated is None
    assert watched.created is None


def test_dropping_the_database_drops_all_that_was_in_it() -> None:
    server = Counting(there=40)
    watched = habits(server)
    server.counters = {"Com_drop_db": 1, "Com_create_db": 1, "Com_create_table": 40}
    watched.sample()
    assert watched.recreated is not None
    assert watched.recreated.count == 40


def test_only_creating_is_migrating_and_not_cleaning() -> None:
    server = Counting(there=0)
    watched = habits(server)
    server.counters = {"Com_create_table": 40}
    watched.sample()
    assert watched.recreated is None
    assert watched.created is not None
    assert watched.created.count == 40


def test_a_reset_starts_the_counters_again_and_a_server_that_is_away_counts_nothing() -> None:
    server = Counting(there=10)
    watched = habits(server)
    server.counters = {"Com_create_table": 20, "Com_drop_table": 20}
    watched.sample()
    server.busy = True
    watched.sample()
    server.busy = False
    server.counters = {"Com_create_table": 5, "Com_drop_table": 5}
    watched.sample()
    assert watched.recreated is not None
    assert watched.recreated.count == 25
