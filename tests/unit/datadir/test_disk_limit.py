import os
from pathlib import Path

import pytest

from flushlab.datadir import DataRoot, disk_limit, limit_disk
from flushlab.datadir.disk_limit import Hierarchy, judge, make_group, parse_start_time
from flushlab.errors import HarnessError, UsageError
from flushlab.record import Storage


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


def test_group_is_named_after_its_maker(tmp_path: Path) -> None:
    group = make_group(Hierarchy(way="cgroup-v1", top=tmp_path), (254, 0), 120)
    assert group.name.startswith(f"flushlab-{os.getpid()}-")


def test_start_time_is_found_behind_a_name_with_parentheses_and_spaces() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert parse_start_time(f"42 (a) b ) S {fields}\n") == "22"


def test_zombie_has_no_start_time() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert parse_start_time(f"42 (mysqld) Z {fields}\n") is None
