from pathlib import Path
from typing import Literal

import pytest

from flushlab.machine.cgroup import (
    ControlGroup,
    CpuPeriods,
    cpu_periods,
    cpu_quota,
    io_limits,
    locate,
    memory_headroom_bytes,
    memory_limit_bytes,
    parse_cpu_max,
    parse_membership,
    thread_headroom,
    usable_cpus,
)
from flushlab.machine.mounts import Mount

MEMBERSHIP = """9:name=systemd:/
7:blkio:/
4:memory:/process_api/413debb5
2:cpu,cpuacct:/box
0::/user.slice/session-3.scope
"""


def mount(point: Path, filesystem: str, options: tuple[str, ...] = (), root: str = "/") -> Mount:
    return Mount(
        id=1,
        device_number=(0, 1),
        root=root,
        point=str(point),
        filesystem=filesystem,
        source="x",
        options=options,
    )


def test_membership_has_every_controller_of_a_joint_hierarchy() -> None:
    membership = parse_membership(MEMBERSHIP)
    assert membership["cpu"] == membership["cpuacct"] == "/box"
    assert membership["memory"] == "/process_api/413debb5"
    assert membership[""] == "/user.slice/session-3.scope"


def test_v1_hierarchy_wins_over_v2_where_it_has_the_controller(tmp_path: Path) -> None:
    seen = [mount(tmp_path / "two", "cgroup2"), mount(tmp_path / "one", "cgroup", ("rw", "memory"))]
    memory, cpu = locate("memory", {}, seen), locate("cpu", {}, seen)
    assert memory is not None
    assert cpu is not None
    assert (memory.version, cpu.version) == (1, 2)


def test_group_below_a_mounted_subtree_is_found(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    group = locate("memory", {"": "/docker/abc/inner"}, [mount(tmp_path, "cgroup2", root="/docker/abc")])
    assert group is not None
    assert group.path == tmp_path / "inner"


def test_group_that_is_not_visible_becomes_the_mount(tmp_path: Path) -> None:
    group = locate("memory", {"": "/system.slice/gone"}, [mount(tmp_path, "cgroup2")])
    assert group is not None
    assert group.path == tmp_path


def test_no_hierarchy_is_no_group() -> None:
    assert locate("memory", {}, []) is None


def test_tightest_limit_of_all_ancestors_holds(tmp_path: Path) -> None:
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "outer/memory.max").write_text("2147483648\n")
    (tmp_path / "memory.max").write_text("4294967296\n")
    assert memory_limit_bytes(ControlGroup(version=2, top=tmp_path, path=inner)) == 2 << 30


def test_v1s_number_for_no_limit_is_no_limit(tmp_path: Path) -> None:
    (tmp_path / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert memory_limit_bytes(ControlGroup(version=1, top=tmp_path, path=tmp_path)) is None


def test_headroom_counts_droppable_cache_as_free(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("anon 500000\nfile 400000\ninactive_file 300000\n")
    assert memory_headroom_bytes(ControlGroup(version=2, top=tmp_path, path=tmp_path)) == 400_000


def test_threads_left_are_what_the_tightest_ancestor_leaves(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for folder, limit, used in ((inner, "max", 3), (tmp_path, "100", 70)):
        (folder / "pids.max").write_text(f"{limit}\n")
        (folder / "pids.current").write_text(f"{used}\n")
    group = ControlGroup(version=2, top=tmp_path, path=inner)
    assert thread_headroom(group) == 30
    (tmp_path / "pids.max").write_text("max\n")
    assert thread_headroom(group) is None


def test_v1_quota_is_quota_over_period(tmp_path: Path) -> None:
    (tmp_path / "cpu.cfs_quota_us").write_text("150000\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota(ControlGroup(version=1, top=tmp_path, path=tmp_path)) == 1.5


def test_v1_quota_of_minus_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota(ControlGroup(version=1, top=tmp_path, path=tmp_path)) is None


def test_cpu_max_without_quota_is_none() -> None:
    assert parse_cpu_max("max 100000\n") == (None, None)
    assert parse_cpu_max("50000 100000\n") == (50_000, 100_000)


@pytest.mark.parametrize(
    ("allowed", "quota", "usable"), [(8, None, 8), (8, 1.5, 2), (2, 4.0, 2), (4, 0.2, 1)]
)
def test_usable_cpus_are_the_fewer_of_affinity_and_quota(
    allowed: int, quota: float | None, usable: int
) -> None:
    assert usable_cpus(allowed, quota) == usable


def group(folder: Path, version: Literal[1, 2], below: str = "inner") -> ControlGroup:
    (folder / below).mkdir(exist_ok=True)
    return ControlGroup(version=version, top=folder, path=folder / below)


def test_a_limit_of_v1_and_its_use(tmp_path: Path) -> None:
    own = group(tmp_path, 1)
    (own.path / "blkio.throttle.write_iops_device").write_text("254:0 120\n8:0 7\n")
    (own.path / "blkio.throttle.io_serviced_recursive").write_text(
        "254:0 Read 9\n254:0 Write 345\nTotal 354\n"
    )
    (tmp_path / "blkio.throttle.read_bps_device").write_text("")
    (found,) = io_limits(own, (254, 0))
    assert (found.kind, found.per_s, found.used, found.folder) == ("wiops", 120, 345, own.path)
    assert io_limits(own, (253, 0)) == ()


def test_limits_of_v2_hold_for_what_is_below(tmp_path: Path) -> None:
    own = group(tmp_path, 2)
    (tmp_path / "io.max").write_text("254:0 rbps=max wbps=1048576 riops=max wiops=50\n")
    (tmp_path / "io.stat").write_text("254:0 rbytes=1 wbytes=2048 rios=3 wios=4 dbytes=0 dios=0\n")
    assert {(one.kind, one.per_s, one.used) for one in io_limits(own, (254, 0))} == {
        ("wbps", 1048576, 2048),
        ("wiops", 50, 4),
    }


@pytest.mark.parametrize(
    ("version", "files", "spent"),
    [
        (1, {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}, "throttled_time 2500000000"),
        (2, {"cpu.max": "150000 100000"}, "throttled_usec 2500000"),
    ],
)
def test_periods_are_those_of_the_tightest_quota(
    version: Literal[1, 2], files: dict[str, str], spent: str, tmp_path: Path
) -> None:
    own = group(tmp_path, version)
    for name, text in files.items():
        (own.path / name).write_text(text)
    (own.path / "cpu.stat").write_text(f"nr_periods 40\nnr_throttled 10\n{spent}\n")
    (tmp_path / "cpu.stat").write_text("nr_periods 0\nnr_throttled 0\n")
    assert cpu_periods(own) == CpuPeriods(quota=1.5, all=40, throttled=10, throttled_s=2.5)
    assert cpu_periods(group(tmp_path, version, "free")) is None
