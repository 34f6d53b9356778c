"""Pool: candidates in the running, their selections as arms, and rounds of these. Pure.

Nothing that a `Space` calls legal is below a floor, and no round has an arm below it but the user's settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from random import Random

import msgspec

from flushlab.experiment.blocks import YOURS, Round, Sheet, no_base, run_block
from flushlab.experiment.protocol import BlockAhead, Steps
from flushlab.experiment.tune_plan import Excluded, TunePlan
from flushlab.record import BASE, CONTROL, Arm, Stage, Trial, Value
from flushlab.settings.floor import Floor
from flushlab.units import format_seconds

Selection = frozenset[int]
"""Candidates by their index in the plan."""


class CandidatePool:
    def __init__(self, plan: TunePlan) -> None:
        self._plan = plan
        self.candidates = plan.candidates
        self.base = Arm(name=BASE, settings=plan.base)
        self.usable: Selection = frozenset(range(len(plan.candidates)))
        self.excluded: list[Excluded] = []
        self._levels: dict[Selection, Floor] = {}
        self._free: dict[Selection, bool] = {}
        self._names: dict[Selection, str] = {}
        self._base_read_back: Mapping[str, Value] = {}
        for index in range(len(plan.candidates)):
            single = frozenset({index})
            if not self.changes(single):
                self.exclude(index, "the base has this value", refused=False)
            elif not self.legal(single, plan.runs_at):
                self.exclude(index, f"meets only {self.level(single)}, below the floor", refused=False)

    def settings(self, selection: Selection) -> dict[str, Value]:
        return {**self.base.settings, **self.changes(selection)}

    def changes(self, selection: Selection) -> dict[str, Value]:
        merged: dict[str, Value] = {}
        for index in sorted(selection):
            merged.update(self._plan.candidates[index].settings)
        return {name: value for name, value in merged.items() if self.base.settings.get(name) != value}

    def level(self, selection: Selection) -> Floor:
        if selection not in self._levels:
            self._levels[selection] = self._plan.level_of(self.settings(selection))
        return self._levels[selection]

    def is_free(self, selection: Selection) -> bool:
        if selection not in self._free:
            self._free[selection] = self._plan.is_free(self.settings(selection))
        return self._free[selection]

    def compatible(self, selection: Selection) -> bool:
        names = [name for index in selection for name in self._plan.candidates[index].settings]
        return len(set(names)) == len(names)

    def legal(self, selection: Selection, floor: Floor) -> bool:
        return self.compatible(selection) and self.level(selection).at_least(floor)

    def joined(self, selection: Selection, more: Iterable[int], floor: Floor) -> Selection:
        for index in more:
            if self.legal(selection | {index}, floor):
                selection |= {index}
        return selection

    def free_part(self, selection: Selection) -> Selection:
        part = frozenset(index for index in selection if self.is_free(frozenset({index})))
        while part and not self.is_free(part):  # harmless alone, not together
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
        slots: list[tuple[int, ...]] = []
        for index in sorted(eligible):
            rivals = [slot for slot in slots if any(not self.compatible(frozenset({index, o})) for o in slot)]
            merged = tuple(sorted({index, *(other for slot in rivals for other in slot)}))
            slots = [slot for slot in slots if slot not in rivals] + [merged]
        return slots

    def name(self, selection: Selection) -> str:
        changes = [f"{name}={value}" for name, value in self.changes(selection).items()]
        if len(changes) <= 3:
            return " + ".join(changes)
        return f"{' + '.join(changes[:2])} + {len(changes) - 2} more"

    def bought(self) -> list[int]:
        return [i for i in sorted(self.usable) if not self.is_free(frozenset({i}))]

    def free(self) -> list[int]:
        return [i for i in sorted(self.usable) if self.is_free(frozenset({i}))]

    def arm(self, selection: Selection) -> Arm:
        if not selection:
            return self.base
        if selection not in self._names:
            name, taken = self.name(selection), set(self._names.values())
            number = 2
            unique = name
            while unique in taken:
                unique = f"{name} #{number}"
                number += 1
            self._names[selection] = unique
        return Arm(name=self._names[selection], settings=self.settings(selection))

    def exclude(self, index: int, reason: str, *, refused: bool) -> None:
        settings = dict(self.candidates[index].settings)
        self.excluded.append(Excluded(settings=settings, reason=reason, refused=refused))
        self.usable -= {index}

    def exclude_unchanged(self, arm: str, trial: Trial) -> None:
        if arm == BASE:
            self._base_read_back = trial.settings
        selection = next((known for known, name in self._names.items() if name == arm), frozenset[int]())
        for index in selection & self.usable:
            names = self.candidates[index].settings
            if all(n in trial.settings and trial.settings[n] == self._base_read_back.get(n) for n in names):
                self.exclude(index, "the server changes it to the base's value", refused=False)

    def exclude_slow_windows(self, rate: float | None) -> None:
        need = self._plan.redo_to_outlast
        if need is None or not rate:
            return
        own = need(self.base.settings)
        for index in sorted(self.usable):
            needed = need(self.settings(frozenset({index})))
            if needed > own and (window := needed / rate) > self._plan.window_limit_s:
                reason = (
                    f"its windows would have to last {format_seconds(window)} to outlast the redo log, "
                    f"longer than this budget allows ({format_seconds(self._plan.window_limit_s)})"
                )
                self.exclude(index, reason, refused=False)

    def exclude_arm(self, name: str, reason: str) -> None:
        for selection in [s for s, known in self._names.items() if known == name]:
            self.exclude_failed(min(selection), reason)

    def exclude_failed(self, index: int, reason: str) -> None:
        self.exclude(index, reason, refused=not reason.startswith("failed: "))


def half_on(
    pool: CandidatePool,
    slots: Sequence[tuple[int, ...]],
    foundation: Selection,
    floor: Floor,
    runs: int,
    seed: str,
) -> list[Selection]:
    """Each slot goes through its values, and through being off, equally often; changes that would leave the
    floor are switched off. Of a few random balanced designs the one whose slots agree least is taken (the
    smallest sum of squared correlations)."""
    random = Random(seed)
    best: tuple[float, list[list[int | None]]] | None = None
    for _ in range(12):
        columns = [_cycle(slot, runs, random) for slot in slots]
        on = [[float(value is not None) for value in column] for column in columns]
        means = [sum(own) / len(own) for own in on]
        centred = [[x - mean for x in own] for own, mean in zip(on, means, strict=True)]
        overlap = sum(sum(x * y for x, y in zip(a, b, strict=True)) ** 2 for a, b in combinations(centred, 2))
        if best is None or overlap < best[0]:
            best = (overlap, columns)
    assert best is not None
    design = []
    for run in range(runs):
        picked = [value for column in best[1] if (value := column[run]) is not None]
        random.shuffle(picked)
        design.append(pool.joined(foundation, picked, floor))
    return design


def _cycle(slot: tuple[int, ...], runs: int, random: Random) -> list[int | None]:
    column: list[int | None] = []
    while len(column) < runs:
        options: list[int | None] = [None, *slot]
        random.shuffle(options)
        column.extend(options)
    return column[:runs]


class TuneRounds:
    def __init__(self, plan: TunePlan, pool: CandidatePool) -> None:
        self._plan, self._pool = plan, pool
        self.objective = plan.objective
        self._running: BlockAhead | None = None
        self._then: Sequence[Sequence[Arm]] = ()

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        due = self._running
        if due is None:
            return ()
        coming = [due.arms, *map(tuple, self._then)]
        return tuple(
            msgspec.structs.replace(due, block=due.block + number, arms=arms)
            for number, arms in enumerate(coming[:most])
        )

    def run(
        self,
        arms: Sequence[Arm],
        stage: Stage,
        block: int,
        *,
        spare: Callable[[], float] = lambda: math.inf,
        following: int = 0,
        then: Sequence[Sequence[Arm]] = (),
    ) -> Steps[Round]:
        for arm in arms:
            level = self._plan.level_of(arm.settings)
            assert arm.name == YOURS or level.at_least(self._plan.runs_at), (
                f"{arm.name} keeps {level}, below {self._plan.runs_at}"
            )
        is_first = stage == "calibrate" and block == 0
        self._then = (*(tuple(arms) for _ in range(following)), *then)
        self._running = BlockAhead(
            stage=stage,
            block=block,
            arms=tuple(arms),
            variants=self._plan.variants,
            patient=() if is_first else (BASE, CONTROL),
            seed=self._plan.seed,
        )
        finished = yield from run_block(self._running, spare=spare)
        self._running = None
        if BASE in finished.out:
            raise no_base(finished.out[BASE], finished.hints.get(BASE))
        for name, trials in finished.measured.items():
            self._pool.exclude_unchanged(name, trials[0])
        return finished

    def block(
        self, arms: Sequence[Arm], stage: Stage, block: int, *, following: int
    ) -> Steps[dict[str, tuple[Trial, ...]]]:
        finished, out, _ = yield from self.run(arms, stage, block, following=following)
        for name, reason in out.items():
            self._pool.exclude_arm(name, reason)
        return finished

    def score(self, arms: Sequence[Arm], stage: Stage, first: int, blocks: int, sheet: Sheet) -> Steps[None]:
        for block in range(first, first + blocks):
            finished, _, _ = yield from self.run(arms, stage, block, following=first + blocks - block - 1)
            for name, trials in finished.items():
                sheet.record(name, block, trials)
