"""Crashes on a machine of a fleet: what lives between its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash import runner as runners
from flushlab.campaign.crash.experiment import CrashExperiment
from flushlab.campaign.crash.runner import CrashRunner
from flushlab.campaign.fleet.worker import rows_of
from flushlab.campaign.pool.work import CrashTask
from flushlab.campaign.watcher import Watcher
from flushlab.errors import MeasurementError
from flushlab.record import Crash, CrashArm, CrashPoint
from flushlab.spec.kinds import CrashSpec

ARMS = [CrashArm(name=name, settings={}) for name in ("base", "new")]


class Victims:
    """Servers that are killed; the process of each lives until its context ends."""

    may_crash_in_recovery = False
    storage, commits_per_s = None, 10.0

    def __init__(self, breaks: bool = False) -> None:
        self.begun, self.ended, self.points, self.breaks = (
            list[str](),
            list[str](),
            list[CrashPoint](),
            breaks,
        )

    @contextmanager
    def __call__(self, plan: object, arm: CrashArm) -> Iterator[Any]:
        self.begun.append(arm.name)
        try:
            yield self
        finally:
            self.ended.append(arm.name)

    def kill(self, point: CrashPoint) -> Crash:
        if self.breaks:
            raise MeasurementError("the workload failed")
        self.points.append(point)
        return Crash(point=point, outcome="kept", acknowledged=1)


def on_machine(victims: Victims, monkeypatch: pytest.MonkeyPatch) -> CrashRunner:
    monkeypatch.setattr(runners, "_victim", victims)
    plan: Any = SimpleNamespace(
        spec=CrashSpec(failure="process"),
        which_of=lambda _: "all",
        watcher=Watcher(),
        judged=lambda arm, _: arm,
    )
    return CrashRunner(plan, CrashExperiment(ARMS, 6, None))


def test_a_server_lives_through_the_tasks_of_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    victims = Victims()
    with on_machine(victims, monkeypatch) as here:
        first = rows_of(CrashTask(arm="base", numbers=(4, 5)), here.crash)
        rows_of(CrashTask(arm="base", numbers=(0,)), here.crash)
        assert (victims.begun, victims.ended) == (["base"], [])
        rows_of(CrashTask(arm="new", numbers=(1,)), here.crash)
        assert (victims.begun, victims.ended) == (["base", "new"], ["base"])
    assert victims.ended == ["base", "new"]
    assert [row.number for row in first] == [4, 5]
    assert all(row.seconds["crash"] >= 0 for row in first)


def test_the_points_are_those_of_the_numbers_whichever_machine_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = Victims(), Victims()
    with on_machine(one, monkeypatch) as here:
        whole = [row.crash.point for row in rows_of(CrashTask(arm="base", numbers=(0, 1, 2)), here.crash)]
    with on_machine(other, monkeypatch) as there:
        (last,) = rows_of(CrashTask(arm="base", numbers=(2,)), there.crash)
    assert last.crash.point == whole[2]
    assert len({msgspec.json.encode(point) for point in whole}) == 3


def test_a_task_that_nobody_waits_for_begins_no_further_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    victims = Victims()
    with on_machine(victims, monkeypatch) as here:
        task = CrashTask(arm="base", numbers=(0, 1, 2))
        assert len(rows_of(task, here.crash, lambda: True)) == 1
        assert (len(victims.points), victims.ended) == (1, [])
        assert len(rows_of(task, here.crash)) == 3
    assert victims.begun == ["base"]


def test_after_a_failure_the_next_task_begins_with_a_new_server(monkeypatch: pytest.MonkeyPatch) -> None:
    victims = Victims(breaks=True)
    with on_machine(victims, monkeypatch) as here:
        with pytest.raises(MeasurementError, match="the workload failed"):
            rows_of(CrashTask(arm="base", numbers=(0,)), here.crash)
        assert victims.ended == ["base"]
        victims.breaks = False
        assert len(rows_of(CrashTask(arm="base", numbers=(0,)), here.crash)) == 1
    assert (victims.begun, victims.ended) == (["base", "base"], ["base", "base"])
