"""The disk limit on the real disk: needs root, cgroup v1 blkio or v2 io, and a disk under the data root."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flushlab.datadir import DataRoot, LimitedDisk, limit_disk, write_probe
from flushlab.datadir import disk_limit as disk_limit_module
from flushlab.datadir.disk_limit import Hierarchy, find_hierarchy, make_group
from flushlab.errors import HarnessError, UsageError
from flushlab.machine import file_system_of, home
from flushlab.process import reap, run_record
from tests.waiting import PATIENCE_S

WRITE_IOPS = 10
"""Few, for disks that are slow themselves."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def data_root() -> DataRoot:
    """A data root on a disk that can be limited, or a skip that says what is missing."""
    root = DataRoot.open(home() / "run")
    if file_system_of(root.path).device is None:
        pytest.skip(f"{root.path} lies on {root.storage.filesystem}, without a block device")
    try:
        find_hierarchy()
    except HarnessError as error:
        pytest.skip(error.message)
    return root


@pytest.fixture(scope="module")
def limited(data_root: DataRoot) -> Iterator[LimitedDisk]:
    with limit_disk(data_root, WRITE_IOPS) as limit:
        yield limit


def written_per_second(data_root: DataRoot, procs: str) -> float:
    file = data_root.path / ".test-disk-limit"
    try:
        return write_probe.probe(str(file), procs, 1.0)["direct"]
    finally:
        file.unlink()


def test_limit_was_measured_near_what_was_asked(limited: LimitedDisk) -> None:
    record = limited.record
    assert record.write_iops == WRITE_IOPS
    assert 0.5 * WRITE_IOPS <= record.measured_write_iops <= 1.3 * WRITE_IOPS
    assert record.measured_syncs_per_s is not None
    assert 0 < record.measured_syncs_per_s <= record.measured_write_iops * 1.3
    assert record.way in {"cgroup-v1", "cgroup-v2"}


def test_attached_process_is_slowed_and_others_are_not(limited: LimitedDisk, data_root: DataRoot) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROBE_WHEN_TOLD, write_probe.__file__, str(data_root.path / ".test-attached")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    limited.attach(child.pid)
    output, _ = child.communicate("go\n", timeout=PATIENCE_S)
    assert float(output) <= 1.3 * WRITE_IOPS
    # Who is not limited gets beyond that, though perhaps not in a second that others have.
    tries = (written_per_second(data_root, os.devnull) for _ in range(10))
    assert any(free > 1.5 * WRITE_IOPS for free in tries)


PROBE_WHEN_TOLD = """
import os, runpy, sys
sys.stdin.readline()
probe = runpy.run_path(sys.argv[1])["probe"]
print(probe(sys.argv[2], os.devnull, 1.0)["direct"])
os.unlink(sys.argv[2])
"""


def test_removed_limit_lets_its_processes_go(data_root: DataRoot) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        limit = limit_disk(data_root, WRITE_IOPS)
        limit.attach(child.pid)
        assert str(child.pid) in (limit.group / "cgroup.procs").read_text().split()
        limit.remove()
        assert not limit.group.exists()
        assert child.poll() is None
        limit.remove()
        with pytest.raises(HarnessError, match="cannot be attached"):
            limit.attach(child.pid)
    finally:
        child.communicate(b"\n")


def test_process_that_is_gone_cannot_be_attached(limited: LimitedDisk) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(HarnessError, match=f"process {child.pid} cannot be attached"):
        limited.attach(child.pid)


def test_limit_that_the_disk_cannot_reach_is_not_believed_and_not_left(
    data_root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def make(hierarchy: Hierarchy, disk_number: tuple[int, int], write_iops: int) -> Path:
        made.append(make_group(hierarchy, disk_number, write_iops))
        return made[-1]

    monkeypatch.setattr(disk_limit_module, "PROBE_SECONDS", 0.3)
    monkeypatch.setattr(disk_limit_module, "make_group", make)
    with pytest.raises(HarnessError, match="limited to 100000000 writes/s, but") as raised:
        limit_disk(data_root, 100_000_000)
    assert raised.value.hint is not None
    assert [group.exists() for group in made] == [False]


@pytest.mark.usefixtures("private_home")
def test_killed_runs_group_is_removed_and_a_kept_servers_is_not(data_root: DataRoot) -> None:
    hierarchy = find_hierarchy()
    device = file_system_of(data_root.path).device
    assert device is not None
    groups = [make_group(hierarchy, device.disk_number, WRITE_IOPS) for _ in range(3)]
    own, dead, kept = groups
    for group in (dead, kept):
        record = run_record.read(group.name)
        assert record is not None
        killed = msgspec.structs.replace(record.owner, start_ticks=record.owner.start_ticks - 1)
        run_record.rewrite(msgspec.structs.replace(record, owner=killed))
    somebodys = hierarchy.top / "flushlab-1-1-1"
    somebodys.mkdir()
    server = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (kept / "cgroup.procs").write_text(str(server.pid))
        assert reap() == [dead.name]
        assert [group.exists() for group in (*groups, somebodys)] == [True, False, True, True]
    finally:
        server.communicate(b"\n")
        somebodys.rmdir()
    assert reap() == [kept.name]
    own.rmdir()
    run_record.remove(own.name)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no writable /dev/shm here")
def test_data_root_in_memory_cannot_be_limited() -> None:
    folder = Path("/dev/shm") / f"flushlab-limit-{os.getpid()}"
    try:
        with pytest.raises(UsageError, match="it is in memory") as raised:
            limit_disk(DataRoot.open(folder), WRITE_IOPS)
    finally:
        folder.rmdir()
    assert raised.value.hint is not None
