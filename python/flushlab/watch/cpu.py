"""CPU time that watching takes: that of its own threads, whoever else is in the process."""

from __future__ import annotations

import threading
import time


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
