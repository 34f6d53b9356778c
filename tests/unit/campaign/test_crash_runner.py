"""What keeps an arm from being crashed, with the way out that fits; and the rows that its crashes come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash import runner
from flushlab.campaign.crash import runner as runners
from flushlab.campaign.crash.experiment import MOST_CRASHES, CrashExperiment
from flushlab.campaign.crash.runner import CrashRunner, judge_all, record_of, remove_stumps
from flushlab.campaign.fleet.worker import rows_of
from flushlab.campaign.pool.work import CrashTask
from flushlab.campaign.watcher import Watcher
from flushlab.crashed.judge import AckNote, packed_note, read_notes
from flushlab.crashed.recorded import CrashImages, kill_points
from flushlab.crashed.recording import RecordedNode, RecordedRun
from flushlab.crashed.recovered_server import AcksTable
from flushlab.errors import MeasurementError, NoMemory, NoSpace, UsageError
from flushlab.experiment.protocol import Request
from flushlab.machine import ownership
from flushlab.record import Crash, CrashArm, CrashKind, CrashPoint, CrashRow, Failure, Storage
from flushlab.spec.kinds import CrashSpec
from tests.unit.builds import MARIADB
from tests.unit.campaign.test_crash import record
from tests.unit.crashed.test_recorded import disk
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


POINTS = {number: CrashPoint(at=number, kind="random", seed=number) for number in range(200)}


def kept(at: CrashPoint) -> Crash:
    return Crash(point=at, outcome="kept", acknowledged=1)


def test_every_image_comes_with_its_number() -> None:
    assert {number: crash.point for number, crash in judge_all(POINTS, kept)} == POINTS


def test_what_cannot_be_judged_for_a_mistake_ends_it() -> None:
    def judge(at: CrashPoint) -> Crash:
        assert at.at != 100, "a mistake"
        return kept(at)

    with pytest.raises(AssertionError, match="a mistake"):
        list(judge_all(POINTS, judge))


def test_a_ctrl_c_while_images_are_queued_waits_for_those_that_are_judged_only() -> None:
    judged: list[CrashPoint] = []
    go_on = Event()

    class Interrupted(dict[int, CrashPoint]):
        def items(self) -> Any:
            return self._until_150()

        def _until_150(self) -> Iterator[tuple[int, CrashPoint]]:
            for number, point in super().items():
                if number == 150:
                    go_on.set()
                    raise KeyboardInterrupt
                yield number, point

    def judge(at: CrashPoint) -> Crash:
        go_on.wait(60)
        judged.append(at)
        return kept(at)

    with pytest.raises(KeyboardInterrupt):
        list(judge_all(Interrupted(POINTS), judge))
    assert len(judged) < 100


def test_whoever_takes_no_more_images_waits_for_no_more() -> None:
    judged: list[CrashPoint] = []

    def judge(at: CrashPoint) -> Crash:
        judged.append(at)
        Event().wait(0.01)
        return kept(at)

    crashes: Any = judge_all(POINTS, judge)
    next(crashes)
    crashes.close()
    assert len(judged) < 100


def test_a_record_that_was_cut_short_too_soon_is_removed_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {"stump": ("mine", False), "whole": ("mine", True), "other": ("another", False)}
    for name, (arm, whole) in begun.items():
        record(marked(tmp_path / f"{name}.record", arm), 7, whole=whole)
    (tmp_path / "nobodys.record").mkdir()
    marked(tmp_path / "without a load yet.record", "mine")
    marked(tmp_path / "nor of another.record", "another")
    record(marked(tmp_path / "newer.record", "mine"), 7, whole=False)
    (tmp_path / "newer.record/record.json").write_text('{"version": 2, "size": 4096}')
    removed: list[str] = []
    monkeypatch.setattr(runner, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["stump.record", "without a load yet.record"]
    assert record_of(tmp_path, "mine") == tmp_path / "whole.record"


@pytest.mark.parametrize(("seconds", "found"), [(9, True), (0, False)])
def test_the_records_of_a_cluster_are_found_again_even_if_they_were_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, found: bool
) -> None:
    run = RecordedRun(
        build="b",
        settings={},
        arguments=(),
        nodes=tuple(RecordedNode(disk=f"{name}.record", datadir="x") for name in ("one", "two")),
        fs="ext4",
        acks=AcksTable("d", 1),
        whole=False,
    )
    marked(tmp_path / "begun.record", "mine")
    cut = marked(tmp_path / "cut short.record", "mine")
    run.write(cut)
    for number, node in enumerate(run.nodes):
        disk(cut / node.disk, [(100 + number + second) * 1_000 for second in range(seconds)])
    (cut / "notes").write_bytes(packed_note(AckNote(1, 1, 0, 101_000)))
    removed: list[str] = []
    monkeypatch.setattr(runner, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["begun.record", *([] if found else ["cut short.record"])]
    assert record_of(tmp_path, "mine") == (cut if found else None)
    if found:
        whole = run.completed(cut, read_notes(cut / "notes"))
        assert (whole.first, whole.last, whole.ended_ns) == (101_000, 108_000, 108_000)


def marked(folder: Path, arm: str) -> Path:
    """The folder of a record, as a disk makes it."""
    ownership.make(str(folder), {"what": "disk-record", "token": ownership.new_token(), "arm": arm})
    return folder
