"""Ring: the samples of the last hour, frozen, with numbers that grow; viewers wait here for the next one."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

HOUR = 3600


class Numbered(NamedTuple):
    """A sample as JSON, with its number."""

    id: int
    data: bytes


class Ring:
    """Keeps the last `room` samples.

    Args:
        first: number of the first one. Numbers of an earlier process must be smaller, so that a viewer who
            comes back with one of them has missed everything: Unix time does.
        room: how many are kept.
    """

    def __init__(self, first: int, room: int = HOUR) -> None:
        self._kept: deque[Numbered] = deque(maxlen=room)
        self._next = first
        self._news = threading.Condition()
        self._closed = False

    def push(self, data: bytes) -> None:
        """Keeps a sample and wakes who waits for it."""
        with self._news:
            self._kept.append(Numbered(self._next, data))
            self._next += 1
            self._news.notify_all()

    def close(self) -> None:
        """No more will come."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    @property
    def closed(self) -> bool:
        """Whether no more will come."""
        return self._closed

    @property
    def last(self) -> int:
        """Number of the newest one; one less than the first if there is none."""
        return self._next - 1

    def after(self, number: int | None) -> list[Numbered]:
        """All that are newer; all that there are for a number that was never given out; None: the newest."""
        with self._news:
            if number is None:
                return list(self._kept)[-1:]
            if number > self.last:
                return list(self._kept)
            missed = min(self.last - number, len(self._kept))
            return [self._kept[index] for index in range(len(self._kept) - missed, len(self._kept))]

    def wait(self, number: int, seconds: float) -> bool:
        """Waits until there is a newer one than that; False if there was none in time, or none will come."""
        with self._news:
            return (
                self._news.wait_for(lambda: self.last > number or self._closed, seconds) and not self._closed
            )
