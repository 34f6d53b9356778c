"""Fault disks with real file systems: what was synced survives, what crashed leaves nothing behind."""

from __future__ import annotations

import errno
import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec
import pytest

from flushlab.datadir import FaultDisk, FaultImage, Recording, open_volume, remove_record, slow_disk
from flushlab.datadir.fault_disk import FileSystemName
from flushlab.datadir.recording import Extents
from flushlab.errors import FlushlabError, HarnessError, NoSpace, UsageError
from flushlab.machine import ownership
from flushlab.process import reap, run_folder
from flushlab.process.run_record import RunRecord, reap_record
from flushlab.record import DiskProfile, Failure, RequestLatency
from tests.integration.disk_victim import PHASES, over_and_over
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.usefixtures("private_home"),
]
MIB = 1 << 20
KILLS = int(os.environ.get("FLUSHLAB_DISK_KILLS", str(len(PHASES))))
MOST_PHASE_S = 0.15
POWER = Failure(kind="power")


def mounts() -> str:
    return Path("/proc/self/mounts").read_text()


def loops_of(folder: Path) -> set[str]:
    """Loop devices that are mounted below a folder."""
    return {line.split()[0] for line in mounts().splitlines() if f" {folder}/" in line}


def is_bound(device: str) -> bool:
    return Path(f"/sys/block/{Path(device).name}/loop").exists()


@cache
def why_not(folder: Path) -> str:
    """Why no disk can be made on this machine; empty if it can."""
    try:
        with FaultDisk(folder, 16 * MIB):
            return ""
    except FlushlabError as error:
        return error.message


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if why := why_not(tmp_path_factory.getbasetemp()):
        pytest.skip(why)
    yield tmp_path
    assert str(tmp_path) not in mounts()


def write(path: Path, data: bytes, *, synced: bool) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(file, data)
    if synced:
        os.fsync(file)
    os.close(file)
    if synced:
        above = os.open(path.parent, os.O_RDONLY)
        os.fsync(above)
        os.close(above)


@pytest.mark.parametrize(("fs", "size_bytes"), [("ext4", 64 * MIB), ("xfs", 300 * MIB), ("btrfs", 120 * MIB)])
def test_what_was_synced_survives_the_power_and_what_was_not_is_lost(
    folder: Path, fs: FileSystemName, size_bytes: int
) -> None:
    if shutil.which(f"mkfs.{fs}") is None:
        pytest.skip(f"no mkfs.{fs}")
    acknowledged = {}
    with FaultDisk(folder, size_bytes, fs, record=True) as disk:
        write(disk.mount / "before", b"before", synced=False)
        disk.start_recording()
        for number in range(12):
            write(disk.mount / f"synced-{number}", b"%d" % number * 5000, synced=True)
            acknowledged[number] = disk.position()
            write(disk.mount / f"unsynced-{number}", b"u" * 5000, synced=False)
        record = disk.record
    kept = 0
    for seed, number in enumerate((0, 5, 11)):
        with FaultImage(record, acknowledged[number], POWER, seed, folder, fs) as image:
            assert (image.mount / "before").read_bytes() == b"before"
            for earlier in range(number + 1):
                assert (image.mount / f"synced-{earlier}").read_bytes() == b"%d" % earlier * 5000
            assert not (image.mount / f"synced-{number + 1}").exists()
            last = image.mount / f"unsynced-{number}"
            kept += last.exists() and last.read_bytes() == b"u" * 5000
    assert kept == 0, "its data had not been written when the record ends"
    remove_record(record)
    assert list(folder.iterdir()) == []


def test_two_images_at_once_are_independent_and_one_can_record_its_own_recovery(folder: Path) -> None:
    with FaultDisk(folder, 16 * MIB, record=True) as disk:
        disk.start_recording()
        write(disk.mount / "file", b"original", synced=True)
        record, end = disk.record, disk.position()
    with (
        FaultImage(record, end, POWER, 1, folder, own_record=True) as one,
        FaultImage(record, end, POWER, 1, folder) as other,
    ):
        write(one.mount / "file", b"recovered", synced=True)
        assert (other.mount / "file").read_bytes() == b"original"
        again, after = one.record, one.position()
        assert after > 0
    for at, found in ((0, b"original"), (after, b"recovered")):
        with FaultImage(again, at, POWER, 2, folder) as image:
            assert (image.mount / "file").read_bytes() == found


def test_writes_belong_to_the_files_that_lie_in_their_places(folder: Path) -> None:
    with FaultDisk(folder, 16 * MIB, record=True) as disk:
        disk.start_recording()
        for name in ("one", "other"):
            write(disk.mount / name, b"x" * 8192, synced=True)
        record, end = disk.record, disk.position()
    with FaultImage(record, end, POWER, 1, folder) as image:
        extents = Extents(image.mount)
    places = [extents.file_at(one.offset) for one in Recording(record).records("write")]
    assert {("one", 0), ("other", 0), None} <= {*places}, "the journal is the file system's own"
    assert extents.file_at(0) is None


