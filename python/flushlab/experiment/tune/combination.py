"""Combination: per floor, what looked good in screening and may stand together. Pure; no trials."""

from __future__ import annotations

from flushlab.experiment.confirmation import WORTH_LOG
from flushlab.experiment.selection import Selection
from flushlab.experiment.tune.pool import Pool
from flushlab.experiment.tune.screening import Screening
from flushlab.settings.floor import Floor


class Combination:
    """Picks a selection for each floor down to the plan's."""

    def __init__(self, floor: Floor, pool: Pool, screening: Screening) -> None:
        self._floor = floor
        self._pool = pool
        self._screening = screening

    def chosen(self) -> dict[Floor, Selection]:
        """Per floor, its foundation and what looked good on it."""
        assert self._screening.effects is not None
        chosen: dict[Floor, Selection] = {}
        for floor in Floor.STRICT.down_to(self._floor):
            foundation = self._screening.foundation(floor)
            if foundation is None:
                continue
            needed = self._pool.space.foundation(floor, self._pool.usable) or frozenset()
            selection = foundation if self._is_worth(foundation - needed) else needed
            context = self._nearest_context(selection)
            mean, error = self._screening.effects.mean[context], self._screening.effects.sd[context]
            good = sorted(
                (i for i in self._pool.free() if mean[i] > max(WORTH_LOG, error[i])),
                key=lambda i: -mean[i],
            )
            for index in good:
                if self._pool.space.legal(selection | {index}, floor):
                    selection |= {index}
            chosen[floor] = selection
        if not any(chosen.values()):
            self._take_best_guess(chosen)
        return chosen

    def _nearest_context(self, foundation: Selection) -> int:
        """The context whose foundation is as fast as this one, as far as screening tells."""
        if len(self._screening.contexts) == 1 or not foundation:
            return 0
        if foundation == self._screening.contexts[1]:
            return 1
        own, bottom = (
            sum(self._screening.alone(i) for i in s) for s in (foundation, self._screening.contexts[1])
        )
        return 1 if abs(own - bottom) < abs(own) else 0

    def _is_worth(self, bought: Selection) -> bool:
        """Whether screening makes what is bought look better than not buying it."""
        if not bought or len(self._screening.contexts) == 1 or self._screening.effects is None:
            return bool(bought)
        if bought == self._screening.contexts[1]:
            return float(self._screening.effects.offset[1]) > max(
                WORTH_LOG, float(self._screening.effects.offset_sd[1])
            )
        return sum(self._screening.alone(i) for i in bought) > WORTH_LOG

    def _take_best_guess(self, chosen: dict[Floor, Selection]) -> None:
        """Nothing looked good: the most promising change is confirmed all the same, so that `no improvement`
        stands on a confirmation too."""
        assert self._screening.effects is not None
        guesses = [
            (float(self._screening.effects.mean[0, i] / self._screening.effects.sd[0, i]), frozenset({i}))
            for i in sorted(self._pool.usable)
            if frozenset({i}) not in self._screening.contexts
        ]
        if len(self._screening.contexts) > 1:
            guesses.append(
                (
                    float(self._screening.effects.offset[1] / self._screening.effects.offset_sd[1]),
                    self._screening.contexts[1],
                )
            )
        if not guesses:
            return
        _, guess = max(guesses, key=lambda pair: pair[0])
        for floor in chosen:
            if self._pool.space.legal(guess, floor):
                chosen[floor] = guess
