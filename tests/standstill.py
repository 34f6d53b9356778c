"""Standstills: times in which the machine that runs tests gave them none.

A virtual machine that is paused for minutes fails whatever waits with a deadline just then, on all workers at
once. What a test says of flushlab in such a moment is nothing; how long there was none is measured here.
"""

from __future__ import annotations

import threading
import time

TICK_S = 1.0
STANDSTILL_S = 60.0
"""A second that takes so long is none that a busy machine makes: deadlines of tests are 5 minutes for it."""


class Standstills:
    """Looks at the clock every second, in a thread.

    Attributes:
        found: begin and end of each, in seconds since the epoch.
    """

    def __init__(self, tick_s: float = TICK_S, least_s: float = STANDSTILL_S) -> None:
        self.found: list[tuple[float, float]] = []
        self._tick_s, self._least_s = tick_s, least_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standstills", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Looks no more."""
        self._end.set()
        self._thread.join()

    def hit(self, start: float, stop: float) -> bool:
        """Whether one of them overlaps a time, in seconds since the epoch."""
        return any(begin < stop and start < end for begin, end in self.found)

    def _run(self) -> None:
        before = time.monotonic()
        while not self._end.wait(self._tick_s):
            seconds = time.monotonic() - before
            if seconds >= self._least_s:
                self.found.append((time.time() - seconds, time.time()))
            before = time.monotonic()
