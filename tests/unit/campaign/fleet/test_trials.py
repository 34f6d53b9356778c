from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest

from flushlab.campaign.fleet.machines import Task
from flushlab.campaign.fleet.trials import Arrivals, ArrivedBlock
from flushlab.campaign.fleet.worker import trials_of
from flushlab.errors import MeasurementError, NoSpace, UsageError
from flushlab.experiment.protocol import Request
from flushlab.experiment.series import Series, SeriesPlan
from flushlab.record import Arm, Trial
from flushlab.store import Store
from tests.fakes.machines import ThreadMachines
from tests.unit.campaign.fleet.on_threads import Fleet, Killed
from tests.unit.records import trial
from tests.waiting import wait_until

EFFECTS = {"fast": 1.5, "slow": 0.6, "same": 1.0}


Make = Callable[..., Fleet]


def series(blocks: int = 8, **changes: Any) -> Series:
    return Series(
        SeriesPlan(
            base=Arm(name="base", settings={}),
            arms=tuple(
                Arm(name=name, settings={"innodb_io_capacity": 1 + n}) for n, name in enumerate(EFFECTS)
            ),
            blocks=blocks,
            compose=lambda names: Arm(name="best", settings={"innodb_io_capacity": len(names)}),
            **changes,
        )
    )


def measured(machine: str, request: Request) -> Trial:
    """A trial of known effect, with noise that depends on the cell alone, on a machine of its own speed."""
    arm = request.arm.name
    noise = Random(f"{request.stage}/{request.block}/{arm}").gauss(0.0, 0.01)
    speed = 1000.0 * (1 + sum(map(ord, machine)) % 5)
    result = speed * EFFECTS.get(arm, 1.5 if arm == "best" else 1.0) * (1 + noise)
    return trial(
        arm=request.arm, stage=request.stage, block=request.block, variant=request.variant, result=result
    )


@pytest.fixture
def fleet(store: Store) -> Make:
    return partial(Fleet, store, trial_of=measured)


def cells(trials: Sequence[Trial]) -> list[tuple[str, int, str]]:
    return [(one.stage, one.block, one.arm.name) for one in trials]


def alone(blocks: int = 8) -> Series:
    """The same series without a fleet."""
    experiment = series(blocks)
    while (request := experiment.ask()) is not None:
        experiment.tell(measured("alone", request))
    return experiment


def test_several_machines_come_to_the_verdicts_of_one(fleet: Make) -> None:
    four, experiment = fleet("a", "b", "c", "d"), series()
    assert four.carry_out(experiment) == "done"
    expected, found = alone().result(), experiment.result()
    assert {n: c.verdict for n, c in found.comparisons.items()} == {
        "fast": "faster", "slow": "slower", "same": "no difference found", "best": "faster",
    }  # fmt: skip
    assert {n: c.verdict for n, c in expected.comparisons.items()} == {
        n: c.verdict for n, c in found.comparisons.items()
    }


def test_a_block_runs_on_one_machine(fleet: Make) -> None:
    three, experiment = fleet("a", "b", "c"), series()
    three.carry_out(experiment)
    machines: dict[tuple[str, int], set[str]] = {}
    for one in three.trials():
        machines.setdefault((one.stage, one.block), set()).add(one.machine)
    assert {len(found) for found in machines.values()} == {1}
    assert {name for found in machines.values() for name in found} == {"a", "b", "c"}


def three_with_a_late_first_block(fleet: Make) -> Fleet:
    """Block 0 waits until the blocks ahead of it have ended."""

    def before(machine: str, task: Task) -> None:
        if (task.block.stage, task.block.block) == ("arms", 0):
            wait_until(lambda: {1, 2} <= {*three.machines.ended}, "blocks 1 and 2 ended")

    three = fleet("a", "b", "c", before=before)
    return three


def test_the_experiment_learns_blocks_in_its_own_order(fleet: Make) -> None:
    three = three_with_a_late_first_block(fleet)
    three.carry_out(series())
    in_order = series()
    for one in three.trials():
        in_order.tell(one)
    assert in_order.ask() is None


def test_the_block_of_a_lost_machine_runs_again_elsewhere(fleet: Make) -> None:
    def dies(machine: str, task: Task) -> None:
        if machine == "b":
            two.machines.lose("b")

    two, experiment = fleet("a", "b", before=dies), series()
    assert two.carry_out(experiment) == "done"
    assert {one.machine for one in two.trials()} == {"a"}
    assert [line for line in two.said if "machine b is taken out: the node died" in line]
    assert two.spread == [2, 1], "the time left is that of the machines that are left"


def test_a_machine_whose_disk_is_full_is_taken_out(fleet: Make) -> None:
    def full(machine: str, task: Task) -> None:
        if machine == "b":
            raise NoSpace("/data is full")

    two = fleet("a", "b", before=full)
    assert two.carry_out(series()) == "done"
    assert two.machines.dismissed == ["b"]
    assert any("machine b is taken out: /data is full" in line for line in two.said)


def test_a_machine_that_cannot_run_the_campaign_ends_it(fleet: Make) -> None:
    def refuses(machine: str, task: Task) -> None:
        raise UsageError("another binary", hint="install it")

    one = fleet("a", before=refuses)
    with pytest.raises(UsageError, match="machine a: another binary") as raised:
        one.carry_out(series())
    assert raised.value.hint == "install it"


def test_a_block_that_takes_its_machine_along_ends_the_campaign(fleet: Make) -> None:
    def dies(machine: str, task: Task) -> None:
        if task.block.block == 0:
            many.machines.lose(machine)

    many = fleet("a", "b", "c", "d", before=dies)
    with pytest.raises(MeasurementError, match="arms block 1: lost 3 times"):
        many.carry_out(series())


