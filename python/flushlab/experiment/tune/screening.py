"""Screening: effects of candidates, alone and with half of the others, and which look good together. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from flushlab.experiment.blocks import is_disturbed
from flushlab.experiment.protocol import Steps, score
from flushlab.experiment.tune.budget import BESIDE_BASE, TuneBudget
from flushlab.experiment.tune.confirmation import WORTH_LOG
from flushlab.experiment.tune.pool import CandidatePool, Selection, TuneRounds, half_on
from flushlab.experiment.tune_plan import TunePlan
from flushlab.record import BASE, Arm, Trial
from flushlab.settings.floor import Floor
from flushlab.statistics import Effects, estimate_effects
from flushlab.statistics.one_thread import np

CLEAR = 2.0
"""Deviations from what is worth something beyond which an effect is known well enough for screening."""


class ScreeningRun(NamedTuple):
    selection: Selection
    context: int
    block: int
    score: float
    disturbed: bool = False
    machine: str = ""


@dataclass
class Screening:
    _plan: TunePlan
    _pool: CandidatePool
    _rounds: TuneRounds
    _budget: TuneBudget
    runs: list[ScreeningRun] = field(default_factory=list)
    contexts: list[Selection] = field(default_factory=lambda: [frozenset()])
    effects: Effects | None = None

    def screen_bought(self) -> Steps[None]:
        bought = self._pool.bought()
        if len(bought) < 2:
            return
        enough = max(3 if self._budget.cells() >= 150 else 2, self._budget.blocks.screen_least)
        room = self._budget.room if self._budget.kept_running else len(bought)
        for number, group in enumerate(_even_groups([(frozenset({index}), 0) for index in bought], room)):
            for block in range(number * enough, (number + 1) * enough):
                rows = [(frozenset[int](), 0), *(row for row in group if row[0] <= self._pool.usable)]
                arms = [self._pool.arm(selection) for selection, _ in rows]
                following = (number + 1) * enough - block - 1
                finished = yield from self._rounds.block(arms, "screen", block, following=following)
                for (selection, context), arm in zip(rows, arms, strict=True):
                    self.add(selection, context, block, finished.get(arm.name, ()))

    def screen_free(self) -> Steps[None]:
        if bought := self._pool.bought():
            if len(bought) >= 2:
                self._estimate()
            bottom = self.foundation(self._plan.runs_at)
            if bottom:
                self.contexts.append(bottom)
        free = self._pool.free()
        if len(free) < 2 and len(self.contexts) == 1:
            self._estimate()  # nothing to choose from: all trials go to the confirmation
            return
        runs = self._budget.screen_runs(len(free), len(self.contexts))
        first = 1 + max(run.block for run in self.runs)
        designs = [self._design(context, runs // len(self.contexts)) for context in range(len(self.contexts))]
        rows = [list(enumerate(row)) for row in zip(*designs, strict=True)]
        order = Random(f"{self._plan.seed}/screen")
        for row in rows:
            order.shuffle(row)
        queue = [(selection, context) for row in rows for context, selection in row]
        if self._budget.kept_running:
            yield from self._side_by_side(queue, first)
        elif self._plan.spread:
            yield from self._beside_base(queue, first)
        else:
            yield from self._one_by_one(queue, first)
        self._estimate()

    def _one_by_one(self, queue: Sequence[tuple[Selection, int]], first: int) -> Steps[None]:
        for number, (planned, context) in enumerate(queue):
            if not self._pool.usable or not self._budget.spares(1):
                return  # repeats of disturbed trials used up what was meant for screening
            if number == len(queue) // 2 and number >= 16:
                self._estimate()
                self._drop_harmful()
            selection = planned & (self._pool.usable | self.contexts[context])
            yield from self._screen_run(selection, context, first + number // 4)

    def _beside_base(self, queue: Sequence[tuple[Selection, int]], first: int) -> Steps[None]:
        """Each mixture once, on a fresh server, in blocks with the base: machines run several blocks at once,
        and none of them is compared with another."""
        blocks = [list(queue[start : start + BESIDE_BASE]) for start in range(0, len(queue), BESIDE_BASE)]
        for number, planned in enumerate(blocks):
            if not self._pool.usable or not self._budget.spares(len(self._arms_beside_base(planned))):
                return
            then = [self._arms_beside_base(one) for one in blocks[number + 1 :]]
            yield from self._screen_group(self._left_of(planned), first + number, then=then)

    def _left_of(self, planned: Sequence[tuple[Selection, int]]) -> list[tuple[Selection, int]]:
        return [(one & (self._pool.usable | self.contexts[context]), context) for one, context in planned]

    def _arms_beside_base(self, planned: Sequence[tuple[Selection, int]]) -> list[Arm]:
        arms = [self._pool.base, *(self._pool.arm(selection) for selection, _ in self._left_of(planned))]
        return list({arm.name: arm for arm in arms}.values())

    def _side_by_side(self, queue: Sequence[tuple[Selection, int]], first: int) -> Steps[None]:
        groups = _even_groups(list(dict.fromkeys(queue)), self._budget.room)
        arms = sum(map(len, groups)) + len(groups)
        for number, planned in enumerate(groups):
            if number:
                self._estimate()
                self._drop_harmful()
            blocks = self._budget.screen_blocks(arms, sum(map(len, groups[number:])) + (not number))
            group = self._left_of(planned)
            for done, block in enumerate(range(first, first + blocks)):
                spent = not self._budget.spares(len(self._arms_beside_base(group)))
                if not group or spent or (done >= self._budget.blocks.screen_least and self._is_clear()):
                    break
                group = yield from self._screen_group(group, block, following=blocks - done - 1)
            first += blocks

    def _screen_group(
        self,
        group: list[tuple[Selection, int]],
        block: int,
        *,
        following: int = 0,
        then: Sequence[Sequence[Arm]] = (),
    ) -> Steps[list[tuple[Selection, int]]]:
        rows = {self._pool.arm(row[0]).name: row for row in ((frozenset[int](), 0), *group)}
        arms = [self._pool.arm(selection) for selection, _ in rows.values()]
        finished, out, _ = yield from self._rounds.run(arms, "screen", block, following=following, then=then)
        for name, trials in finished.items():
            self.add(*rows[name], block, trials)
        for name, reason in out.items():
            yield from self._find_culprit(rows[name][0], reason, block)
        return [row for name, row in rows.items() if name not in out and name != BASE]

    def _is_clear(self) -> bool:
        self._estimate()
        assert self.effects is not None
        free, found = self._pool.free(), self.effects
        known = abs(found.mean[:, free] - WORTH_LOG) > CLEAR * found.sd[:, free]
        levels = abs(found.offset[1:] - WORTH_LOG) > CLEAR * found.offset_sd[1:]
        return bool(known.all() and levels.all())

    def foundation(self, floor: Floor) -> Selection | None:
        """One candidate that lowers a guarantee is taken as it is (the runs on both foundations measure it);
        of several, those that looked useful alone, best first."""
        needed = self._pool.foundation(floor, self._pool.usable)
        if needed is None:
            return None
        bought = self._pool.bought()
        if len(bought) >= 2:
            assert self.effects is not None
            mean, error = self.effects.mean[0], self.effects.sd[0]
            bought = sorted((i for i in bought if mean[i] > 0.5 * error[i]), key=lambda i: -mean[i])
        return self._pool.joined(needed, bought, floor)

    def alone(self, index: int) -> float:
        assert self.effects is not None
        return float(self.effects.mean[0, index])

    def deviation(self) -> float | None:
        screened = sorted(self._pool.usable) if len(self._pool.usable) > 1 else []
        if not screened or self.effects is None:
            return None
        return float(np.median(self.effects.sd[:, screened]))

    def combined(self) -> dict[Floor, Selection]:
        assert self.effects is not None
        chosen: dict[Floor, Selection] = {}
        for floor in Floor.STRICT.down_to(self._plan.runs_at):
            foundation = self.foundation(floor)
            if foundation is None:
                continue
            needed = self._pool.foundation(floor, self._pool.usable) or frozenset()
            selection = foundation if self._is_worth(foundation - needed) else needed
            context = self._nearest_context(selection)
            mean, error = self.effects.mean[context], self.effects.sd[context]
            good = sorted(
                (i for i in self._pool.free() if mean[i] > max(WORTH_LOG, error[i])),
                key=lambda i: -mean[i],
            )
            chosen[floor] = self._pool.joined(selection, good, floor)
        if not any(chosen.values()):
            self._take_best_guess(chosen)
        return chosen

    def _nearest_context(self, foundation: Selection) -> int:
        if len(self.contexts) == 1 or not foundation:
            return 0
        if foundation == self.contexts[1]:
            return 1
        own, bottom = (sum(self.alone(i) for i in s) for s in (foundation, self.contexts[1]))
        return 1 if abs(own - bottom) < abs(own) else 0

    def _is_worth(self, bought: Selection) -> bool:
        if not bought or len(self.contexts) == 1 or self.effects is None:
            return bool(bought)
        if bought == self.contexts[1]:
            return float(self.effects.offset[1]) > max(WORTH_LOG, float(self.effects.offset_sd[1]))
        return sum(self.alone(i) for i in bought) > WORTH_LOG

    def _take_best_guess(self, chosen: dict[Floor, Selection]) -> None:
        """Nothing looked good: the most promising change is confirmed all the same, so that `no improvement`
        stands on a confirmation too."""
        assert self.effects is not None
        guesses = [
            (float(self.effects.mean[0, i] / self.effects.sd[0, i]), frozenset({i}))
            for i in sorted(self._pool.usable)
            if frozenset({i}) not in self.contexts
        ]
        if len(self.contexts) > 1:
            offset = float(self.effects.offset[1] / self.effects.offset_sd[1])
            guesses.append((offset, self.contexts[1]))
        if not guesses:
            return
        _, guess = max(guesses, key=lambda pair: pair[0])
        for floor in chosen:
            if self._pool.legal(guess, floor):
                chosen[floor] = guess

    def add(self, selection: Selection, context: int, block: int, trials: Sequence[Trial]) -> None:
        if trials:
            found = score(trials, self._plan.objective)
            is_bad = is_disturbed(trials)
            self.runs.append(ScreeningRun(selection, context, block, found, is_bad, trials[0].machine))

    def _screen_run(self, selection: Selection, context: int, block: int) -> Steps[None]:
        if not selection <= self._pool.usable:
            return
        arm = self._pool.arm(selection)
        arms = [self._pool.base, arm] if self._plan.spread and selection else [arm]
        finished, out, _ = yield from self._rounds.run(arms, "screen", block)
        if len(arms) > 1:
            self.add(frozenset(), 0, block, finished.get(BASE, ()))
        self.add(selection, context, block, finished.get(arm.name, ()))
        if arm.name in out:
            yield from self._find_culprit(selection, out[arm.name], block)

    def _find_culprit(self, selection: Selection, reason: str, block: int) -> Steps[None]:
        if len(selection) <= 1:
            self._pool.exclude_failed(min(selection, default=0), reason)
            return
        cleared = frozenset[int]().union(*(run.selection for run in self.runs))
        for suspect in sorted(selection - cleared):
            single = frozenset({suspect})
            if self._pool.legal(single, self._plan.runs_at):
                yield from self._screen_run(single, 0, block)

    def _design(self, context: int, runs: int) -> list[Selection]:
        foundation = self.contexts[context]
        floor = self._plan.runs_at if foundation else self._pool.level(foundation)
        eligible = [i for i in self._pool.free() if self._pool.legal(foundation | {i}, floor)]
        seed = f"{self._plan.seed}/design/{context}"
        return half_on(self._pool, self._pool.slots(eligible), foundation, floor, runs, seed)

    def _estimate(self) -> None:
        """From the undisturbed runs so far; from all where these are less than half of them."""
        undisturbed = [run for run in self.runs if not run.disturbed]
        runs = _on_one_level(undisturbed if 2 * len(undisturbed) >= len(self.runs) else self.runs)
        blocks, machines = dict[tuple[str, int], int](), dict[str, int]()
        if len(runs) < 2:
            return
        on = np.zeros((len(runs), max(len(self._pool.candidates), 1)), dtype=bool)
        for row, run in enumerate(runs):
            for index in run.selection - self.contexts[run.context]:
                on[row, index] = True
        self.effects = estimate_effects(
            on,
            np.array([run.context for run in runs]),
            np.array([blocks.setdefault((run.machine, run.block), len(blocks)) for run in runs]),
            np.array([run.score for run in runs]),
            contexts=len(self.contexts),
            machine=np.array([machines.setdefault(run.machine, len(machines)) for run in runs]),
        )

    def _drop_harmful(self) -> None:
        assert self.effects is not None
        worse = (self.effects.mean + self.effects.sd).max(axis=0)
        for index in self._pool.free():
            if worse[index] < 0:
                reason = f"slower in screening, about {100 * -math.expm1(self.effects.mean[0, index]):.0f} %"
                self._pool.exclude(index, reason, refused=False)


def _on_one_level(runs: Sequence[ScreeningRun]) -> list[ScreeningRun]:
    """Runs of several machines, each relative to the base on its own machine; those of a machine without the
    base are left out."""
    if len({run.machine for run in runs}) < 2:
        return list(runs)
    base = dict[str, list[float]]()
    for run in runs:
        if not run.selection:
            base.setdefault(run.machine, []).append(run.score)
    levels = {machine: sum(scores) / len(scores) for machine, scores in base.items()}
    return [run._replace(score=run.score - levels[run.machine]) for run in runs if run.machine in levels]


def _even_groups(rows: Sequence[tuple[Selection, int]], room: int) -> list[list[tuple[Selection, int]]]:
    size = math.ceil(len(rows) / max(math.ceil(len(rows) / room), 1))
    return [list(rows[start : start + size]) for start in range(0, len(rows), size)]
