"""Fewest: the smallest part of a set that still breaks something. Pure.

Delta debugging: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions
on Software Engineering 28 (2), 2002, section 3 (`ddmin`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(units: Sequence[T], breaks: Callable[[Sequence[T]], bool]) -> list[T]:
    """Units that break it, and of which none can be left out.

    Args:
        units: all of them together break it.
        breaks: whether these do; asked about parts of `units` in their order. The search ends early where it
            says no to whatever it is asked.
    """
    left = list(units)
    pieces = 2
    while len(left) >= 2:
        size = -(-len(left) // pieces)
        chunks = [left[at : at + size] for at in range(0, len(left), size)]
        found = next((chunk for chunk in chunks if breaks(chunk)), None)
        if found is not None:
            left, pieces = list(found), 2
            continue
        if len(chunks) > 2:
            rests = ([one for other in chunks if other is not chunk for one in other] for chunk in chunks)
            found = next((rest for rest in rests if breaks(rest)), None)
            if found is not None:
                left, pieces = list(found), max(len(chunks) - 1, 2)
                continue
        if size == 1:
            break
        pieces = min(len(left), 2 * pieces)
    return left
