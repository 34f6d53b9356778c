"""Clones: servers that were started beforehand and wait to take another one's place.

Suite layer. Each is a sandbox of its own on another copy of the template. A reset takes one, so that the
caller does not wait for a start; the next is started in the background, beside the end of the old server.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from flushlab.errors import FlushlabError, ServerError
from flushlab.server import Sandbox
from flushlab.suite.command import shield_thread

Check = Callable[[], None]

BY_ITSELF = 2
"""How many wait where nobody said: two tests in a row that commit are common."""

WORTH_IT = 3
"""Resets that a suite has asked for before clones are made by themselves: it may never ask again."""

_CALM_S = 0.05
"""Whoever asked for a reset has the processors first, unless nobody is left who stands by."""


class Clones:
    """A few waiting servers.

    Args:
        start: starts one; calls what it is given now and then, whose exception ends the start.
        count: how many wait; 0 for none; None: `BY_ITSELF`, as soon as there were `WORTH_IT` resets.
        room: whether so many fit in memory; asked where nobody said how many.
        say: told of those that nobody asked for.
    """

    def __init__(
        self,
        start: Callable[[Check], Sandbox],
        count: int | None,
        room: Callable[[int], bool] = lambda _: True,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._start = start
        self._count = BY_ITSELF if count is None else count
        self._after = WORTH_IT if count is None else 0
        self._ended = False
        self._room = room if count is None else lambda _: True
        self._say = say
        self._lock = threading.Lock()
        self._waiting: deque[Future[Sandbox]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def begun(self) -> bool:
        """Whether some wait, or will soon."""
        return bool(self._waiting)

    def fill(self, resets: int) -> None:
        """Starts as many as are missing, in the background, if they are worth it after so many resets."""
        with self._lock:
            missing = self._count - len(self._waiting)
            if self._ended or missing <= 0 or resets < self._after or not self._room(missing):
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count, "clone", initializer=shield_thread)
                if self._after:
                    self._say(
                        f"{self._count} clones were started after {self._after} resets (--clones 0: none)"
                    )
            wait_s = _CALM_S if self._waiting else 0.0
            self._waiting.extend(self._pool.submit(self._start_in, wait_s) for _ in range(missing))

    def take(self) -> Sandbox | None:
        """The one that has waited longest, once it is ready; None if there is none, or it did not start."""
        if not self._waiting:
            return None
        try:
            return self._waiting.popleft().result()
        except FlushlabError:
            return None  # no room for one: the caller restarts its server

    def _start_in(self, wait_s: float) -> Sandbox:
        time.sleep(wait_s)
        self._require_wanted()
        return self._start(self._require_wanted)

    def _require_wanted(self) -> None:
        if self._ended:
            raise ServerError("the suite has ended")

    def end(self) -> None:
        """Ends those that wait, and starts no more."""
        with self._lock:
            self._ended = True
            begun = [one for one in self._waiting if not one.cancel()]
            self._waiting.clear()
        if self._pool is not None:
            for one in begun:
                self._pool.submit(_close, one)
            self._pool.shutdown(wait=True)
            self._pool = None


def _close(started: Future[Sandbox]) -> None:
    with suppress(FlushlabError):
        started.result().close()
