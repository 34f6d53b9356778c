"""A campaign on machines that are threads, with what ran there and what was said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from flushlab.campaign import Budget, Watcher, run
from flushlab.campaign.crash.experiment import CrashExperiment
from flushlab.campaign.fleet.crashes import FleetCrashes
from flushlab.campaign.fleet.machines import Opening, Task
from flushlab.campaign.fleet.trials import Arrivals, FleetTrials
from flushlab.campaign.fleet.worker import trials_of
from flushlab.campaign.pool.work import CrashTask
from flushlab.experiment.protocol import Request
from flushlab.record import CrashRow, Trial
from flushlab.store import Store
from tests.fakes.machines import ThreadMachines


class Killed(BaseException):
    """Stands for SIGKILL of the driver: nothing behind it runs."""


class Fleet(Watcher):
    """Machines of one campaign; a new one on the same store is what a new driver finds.

    Args:
        before: called on a machine before each of its tasks.
        trial_of: what a machine measures for a request.
        crash_of: what becomes of a crash, by machine, arm and number.
    """

    def __init__(
        self,
        store: Store,
        *names: str,
        before: Callable[[str, Any], None] = lambda machine, task: None,
        trial_of: Callable[[str, Request], Trial] = lambda *_: pytest.fail("measured"),
        crash_of: Callable[[str, str, int], CrashRow] = lambda *_: pytest.fail("crashed"),
    ) -> None:
        self.said, self.spread = list[str](), list[int]()
        super().__init__(self.said.append)
        self.store, self._before, self._trial_of, self._crash_of = store, before, trial_of, crash_of
        self.machines = ThreadMachines(names, self.block, self.crash)
        self.ran = list[tuple[str, str, int]]()
        """Machine, stage and block; or machine, arm and number."""
        self._lock = threading.Lock()

    def spreads(self, machines: int) -> None:
        self.spread.append(machines)

    def _ran(self, *what: Any) -> None:
        with self._lock:
            self.ran.append(what)

    def block(self, machine: str, task: Task) -> Sequence[Trial]:
        self._ran(machine, task.block.stage, task.block.block)
        self._before(machine, task)
        return trials_of(
            task,
            lambda request: self._trial_of(machine, request),
            lambda: machine in self.machines.cancelled,
        )

    def crash(self, machine: str, task: CrashTask) -> Sequence[CrashRow]:
        self._before(machine, task)
        rows = list[CrashRow]()
        for number in task.numbers:
            self._ran(machine, task.arm, number)
            rows.append(self._crash_of(machine, task.arm, number))
        return rows

    def trials(self) -> list[Trial]:
        return list(self.store.trials("c"))

    def carry_out(
        self, experiment: Any, *, killed_after: int | None = None, trials: int | None = None
    ) -> str:
        """Runs the campaign, or goes on with it, until its end, so many trials, or the driver's death."""
        given: dict[str, Any] = {
            "machines": self.machines,
            "names": self.machines.open(Opening(lambda *_: pytest.fail("opened"))),
            "ahead": experiment.ahead,
            "watcher": self,
        }
        left = count() if killed_after is None else iter(range(killed_after))
        runner: FleetTrials | FleetCrashes
        if isinstance(experiment, CrashExperiment):
            runner = FleetCrashes(**given)
        else:
            arrivals = Arrivals(self.store, "c")
            runner = FleetTrials(
                **given, arrivals=arrivals, best_of=lambda: getattr(experiment, "best_of", ())
            )

        def run_one(request: Request) -> Any:
            if next(left, None) is None:
                raise Killed
            return runner.run(request)

        ending = run(
            experiment,
            run_one,
            known=self.store.crashes if isinstance(runner, FleetCrashes) else self.store.trials,
            store=self.store,
            campaign_id="c",
            budget=Budget(trials=trials),
            watcher=Watcher(),
        )
        if isinstance(runner, FleetTrials):
            runner.forget_unused()
        return ending
