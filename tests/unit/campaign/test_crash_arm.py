"""What keeps an arm from being crashed, with the way out that fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash import arm as crash_arms
from flushlab.campaign.crash.arm import crash_arm
from flushlab.campaign.crash.request import MOST_IMAGES
from flushlab.campaign.watcher import Watcher
from flushlab.crashed.points import kills
from flushlab.crashed.recorded import Images
from flushlab.errors import NoMemory, NoSpace, UsageError
from flushlab.record import CrashArm, CrashImage, CrashKind, CrashOutcome, CrashPoint, Failure, Storage
from tests.unit.builds import MARIADB
from tests.unit.campaign.test_crash_replay import record


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
        monkeypatch.setattr(crash_arms, way, full)
    plan: Any = SimpleNamespace(kind=kind, which_of=lambda _: "", disk_bytes=1 << 30)
    with pytest.raises(NoSpace) as told:
        crash_arm(plan, CrashArm(name="base", settings={}), 1, (), lambda _: None, "")
    assert hint in (told.value.hint or "")


class Victims:
    """Servers, each of which dies with the first kill of the outcomes that is not `kept`."""

    def __init__(self, *outcomes: CrashOutcome) -> None:
        self.outcomes, self.servers, self.points = list(outcomes), 0, list[CrashPoint]()

    @contextmanager
    def __call__(self, *_: object) -> Iterator[Any]:
        self.servers += 1
        server = SimpleNamespace(alive=True, rates=[10.0], storage=None)

        def kill(point: CrashPoint) -> CrashImage:
            outcome = self.outcomes.pop(0)
            server.alive = outcome == "kept"
            self.points.append(point)
            return CrashImage(point=point, outcome=outcome, acknowledged=1)

        server.kill = kill
        yield server


def killed(victims: Victims, monkeypatch: pytest.MonkeyPatch, *known: CrashImage) -> list[CrashOutcome]:
    """What becomes of four kills, if these are known."""
    monkeypatch.setattr(crash_arms, "_victim", victims)
    plan: Any = SimpleNamespace(
        kind="process",
        which="",
        which_of=lambda _: "",
        seed=1,
        watcher=Watcher(),
        judged=lambda arm, _: arm,
    )
    arm, ended = crash_arm(plan, CrashArm(name="base", settings={}), 4, known, lambda _: None, "")
    assert not ended
    return [image.outcome for image in arm.images]


def test_a_kill_that_cannot_be_judged_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    victims = Victims("kept", "unknown", "kept", "kept")
    assert killed(victims, monkeypatch) == ["kept", "unknown", "kept", "kept"]
    assert victims.servers == 2


def test_a_server_that_does_not_come_back_is_killed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    victims = Victims("kept", "not_started", "kept", "kept")
    assert killed(victims, monkeypatch) == ["kept", "not_started"]


def test_kills_that_could_not_be_judged_come_again_when_it_is_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = kills(4, MOST_IMAGES, recovery=True)
    outcomes: list[CrashOutcome] = ["kept", "unknown", "kept", "kept"]
    known = [
        CrashImage(point=point, outcome=outcome, acknowledged=1)
        for point, outcome in zip(points, outcomes, strict=True)
    ]
    victims = Victims("kept")
    assert killed(victims, monkeypatch, *known) == ["kept"] * 4
    assert victims.points == [points[1]]


def kept_arm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> CrashArm:
    """The arm of a record that lies there, without images."""
    monkeypatch.setattr(crash_arms, "record_of", lambda *_: folder)
    monkeypatch.setattr(crash_arms, "judge_all", lambda *_: ([], False))
    monkeypatch.setattr(Images, "points", lambda *_: [])
    plan: Any = SimpleNamespace(
        target=SimpleNamespace(build=MARIADB),
        kind="power",
        which_of=lambda _: "",
        seed=1,
        keep=folder,
        replica=False,
        watcher=Watcher(),
        images_in=lambda folder: Images(folder, Failure(kind="power"), MARIADB, folder),
        judged=lambda arm, storage: msgspec.structs.replace(arm, guarantee=storage.filesystem),
    )
    arm, _ = crash_arm(plan, CrashArm(name="base", settings={}), 1, (), lambda _: None, "campaign base")
    return arm


def test_a_record_that_was_kept_is_judged_with_what_its_data_lay_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 7, storage=Storage(filesystem="xfs", volatile_cache=True))
    assert kept_arm(tmp_path, monkeypatch).guarantee == "xfs"


def test_a_record_that_was_kept_is_not_judged_with_another_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 7, build="another")
    with pytest.raises(UsageError, match="of the build another, not of"):
        kept_arm(tmp_path, monkeypatch)
