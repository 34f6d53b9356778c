"""Pool: servers of the template that tests take for themselves, one each, and give back.

Suite layer. A test has its server by a lease; when it gives the server back, a reset in the background makes
it pristine for the next test. Servers start as tests ask for them. A server whose lease ends otherwise is
ended too, and never passed on: who holds its address may still write.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self

import msgspec

from flushlab.errors import FlushlabError, ServerError, UsageError
from flushlab.progress import Progress
from flushlab.suite.command import shield_thread
from flushlab.suite.servers import Check, Reset, SuiteServer
from flushlab.units import counted

LEASE_S = 600.0
"""Of a test that asks for no other time."""
LONGEST_LEASE_S = 86_400.0
QUIET_S = 60.0
"""A lease whose test has had no connection for so long ends while other tests wait."""
WAIT_S = 120.0
"""Longest wait of a test for a server."""
LEAST = 4
"""Servers at most, where nobody said how many and there are fewer processors."""
_LOOK_S = 1.0
_GAP_S = 5.0
"""A silence is one if it was seen so often at least."""
_WAKE_S = 0.2
_TELL_S = 3.0
_MOST_REMEMBERED = 1000


class Lease(msgspec.Struct, kw_only=True):
    """`since` and `until` are of the monotonic clock; `quiet_since`: None while somebody is connected."""

    id: str
    server: SuiteServer
    since: float
    until: float
    quiet_since: float | None = None


class PoolUse(msgspec.Struct, frozen=True, kw_only=True):
    """`waited_s`: all together; `left`: leases not given back; `ended`: by flushlab."""

    most: int = 0
    started: int = 0
    taken: int = 0
    waited_s: float = 0.0
    left: int = 0
    ended: int = 0


class Pool:
    """`start` calls its argument now and then, whose exception ends the start."""

    def __init__(
        self,
        start: Callable[[Check], SuiteServer],
        most: int,
        room: Callable[[int], bool],
        say: Progress = lambda _: None,
    ) -> None:
        self._start = start
        self._most = most
        self._room = room
        self._say = say
        self._has_told = False
        self._work = ThreadPoolExecutor(most, "pool", initializer=shield_thread)
        self._changed = threading.Condition()
        self._ended = False
        self._failure = ""
        self._waiting = self._coming = self._being_reset = self._leaving = 0
        self._free: deque[SuiteServer] = deque()
        self._leases: dict[str, Lease] = {}
        self._over: dict[str, str] = {}
        self._alive: list[SuiteServer] = []
        self._resets: list[Reset] = []
        self._faults: list[str] = []
        self._use = PoolUse()
        self._looked = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._work.shutdown(wait=True, cancel_futures=True)
        if self._alive:
            with ThreadPoolExecutor(len(self._alive)) as ending:
                list(ending.map(lambda server: server.end(), self._alive))

    @property
    def use(self) -> PoolUse:
        with self._changed:
            return msgspec.structs.replace(self._use, left=len(self._leases))

    @property
    def servers(self) -> tuple[SuiteServer, ...]:
        with self._changed:
            return tuple(self._alive)

    @property
    def leased(self) -> tuple[SuiteServer, ...]:
        with self._changed:
            return tuple(one.server for one in self._leases.values())

    def expect(self, tests: int) -> None:
        with self._changed:
            self._grow(tests)

    def take(
        self,
        lease_s: float = LEASE_S,
        wait_s: float = WAIT_S,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Lease:
        began = time.monotonic()
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    if not is_wanted():
                        raise ServerError("the test is gone")
                    if (server := self._take_pristine()) is not None:
                        break
                    self._grow(self._waiting)
                    waited_s = time.monotonic() - began
                    self._require_hope(wait_s - waited_s)
                    self._tell_of_wait(waited_s)
                    self._changed.wait(_WAKE_S)
            finally:
                self._waiting -= 1
            now = time.monotonic()
            lease = Lease(id=secrets.token_hex(8), server=server, since=now, until=now + lease_s)
            self._leases[lease.id] = lease
            self._count(taken=self._use.taken + 1, waited_s=round(self._use.waited_s + now - began, 4))
            self._grow(self._waiting + 1)  # the next test is not to wait for a start
            return lease

    def find(self, lease: str) -> SuiteServer:
        with self._changed:
            if lease in self._leases:
                return self._leases[lease].server
            raise UsageError(self._over.get(lease, "there is no such lease"))

    def give_back(self, lease: str, *, cut: bool = True) -> None:
        """Connections that stay can write to the next database."""
        with self._changed:
            server = self.find(lease)
            self._close(lease, "the database was given back already")
            self._being_reset += 1
            self._submit(self._reset, server, cut)

    def look(self) -> None:
        now = time.monotonic()
        with self._changed:
            leases, wanted = list(self._leases.values()), self._waiting > 0
        if wanted and now - self._looked >= _LOOK_S:
            goes_on = now - self._looked < _GAP_S
            self._looked = now
            for lease in leases:
                is_quiet = lease.server.connections() == 0
                since = lease.quiet_since if goes_on and lease.quiet_since is not None else now
                lease.quiet_since = since if is_quiet else None
        for lease in leases:
            if lease.until < now:
                self._end_lease(lease, "the time of the lease was over")
            elif wanted and lease.quiet_since is not None and now - lease.quiet_since > QUIET_S:
                self._end_lease(lease, f"nobody was connected for {QUIET_S:.0f} s while other tests waited")

    def give_up(self) -> bool:
        with self._changed:
            free, self._free = list(self._free), deque()
            self._leaving += len(free)
        for server in free:
            self._retire(server)
        return bool(free)

    def resets(self) -> list[Reset]:
        with self._changed:
            return [*self._resets, *(one for server in self._alive for one in server.resets)]

    def faults(self) -> list[str]:
        with self._changed:
            return [*self._faults, *(server.fault for server in self._alive if server.fault)]

    @property
    def _size(self) -> int:
        return len(self._free) + len(self._leases) + self._coming + self._being_reset

    def _count(self, **numbers: float) -> None:
        self._use = msgspec.structs.replace(self._use, **numbers)

    def _take_pristine(self) -> SuiteServer | None:
        """A free server; one to which an earlier test has written is reset again."""
        while self._free:
            server = self._free.popleft()
            if server.is_pristine():
                return server
            self._being_reset += 1
            self._submit(self._reset, server, True)
        return None

    def _tell_of_wait(self, waited_s: float) -> None:
        if waited_s < _TELL_S or self._has_told or not self._leases:
            return
        self._has_told = True
        oldest_s = time.monotonic() - min(lease.since for lease in self._leases.values())
        taken = counted(len(self._leases), "database")
        self._say(
            f"a test waits for a database: tests have {taken} of the pool, the first of them for"
            f" {oldest_s:.0f} s; --pool N allows more"
        )

    def _grow(self, wanted: int) -> None:
        while (
            not self._ended
            and not self._failure
            and len(self._free) + self._coming + self._being_reset < wanted
            and self._size < self._most
            and self._room(self._coming + 1)
        ):
            self._coming += 1
            self._count(most=max(self._use.most, self._size))
            self._submit(self._start_one)

    def _require_hope(self, left_s: float) -> None:
        failure = self._failure
        if self._ended:
            raise ServerError("the suite has ended")
        if self._size == self._leaving == 0:
            self._failure = ""  # the next test tries again
            raise ServerError(failure or "there is too little memory or disk for a server of the pool")
        if left_s <= 0:
            no_other = failure and f", and no other started: {failure}"
            raise ServerError(
                f"the pool's servers were all in use ({self._size}){no_other}; a test gives its server"
                " back by DELETE, and --pool N allows more servers"
            )

    def _submit(self, do: Callable[..., None], *words: object) -> None:
        with suppress(RuntimeError):  # the end has come
            self._work.submit(do, *words)

    def _start_one(self) -> None:
        failure = "a server of the pool did not start"
        try:
            server = self._start(self._require_wanted)
            failure = ""
        except (FlushlabError, OSError) as error:
            failure = str(error)
        finally:
            with self._changed:
                self._coming -= 1
                self._failure = failure
                if not failure:
                    self._alive.append(server)
                    self._free.append(server)
                    self._count(started=self._use.started + 1)
                self._changed.notify_all()

    def _require_wanted(self) -> None:
        if self._ended:
            raise ServerError("the suite has ended")

    def _reset(self, server: SuiteServer, cut: bool) -> None:
        is_pristine = False
        try:
            server.reset(cut=cut)
            is_pristine = True
        except (FlushlabError, OSError):
            pass  # it is ended, and another one starts when a test asks
        finally:
            with self._changed:
                self._being_reset -= 1
                if is_pristine:
                    self._free.append(server)
                else:
                    self._leaving += 1
                self._changed.notify_all()
            if not is_pristine:
                self._retire(server)

    def _end_lease(self, lease: Lease, why: str) -> None:
        with self._changed:
            if lease.id not in self._leases:
                return  # it was given back meanwhile
            self._close(lease.id, f"the lease has ended: {why}")
            self._count(ended=self._use.ended + 1)
            self._leaving += 1
            self._submit(self._retire, lease.server)

    def _close(self, lease: str, why: str) -> None:
        del self._leases[lease]
        self._over[lease] = why
        while len(self._over) > _MOST_REMEMBERED:
            del self._over[next(iter(self._over))]

    def _retire(self, server: SuiteServer) -> None:
        try:
            server.end()
        finally:
            with self._changed:
                self._leaving -= 1
                self._alive.remove(server)
                self._resets += server.resets
                self._faults += filter(None, [server.fault])
                self._changed.notify_all()
