"""Servers that tests take and give back, with stand-ins for the servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import cast

import pytest

from flushlab.errors import NoSpace, ServerError, UsageError
from flushlab.suite import pool as module
from flushlab.suite.pool import Pool
from flushlab.suite.servers import Check, Reset, SuiteServer
from tests.waiting import PATIENCE_S, wait_until

DONE = Reset(seconds=0.001, how="undone")


class Server:
    """Counts its resets; each fails from a number on, and each waits for `may_reset`."""

    def __init__(self, fails_from: int = 99) -> None:
        self.resets: list[Reset] = []
        self.fault = ""
        self.ended = 0
        self.others: int | None = 1
        self.is_dirty = False
        self.is_written_to = False
        self.cut: list[bool] = []
        self.may_reset = threading.Event()
        self.may_reset.set()
        self._fails_from = fails_from

    def reset(self, *, cut: bool) -> Reset:
        assert self.may_reset.wait(10)
        if len(self.resets) >= self._fails_from:
            raise ServerError("it is gone")
        self.cut.append(cut)
        self.is_dirty = self.is_written_to = False
        self.resets.append(DONE)
        return DONE

    def is_pristine(self) -> bool:
        return not self.is_written_to

    def connections(self) -> int | None:
        return self.others

    def end(self) -> None:
        self.ended += 1


class Starting:
    """Starts servers, or fails."""

    def __init__(self, make: Callable[[], Server] = Server, error: Exception | None = None) -> None:
        self.started: list[Server] = []
        self.error = error
        self._make = make

    def __call__(self, check: Check) -> SuiteServer:
        check()
        if self.error is not None:
            raise self.error
        self.started.append(self._make())
        return cast(SuiteServer, self.started[-1])


def has_ended(servers: Sequence[Server], number: int) -> bool:
    return servers[number].ended == 1


@contextmanager
def pooled(start: Starting, most: int = 4, room: Callable[[int], bool] = lambda _: True) -> Iterator[Pool]:
    with Pool(start, most, room) as pool:
        yield pool
    assert [one.ended for one in start.started] == [1] * len(start.started), "each ends, and once"


def test_none_is_started_before_a_test_asks_and_then_one_more_than_was_taken() -> None:
    start = Starting()
    with pooled(start) as pool:
        assert start.started == []
        pool.take()
        wait_until(lambda: len(pool.servers) == 2, "the next test does not wait for a start")
        pool.take()
        wait_until(lambda: len(pool.servers) == 3, "nor the one after")
    assert (pool.use.taken, pool.use.most, pool.use.left) == (2, 3, 2)


def test_a_suite_that_will_take_some_finds_them_started() -> None:
    start = Starting()
    with pooled(start, most=3) as pool:
        pool.expect(2)
        wait_until(lambda: len(pool.servers) == 2, "nobody has asked yet")
        assert (pool.use.started, pool.use.taken) == (2, 0)


def test_a_server_that_was_given_back_is_reset_before_somebody_has_it_again() -> None:
    start = Starting()
    with pooled(start, most=1) as pool:
        lease = pool.take()
        server = start.started[0]
        server.is_dirty = True
        server.may_reset.clear()
        pool.give_back(lease.id)
        with pytest.raises(ServerError, match="were all in use"):
            pool.take(wait_s=0.05)
        server.may_reset.set()
        assert pool.take().server is cast(SuiteServer, server)
        assert (server.is_dirty, server.cut) == (False, [True])
    assert pool.resets() == [DONE]


def test_what_an_earlier_test_wrote_after_the_reset_is_undone_before_the_next_one_has_it() -> None:
    start = Starting()
    with pooled(start, most=1) as pool:
        pool.give_back(pool.take().id, cut=False)
        server = start.started[0]
        wait_until(lambda: len(server.resets) == 1 and pool._free, "it is reset")
        server.is_written_to = True
        assert pool.take().server is cast(SuiteServer, server)
        assert (server.is_written_to, server.cut) == (False, [False, True])


def test_waiting_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TELL_S", 0.01)
    start, said = Starting(), list[str]()
    with Pool(start, 1, lambda _: True, said.append) as pool:
        pool.take()
        for _ in range(2):
            with pytest.raises(ServerError, match="were all in use"):
                pool.take(wait_s=0.3)
    (line,) = said
    assert line.startswith(
        "a test waits for a database: tests have 1 database of the pool, the first of them"
    )


def test_a_server_that_leaves_makes_room_for_one_that_waits() -> None:
    start, may_end = Starting(), threading.Event()

    class Leaving(Server):
        def end(self) -> None:
            assert may_end.wait(10)
            super().end()

    start = Starting(Leaving)
    with pooled(start, room=lambda _: not start.started or start.started[0].ended > 0) as pool:
        pool.take(lease_s=0.01)
        time.sleep(0.02)
        pool.look()
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(pool.take)
            wait_until(lambda: pool._waiting == 1, "it waits for the memory")
            may_end.set()
            assert waiting.result().server is not cast(SuiteServer, start.started[0])


def test_a_lease_is_over_once_and_says_so() -> None:
    with pooled(Starting()) as pool:
        lease = pool.take()
        assert pool.find(lease.id) is lease.server
        pool.give_back(lease.id)
        for again in (pool.give_back, pool.find):
            with pytest.raises(UsageError, match="given back already"):
                again(lease.id)
        with pytest.raises(UsageError, match="no such lease"):
            pool.give_back("x")


def test_no_two_tests_ever_have_the_same_server() -> None:
    start = Starting()
    holders = dict[int, int]()
    most = [0]

    def test(number: int) -> None:
        lease = pool.take()
        key = id(lease.server)
        assert holders.setdefault(key, number) == number, "somebody else has it"
        assert not cast(Server, lease.server).is_dirty
        cast(Server, lease.server).is_dirty = True
        most[0] = max(most[0], len(holders))
        time.sleep(0.001)
        del holders[key]
        pool.give_back(lease.id)

    with pooled(start, most=3) as pool, ThreadPoolExecutor(8) as tests:
        list(tests.map(test, range(200)))
    assert len(start.started) <= 3 >= most[0]
    assert (pool.use.taken, pool.use.left) == (200, 0)


def test_a_server_that_cannot_be_reset_is_ended_and_another_one_starts() -> None:
    start = Starting(lambda: Server(fails_from=0))
    with pooled(start, most=1) as pool:
        for number in range(3):
            pool.give_back(pool.take().id)
            wait_until(partial(has_ended, start.started, number), "it is no use any more")
    assert len(start.started) == 3


def test_a_test_that_is_late_loses_its_server_which_nobody_gets() -> None:
    start = Starting()
    with pooled(start, most=1) as pool:
        lease = pool.take(lease_s=0.01)
        time.sleep(0.02)
        pool.look()
        with pytest.raises(UsageError, match="the time of the lease was over"):
            pool.give_back(lease.id)
        assert pool.take().server is not lease.server
    assert (start.started[0].resets, pool.use.ended) == ([], 1)


@pytest.mark.parametrize(("connections", "is_taken_back"), [(0, True), (1, False), (None, False)])
def test_a_test_without_a_connection_loses_its_server_if_others_wait(
    monkeypatch: pytest.MonkeyPatch, connections: int | None, is_taken_back: bool
) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.05)
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    start = Starting()
    with pooled(start, most=1) as pool, ThreadPoolExecutor(1) as other:
        lease = pool.take()
        start.started[0].others = connections
        for _ in range(8):
            time.sleep(0.02)
            pool.look()
        assert pool.find(lease.id) is lease.server, "nobody waits for it"
        waiting = other.submit(pool.take, wait_s=PATIENCE_S if is_taken_back else 0.3)
        while not waiting.done():
            time.sleep(0.02)
            pool.look()
        assert (waiting.exception() is None) is is_taken_back
        if is_taken_back:
            with pytest.raises(UsageError, match="while other tests waited"):
                pool.find(lease.id)


def test_a_test_that_is_gone_takes_no_server_from_the_others() -> None:
    here = [True]
    with pooled(Starting(), most=1) as pool, ThreadPoolExecutor(2) as others:
        lease = pool.take()
        gone = others.submit(pool.take, is_wanted=lambda: here[0])
        wait_until(lambda: pool._waiting == 1, "it waits")
        here[0] = False
        with pytest.raises(ServerError, match="the test is gone"):
            gone.result()
        pool.give_back(lease.id)
        assert pool.take().server is lease.server


def test_where_no_server_starts_each_test_hears_why_and_the_next_one_tries_again() -> None:
    start = Starting(error=NoSpace("memory is full"))
    with pooled(start) as pool:
        for _ in range(2):
            with pytest.raises(ServerError, match="memory is full"):
                pool.take()
        start.error = None
        pool.take()


def test_no_server_starts_that_does_not_fit() -> None:
    start = Starting()
    with pooled(start, room=lambda servers: servers + len(start.started) <= 2) as pool:
        pool.take()
        pool.take()
        with pytest.raises(ServerError, match="were all in use"):
            pool.take(wait_s=0.05)
    none = Starting()
    with (
        pooled(none, room=lambda _: False) as pool,
        pytest.raises(ServerError, match="too little memory"),
    ):
        pool.take()


def test_free_servers_are_given_up_and_what_they_did_is_still_told() -> None:
    start = Starting()
    with pooled(start, most=2) as pool:
        pool.give_back(pool.take().id)
        held = pool.take()
        wait_until(lambda: len(pool.servers) == 2 and not pool._being_reset, "one is free")
        start.started[0].fault = start.started[1].fault = "wrong"
        assert pool.give_up()
        assert not pool.give_up()
        assert pool.leased == (held.server,)
        assert (pool.resets(), pool.faults()) == ([DONE], ["wrong", "wrong"])


def test_the_end_does_not_wait_for_those_who_wait() -> None:
    with ThreadPoolExecutor(1) as other:
        with pooled(Starting(), most=1) as pool:
            pool.take()
            waiting = other.submit(pool.take)
            wait_until(lambda: pool._waiting == 1, "it waits")
        with pytest.raises(ServerError, match="the suite has ended"):
            waiting.result()
