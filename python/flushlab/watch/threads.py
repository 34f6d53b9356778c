"""Threads of the watcher, and the CPU time that they take, whoever else is in the process."""

from __future__ import annotations

import signal
import threading
import time
from abc import ABC, abstractmethod


class Meter:
    """Adds up CPU seconds of threads that call `lap` now and then."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._lock = threading.Lock()
        self._counted = threading.local()

    @property
    def seconds(self) -> float:
        """So far."""
        return self._seconds

    def lap(self) -> None:
        """Counts what the calling thread has used since it called last, or since it began."""
        now = time.thread_time()
        with self._lock:
            self._seconds += now - getattr(self._counted, "until", 0.0)
        self._counted.until = now


class Repeating(ABC):
    """A thread that takes one step after the other from `start` to `close`.

    Args:
        name: of the thread.
        meter: takes its CPU time.
        patience_s: so long `close` waits for a step to end.
    """

    def __init__(self, name: str, meter: Meter, patience_s: float) -> None:
        self._meter, self._patience_s = meter, patience_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def close(self) -> None:
        """Takes no more steps."""
        self._end.set()
        self._thread.join(self._patience_s)

    @abstractmethod
    def _turn(self) -> float:
        """Takes a step; the seconds until the next one."""

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        wait_s = 0.0
        while not self._end.wait(wait_s):
            wait_s = self._turn()
            self._meter.lap()