def test_a_stragglers_block_stops_before_its_next_trial_once_a_copy_has_arrived(
    fleet: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flushlab.campaign.fleet.runner.POLL_S", 0.02)
    hung = list[str]()

    def hangs(machine: str, request: Request) -> Trial:
        if (request.stage, request.block, machine) == ("arms", 0, first[0]):
            hung.append(request.arm.name)
            wait_until(lambda: machine in three.machines.cancelled, "the block was cancelled")
        return measured(machine, request)

    def before(machine: str, task: Task) -> None:
        if (task.block.stage, task.block.block) == ("arms", 0):
            first.append(machine)

    first = list[str]()
    three, experiment = fleet("a", "b", "c", trial_of=hangs, before=before), series()
    assert three.carry_out(experiment) == "done"
    assert len(hung) == 1, "the first trial ran to its end, and no second one"
    assert len(first) == 2
    assert len(three.trials()) == len(set(cells(three.trials())))
    assert first[0] not in three.machines.dismissed


def test_a_campaign_without_machines_waits_for_one_that_joins(
    fleet: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies_once(machine: str, task: Task) -> None:
        if len(one.ran) == 1:
            one.machines.lose(machine)
            threading.Timer(0.05, lambda: one.machines.join("b")).start()

    one = fleet("a", before=dies_once)
    assert one.carry_out(series()) == "done"
    assert {found.machine for found in one.trials()} == {"b"}


def test_a_campaign_ends_if_no_machine_joins(fleet: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flushlab.campaign.fleet.runner.REJOIN_S", 0.05)
    monkeypatch.setattr("flushlab.campaign.fleet.runner.POLL_S", 0.02)

    def dies(machine: str, task: Task) -> None:
        one.machines.lose(machine)

    one = fleet("a", before=dies)
    with pytest.raises(MeasurementError, match="no machine of the fleet is left: a: the node died"):
        one.carry_out(series())


@pytest.mark.parametrize(("off", "dismissed"), [({0, 1}, ["b"]), ({0, 2}, [])])
def test_a_machine_whose_control_is_off_twice_in_a_row_is_taken_out_and_its_blocks_run_elsewhere(
    fleet: Make, off: set[int], dismissed: list[str]
) -> None:
    def broken(machine: str, request: Request) -> Trial:
        ran = [block for name, *_, block in two.ran if name == "b"]
        found = measured(machine, request)
        if machine == "b" and request.arm.name == "control" and len(ran) - 1 in off:
            return msgspec.structs.replace(found, result=1.0)
        return found

    two, experiment = fleet("a", "b", trial_of=broken), series()
    two.carry_out(experiment)
    assert two.machines.dismissed == dismissed
    assert ({one.machine for one in two.trials()} == {"a"}) is bool(dismissed)
    assert experiment.result().comparisons["fast"].verdict == "faster"


def test_what_has_arrived_survives_the_driver_and_does_not_run_again(fleet: Make) -> None:
    killed = three_with_a_late_first_block(fleet)
    with pytest.raises(Killed):
        killed.carry_out(series(), killed_after=7)  # in the middle of the second block of five trials
    assert {1, 2} <= killed.store.arrived("c").keys()
    three = fleet("a", "b", "c")
    assert three.carry_out(series()) == "done"
    assert not {1, 2} & {block for _, stage, block in three.ran if stage == "arms"}
    assert len(three.trials()) == len(set(cells(three.trials())))
    in_order = series()
    for one in three.trials():
        in_order.tell(one)
    assert in_order.ask() is None
    assert three.store.arrived("c") == {}


def test_an_arm_that_drops_out_is_not_asked_for_in_blocks_that_ran_ahead(fleet: Make) -> None:
    def refused(machine: str, request: Request) -> Trial:
        found = measured(machine, request)
        if request.arm.name == "slow" and request.block == 0:
            return msgspec.structs.replace(found, outcome="refused", reason="no")
        return found

    three, experiment = fleet("a", "b", "c", trial_of=refused), series()
    assert three.carry_out(experiment) == "done"
    assert [cell for cell in cells(three.trials()) if cell[2] == "slow"] == [("arms", 0, "slow")]
    assert "slow" in experiment.result().out


def test_trials_that_a_block_has_not_brought_run_again(fleet: Make) -> None:
    def stops_early(machine: str, task: Task) -> Sequence[Trial]:
        trials = trials_of(task, lambda request: measured(machine, request))
        ran.append(task)
        return trials[:2] if len(ran) == 1 else trials

    ran = list[Task]()
    one = fleet("a")
    one.machines = ThreadMachines(["a"], stops_early)
    assert one.carry_out(series(2)) == "done"
    assert len(ran[1].block.arms) == len(ran[0].block.arms) - 2
    assert len(one.trials()) == len(set(cells(one.trials())))


def test_an_arrived_block_is_kept_without_the_trials_that_the_loop_has_saved(store: Store) -> None:
    arms = [Arm(name=name, settings={}) for name in ("base", "control", "fast")]
    trials = tuple(trial(arm=arm, stage="arms", block=0) for arm in arms)
    arrivals = Arrivals(store, "c")
    arrivals.save(0, ArrivedBlock(stage="arms", block=0, arms=("base", "control", "fast"), trials=trials))
    store.save("c", trials[1])
    assert [one.arm.name for one in arrivals.left()[0].trials] == ["base", "fast"]
    arrivals.forget(0)
    assert arrivals.left() == {}
