"""Selections: which candidates may stand together, at which floor, and what they make of the base.

Sits in `experiment`, below `tune`; pure. Promises that nothing it calls legal is below a floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from random import Random

from flushlab.record import Value
from flushlab.settings.candidates import Candidate
from flushlab.settings.floor import Floor

Selection = frozenset[int]
"""Candidates by their index in the plan."""


class Space:
    """All selections of a base and its candidates.

    Args:
        base: the base's settings.
        candidates: changes that may be made to it.
        level_of: the safest floor that settings satisfy.
        is_free: whether settings lower no guarantee of the base.
    """

    def __init__(
        self,
        base: Mapping[str, Value],
        candidates: Sequence[Candidate],
        level_of: Callable[[Mapping[str, Value]], Floor],
        is_free: Callable[[Mapping[str, Value]], bool],
    ) -> None:
        self.base = dict(base)
        self.candidates = tuple(candidates)
        self._level_of = level_of
        self._is_free = is_free
        self._levels: dict[Selection, Floor] = {}
        self._free: dict[Selection, bool] = {}

    def settings(self, selection: Selection) -> dict[str, Value]:
        """The base with the selected changes."""
        return {**self.base, **self.changes(selection)}

    def changes(self, selection: Selection) -> dict[str, Value]:
        """What the selection changes in the base; values equal to the base's are left out."""
        merged: dict[str, Value] = {}
        for index in sorted(selection):
            merged.update(self.candidates[index].settings)
        return {name: value for name, value in merged.items() if self.base.get(name) != value}

    def level(self, selection: Selection) -> Floor:
        """The safest floor that the selection satisfies."""
        if selection not in self._levels:
            self._levels[selection] = self._level_of(self.settings(selection))
        return self._levels[selection]

    def free(self, selection: Selection) -> bool:
        """Whether it lowers no guarantee of the base."""
        if selection not in self._free:
            self._free[selection] = self._is_free(self.settings(selection))
        return self._free[selection]

    def compatible(self, selection: Selection) -> bool:
        """Whether no setting is given twice: values of one setting compete."""
        names = [name for index in selection for name in self.candidates[index].settings]
        return len(set(names)) == len(names)

    def legal(self, selection: Selection, floor: Floor) -> bool:
        """Whether it may run where the floor is demanded."""
        return self.compatible(selection) and self.level(selection).at_least(floor)

    def free_part(self, selection: Selection) -> Selection:
        """The selection without what lowers a guarantee."""
        part = frozenset(index for index in selection if self.free(frozenset({index})))
        while part and not self.free(part):  # harmless alone, not together
            part -= {max(part)}
        return part

    def foundation(self, floor: Floor, usable: Iterable[int]) -> Selection | None:
        """The fewest changes that make the base satisfy the floor; None if one or two do not do it."""
        usable = sorted(usable)
        for size in range(3):
            for indices in combinations(usable, size):
                if self.legal(frozenset(indices), floor):
                    return frozenset(indices)
        return None

    def slots(self, eligible: Iterable[int]) -> list[tuple[int, ...]]:
        """Eligible candidates, those that share a setting together."""
        slots: list[tuple[int, ...]] = []
        for index in sorted(eligible):
            rivals = [slot for slot in slots if any(not self.compatible(frozenset({index, o})) for o in slot)]
            merged = tuple(sorted({index, *(other for slot in rivals for other in slot)}))
            slots = [slot for slot in slots if slot not in rivals] + [merged]
        return slots

    def name(self, selection: Selection) -> str:
        """The changes as people read them, at most three of them spelled out."""
        changes = [f"{name}={value}" for name, value in self.changes(selection).items()]
        if len(changes) <= 3:
            return " + ".join(changes)
        return f"{' + '.join(changes[:2])} + {len(changes) - 2} more"


def half_on(
    space: Space, slots: Sequence[tuple[int, ...]], foundation: Selection, floor: Floor, runs: int, seed: str
) -> list[Selection]:
    """A screening design: each slot goes through its values, and through being off, equally often.

    Args:
        space: of the selections.
        slots: competing candidates together.
        foundation: stays on in every run.
        floor: demanded of every run; changes that would leave it are switched off.
        runs: number of runs.
        seed: of the choice among designs.

    Returns:
        Foundation and changes of each run. Of a few random balanced designs the one whose slots agree least
        with each other is taken (the smallest sum of squared correlations).
    """
    random = Random(seed)
    best: tuple[float, list[list[int | None]]] | None = None
    for _ in range(12):
        columns = [_cycle(slot, runs, random) for slot in slots]
        centred = [_centred(column) for column in columns]
        overlap = sum(sum(x * y for x, y in zip(a, b, strict=True)) ** 2 for a, b in combinations(centred, 2))
        if best is None or overlap < best[0]:
            best = (overlap, columns)
    assert best is not None
    design = []
    for run in range(runs):
        picked = [value for column in best[1] if (value := column[run]) is not None]
        random.shuffle(picked)
        selection = foundation
        for index in picked:
            if space.legal(selection | {index}, floor):
                selection |= {index}
        design.append(selection)
    return design


def _cycle(slot: tuple[int, ...], runs: int, random: Random) -> list[int | None]:
    column: list[int | None] = []
    while len(column) < runs:
        options: list[int | None] = [None, *slot]
        random.shuffle(options)
        column.extend(options)
    return column[:runs]


def _centred(column: Sequence[int | None]) -> list[float]:
    on = [0.0 if value is None else 1.0 for value in column]
    mean = sum(on) / len(on)
    return [x - mean for x in on]
