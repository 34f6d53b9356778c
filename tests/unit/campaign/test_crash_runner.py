"""What keeps an arm from being crashed, with the way out that fits; and the rows that its crashes come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash import runner as runners
from flushlab.campaign.crash.experiment import MOST_CRASHES, CrashExperiment
from flushlab.campaign.crash.runner import CrashRunner
from flushlab.campaign.pool.work import CrashTask
from flushlab.campaign.watcher import Watcher
from flushlab.crashed.recorded import CrashImages, kill_points
from flushlab.errors import NoMemory, NoSpace, UsageError
from flushlab.experiment.protocol import Request
from flushlab.record import Crash, CrashArm, CrashKind, CrashPoint, CrashRow, Failure, Storage
from flushlab.spec.kinds import CrashSpec
from tests.unit.builds import MARIADB
from tests.unit.campaign.test_crash_replay import record
from tests.unit.crashes import judged

BASE = CrashArm(name="base", settings={})


def crashes_of(plan: Any, crashes: int, numbers: Sequence[int], campaign: str = "") -> Iterator[CrashRow]:
    with CrashRunner(plan, CrashExperiment([BASE], crashes, None), campaign) as runner:
        yield from runner.crash(CrashTask(arm="base", numbers=tuple(numbers)))


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (NoSpace("the server's disk is full", hint="its own", of_data=True), "power", "--disk-size 2048"),
        (NoSpace("the server's disk is full", hint="its own", of_data=True), "process", "its own"),
        (NoSpace("the record in /k needs 64 MiB", hint="its own"), "power", "its own"),
        (NoMemory("the pool cannot be mapped", hint="its own"), "power", "its own"),
    ],
)
def test_only_a_disk_that_was_too_small_is_to_be_larger(
    error: NoSpace, kind: CrashKind, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise error

    for way in ("_killed", "_recorded"):
        monkeypatch.setattr(runners, way, full)
    plan: Any = SimpleNamespace(spec=CrashSpec(failure=kind), which_of=lambda _: "all")
    with pytest.raises(NoSpace) as told:
        next(crashes_of(plan, 1, [0]))
    assert hint in (told.value.hint or "")


class Victim:
    """It is killed, and comes back."""

    may_crash_in_recovery = True

    def __init__(self) -> None:
        self.points, self.ended = list[CrashPoint](), 0
        self.storage, self.commits_per_s = None, 10.0

    @contextmanager
    def __call__(self, *_: object) -> Iterator[Any]:
        try:
            yield self
        finally:
            self.ended += 1

    def kill(self, point: CrashPoint) -> Crash:
        self.points.append(point)
        return Crash(point=point, outcome="kept", acknowledged=1)


def killing(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A plan of kills of a victim."""
    monkeypatch.setattr(runners, "_victim", victim)
    return SimpleNamespace(
        spec=CrashSpec(failure="process"),
        which_of=lambda _: "all",
        watcher=Watcher(),
        judged=lambda arm, _: msgspec.structs.replace(arm, guarantee="of its settings"),
    )


def test_kills_that_are_asked_for_have_the_points_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    victim = Victim()
    rows = list(crashes_of(killing(victim, monkeypatch), 4, [1, 3]))
    points = kill_points(4, MOST_CRASHES, recovery=True)
    assert victim.points == [points[1], points[3]]
    assert [(row.number, row.crash.point) for row in rows] == [(1, points[1]), (3, points[3])]
    assert {(row.arm.commits_per_s, row.arm.guarantee) for row in rows} == {(10.0, "of its settings")}


def test_what_lives_for_an_arm_ends_when_the_next_one_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    victim, new = Victim(), CrashArm(name="new", settings={})
    plan = killing(victim, monkeypatch)
    asked = CrashExperiment([BASE, new], 2, None)
    ended = []
    with CrashRunner(plan, asked) as runner:
        while (request := asked.ask()) is not None:
            assert isinstance(request, Request)
            crash = runner.run(request)
            assert crash.spent_s >= 0
            asked.tell(crash)
            ended.append(victim.ended)
    assert ended == [0, 0, 1, 1]
    assert victim.ended == 2


def kept_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> CrashArm:
    """The arm of the first crash of a record that lies there."""
    monkeypatch.setattr(runners, "record_of", lambda *_: folder)
    monkeypatch.setattr(CrashImages, "points", lambda *_: [judged(0).point])
    monkeypatch.setattr(
        CrashImages, "judge", lambda _, point: Crash(point=point, outcome="kept", acknowledged=1)
    )
    plan: Any = SimpleNamespace(
        target=SimpleNamespace(build=MARIADB),
        spec=CrashSpec(save_recording=str(folder)),
        which_of=lambda _: "all",
        keep=folder,
        watcher=Watcher(),
        crash_images_in=lambda folder: CrashImages(folder, Failure(kind="power"), MARIADB, folder),
        judged=lambda arm, storage: msgspec.structs.replace(arm, guarantee=storage.filesystem),
    )
    (row,) = crashes_of(plan, 1, [0], "campaign")
    assert "record" in row.seconds
    return row.arm


def test_a_record_that_was_kept_is_judged_with_what_its_data_lay_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 7, storage=Storage(filesystem="xfs", volatile_cache=True))
    arm = kept_rows(tmp_path, monkeypatch)
    assert (arm.guarantee, arm.folder, arm.records) == ("xfs", str(tmp_path), 7)


def test_a_record_that_was_kept_is_not_judged_with_another_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 7, build="another")
    with pytest.raises(UsageError, match="of the build another, not of"):
        kept_rows(tmp_path, monkeypatch)
