"""Threads of the watcher, and the CPU time that they take, whoever else is in the process."""

from __future__ import annotations

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import deque


class Meter:
    def __init__(self) -> None:
        self._seconds = 0.0
        self._lock = threading.Lock()
        self._counted = threading.local()

    @property
    def seconds(self) -> float:
        return self._seconds

    def lap(self) -> None:
        now = time.thread_time()
        with self._lock:
            self._seconds += now - getattr(self._counted, "until", 0.0)
        self._counted.until = now


class Repeating(ABC):
    """`patience_s`: so long `close` waits for a step to end."""

    def __init__(self, name: str, meter: Meter, patience_s: float) -> None:
        self._meter, self._patience_s = meter, patience_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
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


HOUR = 3600


class Ring:
    """Samples as JSON, each behind its number, which grows. Numbers of an earlier process must be smaller
    than `first`, so that a viewer who comes back with one of them has missed everything: Unix time does."""

    def __init__(self, first: int, room: int = HOUR) -> None:
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=room)
        self._next = first
        self._news = threading.Condition()
        self._closed = False

    def push(self, data: bytes) -> None:
        with self._news:
            self._kept.append((self._next, data))
            self._next += 1
            self._news.notify_all()

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def last(self) -> int:
        return self._next - 1

    def after(self, number: int | None) -> list[tuple[int, bytes]]:
        """All that are newer; all that there are for a number that was never given out; None: the newest."""
        with self._news:
            if number is None:
                return list(self._kept)[-1:]
            if number > self.last:
                return list(self._kept)
            missed = min(self.last - number, len(self._kept))
            return [self._kept[index] for index in range(len(self._kept) - missed, len(self._kept))]

    def wait(self, number: int, seconds: float) -> bool:
        with self._news:
            return (
                self._news.wait_for(lambda: self.last > number or self._closed, seconds) and not self._closed
            )
