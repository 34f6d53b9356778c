"""A cluster's recorded run: all disks are cut at the same moment of one clock."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest

from flushlab.crashed import recorded
from flushlab.crashed.recorded import CrashImages
from flushlab.crashed.recording import RecordedNode, RecordedRun
from flushlab.crashed.recovered_server import AcksTable
from flushlab.errors import StartFailed, StorageError
from flushlab.record import CrashPoint, Failure
from tests.unit.builds import MARIADB

WRITE, FLUSH = 1, 2


def disk(folder: Path, times: list[int]) -> None:
    """A record with a write, a flush, a write, … at these times."""
    folder.mkdir()
    (folder / "record.json").write_text('{"version": 1, "size": 4096}')
    (folder / "position").write_bytes(len(times).to_bytes(8, "little"))
    entries = [
        struct.pack("<IIQQQQ", FLUSH if number % 2 else WRITE, 0 if number % 2 else 512, at, 0, 0, number)
        for number, at in enumerate(times)
    ]
    (folder / "entries").write_bytes(b"".join(entries))


@pytest.fixture
def crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashImages:
    monkeypatch.setattr(recorded, "galera_for", lambda _: None)
    disk(tmp_path / "one", [90, 110, 120, 150])
    disk(tmp_path / "two", [130, 140])
    notes = [struct.pack("<QQQQ", 1, counter, 0, at) for counter, at in ((1, 100), (2, 125), (3, 160))]
    (tmp_path / "notes").write_bytes(b"".join(notes))
    run = RecordedRun(
        build=MARIADB.id,
        settings={},
        arguments=(),
        nodes=(RecordedNode(disk="one", datadir="a/data"), RecordedNode(disk="two", datadir="b/data")),
        fs="ext4",
        first=100,
        last=200,
        acks=AcksTable("d", 1),
        commits_per_s=1.0,
    )
    run.write(tmp_path)
    return CrashImages(tmp_path, Failure(kind="power"), MARIADB, tmp_path)


@pytest.mark.parametrize(("after_ns", "positions"), [(0, [1, 0]), (10, [2, 0]), (35, [3, 1]), (99, [4, 2])])
def test_a_moment_is_the_last_record_of_each_disk_by_then(
    crashes: CrashImages, after_ns: int, positions: list[int]
) -> None:
    assert crashes.positions(CrashPoint(at=after_ns, kind="random", seed=1)) == positions


def test_points_lie_in_the_load_and_chosen_ones_at_acknowledgements_and_before_flushes(
    crashes: CrashImages,
) -> None:
    points = crashes.points(40, seed=1)
    assert all(0 <= point.at <= 100 for point in points)
    assert {point.at for point in points if point.kind == "after_ack"} <= {0, 25, 60}
    assert {point.at for point in points if point.kind == "before_flush"} <= {9, 49, 39}
    assert crashes.points(40, seed=1) == points


def test_a_crash_that_the_file_system_does_not_let_judge_is_unknown_with_its_reason(
    crashes: CrashImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(crashes, "_judge_node", fails)
    crash = crashes.judge(CrashPoint(at=10, kind="random", seed=1))
    assert (crash.outcome, crash.acknowledged) == ("unknown", 1)
    assert crash.reasons == ("[Errno 5] Input/output error",)


class Image(NamedTuple):
    """One that served all that was asked of it, or did not."""

    mount: Path
    full: bool = False

    def require_served(self) -> None:
        if self.full:
            raise StorageError("3 writes to a disk of flushlab's failed")


def test_a_node_whose_disk_could_not_be_written_says_nothing_of_the_crash(
    crashes: CrashImages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StartFailed("its log says:\nInnoDB: I/O error")

    monkeypatch.setattr(recorded, "FaultImage", lambda *_: nullcontext(Image(tmp_path, full=True)))
    monkeypatch.setattr("flushlab.crashed.recorded.Sandbox.start", fails)
    monkeypatch.setattr("flushlab.crashed.recorded.DataRoot.open", lambda *_: None)
    crash = crashes.judge(CrashPoint(at=10, kind="random", seed=1))
    assert (crash.outcome, crash.reasons) == ("unknown", ("3 writes to a disk of flushlab's failed",))


@pytest.mark.parametrize(("unfinished", "outcome"), [(True, "unknown"), (False, "not_started")])
def test_a_node_alone_that_takes_too_long_is_not_one_that_does_not_start(
    crashes: CrashImages, monkeypatch: pytest.MonkeyPatch, unfinished: bool, outcome: str, tmp_path: Path
) -> None:
    def fails(*_: object, **__: object) -> None:
        error = StartFailed("the server was not ready after 120 s; its log says:\nInnoDB: recovering")
        error.unfinished = unfinished
        raise error

    monkeypatch.setattr(recorded, "FaultImage", lambda *_: nullcontext(Image(tmp_path)))
    monkeypatch.setattr("flushlab.crashed.recorded.Sandbox.start", fails)
    monkeypatch.setattr("flushlab.crashed.recorded.DataRoot.open", lambda *_: None)
    point = CrashPoint(at=10, kind="random", seed=1)
    alone = crashes._judge_node(point)
    assert alone.outcome == outcome
    if unfinished:
        assert alone.reasons == ("the server was not ready after 120 s",)
