"""Snapshots on real file systems, with real kills and a real full disk.

Some need root, loop devices and mkfs.xfs or mkfs.btrfs; each says what it lacks when it is skipped.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flushlab
from flushlab.datadir import DataRoot, SnapshotKey, Snapshots, kept
from flushlab.errors import NoSpace, StorageError
from flushlab.machine import server_user
from tests.waiting import unmount

KEY = SnapshotKey({"purpose": "integration"})
MIB = 1 << 20
KILLS = int(os.environ.get("FLUSHLAB_KILLS", "4"))


def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    folder.mkdir()
    done = subprocess.run(["mount", *arguments, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        for lock in [lock for lock in kept._held if lock.is_relative_to(folder)]:
            os.close(kept._held.pop(lock))  # as the end of this process would
        unmount(folder)


@pytest.fixture(params=["xfs", "btrfs"])
def cloning(request: pytest.FixtureRequest, reachable: Path) -> Iterator[Path]:
    """A file system that can share blocks, on a loop device."""
    mkfs = shutil.which(f"mkfs.{request.param}", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    if os.geteuid() != 0 or mkfs is None:
        pytest.skip(f"needs root and mkfs.{request.param}")
    image = reachable / "image"
    with image.open("wb") as file:
        file.truncate(512 * MIB)
    subprocess.run([mkfs, "-q", str(image)], check=True, capture_output=True)
    yield from mounted(reachable / request.param, "-o", "loop", str(image))


@pytest.fixture
def tiny(reachable: Path) -> Iterator[Path]:
    """A file system of 8 MiB in memory."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    yield from mounted(reachable / "tiny", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs")


def write(file: Path, size: int) -> None:
    file.write_bytes(b"x" * size)


def fill(data: Path) -> None:
    (data / "db").mkdir()
    (data / "ibdata1").write_bytes(random.Random(1).randbytes(3 * MIB))
    for number in range(20):
        (data / f"db/t{number}.ibd").write_bytes(random.Random(number).randbytes(100_000))
    with (data / "ib_logfile0").open("wb") as redo:
        os.posix_fallocate(redo.fileno(), 0, 16 * MIB)
        redo.write(b"header")


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def test_files_share_their_blocks_where_the_file_system_can(cloning: Path) -> None:
    store = Snapshots(cloning / "snapshots")
    snapshot = store.make(KEY, fill)
    used_before = shutil.disk_usage(cloning).used
    restored = store.restore(snapshot, cloning / "data", uid=os.getuid(), gid=os.getgid())
    assert restored.way == "reflink"
    assert contents(cloning / "data") == contents(snapshot.path)
    # 16 MiB of redo are reserved anew (blocks never written can't be shared); the 5 MB of data are not.
    assert shutil.disk_usage(cloning).used - used_before < 18 * MIB


def test_shared_blocks_do_not_carry_writes_back_to_the_snapshot(cloning: Path) -> None:
    store = Snapshots(cloning / "snapshots")
    snapshot = store.make(KEY, fill)
    store.restore(snapshot, cloning / "data", uid=os.getuid(), gid=os.getgid())
    (cloning / "data/ibdata1").write_bytes(b"overwritten")
    store.verify(snapshot)
    assert snapshot.path.joinpath("ibdata1").stat().st_size == 3 * MIB


def test_copy_across_file_systems_is_a_copy(cloning: Path, reachable: Path) -> None:
    store = Snapshots(cloning / "snapshots")
    snapshot = store.make(KEY, fill)
    restored = store.restore(snapshot, reachable / "data", uid=os.getuid(), gid=os.getgid())
    assert restored.way in {"copy", "memory"}
    assert contents(reachable / "data") == contents(snapshot.path)


def test_storage_of_a_loop_device_names_it(cloning: Path) -> None:
    storage = DataRoot.open(cloning).storage
    assert storage.filesystem == cloning.name
    assert storage.device is not None
    assert storage.device.startswith("loop")


def test_target_in_memory_is_restored_to_memory(tiny: Path, reachable: Path) -> None:
    store = Snapshots(reachable / "snapshots")
    snapshot = store.make(KEY, lambda data: write(data / "ibdata1", MIB))
    restored = store.restore(snapshot, tiny / "data", uid=os.getuid(), gid=os.getgid())
    assert restored.way == "memory"
    assert DataRoot.open(tiny).storage.in_memory


def test_snapshot_that_does_not_fit_is_refused_before_it_is_copied(tiny: Path, reachable: Path) -> None:
    store = Snapshots(reachable / "snapshots")
    with pytest.raises(NoSpace, match=r"needs 21\.0 MiB, but only 8 MiB is free") as raised:
        store.restore(store.make(KEY, fill), tiny / "data", uid=0, gid=0)
    assert raised.value.hint is not None
    assert list(tiny.iterdir()) == []


