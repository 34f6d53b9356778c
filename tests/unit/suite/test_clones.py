"""Servers that wait to take another one's place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

from flushlab.errors import NoSpace
from flushlab.server import Sandbox
from flushlab.suite.clones import Clones
from tests.waiting import PATIENCE_S


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

    def __call__(self) -> Server:
        with self._lock:
            if len(self.started) >= self.fails_from:
                raise NoSpace("memory is full")
            self.started.append(Server(len(self.started)))
            return self.started[-1]


def clones(start: Starting, count: int) -> Clones:
    return Clones(cast(Callable[[], Sandbox], start), count)


def test_none_without_being_asked_for() -> None:
    start = Starting()
    none = clones(start, 0)
    none.fill()
    assert none.take() is None
    none.end()
    assert start.started == []


def test_as_many_wait_as_there_should_be() -> None:
    start = Starting()
    waiting = clones(start, 2)
    waiting.fill()
    taken = [waiting.take(), waiting.take()]
    assert {id(one) for one in taken} == {id(one) for one in start.started}
    assert waiting.take() is None, "nobody has filled up"
    waiting.fill()
    assert waiting.take() is not None
    waiting.end()


def test_those_that_wait_are_ended_and_those_that_were_taken_are_not() -> None:
    start = Starting()
    waiting = clones(start, 2)
    waiting.fill()
    taken = waiting.take()
    waiting.end()
    assert taken is not None
    assert all(one.closed == (id(one) != id(taken)) for one in start.started)
    waiting.fill()
    assert waiting.take() is None, "it starts no more"


def test_one_that_does_not_start_is_none() -> None:
    waiting = clones(Starting(fails_from=1), 2)
    waiting.fill()
    assert {waiting.take() is None, waiting.take() is None} == {True, False}
    waiting.end()


def test_an_old_server_is_ended_in_the_background() -> None:
    start = Starting()
    waiting = clones(start, 1)
    waiting.fill()
    ended = threading.Event()
    waiting.retire(ended.set)
    assert ended.wait(PATIENCE_S)
    waiting.end()
