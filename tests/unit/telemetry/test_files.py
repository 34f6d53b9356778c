from __future__ import annotations

import os
from pathlib import Path

import pytest

from flushlab.record import FILE_CLASSES
from flushlab.telemetry.files import Names, classify, names, open_files, parse_flags
from tests.fakes.server import FakeServer

CALLED = Names(binlog="binlog", system=("ibdata1", "shared.dat"))

# /proc/PID/fd of the real servers, each with the class it belongs to.
FILES = [
    ("/d/ib_logfile0", "redo"),
    ("/d/#innodb_redo/#ib_redo12", "redo"),  # MySQL 8.0.30 and later
    ("/d/#innodb_redo/#ib_redo13_tmp", "redo"),  # a spare one: it becomes redo, and was it
    ("/d/binlog.000001", "binlog"),
    ("/d/binlog.index", "binlog"),
    ("/d/binlog-000000.ibb", "binlog"),  # MariaDB 12.3, in InnoDB
    ("/d/#ib_16384_0.dblwr", "doublewrite"),  # MySQL 8.0.20 and later
    ("/d/#ib_16384_1.bdblwr", "doublewrite"),
    ("/d/ibdata1", "data"),
    ("/elsewhere/shared.dat", "data"),  # innodb_data_file_path
    ("/d/mysql.ibd", "data"),
    ("/d/sbtest/sbtest1.ibd", "data"),
    ("/d/undo001", "undo"),  # MariaDB
    ("/d/undo_001", "undo"),  # MySQL 8
    ("/d/mine.ibu", "undo"),
    ("/d/ibtmp1", "other"),
    ("/d/#innodb_temp/temp_1.ibt", "other"),
    ("/t/#827399 (deleted)", "other"),
    ("/d/sbtest/sbtest1.ibd (deleted)", "other"),
    ("/d/relay-bin.000002", "other"),
    ("/d/aria_log.00000001", "other"),
    ("/d/mysql/user.MYD", "other"),
]


@pytest.mark.parametrize(("path", "kind"), FILES)
def test_files_are_classed_by_the_names_that_servers_give_them(path: str, kind: str) -> None:
    assert kind in FILE_CLASSES
    assert classify(path, CALLED) == kind


def test_without_a_binary_log_nothing_is_taken_for_one() -> None:
    assert classify("/d/.000001", Names()) == "other"
    assert classify("/d/binlog.000001", Names()) == "other"


# fdinfo of MySQL 5.7 (O_DSYNC and O_DIRECT), MariaDB 10.11 (O_DSYNC) and a file without either.
@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("04110002", ("O_SYNC",)),
        ("0140002", ("O_DIRECT",)),
        ("02150002", ("O_DIRECT", "O_DSYNC")),
        ("0100002", ()),
    ],
)
def test_flags_are_read_from_fdinfo(flags: str, found: tuple[str, ...]) -> None:
    assert parse_flags(f"pos:\t0\nflags:\t{flags}\nmnt_id:\t23\nino:\t830\n") == found


def test_a_process_shows_its_regular_files_with_flags_and_place(tmp_path: Path) -> None:
    redo = tmp_path / "ib_logfile0"
    descriptor = os.open(redo, os.O_CREAT | os.O_RDWR | os.O_SYNC)
    try:
        found = open_files(os.getpid(), CALLED)
    finally:
        os.close(descriptor)
    assert found is not None
    (file,) = [file for file in found if file.path == str(redo)]
    facts = redo.stat()
    assert (file.kind, file.flags, file.inode) == ("redo", ("O_SYNC",), facts.st_ino)
    assert file.device == (os.major(facts.st_dev), os.minor(facts.st_dev))
    assert all(Path("/dev") not in Path(other.path).parents or other.in_memory for other in found)


def test_a_process_that_is_gone_shows_nothing() -> None:
    assert open_files(2**22 + 1, CALLED) is None  # beyond the kernel's largest process id


def test_names_are_asked_of_the_server() -> None:
    asked = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin_basename', 'innodb_data_file_path')"
    server = FakeServer(
        answers={
            asked: [
                ("log_bin_basename", "/d/mysql-bin"),
                ("innodb_data_file_path", "ibdata1:12M;/raw/more:10M:autoextend"),
            ]
        }
    )
    assert names(server) == Names(binlog="mysql-bin", system=("ibdata1", "more"))
