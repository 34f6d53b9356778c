"""Habits: whether a suite cleans and migrates again at its start, although its server was prepared.

Suite layer. The server counts statements by kind (`Com_…`), on every flavor and without performance_schema.
The time is that of the intervals between looks in which such statements were counted, so it is known to a
quarter of a second or so.
"""

from __future__ import annotations

import time

import msgspec

from flushlab.server.databases import SYSTEM_LIST
from flushlab.suite.servers import SuiteServer

DROPS = ("Com_drop_table", "Com_drop_view", "Com_drop_procedure", "Com_drop_function", "Com_drop_trigger")
CREATES = (
    "Com_create_table",
    "Com_create_view",
    "Com_create_procedure",
    "Com_create_function",
    "Com_create_trigger",
)
DATABASES = ("Com_drop_db", "Com_create_db")
_NAMES = (*DROPS, *CREATES, *DATABASES)
_SQL = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({', '.join(repr(name) for name in _NAMES)})"

OBJECTS = f"SELECT COUNT(*) FROM information_schema.tables WHERE LOWER(table_schema) NOT IN {SYSTEM_LIST}"

_LEAST = 5
"""Fewer objects dropped and created again are a test's own business."""
_MOST = 3
"""And so are more than this many times what was there: the tests are about DDL."""


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of the schema that a suite worked on, and the seconds in which it did."""

    count: int
    seconds: float


class Habits:
    """Counts on one server, look by look."""

    def __init__(self, server: SuiteServer) -> None:
        self._server = server
        self._last = self._counters()
        self._last_at = time.monotonic()
        self._there = sum(int(row[0]) for row in server.ask(OBJECTS))
        self._counted = dict.fromkeys(_NAMES, 0)
        self._seconds = 0.0

    def look(self) -> None:
        """Adds what happened since the last look; a server that is away counts nothing."""
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
        """None if the suite left what was there alone, or drops and creates for its tests' sake."""
        dropped = sum(self._counted[name] for name in DROPS)
        if self._counted["Com_drop_db"] and self._counted["Com_create_db"]:
            dropped = max(dropped, self._there)
        again = min(dropped, sum(self._counted[name] for name in CREATES))
        if not max(_LEAST, self._there // 2) <= again <= _MOST * self._there:
            return None
        return Objects(count=again, seconds=self._seconds)

    @property
    def created(self) -> Objects | None:
        """What it made to stay a while; None if that is little."""
        count = sum(self._counted[name] for name in CREATES)
        kept = count - sum(self._counted[name] for name in DROPS)
        return Objects(count=count, seconds=self._seconds) if kept >= max(_LEAST, count // 2) else None

    def _counters(self) -> dict[str, int]:
        return {str(name): int(value) for name, value in self._server.ask(_SQL)}


def _since(before: int, after: int) -> int:
    return after - before if after >= before else after  # a reset started the server again
