"""Trials: gives the loop of a campaign its trials in order, while machines run whole blocks ahead.

    experiment.ask -> FleetTrials.run -> the block's trials, once it has arrived

Sits in `campaign.fleet`, on the driver. The experiment learns trials in its own order, so the result is the
same whichever machine was faster. A block that has arrived is stored at once: kill -9 of the driver loses the
blocks that run. An experiment that ends early, or loses an arm, leaves trials that ran ahead unused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from flushlab.campaign.fleet.dispatch import Role, WantedBlock
from flushlab.campaign.fleet.health import Health
from flushlab.campaign.fleet.machines import Ended, Task
from flushlab.campaign.fleet.runner import FleetRunner
from flushlab.errors import MeasurementError
from flushlab.experiment.protocol import SELECTING, BlockAhead, Request
from flushlab.record import Stage, Trial
from flushlab.store import Store

MOST_REPEATS = 3


class ArrivedBlock(msgspec.Struct, frozen=True, kw_only=True):
    stage: Stage
    block: int
    arms: tuple[str, ...]
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Arrivals:
    store: Store
    campaign_id: str

    def save(self, number: int, block: ArrivedBlock) -> None:
        self.store.save_arrived(self.campaign_id, number, msgspec.json.encode(block))

    def forget(self, number: int) -> None:
        self.store.forget_arrived(self.campaign_id, number)

    def left(self) -> dict[int, ArrivedBlock]:
        saved = Counter(map(_cell, self.store.trials(self.campaign_id)))
        found = dict[int, ArrivedBlock]()
        for number, block in self._blocks().items():
            trials = list[Trial]()
            for trial in block.trials:
                if saved[_cell(trial)]:
                    saved[_cell(trial)] -= 1
                else:
                    trials.append(trial)
            found[number] = msgspec.structs.replace(block, trials=tuple(trials))
        return found

    def machines(self, stages: Collection[Stage]) -> set[str]:
        arrived = (trial for block in self._blocks().values() for trial in block.trials)
        trials = (*self.store.trials(self.campaign_id), *arrived)
        return {trial.machine for trial in trials if trial.machine and trial.stage in stages}

    def _blocks(self) -> dict[int, ArrivedBlock]:
        records = self.store.arrived(self.campaign_id).items()
        return {number: msgspec.json.decode(record, type=ArrivedBlock) for number, record in records}


@dataclass
class _Block:
    number: int
    arms: frozenset[str]
    ahead: BlockAhead
    trials: list[Trial] | None = None
    repeats: int = 0

    @property
    def kind(self) -> str:
        return f"{self.ahead.stage}: {', '.join(sorted(arm.name for arm in self.ahead.arms))}"

    @property
    def wanted(self) -> WantedBlock:
        stage = self.ahead.stage
        role: Role = "select" if stage in SELECTING else "confirm" if stage == "confirm" else "any"
        return WantedBlock(self.number, self.kind, role)

    @property
    def name(self) -> str:
        return f"{self.ahead.stage} block {self.ahead.block + 1}"

    def covers(self, stage: Stage, block: int, arms: Collection[str]) -> bool:
        return (self.ahead.stage, self.ahead.block) == (stage, block) and self.arms.issuperset(arms)

    def taken(self, request: Request) -> Trial | None:
        for trial in self.trials or ():
            if (trial.arm, trial.variant) == (request.arm, request.variant):
                assert self.trials is not None
                self.trials.remove(trial)
                return trial
        return None


@dataclass(kw_only=True)
class FleetTrials(FleetRunner):
    arrivals: Arrivals
    best_of: Callable[[], tuple[str, ...]] = tuple
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _health: dict[str, Health] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for number, arrived in self.arrivals.left().items():
            ahead = BlockAhead(stage=arrived.stage, block=arrived.block, arms=())
            self._blocks[number] = _Block(number, frozenset(arrived.arms), ahead, [*arrived.trials])
            self._next = number + 1
        self._dispatch.selected(self.arrivals.machines(SELECTING))

    def run(self, request: Request) -> Trial:
        while True:
            self._follow(self.ahead(len(self._blocks) + self.size))
            block = self._of(request)
            if block.trials is not None:
                if (trial := block.taken(request)) is not None:
                    return trial
                self._repeat(block, request)
            self._step()

    def forget_unused(self) -> None:
        if not self.ahead(1):
            for number in self._blocks:
                self.arrivals.forget(number)
            self._blocks.clear()

    def _follow(self, coming: Sequence[BlockAhead]) -> None:
        left = dict(self._blocks)
        for ahead in coming:
            names = [arm.name for arm in ahead.arms]
            known = next((b for b in left.values() if b.covers(ahead.stage, ahead.block, names)), None)
            if known is None:
                self._blocks[self._next] = _Block(self._next, frozenset(names), ahead)
                self._next += 1
                continue
            del left[known.number]
            if known.trials is None and not known.repeats and not self._dispatch.runs(known.number):
                known.ahead = ahead  # without the arms that have left
        for number in left:
            del self._blocks[number]
            self.arrivals.forget(number)
        self._want()

    def _want(self) -> None:
        self._dispatch.wants(block.wanted for block in self._blocks.values() if block.trials is None)

    def _of(self, request: Request) -> _Block:
        names = {arm.name for arm in request.beside} | {request.arm.name}
        return next(
            block for block in self._blocks.values() if block.covers(request.stage, request.block, names)
        )

    def _repeat(self, block: _Block, request: Request) -> None:
        block.repeats += 1
        if block.repeats > MOST_REPEATS:
            raise MeasurementError(
                f"{block.name} brought no trial of {request.arm.name} in {MOST_REPEATS} runs"
            )
        arms = request.beside or (request.arm,)
        block.ahead = msgspec.structs.replace(block.ahead, arms=arms)
        block.trials = None
        self._dispatch.again(block.number)
        self._want()

    def _task(self, number: int) -> Task:
        return Task(block=self._blocks[number].ahead, best_of=self.best_of())

    def _arrived(self, event: Ended) -> None:
        block = self._blocks[event.number]
        trials = [
            msgspec.structs.replace(trial, machine=event.machine)
            for trial in event.rows
            if isinstance(trial, Trial)
        ]
        why = self._health.setdefault(event.machine, Health()).doubt(block.kind, trials)
        runs_elsewhere = self._runs_elsewhere(event, why, f"{block.name} runs")
        if event.machine not in self._dispatch.machines:
            del self._health[event.machine]
        if runs_elsewhere:
            return
        block.trials = trials
        self.arrivals.save(
            block.number,
            ArrivedBlock(
                stage=block.ahead.stage,
                block=block.ahead.block,
                arms=tuple(sorted(block.arms)),
                trials=tuple(trials),
            ),
        )

    def _name_of(self, number: int) -> str:
        block = self._blocks.get(number)
        return "" if block is None else block.name


def _cell(trial: Trial) -> tuple[str, int, str, int]:
    return trial.stage, trial.block, trial.arm.name, trial.variant
