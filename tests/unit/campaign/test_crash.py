"""What a crash campaign refuses once it knows the server, before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest

from flushlab.campaign.crash import crash as crashes
from flushlab.campaign.crash.crash import as_recorded, crash, kept_crash, read_line, replayed
from flushlab.campaign.pool.sandboxes import SandboxPool
from flushlab.campaign.target import NamedFleet, fleet_unless
from flushlab.crashed.recorded import CrashImages
from flushlab.crashed.recording import RecordedNode, RecordedRun
from flushlab.crashed.recovered_server import AcksTable
from flushlab.datadir import DataRoot, Volume
from flushlab.datadir.recording import ENTRY
from flushlab.errors import StorageError, UsageError
from flushlab.record import Crash, CrashFacts, CrashPoint, Failure, PointKind, Storage
from flushlab.report.crash import line, moment
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.parts import RunSpec, ServerSpec
from flushlab.store import Store
from tests.unit.builds import MARIADB
from tests.unit.crashes import LOSING, REQUEST


def test_a_setting_that_there_is_not_is_refused_before_the_campaign_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[SandboxPool]:
        yield SandboxPool(MARIADB, Volume(DataRoot(path=tmp_path, storage=Storage(filesystem="ext4"))))

    monkeypatch.setattr("flushlab.campaign.target.open_servers", opened)
    monkeypatch.setattr(crashes, "open_store", lambda: Store(tmp_path / "store.sqlite"))
    said: list[str] = []
    with pytest.raises(UsageError, match="innodb_flush_log_at_trx_comit"):
        crashes.crash(failure="process", settings={"innodb_flush_log_at_trx_comit": 2}, progress=said.append)
    with Store(tmp_path / "store.sqlite") as store:
        assert list(store.campaigns()) == []
    assert said == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cluster": 3}, "not of a cluster"),
        ({"save_recording": "records"}, "--save-recording keeps recordings on this machine"),
        ({"replay": "records/r1:at=1:seed=1"}, "--replay takes no --fleet"),
    ],
)
def test_what_cannot_be_spread_over_machines_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as told:
        crashes.crash(fleet="127.0.0.1:9377", **given)
    assert told.value.hint


@pytest.mark.parametrize(
    ("began", "now", "goes_on"),
    [("", "", ""), ("a:1", "", "a:1"), ("a:1", "b:2", "b:2")],
)
def test_a_campaign_goes_on_where_it_began_or_at_the_fleets_new_address(
    began: str, now: str, goes_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUSHLAB_FLEET", now)
    request = msgspec.structs.replace(REQUEST, fleet=began)
    assert crashes._resumed_fleet(CrashSpec(), request).address == goes_on


def test_a_campaign_that_began_on_one_machine_is_not_resumed_on_a_fleet() -> None:
    spec = CrashSpec(run=RunSpec(fleet="a:1"))
    with pytest.raises(UsageError, match="its crashes cannot go on elsewhere"):
        crashes._resumed_fleet(spec, REQUEST)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (CrashSpec(server=ServerSpec(cluster=3)), "not of a cluster"),
        (CrashSpec(save_recording="records"), "--save-recording"),
    ],
)
def test_what_cannot_be_spread_crashes_here_if_only_the_environment_names_a_fleet(
    monkeypatch: pytest.MonkeyPatch, spec: CrashSpec, words: str
) -> None:
    monkeypatch.setenv("FLUSHLAB_FLEET", "a:1")
    fleet = fleet_unless(spec.run.fleet, *crashes._not_spread(spec))
    assert (fleet.address, words in fleet.why_not) == ("", True)
    assert crashes._servers(CrashSpec(failure="process"), fleet).alone == fleet.why_not
    assert fleet_unless(None, *crashes._not_spread(CrashSpec())) == NamedFleet("a:1")


def test_a_campaign_that_began_on_one_machine_goes_on_there_whatever_fleet_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLUSHLAB_FLEET", "a:1")
    fleet = crashes._resumed_fleet(CrashSpec(), REQUEST)
    assert fleet.address == ""
    assert "the campaign began on this machine alone" in fleet.why_not


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


def spec_of(folder: Path, spec: CrashSpec | None = None) -> CrashSpec:
    return as_recorded(spec or CrashSpec(), folder, RecordedRun.read(folder))


def replay(plan: Any, line: str) -> CrashFacts:
    return replayed(plan, *kept_crash(line))


def test_a_record_knows_its_file_system_and_how_its_disk_failed(tmp_path: Path) -> None:
    record(tmp_path, 7, fs="xfs", faulty="eio")
    found = spec_of(tmp_path)
    assert (found.fs, found.failure) == ("xfs", "eio")
    assert spec_of(tmp_path, CrashSpec(failure="os")).failure == "os"
    with pytest.raises(UsageError, match="--failure full is for a record whose disk failed under load"):
        spec_of(tmp_path, CrashSpec(failure="full"))


def test_a_record_knows_how_many_nodes_crashed(tmp_path: Path) -> None:
    three = tuple(RecordedNode(disk=f"d{number}", datadir="data") for number in range(3))
    record(tmp_path, 7, nodes=three)
    found = spec_of(tmp_path)
    assert (found.server.cluster, found.nodes) == (3, "all")
    with pytest.raises(UsageError, match=r"--cluster is 2, and the record .* has 3 nodes"):
        spec_of(tmp_path, CrashSpec(server=ServerSpec(cluster=2)))
    record(tmp_path, 7)
    assert spec_of(tmp_path).server.cluster is None


@pytest.mark.parametrize("at", [8, 999999, 9999999991102])
def test_what_lies_beyond_the_end_of_a_record_is_refused(at: int, tmp_path: Path) -> None:
    record(tmp_path, 7)
    crashes = CrashImages(tmp_path, Failure(kind="power"), MARIADB, tmp_path)
    plan: Any = SimpleNamespace(
        which="", target=SimpleNamespace(build=MARIADB), crash_images_in=lambda _: crashes
    )
    with pytest.raises(UsageError) as refused:
        replay(plan, f"{tmp_path}:at={at}:seed=1")
    assert refused.value.message == f"the record has 7 entries: at={at} is beyond its end"


def test_a_folder_that_there_is_not_is_named_in_words(tmp_path: Path) -> None:
    plan: Any = SimpleNamespace(which="")
    with pytest.raises(StorageError) as refused:
        replay(plan, f"{tmp_path}/nofolder:at=1:seed=1")
    assert refused.value.message == f"there is no folder {tmp_path}/nofolder"
    with pytest.raises(StorageError) as refused:
        replay(plan, f"{tmp_path}:at=1:seed=1")
    assert refused.value.message == f"{tmp_path} is no recorded run: run.json is missing"
    assert refused.value.hint


def test_a_replayed_image_names_the_load_that_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 7, workload="oltp_write_only", beside="command: true")
    monkeypatch.setattr(
        CrashImages, "judge", lambda _, point: Crash(point=point, outcome="kept", acknowledged=1)
    )
    target = SimpleNamespace(build=MARIADB, identity=SimpleNamespace(title="mariadb@10.11.19"))
    images = CrashImages(tmp_path, Failure(kind="power"), MARIADB, tmp_path)
    plan: Any = SimpleNamespace(spec=CrashSpec(), target=target, crash_images_in=lambda _: images)
    facts = replay(plan, f"{tmp_path}:at=1:seed=1")
    assert (facts.workload, facts.background) == ("oltp_write_only", "command: true")
    assert [arm.name for arm in facts.arms] == ["replay"]
