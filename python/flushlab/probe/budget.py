"""Budget: so many windows within so many seconds. Pure but for the clock it is given.

Probe layer. Every step says how long its window should be; where the time left does not hold all of them, all
shrink alike, down to what still means something. When the time is over, the rest is left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

SMALLEST_SHARE = 0.5
"""Of a window's natural length: less is not measured."""

FIRST_OVERHEAD_S = 0.1
"""Making and removing files for one step, until it is known."""


class Budget:
    """Windows of the steps of a probe.

    Args:
        limit_s: for all steps together; None: every window has its natural length.
        naturals: length of each step's window, in order.
    """

    def __init__(self, limit_s: float | None, naturals: Sequence[float], clock: Callable[[], float]) -> None:
        self._naturals = tuple(naturals)
        self._clock = clock
        self._end = None if limit_s is None else clock() + limit_s
        self._overhead_s = FIRST_OVERHEAD_S
        self._begun: tuple[float, float] | None = None
        self.left_out = 0

    def window(self, step: int) -> float | None:
        """Length of the step's window; None if it is to be left out."""
        self._learn()
        natural, window = self._naturals[step], self._naturals[step]
        now = self._clock()
        if self._end is not None:
            remaining = self._naturals[step:]
            available = self._end - now - self._overhead_s * len(remaining)
            window = natural * min(1.0, max(SMALLEST_SHARE, available / sum(remaining)))
            if now + window > self._end:
                self.left_out += 1
                return None
        self._begun = (now, window) if step else None  # the first one also prepares the files of the others
        return window

    def _learn(self) -> None:
        """What a step takes beyond its window: the mean so far, the later ones counting more."""
        if self._begun is None:
            return
        start, window = self._begun
        self._begun = None
        over = max(0.0, self._clock() - start - window)
        self._overhead_s += 0.3 * (over - self._overhead_s)
