from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from random import Random

import pytest

from flushlab.campaign.fleet.dispatch import Dispatch, WantedBlock


def dispatch(*machines: str, blocks: int = 0) -> Dispatch:
    made = Dispatch()
    for machine in machines:
        made.joins(machine)
    made.wants(WantedBlock(number) for number in range(blocks))
    return made


def test_each_machine_gets_one_block_in_the_order_in_which_they_are_due() -> None:
    two = dispatch("a", "b", blocks=5)
    assert two.assign(0.0) == [("a", 0), ("b", 1)]
    assert two.assign(1.0) == []
    assert two.ended("b", 2.0)
    assert two.assign(2.0) == [("b", 2)]


def test_the_machine_with_the_fewest_finished_blocks_goes_first() -> None:
    two = dispatch("a", "b", blocks=1)
    two.assign(0.0)
    two.ended("a", 1.0)
    two.wants([WantedBlock(1)])
    assert two.assign(1.0) == [("b", 1)]


def test_the_block_of_a_lost_machine_runs_on_another_one() -> None:
    two = dispatch("a", "b", blocks=2)
    two.assign(0.0)
    assert two.leaves("a") == 0
    assert two.machines == ("b",)
    two.ended("b", 1.0)
    assert two.assign(1.0) == [("b", 0)]


def test_a_block_waits_for_a_machine_that_has_not_tried_it() -> None:
    two = dispatch("a", "b", blocks=2)
    two.assign(0.0)
    two.leaves("a")
    two.joins("a")
    assert two.assign(1.0) == []
    two.ended("b", 2.0)
    assert two.assign(2.0) == [("b", 0)]


def test_the_only_machine_tries_again() -> None:
    one = dispatch("a", blocks=1)
    one.assign(0.0)
    one.ended("a", 1.0)
    one.again(0, elsewhere_than="a")
    assert one.assign(1.0) == [("a", 0)]


def test_a_straggler_gets_a_copy_on_an_idle_machine_and_the_first_one_counts() -> None:
    three = dispatch("a", "b", "c", blocks=3)
    three.assign(0.0)
    three.ended("a", 10.0)
    three.ended("b", 10.0)
    assert three.assign(19.0) == [], "the block has not taken twice the median yet"
    assert three.assign(21.0) == [("a", 2)]
    assert three.assign(40.0) == [], "one copy is enough"
    assert three.ended("a", 31.0)
    assert not three.ended("c", 32.0)


def test_a_block_that_nobody_waits_for_is_cancelled_once() -> None:
    two = dispatch("a", "b", blocks=2)
    two.assign(0.0)
    assert two.cancelled() == ()
    two.wants([WantedBlock(1), WantedBlock(2)])
    assert two.cancelled() == ("a",)
    assert two.cancelled() == ()
    assert two.assign(1.0) == [], "it is busy until its trial ends"
    assert two.stopped("a") == 0
    assert two.assign(2.0) == [("a", 2)]


def test_the_slower_copy_is_cancelled_and_runs_nothing_that_is_wanted_again() -> None:
    three = dispatch("a", "b", "c", blocks=3)
    three.assign(0.0)
    three.ended("a", 10.0)
    three.ended("b", 10.0)
    three.assign(21.0)
    assert three.ended("a", 31.0)
    assert three.cancelled() == ("c",)
    three.again(2, elsewhere_than="a")
    assert three.assign(32.0) == [("b", 2)]


def test_nobody_is_a_straggler_before_it_is_known_how_long_a_block_takes() -> None:
    two = dispatch("a", "b", blocks=2)
    two.assign(0.0)
    two.ended("a", 1.0)
    assert two.assign(1000.0) == []


def test_kinds_of_blocks_have_medians_of_their_own() -> None:
    three = dispatch("a", "b", "c")
    three.wants([WantedBlock(0, "short"), WantedBlock(1, "short"), WantedBlock(2, "long")])
    three.assign(0.0)
    three.ended("a", 1.0)
    three.ended("b", 1.0)
    assert three.assign(100.0) == []


def test_a_block_that_is_wanted_no_longer_does_not_count() -> None:
    one = dispatch("a", blocks=1)
    one.assign(0.0)
    one.wants([WantedBlock(7)])
    assert not one.ended("a", 1.0)
    assert one.assign(1.0) == [("a", 7)]


def test_a_block_that_ended_runs_again_only_on_request() -> None:
    one = dispatch("a", blocks=1)
    one.assign(0.0)
    one.ended("a", 1.0)
    assert one.assign(1.0) == []
    one.again(0)
    assert one.assign(2.0) == [("a", 0)]


