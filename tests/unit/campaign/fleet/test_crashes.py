"""Crashes on the machines of a fleet, which are threads here."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from flushlab.campaign.crash.experiment import CrashExperiment
from flushlab.campaign.pool.work import CrashTask
from flushlab.errors import MeasurementError
from flushlab.record import CrashArm, CrashOutcome, CrashRow
from flushlab.store import Store
from tests.unit.campaign.fleet.on_threads import Fleet, Killed
from tests.unit.crashes import judged

BASE, FAST = CrashArm(name="base", settings={}), CrashArm(name="fast", settings={"sync_binlog": 0})
CONTROL = CrashArm(name="control", settings={}, positive_control=True)
CRASHES = 20


def _loses(arm: str, number: int) -> CrashOutcome:
    return "lost" if arm == "control" or (arm == "fast" and number % 3 == 0) else "kept"


def machines(
    store: Store,
    *names: str,
    outcome: Callable[[str, str, int], CrashOutcome] = lambda _, arm, number: _loses(arm, number),
    before: Callable[[str, CrashTask], None] = lambda *_: None,
) -> Fleet:
    """Machines, with the outcome of a crash on one; `before` is called on it before each of its tasks."""

    def crashed(machine: str, name: str, number: int) -> CrashRow:
        arm = next(one for one in (BASE, FAST, CONTROL) if one.name == name)
        crash = judged(number, outcome(machine, name, number))
        return CrashRow(arm=arm, number=number, crash=crash, seconds={"crash": 0.01})

    return Fleet(store, *names, before=before, crash_of=crashed)


def crashes(*arms: CrashArm, control: CrashArm | None = None) -> CrashExperiment:
    return CrashExperiment(arms or (BASE, FAST), CRASHES, control)


def found(store: Store) -> dict[str, dict[int, CrashOutcome]]:
    """Outcomes by arm and number; the later record counts."""
    found: dict[str, dict[int, CrashOutcome]] = {}
    for row in store.crashes("c"):
        found.setdefault(row.arm.name, {})[row.number] = row.crash.outcome
    return found


EXPECTED = {arm: {number: _loses(arm, number) for number in range(CRASHES)} for arm in ("base", "fast")}


@pytest.mark.parametrize("names", [("one",), ("one", "two"), ("a", "b", "c", "d", "e", "f", "g", "h")])
def test_outcomes_are_those_of_one_machine_and_every_crash_runs_once(
    store: Store, names: tuple[str, ...]
) -> None:
    fleet = machines(store, *names)
    fleet.carry_out(crashes())
    assert found(store) == EXPECTED
    assert set(Counter((arm, number) for _, arm, number in fleet.ran).values()) == {1}


def test_both_machines_crash_and_each_record_names_its_machine(store: Store) -> None:
    both = threading.Barrier(2)
    met = list[str]()

    def meet(machine: str, task: CrashTask) -> None:
        if machine not in met:
            met.append(machine)
            both.wait(20)

    fleet = machines(store, "one", "two", before=meet)
    fleet.carry_out(crashes())
    ran = {(arm, number): machine for machine, arm, number in fleet.ran}
    records = {(row.arm.name, row.number): row.crash.machine for row in store.crashes("c")}
    assert records == ran
    assert set(records.values()) == {"one", "two"}


def test_the_positive_control_crashes_after_the_last_record_and_only_if_nothing_was_lost(
    store: Store,
) -> None:
    fleet = machines(store, "one", "two")
    fleet.carry_out(crashes(BASE, control=CONTROL))
    arms = [row.arm.name for row in store.crashes("c")]
    assert arms == ["base"] * CRASHES + ["control"] * 8
    fleet.carry_out(crashes(control=CONTROL))
    assert set(found(store)) == {"base", "control", "fast"}


def test_no_positive_control_crashes_where_something_was_lost(store: Store) -> None:
    fleet = machines(store, "one", "two")
    fleet.carry_out(crashes(control=CONTROL))
    assert set(found(store)) == {"base", "fast"}


def test_crashes_of_a_lost_machine_run_on_another(store: Store) -> None:
    started, goes_on = threading.Event(), threading.Event()

    def hold(machine: str, task: CrashTask) -> None:
        if machine == "two":
            started.set()
            goes_on.wait(20)
        else:
            started.wait(20)

    fleet = machines(store, "one", "two", before=hold)

    def lose() -> None:
        started.wait(20)
        fleet.machines.lose("two")
        goes_on.set()

    threading.Thread(target=lose, daemon=True).start()
    fleet.carry_out(crashes())
    assert found(store) == EXPECTED
    assert {row.crash.machine for row in store.crashes("c")} == {"one"}
    (line,) = [line for line in fleet.said if "two is taken out: the node died" in line]
    assert line.endswith("again on another one: 4 crashes of base")


def test_a_driver_that_was_killed_goes_on_with_the_crashes_that_were_not_stored(store: Store) -> None:
    fleet = machines(store, "one", "two")
    with pytest.raises(Killed):
        fleet.carry_out(crashes(), killed_after=15)
    stored = {(row.arm.name, row.number) for row in store.crashes("c")}
    assert len(stored) == 15
    resumed = machines(store, "one", "two")
    resumed.carry_out(crashes())
    again = {(arm, number) for _, arm, number in resumed.ran}
    assert not again & stored
    assert found(store) == EXPECTED


def test_a_machine_that_can_judge_nothing_is_taken_out_and_no_crash_is_left_unknown(store: Store) -> None:
    first = threading.Semaphore(0)

    def outcome(machine: str, arm: str, number: int) -> CrashOutcome:
        if machine == "two":
            first.release()
            return "unknown"
        first.acquire(timeout=20)
        first.release()
        return _loses(arm, number)

    fleet = machines(store, "one", "two", outcome=outcome)
    fleet.carry_out(crashes())
    assert found(store) == EXPECTED
    assert [line for line in fleet.said if "again on another machine, after two" in line]


def test_crashes_that_cannot_be_judged_anywhere_stay_unknown(store: Store) -> None:
    fleet = machines(store, "one", "two", outcome=lambda *_: "unknown")
    fleet.carry_out(crashes())
    assert {one for outcomes in found(store).values() for one in outcomes.values()} == {"unknown"}
    assert len(fleet.machines.dismissed) == 1, "the last machine is never taken out for that"


def test_a_failure_of_every_machine_ends_the_campaign_with_its_own_words_and_hint(store: Store) -> None:
    def fails(machine: str, task: CrashTask) -> None:
        raise MeasurementError("the workload failed: no such table", hint="read its output")

    fleet = machines(store, "one", "two", before=fails)
    with pytest.raises(MeasurementError, match=r"machine (one|two): the workload failed") as told:
        fleet.carry_out(crashes())
    assert told.value.hint == "read its output"


def test_few_crashes_are_spread_over_all_machines(store: Store) -> None:
    sizes = Counter[int]()
    fleet = machines(store, *"abcdefgh", before=lambda _, task: sizes.update([len(task.numbers)]))
    fleet.carry_out(crashes(BASE))
    assert set(sizes) == {1}
