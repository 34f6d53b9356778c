"""Near: the names that somebody may have meant. Pure; all layers may use it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

AS_NEAR = 0.1
"""Names that are suggested together are alike to this (difflib's ratio): what is less near was not meant."""
A_BEGINNING = 0.9
"""How alike a name must be to the beginning of the one that was meant."""


def nearest(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The known name that is nearest, and others that are about as near; none if none is near.

    A name of several words may be the misspelled beginning of longer ones: these keep the order of `known`.

    Args:
        name: as it was spelled.
        known: the names that there are.
        most: so many at most.
        cutoff: how alike a name must be (difflib's ratio).
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=most, cutoff=cutoff)
    if "_" in name:
        begun = {one: max(_alike(name, one[: len(name) + more]) for more in (-1, 0, 1)) for one in names}
        best = max(begun.values(), default=0.0)
        if best >= max(A_BEGINNING, cutoff) and not (near and _alike(name, near[0]) >= best):
            return [one for one in names if begun[one] == best][:most]
    return [one for one in near if _alike(name, one) > _alike(name, near[0]) - AS_NEAR]


def _alike(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()
