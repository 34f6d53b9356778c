"""Near: the names that somebody may have meant. Pure; all layers may use it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

AS_NEAR = 0.1
"""Names that are suggested together are alike to this (difflib's ratio): what is less near was not meant."""


def nearest(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The known name that is nearest, and others that are about as near; none if none is near.

    Args:
        name: as it was spelled.
        known: the names that there are.
        most: so many at most.
        cutoff: how alike a name must be (difflib's ratio).
    """
    near = difflib.get_close_matches(name, list(known), n=most, cutoff=cutoff)
    return [one for one in near if _alike(name, one) > _alike(name, near[0]) - AS_NEAR]


def _alike(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()
