"""The line that names a crash is read as the report writes it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest

from flushlab.campaign.crash.crash import as_recorded, crash, read_line, replayed_arm, under_its_load
from flushlab.crashed.recorded import CrashImages
from flushlab.crashed.recording import RecordedNode, RecordedRun
from flushlab.crashed.recovered_server import AcksTable
from flushlab.datadir.recording import ENTRY
from flushlab.errors import StorageError, UsageError
from flushlab.record import CrashFacts, CrashPoint, Failure, PointKind
from flushlab.report.crash import line, moment
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.parts import ServerSpec
from tests.unit.builds import MARIADB
from tests.unit.crashes import LOSING


@pytest.mark.parametrize("kind", get_args(PointKind))
def test_what_the_report_names_is_judged_again(kind: str) -> None:
    point = msgspec.convert({"at": 1007, "kind": kind, "seed": 7}, CrashPoint)
    crash = msgspec.structs.replace(LOSING.crashes[0], point=point)
    said = line(LOSING, crash)
    assert said is not None
    assert read_line(said) == (Path("/records/r1"), point)
    assert ("then in recovery" in moment(LOSING, crash)) == (kind == "in_recovery")


@pytest.mark.parametrize(
    "said",
    [
        "",
        "/r",
        "/r:at=x:seed=1",
        "/r:at=1",
        "/r:at=1:seed=1:nonsense",
        "/r:at=-1:seed=1",
        "/r:at=1:seed=-1",
        f"/r:at=1:seed={1 << 64}",
    ],
)
def test_what_names_no_image_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="names no crash"):
        read_line(said)


def test_a_record_that_is_not_there_is_told_before_a_server_is_looked_for() -> None:
    with pytest.raises(StorageError, match="there is no folder /nope/record"):
        crash(replay="/nope/record:at=1:seed=1", server="mariadb@3.23")


def record(folder: Path, entries: int, **other: Any) -> None:
    """A run of so many entries."""
    (folder / "record.json").write_text('{"version": 1, "size": 4096}')
    (folder / "position").write_bytes(entries.to_bytes(8, "little"))
    (folder / "entries").write_bytes(ENTRY.pack(1, 0, 0, 0, 0, 0) * entries)
    run = RecordedRun(
        build=MARIADB.id,
        settings={},
        arguments=(),
        nodes=(RecordedNode(disk="", datadir="data"),),
        fs="ext4",
        first=1,
        last=entries,
        acks=AcksTable("d", 1),
        ended_ns=1,
        commits_per_s=1.0,
    )
    msgspec.structs.replace(run, **other).write(folder)


def test_a_record_knows_its_file_system_and_how_its_disk_failed(tmp_path: Path) -> None:
    record(tmp_path, 7, fs="xfs", faulty="eio")
    found = as_recorded(CrashSpec(), f"{tmp_path}:at=1:seed=1")
    assert (found.fs, found.failure) == ("xfs", "eio")
    assert as_recorded(CrashSpec(failure="os"), f"{tmp_path}:at=1:seed=1").failure == "os"
    with pytest.raises(UsageError, match="--failure full is for a record whose disk failed under load"):
        as_recorded(CrashSpec(failure="full"), f"{tmp_path}:at=1:seed=1")


def test_a_record_knows_how_many_nodes_crashed(tmp_path: Path) -> None:
    three = tuple(RecordedNode(disk=f"d{number}", datadir="data") for number in range(3))
    record(tmp_path, 7, nodes=three)
    found = as_recorded(CrashSpec(), f"{tmp_path}:at=1:seed=1")
    assert (found.server.cluster, found.nodes) == (3, "all")
    with pytest.raises(UsageError, match=r"--cluster is 2, and the record .* has 3 nodes"):
        as_recorded(CrashSpec(server=ServerSpec(cluster=2)), f"{tmp_path}:at=1:seed=1")
    record(tmp_path, 7)
    assert as_recorded(CrashSpec(), f"{tmp_path}:at=1:seed=1").server.cluster is None


@pytest.mark.parametrize("at", [8, 999999, 9999999991102])
def test_what_lies_beyond_the_end_of_a_record_is_refused(at: int, tmp_path: Path) -> None:
    record(tmp_path, 7)
    crashes = CrashImages(tmp_path, Failure(kind="power"), MARIADB, tmp_path)
    plan: Any = SimpleNamespace(
        which="", target=SimpleNamespace(build=MARIADB), crash_images_in=lambda _: crashes
    )
    with pytest.raises(UsageError) as refused:
        replayed_arm(plan, f"{tmp_path}:at={at}:seed=1")
    assert refused.value.message == f"the record has 7 entries: at={at} is beyond its end"


def test_a_folder_that_there_is_not_is_named_in_words(tmp_path: Path) -> None:
    plan: Any = SimpleNamespace(which="")
    with pytest.raises(StorageError) as refused:
        replayed_arm(plan, f"{tmp_path}/nofolder:at=1:seed=1")
    assert refused.value.message == f"there is no folder {tmp_path}/nofolder"
    with pytest.raises(StorageError) as refused:
        replayed_arm(plan, f"{tmp_path}:at=1:seed=1")
    assert refused.value.message == f"{tmp_path} is no recorded run: run.json is missing"
    assert refused.value.hint


def test_a_replayed_image_names_the_load_that_was_recorded(tmp_path: Path) -> None:
    facts = CrashFacts(server="mariadb@10.11.19", workload="acked_inserts", failure="power")
    line = f"{tmp_path}:at=1:seed=1"
    record(tmp_path, 7, workload="oltp_write_only", beside="command: true")
    assert (under_its_load(facts, line).workload, under_its_load(facts, line).background) == (
        "oltp_write_only",
        "command: true",
    )
