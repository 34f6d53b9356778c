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
        return tuple(floor for floor in Floor if self.rank <= floor.rank <= other.rank)


def aims(floor: Floor | str, lowest: Floor | str) -> str:
    offers = f" and offers down to {lowest}" if lowest not in ("", floor) else ""
    return f"for a result at floor {floor}{offers}"


_RANKS = {floor: rank for rank, floor in enumerate(Floor)}