def test_disk_that_fills_up_in_the_middle_of_a_restore_leaves_nothing(
    tiny: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Snapshots(reachable / "snapshots")
    snapshot = store.make(KEY, lambda data: write(data / "ibdata1", 9 * MIB))
    monkeypatch.setattr("flushlab.datadir.data_root.free_bytes", lambda path, in_memory: 1 << 40)
    with pytest.raises(NoSpace, match="filled up while restoring a snapshot"):
        store.restore(snapshot, tiny / "data", uid=0, gid=0)
    assert list(tiny.iterdir()) == []


def test_disk_that_fills_up_while_a_snapshot_is_made_leaves_nothing(tiny: Path) -> None:
    store = Snapshots(tiny / "snapshots")
    with pytest.raises(NoSpace, match="filled up while making a snapshot"):
        store.make(KEY, fill)
    assert store.list() == []
    assert [path.name for path in store.directory.iterdir()] == ["locks"]


def test_server_that_fails_on_a_full_disk_is_reported_as_no_space(tiny: Path) -> None:
    def server_that_fails(data: Path) -> None:
        with pytest.raises(OSError, match="No space"):
            (data / "ibdata1").write_bytes(b"x" * 16 * MIB)
        raise StorageError("mysqld ended with status 1")

    with pytest.raises(NoSpace, match="mysqld ended with status 1"):
        Snapshots(tiny / "snapshots").make(KEY, server_that_fails)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_restored_files_belong_to_the_servers_user(reachable: Path) -> None:
    user = server_user()
    store = Snapshots(reachable / "snapshots")
    store.restore(store.make(KEY, fill), reachable / "data", uid=user.uid, gid=user.gid)
    paths = (reachable / "data", *(reachable / "data").rglob("*"))
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in paths}
    assert owners == {(user.uid, user.gid)}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_ordinary_user_makes_restores_and_removes(reachable: Path) -> None:
    user = server_user()
    os.chown(reachable, user.uid, user.gid)
    store = Snapshots(reachable / "snapshots")
    # A fork and not a new interpreter: the other user may have no right to read this one's installation.
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
            os.environ["FLUSHLAB_HOME"] = str(reachable / "home")
            snapshot = store.make(KEY, fill)
            store.restore(snapshot, reachable / "data", uid=user.uid, gid=user.gid)
            store.verify(snapshot)
            assert contents(reachable / "data") == contents(snapshot.path)
            assert store.remove(KEY)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(contents(reachable / "data")) == 22
    assert [path.name for path in store.directory.iterdir()] == ["locks"]


CHILD = """
import os, sys, signal
from pathlib import Path
from flushlab.datadir import SnapshotKey, Snapshots, restore

sys.path.insert(0, sys.argv[1])
from tests.integration.test_snapshots import KEY, fill

place, moment = Path(sys.argv[2]), sys.argv[3]
store = Snapshots(place / "snapshots")

def stop_here():
    print("here", flush=True)
    signal.pause()

def fill_and_stop(data):
    fill(data)
    if moment == "make":
        stop_here()

if moment == "restore":
    real = restore._make_file
    made = []
    def make_some_and_stop(*arguments):
        real(*arguments)
        made.append(arguments)
        if len(made) == 3:
            print("here", flush=True)
        if len(made) >= 3:
            signal.sigwait({signal.SIGUSR1})
    restore._make_file = make_some_and_stop

if moment == "any":
    print("here", flush=True)
snapshot = store.make(KEY, fill_and_stop)
store.restore(snapshot, place / "data", uid=os.getuid(), gid=os.getgid())
"""


def child_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(flushlab.__file__).parent.parent)}


def started_until_here(place: Path, moment: str) -> subprocess.Popen[str]:
    checkout = Path(__file__).parent.parent.parent
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(checkout), str(place), moment],
        stdout=subprocess.PIPE, text=True, env=child_environment(),
    )  # fmt: skip
    assert child.stdout is not None
    first_line = child.stdout.readline()
    if first_line != "here\n":
        killed(child)
    assert first_line == "here\n", "the child ended before it came to the place to kill it"
    return child


def killed(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def test_kill_while_a_snapshot_is_made_costs_only_a_folder_that_the_next_make_removes(
    reachable: Path,
) -> None:
    store = Snapshots(reachable / "snapshots")
    killed(started_until_here(reachable, "make"))
    assert store.find(KEY) is None
    assert len(list(store.directory.glob("flushlab-snapshot-*"))) == 1
    snapshot = store.make(KEY, fill)
    store.verify(snapshot)
    assert sorted(path.name for path in store.directory.iterdir()) == sorted([KEY.digest, "locks"])


def test_kill_while_a_snapshot_is_restored_leaves_no_half_of_a_data_directory(reachable: Path) -> None:
    store = Snapshots(reachable / "snapshots")
    killed(started_until_here(reachable, "restore"))
    assert not (reachable / "data").exists()
    (half,) = reachable.glob(".data.restoring-*")
    snapshot = store.find(KEY)
    assert snapshot is not None
    store.restore(snapshot, reachable / "data", uid=os.getuid(), gid=os.getgid())
    assert contents(reachable / "data") == contents(snapshot.path)
    assert half.is_dir(), "it goes with the sandbox's folder: by its name alone nobody may remove it"


def test_another_process_waits_for_the_maker_and_takes_over_when_it_is_killed(reachable: Path) -> None:
    first = started_until_here(reachable, "make")
    second = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(Path(__file__).parents[2]), str(reachable), "neither"],
        env=child_environment(),
    )
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=1)
    killed(first)
    assert second.wait(timeout=900) == 0
    assert (reachable / "data/ibdata1").stat().st_size == 3 * MIB


@pytest.mark.timeout(600 + 15 * KILLS)
def test_kill_at_any_moment_leaves_all_or_nothing(reachable: Path) -> None:
    chance = random.Random(20)
    for _ in range(KILLS):
        child = started_until_here(reachable, "any")
        try:
            child.wait(timeout=chance.uniform(0.0, 0.15))
        except subprocess.TimeoutExpired:
            child.kill()
        child.communicate()
        store = Snapshots(reachable / "snapshots")
        found = store.find(KEY)
        if found is not None:
            store.verify(found)
        snapshot = store.make(KEY, fill)
        if not (reachable / "data").exists():
            store.restore(snapshot, reachable / "data", uid=os.getuid(), gid=os.getgid())
        assert contents(reachable / "data") == contents(snapshot.path)
        assert {path.name for path in store.directory.iterdir()} == {KEY.digest, "locks"}
        shutil.rmtree(reachable / "data")
        store.remove(KEY)
