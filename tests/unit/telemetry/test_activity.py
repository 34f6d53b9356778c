from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from flushlab.errors import ServerDied
from flushlab.record import FileActivity
from flushlab.telemetry.activity import Watched, counted_by, file_activity, per_class, per_file, watch
from flushlab.telemetry.files import REMOVED, OpenFile
from flushlab.telemetry.tracepoint import SyncKey
from tests.fakes.server import FakeServer

DEVICE = (254, 0)
SERVER, STRANGER, KERNEL = 400, 500, 3

NAMES = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin_basename', 'innodb_data_file_path')"
PAGE_SIZE = "SHOW GLOBAL STATUS LIKE 'Innodb_page_size'"

# Deltas of 3 s of oltp_update_non_index on 16 connections.
MYSQL_5_7 = {
    "Innodb_data_fsyncs": 3718,
    "Innodb_dblwr_pages_written": 215,
    "Innodb_os_log_fsyncs": 3705,
    "Innodb_os_log_written": 16_646_656,
    "Innodb_pages_written": 250,
}
MARIADB_10_11 = {
    "Innodb_data_fsyncs": 5139,
    "Innodb_dblwr_pages_written": 0,
    "Innodb_os_log_written": 15_899_356,
    "Innodb_pages_written": 0,
}


def file(kind: str, inode: int, device: tuple[int, int] = DEVICE) -> OpenFile:
    return OpenFile(path="/d/x", kind=kind, flags=(), device=device, inode=inode, filesystem="ext4")


def test_syncs_go_to_the_class_of_the_file_whoever_made_them() -> None:
    delta = {
        SyncKey(DEVICE, SERVER, 10): 100,
        SyncKey(DEVICE, KERNEL, 10): 5,  # asynchronous, by a worker of the kernel
        SyncKey(DEVICE, SERVER, 20): 7,
    }
    files = [file("redo", 10), file("data", 20), file("binlog", 30)]
    assert per_class(delta, SERVER, files, {}) == {"redo": 105, "data": 7, "binlog": 0}


def test_files_of_others_count_for_nobody() -> None:
    delta = {SyncKey(DEVICE, STRANGER, 99): 1000, SyncKey((8, 1), STRANGER, 10): 1000}
    assert per_class(delta, SERVER, [file("redo", 10)], {}) == {"redo": 0}


def test_closed_files_are_found_on_the_disk_and_removed_ones_are_other() -> None:
    delta = {SyncKey(DEVICE, SERVER, 40): 3, SyncKey(DEVICE, SERVER, 41): 2}
    counts = per_class(delta, SERVER, [file("redo", 10)], {(DEVICE, 40): "data", (DEVICE, 42): "undo"})
    assert counts == {"redo": 0, "data": 3, "undo": 0, "other": 2}


def test_syncs_go_to_files_by_name_and_to_all_removed_ones_together() -> None:
    delta = {
        SyncKey(DEVICE, SERVER, 10): 100,
        SyncKey(DEVICE, KERNEL, 10): 5,
        SyncKey(DEVICE, SERVER, 20): 7,
        SyncKey(DEVICE, SERVER, 30): 0,
        SyncKey(DEVICE, SERVER, 41): 2,
        SyncKey(DEVICE, STRANGER, 99): 1000,
    }
    redo = msgspec.structs.replace(file("redo", 10), path="/d/ib_logfile0")
    gone = msgspec.structs.replace(file("other", 30), path="/d/#sql-1.ibd (deleted)")
    on_disk = {(DEVICE, 20): "/d/app/t.ibd"}
    assert per_file(delta, SERVER, [redo, gone], on_disk, "/d/") == {
        "ib_logfile0": 105,
        "app/t.ibd": 7,
        REMOVED: 2,
    }


def test_the_kernels_count_goes_before_the_servers() -> None:
    seen = Watched(
        fsyncs={"redo": 0, "data": 0}, flags={"redo": (), "data": ("O_DIRECT",)}, page_bytes=16_384
    )
    assert counted_by(seen, MYSQL_5_7) == "kernel"
    assert file_activity(seen, MYSQL_5_7, None) == {
        "redo": FileActivity(fsyncs=0, bytes=16_646_656),
        "doublewrite": FileActivity(bytes=215 * 16_384),
        "data": FileActivity(fsyncs=0, bytes=250 * 16_384, flags=("O_DIRECT",)),
    }


