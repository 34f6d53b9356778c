"""What no flush had made durable, on real disks: a disk of its parts is what the crash has left."""

from __future__ import annotations

import mmap
import os
import subprocess
from pathlib import Path

import pytest

from flushlab.datadir import FaultDisk, FaultImage, require_fault_disk
from flushlab.datadir.extents import Extents
from flushlab.datadir.recording import SECTOR_BYTES, unsynced, with_parts
from flushlab.errors import FlushlabError
from flushlab.record import Failure

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.usefixtures("private_home"),
]
POWER = Failure(kind="power", tear=512)
ALL_KEPT = Failure(kind="os", tear=None)
SIZE, BLOCK, WRITES = 1 << 20, 16384, 24


@pytest.fixture
def record(tmp_path: Path) -> tuple[Path, int]:
    """A record of writes that were not flushed, and its last number; each wrote its own number."""
    try:
        require_fault_disk()
    except FlushlabError as error:
        pytest.skip(error.message)
    with FaultDisk(tmp_path, 16 << 20, record=True) as disk:
        # What the file system writes of itself, later, would be among the writes of the test, or flush them.
        quiet = "remount,commit=3600,noinit_itable"
        subprocess.run(["mount", "-o", quiet, str(disk.mount)], check=True)
        file = os.open(disk.mount / "written", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        buffer = mmap.mmap(-1, SIZE)
        os.pwrite(file, buffer, 0)
        os.fsync(file)
        disk.start_recording()
        for number in range(1, WRITES + 1):
            block = mmap.mmap(-1, BLOCK)
            block.write(bytes([number]) * BLOCK)
            os.pwrite(file, block, number * 7 % 20 * BLOCK // 2 // 4096 * 4096)
        at = disk.position()
        os.close(file)
        return disk.record, at


def test_a_disk_of_the_parts_that_were_kept_is_what_the_crash_has_left(
    record: tuple[Path, int], tmp_path: Path
) -> None:
    folder, at = record
    torn = 0
    for seed in range(4):
        kept, missing = unsynced(folder, at, POWER, seed)
        among = {part.number for part in (*kept, *missing)}
        torn += any(part.number == other.number for part in kept for other in missing)
        assert sum(part.sectors for part in (*kept, *missing)) == WRITES * BLOCK // SECTOR_BYTES
        with FaultImage(folder, at, POWER, seed, tmp_path) as image:
            left = (image.mount / "written").read_bytes()
        last = with_parts(folder, at, among, kept, tmp_path / f"parts-{seed}")
        with FaultImage(tmp_path / f"parts-{seed}", last, ALL_KEPT, 0, tmp_path) as image:
            assert (image.mount / "written").read_bytes() == left
    assert torn, "a seed has torn a write"


def test_parts_are_named_by_the_file_that_they_belong_to(record: tuple[Path, int], tmp_path: Path) -> None:
    folder, at = record
    kept, missing = unsynced(folder, at, ALL_KEPT, 0)
    assert (kept, missing) == ((), ()), "all is certain where the disk stays"
    kept, missing = unsynced(folder, at, POWER, 1)
    last = with_parts(folder, at, {part.number for part in (*kept, *missing)}, (), tmp_path / "none")
    with FaultImage(tmp_path / "none", last, ALL_KEPT, 0, tmp_path) as image:
        assert set((image.mount / "written").read_bytes()) == {0}
        extents = Extents(image.mount)
    with FaultImage(folder, at, ALL_KEPT, 0, tmp_path) as image:
        content = (image.mount / "written").read_bytes()
    newest = max((*kept, *missing))
    found = extents.file_at(newest.sector * SECTOR_BYTES)
    assert found is not None
    name, offset = found
    assert name == "written"
    assert content[offset] == WRITES
    assert extents.file_at(0) is None, "the superblock is the file system's own"
