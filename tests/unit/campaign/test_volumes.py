from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from flushlab.campaign.pool.room import Volumes, expanded, mismatch
from flushlab.datadir import DataRoot, SlowDisk, Volume, parse_disk
from flushlab.errors import HarnessError, StorageError
from flushlab.progress import Progress
from flushlab.record import DiskEmulation, DiskProfile, Storage


class Slow:
    """Stands for a slow disk."""

    def __init__(self, below: DataRoot, profile: DiskProfile) -> None:
        self.below, self.profile = below, profile
        self.closed = False
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

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Slow]:
    disks: list[Slow] = []

    def slow(root: DataRoot, profile: DiskProfile) -> Slow:
        disks.append(Slow(root, profile))
        return disks[-1]

    def opened(path: Path) -> DataRoot:
        return DataRoot(path=path, storage=Storage(in_memory=path.name == "memory"))

    monkeypatch.setattr("flushlab.datadir.slow_disk.SlowDisk", slow)
    monkeypatch.setattr(DataRoot, "open", staticmethod(opened))
    return disks


@pytest.fixture
def slow(tmp_path: Path) -> Volume:
    """A base on a disk of its own."""
    disk = Slow(root(tmp_path, "base"), parse_disk("gp3"))
    return Volume(disk.data_root, slow_disk=cast(SlowDisk, disk))


def opened(volumes: Volumes, data_root: str | None, disk: str | None = None) -> Volume:
    """The volume of an arm that has a place of its own."""
    volume = volumes.open(data_root, disk)
    assert volume is not None
    return volume


@pytest.mark.usefixtures("made")
def test_an_arms_own_disk_is_made_where_the_bases_is_and_replaces_it(tmp_path: Path, slow: Volume) -> None:
    with Volumes(slow) as volumes:
        arm = opened(volumes, None, "7200rpm")
    assert arm.slow_disk is not None
    assert (arm.slow_disk.profile.name, arm.below.path) == ("7200rpm", tmp_path / "base")


@pytest.mark.usefixtures("made")
def test_an_arm_in_another_place_has_a_disk_as_slow_as_the_bases(tmp_path: Path, slow: Volume) -> None:
    root(tmp_path, "other")
    with Volumes(slow) as volumes:
        arm = opened(volumes, str(tmp_path / "other"))
    assert arm.slow_disk is not None
    assert (arm.slow_disk.profile.name, arm.below.path) == ("gp3", tmp_path / "other")


def test_memory_has_no_disk_to_make_slow(tmp_path: Path, slow: Volume, made: list[Slow]) -> None:
    root(tmp_path, "memory")
    with Volumes(slow) as volumes:
        assert opened(volumes, str(tmp_path / "memory")).slow_disk is None
    assert made == []


def root(tmp_path: Path, name: str) -> DataRoot:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return DataRoot(path=folder, storage=Storage(filesystem="ext4", in_memory=name == "memory"))


def test_an_arm_without_a_place_runs_where_the_base_runs(slow: Volume, made: list[Slow]) -> None:
    with Volumes(slow) as volumes:
        assert volumes.open(None, None) is None
    assert made == []


def test_a_disk_of_its_own_is_made_once_and_removed_at_the_end(tmp_path: Path, made: list[Slow]) -> None:
    with Volumes(Volume(root(tmp_path, "base"))) as volumes:
        first, second = opened(volumes, None, "iops=120"), opened(volumes, None, "iops=120")
        assert first is second
        assert first.below.path == tmp_path / "base"
        assert [(disk.profile.iops, disk.closed) for disk in made] == [(120.0, False)]
    assert made[0].closed


def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with (
        Volumes(Volume(root(tmp_path, "base"))) as volumes,
        pytest.raises(StorageError, match="no folder"),
    ):
        volumes.open(str(tmp_path / "nowhere"), None)
    assert not (tmp_path / "nowhere").exists()


def test_a_disk_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_root: DataRoot, _profile: DiskProfile) -> Slow:
        raise HarnessError("no FUSE")

    monkeypatch.setattr("flushlab.datadir.slow_disk.SlowDisk", refuse)
    with Volumes(Volume(root(tmp_path, "base"))) as volumes, pytest.raises(HarnessError):
        volumes.open(None, "iops=120")


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