def test_a_flush_fails_when_asked_to_and_a_full_device_takes_no_more(folder: Path) -> None:
    with FaultDisk(folder, 16 * MIB) as disk:
        file = os.open(disk.mount / "file", os.O_WRONLY | os.O_CREAT)
        try:
            os.write(file, b"x" * 4096)
            os.fsync(file)
            disk.fail_flush()
            os.pwrite(file, b"y" * 4096, 0)
            with pytest.raises(OSError, match="Input/output error"):
                os.fdatasync(file)
            os.pwrite(file, b"z" * 4096, 0)
            os.fdatasync(file)  # and the next one is well, as on a real disk
            disk.be_full()
            os.pwrite(file, b"z" * 4096, 0)
            with pytest.raises(OSError) as full:
                os.fdatasync(file)
            assert full.value.errno in {errno.ENOSPC, errno.EIO}
            assert disk.status().failed >= 2
            disk.be_full(False)
        finally:
            os.close(file)


def test_a_slow_disk_takes_its_time_with_each_flush(folder: Path) -> None:
    slow = DiskProfile(name="slow", flush=RequestLatency(p50_us=20_000, p99_us=20_000))
    with FaultDisk(folder, 16 * MIB, emulate=slow) as disk:
        file = os.open(disk.mount / "file", os.O_WRONLY | os.O_CREAT)
        os.write(file, b"x" * 4096)
        os.fsync(file)
        flushes, begun = disk.status().flushes, time.monotonic()
        for _ in range(5):
            os.pwrite(file, b"y" * 4096, 0)
            os.fdatasync(file)
        elapsed_s = time.monotonic() - begun
        os.close(file)
        assert disk.status().flushes - flushes >= 5, "the file system may have flushed for itself too"
        assert elapsed_s >= 5 * 0.02
        disk.be_slow(None)


def test_a_volume_on_a_slow_disk_is_measured_and_gone_at_the_end(
    folder: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_disk, "BELIEVED", (least := 0.75, math.inf))  # however busy the machine is
    root = private_home / "root"
    with open_volume(root, "flush=20ms,iops=2000") as volume:
        slow = volume.machine().slow_disk
        assert slow is not None
        assert slow.profile.name == "flush=20ms,iops=2000"
        assert slow.asked_sync_us_p50 >= 20_000  # more if the disk below is slower
        assert slow.measured_sync_us_p50 >= least * slow.asked_sync_us_p50
        assert slow.fastest_sync_us_p50 > 0
        assert volume.data_root.storage.filesystem == "ext4"
        assert (volume.data_root.path.is_relative_to(root), volume.below.path) == (True, root)
    assert list(root.iterdir()) == []


def test_a_record_is_good_to_where_its_disk_was_killed(folder: Path) -> None:
    disk = FaultDisk(folder, 16 * MIB, record=True).open()
    disk.start_recording()
    write(disk.mount / "file", b"kept", synced=True)
    at, record = disk.position(), disk.record
    assert disk._process is not None
    disk._process.signal(signal.SIGKILL)
    disk._process.wait(PATIENCE_S)
    with pytest.raises(HarnessError, match="does not answer"):
        disk.status()
    disk.close()
    assert str(folder) not in mounts()
    recording = Recording(record)
    assert recording.last >= at, "the file system may have written something for itself meanwhile"
    assert any(flush <= at for flush in recording.flushes())
    assert [one.number for one in recording.records()] == list(range(1, recording.last + 1))
    with FaultImage(record, at, POWER, 0, folder) as image:
        assert (image.mount / "file").read_bytes() == b"kept"


PROGRAM = """
import json, sys, time
from pathlib import Path
from flushlab.datadir import FaultDisk

disk = FaultDisk(Path(sys.argv[1]), 16 << 20, record=True).open()
disk.start_recording()
print(json.dumps([disk._guard._guard.pid, disk._process.pid, str(disk.mount)]), flush=True)
number = 0
while True:
    (disk.mount / "file").write_bytes(b"x" * 100000)
"""


@pytest.mark.parametrize("guard_too", [False, True], ids=["flushlab", "flushlab and its guard"])
def test_nothing_of_a_disk_outlives_a_kill_of(folder: Path, guard_too: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, folder], stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        guard, server, mount = json.loads(victim.stdout.readline())
        (device,) = loops_of(folder)
        if guard_too:
            os.kill(guard, signal.SIGKILL)
        victim.kill()
    wait_until(lambda: not Path(f"/proc/{server}").exists(), "its program ends")
    if guard_too:
        reap()
    wait_until(lambda: mount not in mounts(), "nothing is mounted")
    wait_until(lambda: not is_bound(device), "the loop device is free")
    wait_until(lambda: [path.suffix for path in folder.iterdir()] == [".record"], "only the record is left")


