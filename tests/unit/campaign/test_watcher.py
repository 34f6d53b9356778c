"""What a watcher says of the time left."""

from __future__ import annotations

import pytest

from flushlab.campaign.watcher import Spent, Watcher
from flushlab.experiment.protocol import Standing
from flushlab.record import Trial
from tests.unit.records import trial


def spent_by(*trials: Trial) -> Spent:
    spent = Spent()
    for one in trials:
        spent = spent.and_of(one)
    return spent


def of_block(machine: str, gap: str, gap_s: float, trials: int = 6) -> list[Trial]:
    """Trials of a minute each that arrive at once, so long after the row before them."""
    gaps = [gap_s - 60.0] + [-60.0] * (trials - 1)
    found = [trial(seconds={"window": 60.0, "between": one}, machine=machine) for one in gaps]
    found[0] = trial(seconds={"window": 60.0, gap: gap_s - 60.0}, machine=machine)
    return found


def test_time_left_is_the_same_while_a_block_of_a_fleet_is_handed_out() -> None:
    watcher = Watcher()
    watcher.spreads(2)
    block = of_block("m1", "before", 360.0)
    forecasts = [
        watcher.left_s(Standing(stage="arms", done=done, total=done + 30), spent_by(*block[:done]), done)
        for done in range(1, 7)
    ]
    assert forecasts == [900.0] * 6  # 30 trials of a minute on two machines


def test_a_block_that_arrives_with_another_one_does_not_halve_the_time_left() -> None:
    watcher = Watcher()
    watcher.spreads(2)
    spent = spent_by(*of_block("m1", "before", 360.0), *of_block("m2", "between", 0.0))
    assert watcher.left_s(Standing(stage="arms", done=12, total=36), spent, 12) == 720.0
    assert spent.seconds == 360.0


@pytest.mark.parametrize(("machine", "where"), [("", "arms 0"), ("db2", "arms 0 on db2")])
def test_a_line_names_the_machine_of_a_fleet(machine: str, where: str) -> None:
    said = list[str]()
    busy = trial(
        stage="arms", block=0, machine=machine, outcome="discarded", reason="others used 90% of the CPU time"
    )
    Watcher(said.append).ended(busy, Standing(stage="arms", done=0, total=9), Spent())
    (line,) = said
    assert line.startswith(f"{where} · base: disturbed, others used 90% of the CPU time")


def test_what_is_left_of_several_groups_is_divided_by_the_machines() -> None:
    watcher, spent = Watcher(), Spent(seconds=9.0, repeated_s=9.0, trials=3)
    standing = Standing(stage="arms", done=3, total=9, left_s=60.0)
    assert watcher.left_s(standing, spent, 3) == 60.0
    watcher.spreads(4)
    assert watcher.left_s(standing, spent, 3) == 15.0
