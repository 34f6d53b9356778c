"""Clones: servers that were started beforehand and wait to take another one's place.

Suite layer. Each is a sandbox of its own on another copy of the template. A reset takes one, so that the
caller does not wait for a start; the next is started in the background, once the old server is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from flushlab.errors import FlushlabError
from flushlab.server import Sandbox
from flushlab.suite.command import shield_thread


class Clones:
    """A few waiting servers.

    Args:
        start: starts one.
        count: how many wait; 0 for none.
    """

    def __init__(self, start: Callable[[], Sandbox], count: int) -> None:
        self._start = start
        self._count = count
        self._waiting: deque[Future[Sandbox]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    def fill(self) -> None:
        """Starts as many as are missing, in the background."""
        if self._count and self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, "clone", initializer=shield_thread)
        while self._pool is not None and len(self._waiting) < self._count:
            self._waiting.append(self._pool.submit(self._start))

    def take(self) -> Sandbox | None:
        """The one that has waited longest, once it is ready; None if there is none, or it did not start."""
        if not self._waiting:
            return None
        try:
            return self._waiting.popleft().result()
        except FlushlabError:
            return None  # no room for one: the caller restarts its server

    def retire(self, end: Callable[[], None]) -> None:
        """Ends a server that was replaced, in the background."""
        assert self._pool is not None, "only a clone replaces a server"
        self._pool.submit(end)

    def end(self) -> None:
        """Ends those that wait, and starts no more."""
        self._count = 0
        begun = [one for one in self._waiting if not one.cancel()]
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        for one in begun:
            with suppress(FlushlabError):
                one.result().close()
