"""Reduction: what a combination can do without: each against itself with one change less. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flushlab.experiment.blocks import Sheet
from flushlab.experiment.frontier import Dropped
from flushlab.experiment.protocol import Steps
from flushlab.experiment.tune.budget import Budget
from flushlab.experiment.tune.confirmation import WORTH_LOG
from flushlab.experiment.tune.pool import Pool, Rounds, Selection
from flushlab.experiment.tune.screening import Screening
from flushlab.record import Value
from flushlab.settings.floor import Floor
from flushlab.statistics import Contrasts, contrasts

DROP_ERRORS = 1.5
"""A cost below this many of its standard errors is noise, once reduction has measured it: of changes that
do nothing 7 % stay."""


@dataclass
class Reduction:
    """Drops changes from the selection of each floor.

    Attributes:
        chosen: per floor, what is left.
        dropped: what is not.
    """

    _pool: Pool
    _rounds: Rounds
    _budget: Budget
    _screening: Screening
    chosen: dict[Floor, Selection] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)

    def run(self) -> Steps[None]:
        """Drops settings whose removal costs less than 1 % or the noise, as the budget allows."""
        items = {
            floor: [i for i in sorted(selection) if self._pool.space.legal(selection - {i}, floor)]
            for floor, selection in self.chosen.items()
            if len(selection) >= 2
        }
        pairs = [
            (self.chosen[floor], self.chosen[floor] - {i}) for floor, some in items.items() for i in some
        ]
        groups = [{one for pair in pairs for one in pair}] if pairs else []
        if groups and len(groups[0]) > 1 + self._budget.room and self._budget.kept_running:
            groups = [set(pair) for pair in dict.fromkeys(pairs)]
        blocks = self._budget.reduce_blocks(sum(map(len, groups)), len(self.to_confirm()) + 2)
        sheet = Sheet(self._rounds.objective)
        if blocks >= 2:
            for number, arms in enumerate(groups):
                ordered = [self._pool.arm(selection) for selection in sorted(arms, key=sorted)]
                yield from self._rounds.score(ordered, "reduce", number * blocks, blocks, sheet)
        for floor, droppable in items.items():
            selection = self.chosen[floor]
            costs = self._costs(selection, droppable, sheet)
            cheap = self._cheap(selection, costs, floor, measured=blocks >= 2)
            if len(cheap) >= 2 and blocks >= 2:
                cheap = yield from self._drop_together(selection, cheap, floor, blocks)
            self.chosen[floor] = selection - frozenset(cheap)
            self.dropped.extend(
                Dropped(
                    floor=floor,
                    settings=dict(self._pool.space.candidates[i].settings),
                    cost=-math.expm1(-costs[i][0]),
                    error=costs[i][1],
                )
                for i in cheap
            )

    def to_confirm(self) -> list[Selection]:
        """Selections that differ in what they set, the base left out."""
        found: dict[frozenset[tuple[str, Value]], Selection] = {}
        for selection in self.chosen.values():
            for part in (selection, self._pool.space.free_part(selection)):
                changes = frozenset(self._pool.space.changes(part).items())
                if changes:
                    found.setdefault(changes, part)
        return list(found.values())

    def _cheap(
        self, selection: Selection, costs: Mapping[int, tuple[float, float]], floor: Floor, measured: bool
    ) -> list[int]:
        """What may be dropped, cheapest first; at least one change stays, for the confirmation to judge."""
        factor = DROP_ERRORS if measured else 1.0
        cheap: list[int] = []
        for index, (cost, error) in sorted(costs.items(), key=lambda item: item[1][0]):
            rest = selection - frozenset(cheap) - {index}
            if cost < max(WORTH_LOG, factor * error) and rest and self._pool.space.legal(rest, floor):
                cheap.append(index)
        return cheap

    def _drop_together(
        self, selection: Selection, cheap: list[int], floor: Floor, blocks: int
    ) -> Steps[list[int]]:
        """Checks that changes which are each cheap to drop are cheap to drop at once; else half of them."""
        attempt = 0
        while len(cheap) >= 2 and self._budget.reduce_blocks(2, len(self.to_confirm()) + 2) >= blocks:
            pair = [self._pool.arm(selection), self._pool.arm(selection - frozenset(cheap))]
            sheet = Sheet(self._rounds.objective)
            first = 1000 * (1 + floor.rank) + 100 * attempt  # block numbers of their own
            yield from self._rounds.score(pair, "reduce", first, blocks, sheet)
            found = _contrasts(sheet, pair[1].name)
            if found is not None and float(found.estimate[0]) < max(WORTH_LOG, float(found.error[0])):
                return cheap
            cheap = cheap[: len(cheap) // 2]
            attempt += 1
        return cheap

    def _costs(
        self, selection: Selection, items: Sequence[int], sheet: Sheet
    ) -> dict[int, tuple[float, float]]:
        """Loss by dropping each item and its standard error, log units: screening and reduction pooled."""
        assert self._screening.effects is not None
        found = _contrasts(sheet, self._pool.arm(selection).name)
        direct = (
            {}
            if found is None
            else {
                arm: (-float(estimate), float(error))
                for arm, estimate, error in zip(found.arms, found.estimate, found.error, strict=True)
            }
        )
        context = 1 if len(self._screening.contexts) > 1 and self._screening.contexts[1] & selection else 0
        costs = {}
        for index in items:
            prior = (
                float(self._screening.effects.mean[context, index]),
                float(self._screening.effects.sd[context, index]),
            )
            if len(self._screening.contexts) > 1 and self._screening.contexts[1] == frozenset({index}):
                prior = (
                    float(self._screening.effects.offset[1]),
                    float(self._screening.effects.offset_sd[1]),
                )
            elif index in self._screening.contexts[-1]:
                prior = (self._screening.alone(index), float(self._screening.effects.sd[0, index]))
            measured = direct.get(self._pool.arm(selection - {index}).name)
            costs[index] = prior if measured is None else _pooled(prior, measured)
        return costs


def _contrasts(sheet: Sheet, base: str) -> Contrasts | None:
    """Differences from an arm, of undisturbed cells where there are enough; None without the arm."""
    return contrasts(sheet.table(base).scores, base) if base in sheet.arms else None


def _pooled(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Mean of two estimates weighted by precision, with its standard error."""
    weights = [1 / max(error, 1e-9) ** 2 for _, error in (one, other)]
    mean = (one[0] * weights[0] + other[0] * weights[1]) / sum(weights)
    return mean, math.sqrt(1 / sum(weights))