def test_without_the_kernel_mysql_tells_and_mariadb_does_not() -> None:
    unseen = Watched(page_bytes=16_384)
    told = file_activity(unseen, MYSQL_5_7, None)
    assert (told["redo"].fsyncs, told["data"].fsyncs) == (3705, 13)
    assert counted_by(unseen, MYSQL_5_7) == "server"
    untold = file_activity(unseen, MARIADB_10_11, None)
    assert (untold["redo"].fsyncs, untold["redo"].bytes) == (None, 15_899_356)
    assert counted_by(unseen, MARIADB_10_11) is None


def test_the_binary_log_of_a_server_that_cannot_be_seen_is_told_by_performance_schema() -> None:
    unseen = Watched(has_binlog=True)
    told = file_activity(unseen, MYSQL_5_7, None, FileActivity(fsyncs=3698, bytes=2_560_123))
    assert told["binlog"] == FileActivity(fsyncs=3698, bytes=2_560_123)
    grown = msgspec.structs.replace(unseen, binlog_bytes=2_559_900)
    assert file_activity(grown, {}, None, FileActivity(fsyncs=7, bytes=8))["binlog"] == FileActivity(
        fsyncs=7, bytes=2_559_900
    )
    counted = msgspec.structs.replace(unseen, fsyncs={"binlog": 5})
    told = file_activity(counted, {}, None, FileActivity(fsyncs=7, bytes=8))
    assert told["binlog"].fsyncs == 5, "the kernel goes first"
    assert "binlog" not in file_activity(Watched(), {}, None, FileActivity(fsyncs=0, bytes=0)), (
        "there is none"
    )


def test_a_binary_log_that_nobody_tells_of_is_there_all_the_same() -> None:
    assert file_activity(Watched(has_binlog=True), {}, None) == {"binlog": FileActivity()}


def test_a_server_that_tells_nothing_leaves_nothing() -> None:
    assert file_activity(Watched(), {}, None) == {}
    assert file_activity(Watched(), {}, 4096) == {"redo": FileActivity(bytes=4096)}


def scripted(binlogs: Sequence[Sequence[tuple[Any, ...]]]) -> FakeServer:
    answers = iter(binlogs)
    return FakeServer(
        answers={
            NAMES: [("log_bin_basename", "/d/binlog")],
            PAGE_SIZE: [("Innodb_page_size", "8192")],
            "SHOW BINARY LOGS": lambda: next(answers),
        }
    )


@pytest.mark.parametrize(
    ("before", "after", "grown", "begun"),
    [
        ([("b.000001", 154)], [("b.000001", 1154)], 1000, 0),
        ([("b.000001", 154, "No")], [("b.000001", 200, "No"), ("b.000002", 300, "No")], 346, 1),
        ([("b.000001", 154), ("b.000002", 10)], [("b.000002", 60)], 50, 0),  # purged
        ([("b.000001", 154)], [("b.000003", 60)], None, 1),  # what was written to is gone
        ([], [("b.000001", 60)], 60, 1),
    ],
)
def test_the_binary_logs_growth_survives_rotation_and_purge(
    before: list[tuple[Any, ...]], after: list[tuple[Any, ...]], grown: int | None, begun: int
) -> None:
    seen = Watched()
    with watch(scripted([before, after]), seen):
        pass
    assert (seen.binlog_bytes, seen.binlog_rotations, seen.page_bytes) == (grown, begun, 8192)


def test_a_server_without_a_binary_log_is_no_error() -> None:
    server = FakeServer(answers={NAMES: [], PAGE_SIZE: []})
    seen = Watched()
    with watch(server, seen):
        pass
    assert seen == Watched()


def test_a_server_that_dies_in_the_window_is_noticed() -> None:
    server = scripted([[("b.000001", 154)]])
    with pytest.raises(ServerDied, match="out of memory"), watch(server, Watched()):
        server.die("out of memory")
