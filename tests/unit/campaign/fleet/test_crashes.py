"""Crashes on the machines of a fleet, which are threads here."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from flushlab.campaign import Budget, Watcher, run
from flushlab.campaign.crash.experiment import CrashExperiment
from flushlab.campaign.fleet.crashes import FleetCrashes
from flushlab.campaign.fleet.machines import Opening
from flushlab.campaign.pool.work import CrashTask
from flushlab.errors import MeasurementError
from flushlab.experiment.protocol import Request
from flushlab.record import CrashArm, CrashOutcome, CrashRow
from flushlab.store import Store
from tests.fakes.machines import ThreadMachines
from tests.unit.crashes import judged

BASE, FAST = CrashArm(name="base", settings={}), CrashArm(name="fast", settings={"sync_binlog": 0})
CONTROL = CrashArm(name="control", settings={}, positive_control=True)
CRASHES = 20


class Killed(BaseException):
    """Stands for SIGKILL of the driver: nothing behind it runs."""


class Fleet:
    """A campaign's machines, and what ran on them.

    Attributes:
        before: called on a machine before each of its tasks.
        outcome: of a crash on a machine.
    """

    def __init__(
        self,
        store: Store,
        *machines: str,
        before: Callable[[str], None] = lambda _: None,
        outcome: Callable[[str, str, int], CrashOutcome] = lambda _, arm, number: _loses(arm, number),
    ) -> None:
        self.store, self._names, self._before, self._outcome = store, machines, before, outcome
        self.ran, self.said = list[tuple[str, str, int]](), list[str]()
        self._lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        """New machines, as a new driver finds them."""
        self.machines = ThreadMachines(self._names, crash=self.crash)

    def crash(self, machine: str, task: CrashTask) -> Sequence[CrashRow]:
        """What a machine does with a task."""
        self._before(machine)
        rows = list[CrashRow]()
        for number in task.numbers:
            with self._lock:
                self.ran.append((machine, task.arm, number))
            arm = {one.name: one for one in (BASE, FAST, CONTROL)}[task.arm]
            crash = judged(number, self._outcome(machine, task.arm, number))
            rows.append(CrashRow(arm=arm, number=number, crash=crash, seconds={"crash": 0.01}))
        return rows

    def carry_out(
        self,
        arms: Sequence[CrashArm] = (BASE, FAST),
        control: CrashArm | None = None,
        saves: int | None = None,
    ) -> CrashExperiment:
        """Runs the campaign, or goes on with it; the driver is killed after so many records."""
        if not any(row.id == "c" for row in self.store.campaigns()):
            self.store.create_campaign("c", "crash", b"{}")
        experiment = CrashExperiment(arms, CRASHES, control)
        watcher = Watcher(self.said.append)
        names = self.machines.open(Opening(lambda *_: pytest.fail("opened")))
        crashes = FleetCrashes(self.machines, names, experiment.ahead, watcher)
        left = count() if saves is None else iter(range(saves))

        def run_crash(request: Request) -> CrashRow:
            if next(left, None) is None:
                raise Killed
            return crashes.run(request)

        run(
            experiment,
            run_crash,
            known=self.store.crashes,
            store=self.store,
            campaign_id="c",
            budget=Budget(),
            watcher=watcher,
        )
        return experiment

    def found(self) -> dict[str, dict[int, CrashOutcome]]:
        """Outcomes in the store by arm and number; the later record counts."""
        found: dict[str, dict[int, CrashOutcome]] = {}
        for row in self.store.crashes("c"):
            found.setdefault(row.arm.name, {})[row.number] = row.crash.outcome
        return found


def _loses(arm: str, number: int) -> CrashOutcome:
    return "lost" if arm == "control" or (arm == "fast" and number % 3 == 0) else "kept"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


EXPECTED = {arm: {number: _loses(arm, number) for number in range(CRASHES)} for arm in ("base", "fast")}


@pytest.mark.parametrize("machines", [("one",), ("one", "two"), ("a", "b", "c", "d", "e", "f", "g", "h")])
def test_outcomes_are_those_of_one_machine_and_every_crash_runs_once(
    store: Store, machines: tuple[str, ...]
) -> None:
    fleet = Fleet(store, *machines)
    fleet.carry_out()
    assert fleet.found() == EXPECTED
    assert set(Counter((arm, number) for _, arm, number in fleet.ran).values()) == {1}


def test_both_machines_crash_and_each_record_names_its_machine(store: Store) -> None:
    both = threading.Barrier(2)
    met = list[str]()

    def meet(machine: str) -> None:
        if machine not in met:
            met.append(machine)
            both.wait(20)

    fleet = Fleet(store, "one", "two", before=meet)
    fleet.carry_out()
    ran = {(arm, number): machine for machine, arm, number in fleet.ran}
    records = {(row.arm.name, row.number): row.crash.machine for row in store.crashes("c")}
    assert records == ran
    assert set(records.values()) == {"one", "two"}


def test_the_positive_control_crashes_after_the_last_record_and_only_if_nothing_was_lost(
    store: Store,
) -> None:
    fleet = Fleet(store, "one", "two")
    fleet.carry_out([BASE], CONTROL)
    arms = [row.arm.name for row in store.crashes("c")]
    assert arms == ["base"] * CRASHES + ["control"] * 8
    fleet.carry_out([BASE, FAST], CONTROL)
    assert set(fleet.found()) == {"base", "control", "fast"}


def test_no_positive_control_crashes_where_something_was_lost(store: Store) -> None:
    fleet = Fleet(store, "one", "two")
    fleet.carry_out([BASE, FAST], CONTROL)
    assert set(fleet.found()) == {"base", "fast"}


def test_crashes_of_a_lost_machine_run_on_another(store: Store) -> None:
    started, goes_on = threading.Event(), threading.Event()

    def hold(machine: str) -> None:
        if machine == "two":
            started.set()
            goes_on.wait(20)
        else:
            started.wait(20)

    fleet = Fleet(store, "one", "two", before=hold)

    def lose() -> None:
        started.wait(20)
        fleet.machines.lose("two")
        goes_on.set()

    threading.Thread(target=lose, daemon=True).start()
    fleet.carry_out()
    assert fleet.found() == EXPECTED
    assert {row.crash.machine for row in store.crashes("c")} == {"one"}
    (line,) = [line for line in fleet.said if "two is taken out: the node died" in line]
    assert line.endswith("again on another one: 4 crashes of base")


def test_a_driver_that_was_killed_goes_on_with_the_crashes_that_were_not_stored(store: Store) -> None:
    fleet = Fleet(store, "one", "two")
    with pytest.raises(Killed):
        fleet.carry_out(saves=15)
    stored = {(row.arm.name, row.number) for row in store.crashes("c")}
    assert len(stored) == 15
    resumed = Fleet(store, "one", "two")
    resumed.carry_out()
    again = {(arm, number) for _, arm, number in resumed.ran}
    assert not again & stored
    assert resumed.found() == EXPECTED


def test_a_machine_that_can_judge_nothing_is_taken_out_and_no_crash_is_left_unknown(store: Store) -> None:
    first = threading.Semaphore(0)

    def outcome(machine: str, arm: str, number: int) -> CrashOutcome:
        if machine == "two":
            first.release()
            return "unknown"
        first.acquire(timeout=20)
        first.release()
        return _loses(arm, number)

    fleet = Fleet(store, "one", "two", outcome=outcome)
    fleet.carry_out()
    assert fleet.found() == EXPECTED
    assert [line for line in fleet.said if "again on another machine, after two" in line]


def test_crashes_that_cannot_be_judged_anywhere_stay_unknown(store: Store) -> None:
    fleet = Fleet(store, "one", "two", outcome=lambda *_: "unknown")
    fleet.carry_out()
    assert {one for outcomes in fleet.found().values() for one in outcomes.values()} == {"unknown"}
    assert len(fleet.machines.dismissed) == 1, "the last machine is never taken out for that"


def test_a_failure_of_every_machine_ends_the_campaign_with_its_own_words_and_hint(store: Store) -> None:
    def fails(machine: str) -> None:
        raise MeasurementError("the workload failed: no such table", hint="read its output")

    fleet = Fleet(store, "one", "two", before=fails)
    with pytest.raises(MeasurementError, match=r"machine (one|two): the workload failed") as told:
        fleet.carry_out()
    assert told.value.hint == "read its output"


def test_few_crashes_are_spread_over_all_machines(store: Store) -> None:
    sizes, fleet = Counter[int](), Fleet(store, *"abcdefgh")

    def crash(machine: str, task: CrashTask) -> Sequence[CrashRow]:
        sizes[len(task.numbers)] += 1
        return fleet.crash(machine, task)

    fleet.machines = ThreadMachines("abcdefgh", crash=crash)
    fleet.carry_out([BASE])
    assert set(sizes) == {1}
