"""Runner: gives the loop of a campaign its trials in order, while machines run whole blocks ahead.

    experiment.ask -> FleetRunner.run -> the block's trials, once it has arrived
    experiment.ahead -> Dispatch -> Machines -> blocks in any order -> stored, until it is their turn

Sits in `campaign.fleet`, on the driver. The experiment learns trials in its own order, so the result is the
same whichever machine was faster. A block that has arrived is stored at once: kill -9 of the driver loses the
blocks that run. An experiment that ends early, or loses an arm, leaves trials that ran ahead unused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from flushlab.campaign.fleet.crashes import FleetCrashes
from flushlab.campaign.fleet.dispatch import POLL_S, Crew, Role, WantedBlock
from flushlab.campaign.fleet.health import Health
from flushlab.campaign.fleet.machines import Ended, Failed, Lost, Machines, Opening, Task
from flushlab.campaign.pool.work import RunTrial, Work
from flushlab.campaign.watcher import Watcher
from flushlab.errors import MeasurementError, UsageError
from flushlab.experiment.protocol import SELECTING, BlockAhead, Request
from flushlab.record import Arm, CrashRow, Stage, Trial
from flushlab.store import Store
from flushlab.units import counted
from flushlab.workload.generators import named


def run_on_each(machines: Machines, names: Iterable[str]) -> Mapping[str, Trial | str]:
    waiting, found = set(names), dict[str, Trial | str]()
    for number, name in enumerate(sorted(waiting)):
        block = BlockAhead(stage="bench", block=number, arms=(Arm(name="bench", settings={}),))
        machines.submit(name, number, Task(block=block))
    while waiting:
        for event in machines.wait(POLL_S):
            if event.machine not in waiting:
                continue
            waiting.remove(event.machine)
            if isinstance(event, Ended):
                trial = event.rows[-1]
                assert isinstance(trial, Trial)
                found[event.machine] = trial
            elif isinstance(event, Failed):
                if isinstance(event.error, UsageError):
                    raise named(event.machine, event.error)
                found[event.machine] = event.error.message
            else:
                assert isinstance(event, Lost), "nothing is cancelled"
                found[event.machine] = event.reason
    return found


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
    doubted: bool = False

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


@dataclass
class FleetRunner:
    machines: Machines
    names: Iterable[str]
    ahead: Callable[[int], Sequence[BlockAhead]]
    arrivals: Arrivals
    watcher: Watcher
    best_of: Callable[[], tuple[str, ...]] = tuple
    clock: Callable[[], float] = time.monotonic
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _health: dict[str, Health] = field(default_factory=dict)
    _next: int = 0
    _began: bool = False

    def __post_init__(self) -> None:
        self._crew = Crew(self.machines, self.watcher, self._name_of, self.clock)
        self._dispatch = self._crew.dispatch

    def run(self, request: Request) -> Trial:
        """A MeasurementError if no machine is left, or a block was lost on several."""
        if not self._began:
            self._begin()
        while True:
            self._follow(self.ahead(len(self._blocks) + self._crew.size))
            block = self._of(request)
            if block.trials is not None:
                if (trial := block.taken(request)) is not None:
                    return trial
                self._repeat(block, request)
            self._crew.start(self._task)
            for event in self._crew.arrived():
                self._arrived(event)
            self._crew.require_machines()

    def forget_unused(self) -> None:
        if not self.ahead(1):
            for number in self._blocks:
                self.arrivals.forget(number)
            self._blocks.clear()

    def _begin(self) -> None:
        self._began = True
        for number, arrived in self.arrivals.left().items():
            ahead = BlockAhead(stage=arrived.stage, block=arrived.block, arms=())
            self._blocks[number] = _Block(number, frozenset(arrived.arms), ahead, [*arrived.trials])
            self._next = number + 1
        self._dispatch.selected(self.arrivals.machines(SELECTING))
        self._crew.joins(*self.names)

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
        block, counts = self._blocks.get(event.number), self._dispatch.ended(event.machine, self.clock())
        if block is None or not counts:
            return
        trials = [
            msgspec.structs.replace(trial, machine=event.machine)
            for trial in event.rows
            if isinstance(trial, Trial)
        ]
        health = self._health.setdefault(event.machine, Health())
        why = health.doubt(block.kind, trials)
        if why and self._crew.size > 1:
            if health.is_broken:
                del self._health[event.machine]
                self._crew.take_out(event.machine, why)
            if not block.doubted:
                block.doubted = True
                self._dispatch.again(block.number, elsewhere_than=event.machine)
                self.watcher.say(f"{block.name} runs again on another machine, after {event.machine}: {why}")
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


@dataclass(frozen=True)
class OpenMachines:
    machines: Machines
    names: tuple[str, ...]

    def rest(self) -> None:
        self.machines.rest()

    @contextmanager
    def trials(self, work: Work) -> Iterator[RunTrial]:
        assert work.store is not None, "blocks arrive before their turn"
        runner = FleetRunner(
            machines=self.machines,
            names=self._opened(work),
            ahead=work.ahead,
            arrivals=Arrivals(work.store, work.campaign_id),
            watcher=work.watcher,
            best_of=work.best_of,
        )
        yield runner.run
        runner.forget_unused()

    @contextmanager
    def crashes(self, work: Work) -> Iterator[Callable[[Request], CrashRow]]:
        yield FleetCrashes(self.machines, self._opened(work), work.ahead, work.watcher).run

    def each(self, work: Work) -> Mapping[str, Trial | str]:
        return run_on_each(self.machines, self._opened(work))

    def _opened(self, work: Work) -> tuple[str, ...]:
        names = self.machines.open(Opening(work.there, work.request, work.root_for))
        work.watcher.say(f"fleet: {counted(len(names), 'machine')} ({', '.join(names)})")
        return names


def _cell(trial: Trial) -> tuple[str, int, str, int]:
    return trial.stage, trial.block, trial.arm.name, trial.variant
