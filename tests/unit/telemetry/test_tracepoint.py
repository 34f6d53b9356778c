"""The kernel's own count of syncs; real where this user may, with the parsers tested everywhere."""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flushlab.machine import file_system_of
from flushlab.telemetry.tracepoint import EVENTS, SyncCounter, SyncKey, field_offsets, program
from tests.descriptors import descriptors

_EVENT = "anon_inode:[perf_event]"

# events/ext4/ext4_sync_file_enter/format and events/xfs/xfs_file_fsync/format of Linux 6.18, the fields.
EXT4 = """name: ext4_sync_file_enter
ID: 1232
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:ino_t ino;	offset:16;	size:8;	signed:0;
	field:ino_t parent;	offset:24;	size:8;	signed:0;
	field:int datasync;	offset:32;	size:4;	signed:1;

print fmt: "dev %d,%d ino %lu"
"""
BTRFS = (
    "\tfield:u8 fsid[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:u64 ino;\toffset:24;\tsize:8;\tsigned:0;\n"
)


def test_fields_are_found_by_name() -> None:
    fields = field_offsets(EXT4)
    assert (fields["dev"], fields["ino"]) == ((8, 4), (16, 8))
    assert field_offsets(BTRFS) == {"fsid": (8, 16), "ino": (24, 8)}


def test_the_program_reads_the_fields_where_they_are() -> None:
    code = program(5, 8, 16)
    assert len(code) % 8 == 0
    instructions = [code[at : at + 8] for at in range(0, len(code), 8)]
    assert instructions[1][2:4] == (8).to_bytes(2, "little")  # loads the device
    assert instructions[6][2:4] == (16).to_bytes(2, "little")  # loads the inode
    assert instructions[-1][0] == 0x95  # ends with exit
    assert program(5, 8, 24) != code


def test_a_file_system_without_a_tracepoint_is_not_counted() -> None:
    assert SyncCounter.open(["tmpfs", "zfs"]) is None
    assert SyncCounter.open([]) is None


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[SyncCounter]:
    filesystem = file_system_of(tmp_path).filesystem
    opened = SyncCounter.open([filesystem])
    if opened is None:
        pytest.skip(f"syncs on {filesystem} cannot be counted here: no right, or no tracepoint")
    with closing(opened):
        yield opened


def synced(counter: SyncCounter, path: Path) -> int:
    facts = path.stat()
    key = SyncKey((os.major(facts.st_dev), os.minor(facts.st_dev)), os.getpid(), facts.st_ino)
    return (counter.read() or {}).get(key, 0)


def test_every_way_to_sync_a_file_is_counted_and_nothing_else(counter: SyncCounter, tmp_path: Path) -> None:
    file = tmp_path / "file"
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR)
    through = os.open(file, os.O_WRONLY | os.O_DSYNC)
    try:
        os.write(descriptor, bytes(4096))
        assert synced(counter, file) == 0
        os.fsync(descriptor)
        os.fdatasync(descriptor)
        assert synced(counter, file) == 2
        os.write(through, b"x")
        assert synced(counter, file) == 3
        with mmap.mmap(descriptor, 4096) as mapped:
            mapped[0:1] = b"y"
            mapped.flush()
        assert synced(counter, file) == 4
    finally:
        os.close(descriptor)
        os.close(through)


def test_a_counter_proves_itself_where_it_counts_only(counter: SyncCounter, tmp_path: Path) -> None:
    assert counter.proves(tmp_path)
    memory = Path("/dev/shm")
    if file_system_of(memory).filesystem not in EVENTS:
        assert not counter.proves(memory)
    assert not counter.proves(tmp_path / "missing")


def _descriptors() -> int:
    """Of counters."""
    gc.collect()
    return sum(count for name, count in descriptors().items() if name.startswith(("anon_inode:bpf", _EVENT)))


def test_a_closed_counter_counts_no_more(tmp_path: Path) -> None:
    first = SyncCounter.open([file_system_of(tmp_path).filesystem])
    if first is None:
        pytest.skip("syncs cannot be counted here")
    descriptors = _descriptors()
    for _ in range(5):
        other = SyncCounter.open([file_system_of(tmp_path).filesystem])
        assert other is not None
        other.close()
    assert _descriptors() == descriptors
    first.close()
    assert _descriptors() < descriptors
