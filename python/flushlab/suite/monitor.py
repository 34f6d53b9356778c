"""Monitor: samples free memory and the suite's schema changes while the suite runs.

Suite layer. A server in memory holds pages that the kernel cannot reclaim. When free memory falls below half
of the reserve, or the tmpfs is nearly full, the server is shut down. Its data directory moves to disk, and
the server starts again on the same port. The suite loses its connections once, but continues.

Schema changes: does the suite drop and migrate again at its start, although its server was prepared? Every
server counts statements by kind (`Com_…`), without performance_schema. The seconds are the sum of the sample
intervals with such statements, so their resolution is about a quarter of a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Self

import msgspec

from flushlab.errors import FlushlabError
from flushlab.machine import available_memory_bytes
from flushlab.record import Value
from flushlab.server.sql import SYSTEM_LIST
from flushlab.suite.command import shield_thread
from flushlab.suite.pool import Pool
from flushlab.suite.profile import reserve_bytes
from flushlab.suite.servers import SuiteServer
from flushlab.units import format_size

INTERVAL_S = 0.25

_LEAST_TMPFS_BYTES = 48 << 20

DROPS = ("Com_drop_table", "Com_drop_view", "Com_drop_procedure", "Com_drop_function", "Com_drop_trigger")
CREATES = tuple(name.replace("drop", "create") for name in DROPS)
DATABASES = ("Com_drop_db", "Com_create_db")
_NAMES = (*DROPS, *CREATES, *DATABASES)
_SQL = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({', '.join(repr(name) for name in _NAMES)})"

OBJECTS = f"SELECT COUNT(*) FROM information_schema.tables WHERE LOWER(table_schema) NOT IN {SYSTEM_LIST}"

_LEAST = 5
"""Fewer objects dropped and created again are a test's own business."""
_MOST = 3
"""And so are more than this many times what was there: the tests are about DDL."""


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """Schema objects that a suite created or dropped, and the seconds of these statements."""

    count: int
    seconds: float


class Habits:
    def __init__(self, server: SuiteServer) -> None:
        self._server = server
        self._last = self._counters()
        self._last_at = time.monotonic()
        self._there = sum(int(row[0]) for row in server.ask(OBJECTS))
        self._counted = dict.fromkeys(_NAMES, 0)
        self._seconds = 0.0

    def sample(self) -> None:
        now, at = self._counters(), time.monotonic()
        if now:
            new = {name: _since(self._last.get(name, 0), now.get(name, 0)) for name in _NAMES}
            for name, count in new.items():
                self._counted[name] += count
            if any(new.values()):
                self._seconds += at - self._last_at
            self._last = now
        self._last_at = at

    @property
    def recreated(self) -> Objects | None:
        """Objects dropped and created again at the start; None: none, or the tests drop and create."""
        dropped = sum(self._counted[name] for name in DROPS)
        if self._counted["Com_drop_db"] and self._counted["Com_create_db"]:
            dropped = max(dropped, self._there)
        again = min(dropped, sum(self._counted[name] for name in CREATES))
        if not max(_LEAST, self._there // 2) <= again <= _MOST * self._there:
            return None
        return Objects(count=again, seconds=self._seconds)

    @property
    def created(self) -> Objects | None:
        count = sum(self._counted[name] for name in CREATES)
        kept = count - sum(self._counted[name] for name in DROPS)
        return Objects(count=count, seconds=self._seconds) if kept >= max(_LEAST, count // 2) else None

    def _counters(self) -> dict[str, int]:
        return {str(name): int(value) for name, value in self._server.ask(_SQL)}


def _since(before: int, after: int) -> int:
    return after - before if after >= before else after  # a reset started the server again


class SuiteMonitor:
    def __init__(
        self, servers: Sequence[SuiteServer], settings: Mapping[str, Value], pool: Pool | None = None
    ) -> None:
        self._servers = servers
        self._pool = pool
        self._settings = settings
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._floor_bytes = reserve_bytes() // 2
        self.notes: list[str] = []
        self.habits = [Habits(server) for server in servers]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        for habits in self.habits:
            habits.sample()

    def _run(self) -> None:
        shield_thread()
        while not self._end.wait(INTERVAL_S):
            self._make_room()
            for server in (*self._servers, *(self._pool.servers if self._pool is not None else ())):
                server.trim_log()
            if self._pool is not None:
                self._pool.look()
            for habits in self.habits:
                habits.sample()

    def _make_room(self) -> None:
        """Moves servers out of memory, one by one, until enough is free."""
        for server in (*self._servers, *(self._pool.leased if self._pool is not None else ())):
            if not server.sandbox.storage.in_memory or server.stopped_for:
                continue
            short = self._shortage(server)
            if short is None:
                return
            name = server.name
            if self._pool is not None and self._pool.give_up():
                self.notes.append(f"memory ran short ({short}): free servers of the pool were stopped")
                return
            if server.give_up_clones():
                self.notes.append(f"memory ran short ({short}): the standby servers of {name} were stopped")
                return
            try:
                server.move_to_disk(self._settings)
                self.notes.append(
                    f"memory ran short ({short}): the server {name} was moved to disk during the suite,"
                    " and open connections were cut"
                )
            except (FlushlabError, OSError) as error:
                server.stopped_for = (
                    f"memory ran short ({short}) and the server could not be moved to disk: {error}"
                )

    def _shortage(self, server: SuiteServer) -> str | None:
        available = available_memory_bytes()
        if available < self._floor_bytes:
            return f"{format_size(available)} left"
        facts = os.statvfs(server.sandbox.datadir.parent)
        free = facts.f_bavail * facts.f_frsize
        return f"{format_size(free)} left in its tmpfs" if free < _LEAST_TMPFS_BYTES else None
