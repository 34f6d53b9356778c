"""Whether a suite cleans and migrates again, from counters as servers give them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from flushlab.suite.endpoint import OBJECTS, Habits
from flushlab.suite.servers import SuiteServer


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
