import os
from pathlib import Path

import pytest

from flushlab.datadir import DataRoot, disk_limit, limit_disk
from flushlab.datadir.disk_limit import Hierarchy, judge, make_group
from flushlab.errors import HarnessError, UsageError
from flushlab.process import all_records, myself
from flushlab.record import Storage

pytestmark = pytest.mark.usefixtures("private_home")


def root_at(path: Path) -> DataRoot:
    return DataRoot(path=path, storage=Storage(filesystem="ext4"))


@pytest.mark.parametrize("measured", [60.0, 120.3, 156.0])
def test_limit_that_is_near_what_was_asked_is_believed(measured: float) -> None:
    judge(120, measured)


@pytest.mark.parametrize(
    ("measured", "hint"), [(15852.6, "not in force"), (157.0, "not in force"), (59.0, "slower than that")]
)
def test_limit_that_is_far_off_is_not_believed_and_says_what_was_measured(measured: float, hint: str) -> None:
    with pytest.raises(HarnessError, match=f"limited to 120 writes/s, but {measured:.0f} writes/s") as raised:
        judge(120, measured)
    assert raised.value.hint is not None
    assert hint in raised.value.hint


def test_limit_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the minimum is 1"):
        limit_disk(root_at(tmp_path), 0)


def test_file_system_without_a_device_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match=r"is on proc, and its block device is unknown"):
        limit_disk(root_at(Path("/proc")), 100)


def test_user_without_root_rights_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_limit, "_disk_number", lambda root: (254, 0))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="needs root; flushlab runs as user 1000") as raised:
        limit_disk(root_at(tmp_path), 100)
    assert raised.value.hint is not None


def test_v1_limit_is_written_to_the_throttle_file(tmp_path: Path) -> None:
    group = make_group(Hierarchy(way="cgroup-v1", top=tmp_path), (254, 0), 120)
    assert (group / "blkio.throttle.write_iops_device").read_text() == "254:0 120"


def test_v2_limit_turns_the_io_controller_on_and_is_written_to_io_max(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    group = make_group(Hierarchy(way="cgroup-v2", top=tmp_path), (259, 0), 500)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+io"
    assert (group / "io.max").read_text() == "259:0 wiops=500"


def test_group_is_written_down_as_its_makers(tmp_path: Path) -> None:
    group = make_group(Hierarchy(way="cgroup-v1", top=tmp_path), (254, 0), 120)
    (record,) = all_records()
    assert (record.name, record.cgroup, record.owner) == (group.name, str(group), myself())
