from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from flushlab.build import Progress
from flushlab.campaign.volumes import Volumes, expanded, mismatch
from flushlab.datadir import DataRoot, SlowDisk, Volume, parse_disk
from flushlab.datadir.disk_limit import LimitedDisk
from flushlab.errors import HarnessError, StorageError
from flushlab.record import DiskEmulation, DiskLimit, DiskProfile, Storage


class Limit:
    """Stands for a limited disk."""

    def __init__(self, root: DataRoot, write_iops: int) -> None:
        self.root = root
        self.record = DiskLimit(write_iops=write_iops, measured_write_iops=float(write_iops), way="test")
        self.lifted = False

    def __enter__(self) -> Limit:
        return self

    def __exit__(self, *_: object) -> None:
        self.lifted = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Limit]:
    limits: list[Limit] = []

    def limit_disk(root: DataRoot, write_iops: int) -> Limit:
        limits.append(Limit(root, write_iops))
        return limits[-1]

    def opened(path: Path) -> DataRoot:
        return DataRoot(path=path, storage=Storage(in_memory=path.name == "memory"))

    monkeypatch.setattr("flushlab.datadir.volume.limit_disk", limit_disk)
    monkeypatch.setattr(DataRoot, "open", staticmethod(opened))
    return limits


class Slow:
    """Stands for a slow disk."""

    def __init__(self, below: DataRoot, profile: DiskProfile) -> None:
        self.below, self.profile = below, profile
        self.record = DiskEmulation(
            profile=profile,
            asked_sync_us_p50=0,
            measured_sync_us_p50=0,
            measured_sync_us_p99=0,
            fastest_sync_us_p50=0,
        )

    @property
    def data_root(self) -> DataRoot:
        return DataRoot(path=self.below.path / "mount", storage=Storage(filesystem="ext4"))

    def open(self, _progress: Progress) -> Slow:
        return self

    def close(self) -> None: ...


@pytest.fixture
def slow(tmp_path: Path, made: list[Limit], monkeypatch: pytest.MonkeyPatch) -> Volume:
    """A base on a disk of its own."""
    monkeypatch.setattr("flushlab.datadir.volume.SlowDisk", Slow)
    disk = Slow(root(tmp_path, "base"), parse_disk("gp3"))
    return Volume(disk.data_root, slow_disk=cast(SlowDisk, disk))


def opened(volumes: Volumes, data_root: str | None, disk_iops: int | None, disk: str | None = None) -> Volume:
    """The volume of an arm that has a place of its own."""
    volume = volumes.open(data_root, disk_iops, disk)
    assert volume is not None
    return volume


def test_an_arms_own_disk_is_made_where_the_bases_is_and_replaces_it(tmp_path: Path, slow: Volume) -> None:
    with Volumes(slow) as volumes:
        arm = opened(volumes, None, None, "7200rpm")
        assert volumes.open(None, None, "7200rpm") is arm
    assert arm.slow_disk is not None
    assert (arm.slow_disk.profile.name, arm.below.path) == ("7200rpm", tmp_path / "base")


def test_an_arm_in_another_place_has_a_disk_as_slow_as_the_bases(
    tmp_path: Path, slow: Volume, made: list[Limit]
) -> None:
    root(tmp_path, "other")
    root(tmp_path, "memory")
    with Volumes(slow) as volumes:
        arm = opened(volumes, str(tmp_path / "other"), None)
        limited = opened(volumes, None, 120)
        assert opened(volumes, str(tmp_path / "memory"), None).slow_disk is None
    assert arm.slow_disk is not None
    assert (arm.slow_disk.profile.name, arm.below.path) == ("gp3", tmp_path / "other")
    assert (limited.slow_disk, made[0].root.path) == (None, tmp_path / "base")


def root(tmp_path: Path, name: str) -> DataRoot:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return DataRoot(path=folder, storage=Storage(filesystem="ext4", in_memory=name == "memory"))


def test_an_arm_without_a_place_runs_where_the_base_runs(tmp_path: Path, made: list[Limit]) -> None:
    base = Volume(root(tmp_path, "base"), None)
    with Volumes(base) as volumes:
        assert volumes.open(None, None) is None
    assert made == []


def test_a_limit_of_its_own_is_made_once_and_lifted_at_the_end(tmp_path: Path, made: list[Limit]) -> None:
    with Volumes(Volume(root(tmp_path, "base"), None)) as volumes:
        first, second = opened(volumes, None, 120), opened(volumes, None, 120)
        assert first is second
        assert first.data_root.path == tmp_path / "base"
        assert [limit.record.write_iops for limit in made] == [120]
        assert not made[0].lifted
    assert made[0].lifted


def test_a_disk_of_its_own_is_as_slow_as_the_bases(tmp_path: Path, made: list[Limit]) -> None:
    limited = Limit(root(tmp_path, "base"), 120)
    root(tmp_path, "other")
    with Volumes(Volume(root(tmp_path, "base"), cast(LimitedDisk, limited))) as volumes:
        volume = opened(volumes, str(tmp_path / "other"), None)
    assert volume.disk_limit is not None
    assert (volume.disk_limit.record.write_iops, made[0].root.path) == (120, tmp_path / "other")


def test_memory_has_no_disk_to_make_slow(tmp_path: Path, made: list[Limit]) -> None:
    limited = Limit(root(tmp_path, "base"), 120)
    root(tmp_path, "memory")
    with Volumes(Volume(root(tmp_path, "base"), cast(LimitedDisk, limited))) as volumes:
        assert opened(volumes, str(tmp_path / "memory"), None).disk_limit is None
    assert made == []


def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with (
        Volumes(Volume(root(tmp_path, "base"), None)) as volumes,
        pytest.raises(StorageError, match="no folder"),
    ):
        volumes.open(str(tmp_path / "nowhere"), None)
    assert not (tmp_path / "nowhere").exists()


def test_a_limit_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_root: DataRoot, _write_iops: int) -> Limit:
        raise HarnessError("no cgroups")

    monkeypatch.setattr("flushlab.datadir.volume.limit_disk", refuse)
    with Volumes(Volume(root(tmp_path, "base"), None)) as volumes, pytest.raises(HarnessError):
        volumes.open(None, 120)


def test_environment_variables_are_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUSHLAB_TEST_ROOT", "/mnt/zfs")
    assert expanded("${FLUSHLAB_TEST_ROOT}/data") == "/mnt/zfs/data"
    assert expanded("/plain") == "/plain"
    monkeypatch.setenv("FLUSHLAB_TEST_ROOT", "")
    with pytest.raises(StorageError, match="FLUSHLAB_TEST_ROOT"):
        expanded("${FLUSHLAB_TEST_ROOT}")


@pytest.mark.parametrize(
    ("storage", "file_system", "record_size", "why"),
    [
        (Storage(filesystem="zfs", record_size_bytes=16384), "zfs", 16384, ""),
        (Storage(filesystem="fuse", record_size_bytes=16384), "ZFS", 16384, ""),
        (Storage(filesystem="zfs", record_size_bytes=131072), "zfs", 16384, "records of 131072 bytes"),
        (Storage(filesystem="xfs"), "ext4", None, "is on xfs, not on ext4"),
        (Storage(filesystem="xfs"), None, None, ""),
    ],
)
def test_a_place_is_what_the_arm_asks_for_or_says_what_it_is(
    tmp_path: Path, storage: Storage, file_system: str | None, record_size: int | None, why: str
) -> None:
    found = mismatch(storage, tmp_path, file_system, record_size)
    assert why in found
    assert bool(found) == bool(why)
