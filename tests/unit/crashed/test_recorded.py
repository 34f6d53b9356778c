"""Recorded runs whose recording was cut short, and crashes that cannot be judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

from flushlab.crashed import judge as judging
from flushlab.crashed import recorded, replica
from flushlab.crashed.judge import AckNote, packed_note
from flushlab.crashed.recorded import CrashImages, Moments, choose_points, kill_points
from flushlab.crashed.recording import Fault, RecordedNode, RecordedRun
from flushlab.crashed.recovered_server import AcksTable
from flushlab.datadir import DataRoot
from flushlab.datadir.fault_disk import NotMounted
from flushlab.datadir.recording import ENTRY
from flushlab.errors import ServerError, StartFailed, StorageError
from flushlab.record import Crash, CrashPoint, Failure, PointKind
from flushlab.server import Sandbox, SandboxSpec
from tests.unit.builds import MARIADB

NOTES = [AckNote(1, number, number, 1000 * number) for number in range(1, 6)]
WRITE, FLUSH, FAILED = 1, 2, 3


def recording(folder: Path, *kinds: int) -> Path:
    """Of so many entries."""
    (folder / "record.json").write_text(json.dumps({"version": 1, "size": 4096}))
    (folder / "position").write_bytes(len(kinds).to_bytes(8, "little"))
    entries = (ENTRY.pack(kind, 0, 1000 * number, 0, 0, 0) for number, kind in enumerate(kinds, 1))
    (folder / "entries").write_bytes(b"".join(entries))
    (folder / "notes").write_bytes(b"".join(map(packed_note, NOTES)))
    return folder


def cut_short(faulty: Fault | None = None, first: int = 0) -> RecordedRun:
    return RecordedRun(
        build=MARIADB.id,
        settings={},
        arguments=(),
        nodes=(RecordedNode(disk="", datadir="data"),),
        fs="ext4",
        first=first,
        last=0,
        acks=AcksTable("d", 1),
        ended_ns=0,
        commits_per_s=0.0,
        faulty=faulty,
        whole=False,
    )


def test_what_was_recorded_until_then_counts(tmp_path: Path) -> None:
    run = cut_short().completed(recording(tmp_path, WRITE, FLUSH, WRITE), NOTES)
    assert (run.first, run.last, run.ended_ns, run.fault) == (1, 3, 3000, "")


@pytest.mark.parametrize("faulty", ["eio", "full"])
def test_a_run_that_was_cut_short_before_its_disk_failed_is_no_power_cut(
    tmp_path: Path, faulty: Fault
) -> None:
    with pytest.raises(StorageError, match="cut short before the disk failed"):
        cut_short(faulty).completed(recording(tmp_path, WRITE, FLUSH), NOTES)


@pytest.mark.parametrize(("faulty", "first"), [("eio", 0), ("full", 2)])
def test_a_run_that_was_cut_short_later_is_cut_behind_the_fault_only(
    tmp_path: Path, faulty: Fault, first: int
) -> None:
    failed = FAILED if faulty == "eio" else WRITE
    run = cut_short(faulty, first).completed(recording(tmp_path, WRITE, failed, WRITE, FLUSH), NOTES)
    assert (run.first, run.last) == (2, 4)
    assert run.fault == (
        "the server acknowledged 2 commits begun after the fault, until the recording was cut short"
    )


def judged(folder: Path, error: Exception, fail: Failure, **of_run: Any) -> Crash:
    """The crash at which that happens."""
    recording(folder, WRITE, FLUSH, WRITE)
    whole = msgspec.structs.replace(cut_short(), first=1, last=3, whole=True, **of_run)
    whole.write(folder)
    crashes = CrashImages(folder, fail, MARIADB, folder)

    @contextmanager
    def left(*_: object) -> Iterator[None]:
        raise error
        yield

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CrashImages, "_left", left)
        return crashes.judge(CrashPoint(at=2, kind="random", seed=1))


POWER, LYING = Failure(kind="power"), Failure(kind="lying-disk", lying_flushes=3)
SLOW_OF_RECORDED = StartFailed("it was not ready after 900 s; its log says:\nApplying batch")
SLOW_OF_RECORDED.unfinished = True


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ServerError("it does not answer"), "it does not answer"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (OSError(117, "Structure needs cleaning"), "[Errno 117] Structure needs cleaning"),
        (NotMounted("it cannot be mounted"), "it cannot be mounted"),
        (SLOW_OF_RECORDED, "it was not ready after 900 s"),
    ],
)
def test_an_image_that_cannot_be_judged_is_unknown_with_the_reason(
    tmp_path: Path, error: Exception, why: str
) -> None:
    crash = judged(tmp_path, error, POWER)
    assert (crash.outcome, crash.lost, crash.reasons) == ("unknown", 0, (why,))
    assert crash.acknowledged == 2


def wrapped(error: OSError) -> StorageError:
    """As `DataRoot.open` tells that nothing can be written."""
    told = StorageError("the data root cannot be used")
    told.__cause__ = error
    return told


@pytest.mark.parametrize(
    "error",
    [
        NotMounted("damaged"),
        OSError(117, "Structure needs cleaning"),
        wrapped(OSError(30, "Read-only file system")),
        wrapped(OSError(74, "Bad message")),
    ],
)
def test_a_file_system_that_a_dishonest_disk_has_damaged_is_lost(tmp_path: Path, error: Exception) -> None:
    assert judged(tmp_path, error, LYING).outcome == "not_started"
    assert judged(tmp_path, error, POWER, faulty="eio").outcome == "not_started"
    assert judged(tmp_path, OSError(28, "No space left"), LYING).outcome == "unknown"


def test_a_server_that_does_not_start_has_lost_everything(tmp_path: Path) -> None:
    crash = judged(tmp_path, StartFailed("it ended"), POWER)
    assert (crash.outcome, crash.lost) == ("not_started", 2)


@pytest.mark.parametrize(("at", "crashed_ns"), [(0, 1000), (1, 2000), (2, 9000), (3, 50_000)])
def test_a_crash_is_no_earlier_than_the_next_record_by_which_commits_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, crashed_ns: int
) -> None:
    recording(tmp_path, WRITE, FLUSH, WRITE)
    entries = [ENTRY.pack(1, 0, time_ns, 0, 0, 0) for time_ns in (1000, 2000, 9000)]
    (tmp_path / "entries").write_bytes(b"".join(entries))
    whole = msgspec.structs.replace(cut_short(), first=0, last=3, whole=True, ended_ns=50_000)
    whole.write(tmp_path)
    monkeypatch.setattr(CrashImages, "_left", lambda *_: nullcontext((None, None)))
    monkeypatch.setattr(CrashImages, "_start", lambda *_: nullcontext(None))
    monkeypatch.setattr(recorded, "ask", lambda *_: None)
    monkeypatch.setattr(replica, "of_crash_image", lambda *_: (None, None))
    seen: list[int] = []

    def judge(point: CrashPoint, notes: object, moment: int, *_: object) -> Crash:
        seen.append(moment)
        return Crash(point=point, outcome="kept", acknowledged=0)

    monkeypatch.setattr(judging, "judge", judge)
    crashes = CrashImages(tmp_path, POWER, MARIADB, tmp_path)
    crashes.judge(CrashPoint(at=at, kind="after_ack", seed=1))
    assert seen == [crashed_ns]


def test_a_random_crash_is_at_any_moment_while_the_disk_stays_as_it_is(tmp_path: Path) -> None:
    recording(tmp_path, WRITE, WRITE)
    acknowledged = [
        AckNote(1, 1, 1, 1000),
        *(AckNote(1, number, 1, 1000 + number) for number in range(2, 1001)),
    ]
    (tmp_path / "notes").write_bytes(b"".join(map(packed_note, acknowledged)))
    msgspec.structs.replace(cut_short(), first=1, last=2, whole=True, ended_ns=9000).write(tmp_path)

    def counted(fail: Failure, *kinds: PointKind) -> list[int]:
        crashes = CrashImages(tmp_path, fail, MARIADB, tmp_path)
        points = [CrashPoint(at=1, kind=kind, seed=seed) for kind in kinds for seed in range(200)]
        return [len(crashes._by_then(point)) for point in points]

    found = counted(POWER, "random", "in_recovery")
    assert 400 < sum(found) / len(found) < 600
    assert (min(found) < 50, max(found) > 950) == (True, True)
    assert found == counted(POWER, "random", "in_recovery"), "by the seed"
    assert {*counted(POWER, "after_ack", "before_flush", "most_unsynced", "after_write")} == {1000}
    assert {*counted(Failure(kind="torn"), "random")} == {1000}


def test_an_image_tells_what_was_acknowledged_since_the_last_flush(tmp_path: Path) -> None:
    recording(tmp_path, WRITE, FLUSH, WRITE, WRITE, FLUSH)
    msgspec.structs.replace(cut_short(), first=1, last=5, whole=True).write(tmp_path)
    crashes = CrashImages(tmp_path, POWER, MARIADB, tmp_path)

    def since(at: int) -> int | None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                CrashImages,
                "_judge_node",
                lambda *_: Crash(
                    point=CrashPoint(at=at, kind="random", seed=1), outcome="lost", acknowledged=1
                ),
            )
            return crashes.judge(CrashPoint(at=at, kind="random", seed=1)).unflushed

    # Commit n was acknowledged when n entries had been answered, the second of them a flush, and the fifth.
    assert [since(at) for at in range(1, 6)] == [1, 1, 2, 3, 1]


def of_file(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place on every crash belongs to that file."""

    @contextmanager
    def crash(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(mount=Path("/mount"), require_served=lambda: None)

    monkeypatch.setattr(recorded, "FaultImage", crash)
    monkeypatch.setattr(recorded, "Extents", lambda _: SimpleNamespace(file_at=lambda _: (path, 0)))


def kinds_of(folder: Path, fail: Failure, **of_run: Any) -> set[str]:
    recording(folder, WRITE, FLUSH, WRITE)
    msgspec.structs.replace(cut_short(), first=1, last=3, whole=True, **of_run).write(folder)
    return {point.kind for point in CrashImages(folder, fail, MARIADB, folder).points(200, seed=1)}


def test_runs_are_cut_just_after_writes_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_file("mysql/global_priv.MAD", monkeypatch)
    assert "after_write" in kinds_of(tmp_path, POWER)
    assert "after_write" not in kinds_of(tmp_path, POWER, fs="btrfs"), "places are not told there"
    assert "after_write" not in kinds_of(tmp_path, Failure(kind="torn", tear=512))


def test_what_cannot_be_mounted_has_no_files_but_a_fault_of_the_machine_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(error: Exception) -> None:
        def crash(*_: object) -> None:
            raise error

        monkeypatch.setattr(recorded, "FaultImage", crash)

    failing(NotMounted("damaged"))
    assert "after_write" not in kinds_of(tmp_path, POWER, faulty="eio")
    failing(StorageError("no space"))
    with pytest.raises(StorageError, match="no space"):
        kinds_of(tmp_path, POWER)


def test_images_start_without_the_performance_schema_and_else_as_the_server_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording(tmp_path, WRITE, FLUSH)
    run = msgspec.structs.replace(
        cut_short(),
        first=1,
        last=2,
        whole=True,
        settings={"sync_binlog": 1, "performance_schema": "ON"},
        arguments=("--max-connections=300",),
    )
    run.write(tmp_path)
    started: list[SandboxSpec] = []

    @contextmanager
    def left(*_: object) -> Iterator[tuple[Any, Path]]:
        yield SimpleNamespace(mount=tmp_path, require_served=None), tmp_path

    def start(spec: SandboxSpec) -> None:
        started.append(spec)
        raise StartFailed("it ended")

    monkeypatch.setattr(CrashImages, "_left", left)
    monkeypatch.setattr(Sandbox, "start", start)
    monkeypatch.setattr(DataRoot, "open", lambda path: path)
    CrashImages(tmp_path, POWER, MARIADB, tmp_path).judge(CrashPoint(at=2, kind="random", seed=1))
    assert started[0].settings == {"sync_binlog": 1}
    assert started[0].arguments == ("--max-connections=300", "--loose-performance-schema=OFF")


def chosen(crashes: int = 40, seed: int = 7) -> list[CrashPoint]:
    return choose_points(Moments(10, 500, [20, 30, 5, 900], {11: 1, 9: 2, 400: 9}), crashes, seed)


def test_the_same_seed_gives_the_same_points_in_the_load_however_many() -> None:
    assert chosen() == chosen()
    assert chosen() != chosen(seed=8)
    assert chosen(40)[:15] == chosen(15)
    assert all(10 <= point.at <= 500 for point in chosen(400))
    assert {point.kind for point in choose_points(Moments(1, 9), 20, 1)} == {"random"}, "it is all there is"


def test_a_quarter_is_chosen_after_acknowledgements_and_before_flushes_and_large_ones() -> None:
    points = chosen()
    assert {point.at for point in points if point.kind == "after_ack"} <= {20, 30}
    assert {point.at for point in points if point.kind == "before_flush"} <= {10, 399}
    assert {point.at for point in points if point.kind == "most_unsynced"} == {399}
    kinds = [point.kind for point in points]
    counts = [kinds.count(kind) for kind in ("random", "after_ack", "before_flush", "most_unsynced")]
    assert counts == [30, 4, 3, 3]


def test_a_file_that_is_written_once_is_cut_as_often_as_the_log() -> None:
    writes = {"log": range(10, 400), "accounts": [401], "before the load": [3]}
    points = choose_points(Moments(10, 500, writes=writes), 400, 7)
    places = [point.at for point in points if point.kind == "after_write"]
    assert len(places) == 100
    assert 30 < places.count(401) < 70
    assert min(places) >= 10


def test_random_points_are_moments_in_time_however_many_records_there_are_of_it() -> None:
    times = [0, *range(1000, 1100), 2000]  # nothing for a second, a hundred at once, nothing for a second
    points = choose_points(Moments(5, 105, times=times, recovery=True), 400, 7)
    for kind in ("random", "in_recovery"):
        places = [point.at for point in points if point.kind == kind]
        assert 0.35 < places.count(5) / len(places) < 0.65, "the last record before the silence"
        assert 0.3 < places.count(105) / len(places) < 0.6
        assert len({5, 105, *places}) > 3, "and some among the hundred"


def test_the_end_of_the_run_is_a_moment_of_its_last_record() -> None:
    assert {point.at for point in choose_points(Moments(3, 3, times=[7, 7]), 20, 1)} == {3}


def test_recoveries_crash_at_any_point_where_they_may() -> None:
    points = choose_points(Moments(10, 500, [20], recovery=True), 40, 7)
    kinds = [point.kind for point in points]
    assert (kinds.count("in_recovery"), kinds.count("after_ack")) == (5, 5)
    places = {point.at for point in points if point.kind == "in_recovery"}
    assert len(places) > 1
    assert all(10 <= at <= 500 for at in places)


def test_every_fourth_kill_is_one_of_the_recovery_too() -> None:
    kinds = [point.kind for point in kill_points(8, 100, recovery=True)]
    assert kinds == ["random", "random", "random", "in_recovery"] * 2
    assert {point.kind for point in kill_points(8, 100, recovery=False)} == {"random"}
    assert [point.seed for point in kill_points(3, 100, recovery=True)] == [100, 101, 102]


def disk(folder: Path, times: list[int]) -> None:
    """A record with a write, a flush, a write, … at these times."""
    folder.mkdir()
    (folder / "record.json").write_text('{"version": 1, "size": 4096}')
    (folder / "position").write_bytes(len(times).to_bytes(8, "little"))
    entries = [
        ENTRY.pack(FLUSH if number % 2 else WRITE, 0 if number % 2 else 512, at, 0, 0, number)
        for number, at in enumerate(times)
    ]
    (folder / "entries").write_bytes(b"".join(entries))


@pytest.fixture
def crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashImages:
    monkeypatch.setattr(recorded, "galera_for", lambda _: None)
    disk(tmp_path / "one", [90, 110, 120, 150])
    disk(tmp_path / "two", [130, 140])
    notes = [AckNote(1, counter, 0, at) for counter, at in ((1, 100), (2, 125), (3, 160))]
    (tmp_path / "notes").write_bytes(b"".join(map(packed_note, notes)))
    nodes = (RecordedNode(disk="one", datadir="a/data"), RecordedNode(disk="two", datadir="b/data"))
    run = msgspec.structs.replace(
        cut_short(), nodes=nodes, first=100, last=200, whole=True, commits_per_s=1.0
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