class Simulated:
    """A fleet on a clock of its own; blocks take what `seconds` says."""

    def __init__(
        self,
        machines: int,
        blocks: int,
        seconds: Callable[[str, int], float],
        lost: Mapping[str, float] | None = None,
    ) -> None:
        self.dispatch = Dispatch()
        self.names = [f"m{number}" for number in range(machines)]
        for name in self.names:
            self.dispatch.joins(name)
        self.dispatch.wants(WantedBlock(number) for number in range(blocks))
        self.counted: dict[int, str] = {}
        self.work_s = 0.0
        now = 0.0
        events = [(at, name, -1) for name, at in (lost or {}).items()]
        heapq.heapify(events)
        while len(self.counted) < blocks:
            for machine, block in self.dispatch.assign(now):
                heapq.heappush(events, (now + seconds(machine, block), machine, block))
            at, machine, block = heapq.heappop(events)
            now = max(now, at)
            if block == -1:
                self.dispatch.leaves(machine)
            elif machine in self.dispatch.machines and self.dispatch.ended(machine, now):
                assert block not in self.counted, "a block counted twice"
                self.counted[block] = machine
                self.work_s += seconds(machine, block)
        self.took_s = now

    @property
    def efficiency(self) -> float:
        return self.work_s / (self.took_s * len(self.names))


def durations(spread: float) -> Callable[[str, int], float]:
    return lambda machine, block: Random(f"{machine}/{block}").lognormvariate(4.0, spread)


@pytest.mark.parametrize("machines", [4, 32])
def test_machines_are_busy_85_percent_of_the_time_with_eight_blocks_each(machines: int) -> None:
    simulated = Simulated(machines, 8 * machines, durations(0.15))
    assert simulated.efficiency >= 0.85
    done = [list(simulated.counted.values()).count(name) for name in simulated.names]
    assert max(done) - min(done) <= 2, "the machines contribute unevenly"


@pytest.mark.parametrize("machines", [4, 32])
def test_every_block_counts_once_though_half_of_the_machines_are_lost(machines: int) -> None:
    lost = {f"m{number}": 60.0 * (1 + number) for number in range(machines // 2)}
    simulated = Simulated(machines, 6 * machines, durations(0.15), lost)
    assert sorted(simulated.counted) == list(range(6 * machines))


def test_a_machine_that_hangs_costs_no_more_than_three_blocks_time() -> None:
    def seconds(machine: str, block: int) -> float:
        return 1e9 if machine == "m3" and block > 10 else 10.0

    simulated = Simulated(4, 40, seconds)
    assert sorted(simulated.counted) == list(range(40))
    assert simulated.took_s <= 10.0 * (40 / 3 + 3)


def tuning(*machines: str) -> Dispatch:
    made = dispatch(*machines)
    made.wants(WantedBlock(number, role="select") for number in range(8))
    return made


@pytest.mark.parametrize(
    ("machines", "select"), [("a", "a"), ("ab", "a"), ("abc", "a"), ("abcd", "ab"), ("abcde", "ab")]
)
def test_half_of_the_machines_select_and_the_others_confirm(machines: str, select: str) -> None:
    made = tuning(*machines)
    assert [machine for machine, _ in made.assign(0.0)] == [*select]
    for machine in select:
        made.ended(machine, 1.0)
    made.wants(WantedBlock(number, role="confirm") for number in range(10, 18))
    others = [*machines.strip(select)] or [*machines]
    assert [machine for machine, _ in made.assign(1.0)] == others


def test_one_of_the_others_selects_where_those_that_did_are_lost() -> None:
    made = tuning("a", "b", "c")
    made.assign(0.0)
    assert made.leaves("a") == 0
    assert made.assign(1.0) == [("b", 0)]
    made.wants([WantedBlock(10, role="confirm")])
    assert made.assign(2.0) == [("c", 10)]


def test_a_machine_that_selected_in_an_earlier_session_does_not_confirm() -> None:
    made = dispatch("a", "b")
    made.selected(["b", "gone"])
    made.wants([WantedBlock(0, role="confirm"), WantedBlock(1, role="confirm")])
    assert made.assign(0.0) == [("a", 0)]


def test_a_machine_that_selected_confirms_where_no_other_is_left() -> None:
    made = dispatch("a", "b")
    made.selected(["a"])
    made.leaves("b")
    made.wants([WantedBlock(0, role="confirm")])
    assert made.assign(0.0) == [("a", 0)]
