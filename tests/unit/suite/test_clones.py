"""Servers that wait to take another one's place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import cast

from flushlab.errors import NoSpace, ServerError
from flushlab.suite.servers import BY_ITSELF, WORTH_IT, Check, Clones, Pristine
from tests.waiting import PATIENCE_S, wait_until


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