def test_a_disk_is_taken_off_though_its_run_record_is_gone(folder: Path) -> None:
    with FaultDisk(folder, 16 * MIB) as disk:
        assert disk._guard is not None
        (run_folder() / f"{disk.name}.json").unlink()
        disk._guard.close()
        assert str(folder) not in mounts()
        assert list(folder.iterdir()) == []


def test_what_was_mounted_while_its_folder_was_being_removed_is_taken_off_by_the_next(folder: Path) -> None:
    record = RunRecord.mine("it", folder / "own")
    ownership.make(str(folder / "own"), record.mark("sandbox", "it"))
    aside = folder / f".flushlab-{record.token}"
    (folder / "own").rename(aside)
    (aside / "mount").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(aside / "mount")], check=True)
    reap_record(msgspec.structs.replace(record, mounts=(str(folder / "own" / "mount"),)))
    assert str(folder) not in mounts()
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(KILLS < 1, reason="no kills are asked for")
def test_nothing_outlives_kills_at_any_moment(folder: Path, private_home: Path) -> None:
    chance, killed = random.Random(19), Counter[str]()
    victims = multiprocessing.get_context("forkserver")
    victims.set_forkserver_preload([over_and_over.__module__])
    for number in range(KILLS):
        hears, told = victims.Pipe(duplex=False)
        victim = victims.Process(target=over_and_over, args=(told, folder, str(private_home)))
        victim.start()
        told.close()
        doing, disks, aim = "", set(), PHASES[number % len(PHASES)]
        while doing != aim:
            doing, disk = hears.recv()
            disks.add(disk)
        victim.join(chance.random() * MOST_PHASE_S)
        children_first = (number + number // len(PHASES)) % 3 == 0  # of every phase, in turns
        if children_first:
            assert victim.pid is not None
            for child in children_of(victim.pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        victim.kill()
        victim.join()
        assert victim.exitcode == -signal.SIGKILL or children_first, "all goes well until it is killed"
        with suppress(EOFError, OSError):  # the end, or half a message
            while True:
                doing, disk = hears.recv()
                disks.add(disk)
        hears.close()
        killed[doing] += 1
        if not children_first and doing not in ("keeping", "janitor"):
            wait_until(lambda: not processes_of(folder), "its processes end, without the janitor")
        wait_until(lambda: not (reap() or processes_of(folder)), "its processes end")
        wait_until(lambda: str(folder) not in mounts(), "nothing is mounted")
        wait_until_released(disks)
        assert {path.suffix for path in folder.iterdir()} <= {".record"}, list(folder.iterdir())
        assert list(run_folder().iterdir()) == []
    print(f"{KILLS} kills: {', '.join(f'{count} in {doing}' for doing, count in killed.items())}")  # noqa: T201


def children_of(pid: int) -> list[int]:
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if (text := read(path)) and text.rpartition(")")[2].split()[1] == str(pid)
    ]


def processes_of(folder: Path) -> list[str]:
    """Guards and disk programs of this folder; a guard names it in its arguments, a program is in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            place = (process / "cwd").readlink()
            if f"{folder}/" in f"{place}/{read(process / 'cmdline')}":
                found.append(process.name)
    return found


def served_loops(names: Collection[str] = ("flushlab-disk-",)) -> list[str]:
    """Loop devices on files of disks whose names begin so, that nothing is mounted from."""
    mounted = {line.split()[0] for line in mounts().splitlines()}
    return [
        path.parts[3]
        for path in Path("/sys/block").glob("loop*/loop/backing_file")
        if read(path).startswith(tuple(f"/{name}" for name in names))
        and f"/dev/{path.parts[3]}" not in mounted
    ]


def wait_until_released(names: Collection[str]) -> None:
    wait_until(lambda: not served_loops(names), "no loop device is left")


def read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""


def test_refusals_come_before_anything_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="too small for xfs: the minimum is 300 MiB"):
        FaultDisk(folder, MIB, "xfs").open()
    with pytest.raises(NoSpace, match=r"the record in .* needs at least .* MiB are free") as full:
        FaultDisk(folder, 1 << 60, record=True).open()
    assert (
        full.value.hint == "make room there, or name a folder elsewhere with --data-root or --save-recording"
    )
    with pytest.raises(UsageError, match="leaves no image"):
        FaultImage(folder, 0, Failure(kind="process"), 0, folder).open()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="needs root"):
        FaultDisk(folder, 16 * MIB, record=True).open()
    assert list(folder.iterdir()) == []
