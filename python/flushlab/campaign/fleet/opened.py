"""Opened: a fleet whose machines are claimed, as campaigns use it. Sits in `campaign.fleet`; without Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from flushlab.campaign.fleet.crashes import FleetCrashes
from flushlab.campaign.fleet.machines import Ended, Failed, Lost, Machines, Opening, Task
from flushlab.campaign.fleet.runner import POLL_S
from flushlab.campaign.fleet.trials import Arrivals, FleetTrials
from flushlab.campaign.pool.work import RunTrial, Work
from flushlab.errors import UsageError
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.record import Arm, CrashRow, Trial
from flushlab.units import counted
from flushlab.workload.generators import named


@dataclass(frozen=True)
class OpenMachines:
    machines: Machines
    names: tuple[str, ...]

    def rest(self) -> None:
        self.machines.rest()

    @contextmanager
    def trials(self, work: Work) -> Iterator[RunTrial]:
        assert work.store is not None, "blocks arrive before their turn"
        runner = FleetTrials(
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
        runner = FleetCrashes(
            machines=self.machines, names=self._opened(work), ahead=work.ahead, watcher=work.watcher
        )
        yield runner.run

    def each(self, work: Work) -> Mapping[str, Trial | str]:
        return run_on_each(self.machines, self._opened(work))

    def _opened(self, work: Work) -> tuple[str, ...]:
        names = self.machines.open(Opening(work.there, work.request, work.root_for))
        work.watcher.say(f"fleet: {counted(len(names), 'machine')} ({', '.join(names)})")
        return names


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
