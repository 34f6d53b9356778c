"""Monitor: looks on while the suite runs: memory, so that it never runs out, and the suite's habits.

Suite layer. A server in memory holds pages that the kernel cannot reclaim. When free memory falls below half
of the reserve, or the tmpfs is nearly full, the server is stopped in an orderly way, its data directory moved
to disk, and started there on the same port: the suite loses its connections once, not its life.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Self

from flushlab.errors import FlushlabError
from flushlab.machine import available_memory_bytes
from flushlab.record import Value
from flushlab.suite.command import shield_thread
from flushlab.suite.habits import Habits
from flushlab.suite.root import reserve_bytes
from flushlab.suite.servers import SuiteServer
from flushlab.units import format_size

INTERVAL_S = 0.25

_LEAST_TMPFS_BYTES = 48 << 20


class SuiteMonitor:
    """A thread beside the command; a context manager.

    Attributes:
        notes: what has happened, for people.
        habits: schema changes of the suite, by worker.
    """

    def __init__(self, servers: Sequence[SuiteServer], settings: Mapping[str, Value]) -> None:
        self._servers = servers
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
            habits.look()

    def _run(self) -> None:
        shield_thread()
        while not self._end.wait(INTERVAL_S):
            self._make_room()
            for habits in self.habits:
                habits.look()

    def _make_room(self) -> None:
        """Moves servers out of memory, one by one, until enough is free."""
        for server in self._servers:
            if not server.sandbox.storage.in_memory or server.stopped_for:
                continue
            short = self._shortage(server)
            if short is None:
                return
            name = server.name
            if server.give_up_clones():
                self.notes.append(f"memory ran short ({short}): no server stands by for {name} any more")
                return
            try:
                server.move_to_disk(self._settings)
                self.notes.append(
                    f"memory ran short ({short}): the server {name} was moved to disk during the suite,"
                    " and open connections were cut"
                )
            except (FlushlabError, OSError) as error:
                server.stopped_for = f"memory ran short ({short}) and it could not be moved to disk: {error}"

    def _shortage(self, server: SuiteServer) -> str | None:
        available = available_memory_bytes()
        if available < self._floor_bytes:
            return f"{format_size(available)} left"
        facts = os.statvfs(server.sandbox.datadir.parent)
        free = facts.f_bavail * facts.f_frsize
        return f"{format_size(free)} left in its tmpfs" if free < _LEAST_TMPFS_BYTES else None
