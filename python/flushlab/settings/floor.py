"""Floor: the least guarantees that the user accepts."""

from __future__ import annotations

import enum


class Floor(enum.StrEnum):
    """Durability floors, safest first; compared with `at_least`."""

    STRICT = "strict"
    SECOND = "second"
    RELAXED = "relaxed"
    THROWAWAY = "throwaway"

    @property
    def rank(self) -> int:
        return _RANKS[self]

    def at_least(self, other: Floor) -> bool:
        return self.rank <= other.rank

    def down_to(self, other: Floor) -> tuple[Floor, ...]:
        """The floors from this one down to the other, both included; empty if the other is safer."""
        return tuple(floor for floor in Floor if self.rank <= floor.rank <= other.rank)


def aims(floor: Floor | str, lowest: Floor | str) -> str:
    """The floors of a tuning, for people: of its result, and of the offers beside the result."""
    offers = f" and offers down to {lowest}" if lowest not in ("", floor) else ""
    return f"for a result at floor {floor}{offers}"


_RANKS = {floor: rank for rank, floor in enumerate(Floor)}
