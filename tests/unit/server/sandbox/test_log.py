"""What logs say. The lines come from MariaDB 10.11.19, MySQL 5.7.22 and 8.0.15; only paths are shortened."""

# ruff: noqa: E501
from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.errors import NoSpace, UsageError
from flushlab.record import Endpoint, Value
from flushlab.server.sandbox import log
from flushlab.server.sandbox.log import refusal
from tests.unit.builds import MARIADB, MYSQL80

MARIADB_UNKNOWN = """\
2026-11-21  0:08:02 0 [Note] InnoDB: log sequence number 44894; transaction id 14
2026-11-21  0:08:02 0 [Note] Plugin 'FEEDBACK' is disabled.
2026-11-21  0:08:02 0 [Note] InnoDB: Loading buffer pool(s) from /data/ib_buffer_pool
2026-11-21  0:08:02 0 [ERROR] /usr/sbin/mariadbd: unknown variable 'innodb_nonsense=1'
2026-11-21  0:08:02 0 [ERROR] Aborting
"""
MARIADB_VALUE = """\
2026-11-21  0:08:10 0 [ERROR] /usr/sbin/mariadbd: Error while setting value 'WRONG_MODE' to 'sql_mode'
2026-11-21  0:08:10 0 [ERROR] Aborting
"""
MARIADB_POOL = """\
2026-11-21  0:08:06 0 [ERROR] InnoDB: Cannot map innodb_buffer_pool_size_max=9437184000m
2026-11-21  0:08:06 0 [ERROR] InnoDB: Plugin initialization aborted with error Generic error
2026-11-21  0:08:06 0 [ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.
2026-11-21  0:08:06 0 [ERROR] Unknown/unsupported storage engine: InnoDB
2026-11-21  0:08:06 0 [ERROR] Aborting
"""
MARIADB_REDO = """\
2026-11-21  0:08:07 0 [ERROR] InnoDB: preallocating 989560464998400 bytes for file ./ib_logfile101 failed with error 27
2026-11-21  0:08:07 0 [ERROR] InnoDB: Cannot set log file ./ib_logfile101 size to 0.879PiB
2026-11-21  0:08:07 0 [ERROR] InnoDB: Plugin initialization aborted with error Generic error
2026-11-21  0:08:07 0 [ERROR] Aborting
"""
MARIADB_MEMORY = """\
2026-11-21  0:08:05 0 [ERROR] mariadbd: Out of memory (Needed 0 bytes)
"""
MARIADB_PORT = """\
2026-11-21  0:26:22 0 [ERROR] Can't start server: Bind on TCP/IP port. Got error: 98: Address already in use
2026-11-21  0:26:22 0 [ERROR] Do you already have another server running on port: 47443 ?
2026-11-21  0:26:22 0 [ERROR] Aborting
"""
MARIADB_SPACE = """\
2026-11-21  0:26:22 0 [ERROR] InnoDB: preallocating 419430400 bytes for file ./ib_logfile101 failed with error 28
2026-11-21  0:26:22 0 [ERROR] InnoDB: Cannot set log file ./ib_logfile101 size to 400.000MiB
2026-11-21  0:26:22 0 [ERROR] InnoDB: Plugin initialization aborted with error Generic error
"""
MYSQL_57_UNKNOWN = """\
2026-11-21T00:08:20.354697Z 0 [ERROR] unknown variable 'innodb_nonsense=1'
2026-11-21T00:08:20.354867Z 0 [Note] Shutting down plugin 'INNODB_CMP_PER_INDEX_RESET'
"""
MYSQL_57_SUFFIX = """\
2026-11-21T00:08:50.632876Z 0 [ERROR] Unknown suffix 'T' used for variable 'innodb-buffer-pool-size' (value '9000T')
2026-11-21T00:08:50.632893Z 0 [Warning] option 'innodb-buffer-pool-size': signed value 0 adjusted to 5242880
2026-11-21T00:08:50.632895Z 0 [ERROR] /opt/bin/mysqld: Error while setting value '9000T' to 'innodb-buffer-pool-size'
2026-11-21T00:08:50.632896Z 0 [ERROR] Parsing options for plugin 'InnoDB' failed.
"""
MYSQL_57_GTID = """\
2026-11-21T00:15:20.680676Z 0 [ERROR] GTID_MODE = ON requires ENFORCE_GTID_CONSISTENCY = ON.
"""
MYSQL_57_FOLDER = """\
2026-11-21T00:10:09.468315Z 0 [ERROR] InnoDB: Operating system error number 2 in a file operation.
2026-11-21T00:10:09.468327Z 0 [ERROR] InnoDB: The error means the system cannot find the path specified.
2026-11-21T00:10:09.468333Z 0 [ERROR] InnoDB: File /nonexistent/ib_logfile101: 'create' returned OS error 71.
2026-11-21T00:10:10.070925Z 0 [ERROR] Aborting
"""
MYSQL_57_SPACE = """\
2026-11-21T00:26:25.758216Z 0 [ERROR] InnoDB: Write to file ./ib_logfile101failed at offset 150994944, 1048576 bytes should have been written, only 708608 were written. Operating system error number 28. Check that your OS and file system support files of this size. Check also that the disk is not full or a disk quota exceeded.
2026-11-21T00:26:25.758227Z 0 [ERROR] InnoDB: Error number 28 means 'No space left on device'
2026-11-21T00:26:25.758239Z 0 [ERROR] InnoDB: Cannot set log file ./ib_logfile101 to size 400 MB
"""
MYSQL_57_PORT = """\
2026-11-21T00:26:23.144634Z 0 [ERROR] Can't start server: Bind on TCP/IP port: Address already in use
2026-11-21T00:26:23.144636Z 0 [ERROR] Do you already have another mysqld server running on port: 47443 ?
2026-11-21T00:26:23.144654Z 0 [ERROR] Aborting
"""
MYSQL_57_READY = """\
2026-11-21T00:07:02.310047Z 0 [Note] Event Scheduler: Loaded 0 events
2026-11-21T00:07:02.315596Z 0 [Note] /opt/bin/mysqld: ready for connections.
"""
MYSQL_80_UNKNOWN = """\
2026-11-21T00:10:22.686286Z 0 [ERROR] [MY-000067] [Server] unknown variable 'innodb_nonsense=1'.
"""
MYSQL_80_PORT = """\
2026-11-21T00:26:28.018643Z 0 [ERROR] [MY-010262] [Server] Can't start server: Bind on TCP/IP port: Address already in use
2026-11-21T00:26:28.018656Z 0 [ERROR] [MY-010257] [Server] Do you already have another mysqld server running on port: 47443 ?
2026-11-21T00:26:28.018912Z 0 [ERROR] [MY-010119] [Server] Aborting
"""
MYSQL_80_SPACE = """\
2026-11-21T00:26:32.269474Z 1 [ERROR] [MY-012639] [InnoDB] Write to file ./ib_logfile101 failed at offset 117440512, 1048576 bytes should have been written, only 516096 were written. Operating system error number 28. Check that your OS and file system support files of this size. Check also that the disk is not full or a disk quota exceeded.
2026-11-21T00:26:32.269490Z 1 [ERROR] [MY-012640] [InnoDB] Error number 28 means 'No space left on device'
"""
MYSQL_80_REDO = """\
2026-11-21T00:11:59.582602Z 0 [ERROR] [MY-012361] [InnoDB] Combined size of log files must be < 512 GB
2026-11-21T00:11:59.582612Z 0 [ERROR] [MY-010202] [Server] Plugin 'InnoDB' init function returned error.
2026-11-21T00:11:59.582700Z 0 [ERROR] [MY-010119] [Server] Aborting
"""
MYSQL_80_PAGE = """\
2026-11-21T00:10:26.740014Z 0 [ERROR] [MY-010872] [InnoDB] InnoDB: Invalid page size=5000.
2026-11-21T00:10:26.740022Z 0 [ERROR] [MY-010202] [Server] Plugin 'InnoDB' init function returned error.
"""


@pytest.mark.parametrize(
    ("text", "settings", "name", "part"),
    [
        (MARIADB_UNKNOWN, {}, "innodb_nonsense", "mariadbd: unknown variable 'innodb_nonsense=1'"),
        (MARIADB_VALUE, {}, "sql_mode", "Error while setting value 'WRONG_MODE' to 'sql_mode'"),
        (
            MARIADB_POOL,
            {"sync_binlog": 1, "innodb_buffer_pool_size": "9000T"},
            "innodb_buffer_pool_size",
            "Cannot map innodb_buffer_pool_size_max",
        ),
        (MARIADB_REDO, {"innodb_log_file_size": "900T"}, "innodb_log_file_size", "Cannot set log file"),
        (MYSQL_57_UNKNOWN, {}, "innodb_nonsense", "[ERROR] unknown variable 'innodb_nonsense=1'"),
        (MYSQL_57_SUFFIX, {}, "innodb_buffer_pool_size", "Unknown suffix 'T'"),
        (MYSQL_57_GTID, {"gtid_mode": "ON"}, "gtid_mode", "GTID_MODE = ON requires"),
        (
            MYSQL_57_FOLDER,
            {"innodb_log_group_home_dir": "/nonexistent"},
            "innodb_log_group_home_dir",
            "File /nonexistent/ib_logfile101",
        ),
        (MYSQL_80_UNKNOWN, {}, "innodb_nonsense", "[MY-000067] [Server] unknown variable"),
        (MYSQL_80_REDO, {"innodb_log_file_size": "900T"}, "innodb_log_file_size", "must be < 512 GB"),
        (MYSQL_80_PAGE, {"innodb_page_size": 5000}, "innodb_page_size", "Invalid page size=5000"),
    ],
)
def test_refused_setting_is_named_with_its_line(
    text: str, settings: dict[str, Value], name: str, part: str
) -> None:
    line = log.refusal_from_log(text, settings)
    assert line is not None
    assert part in line
    assert log.refused_name(text, settings) == name


@pytest.mark.parametrize(
    "text", [MARIADB_MEMORY, MARIADB_PORT, MYSQL_57_SPACE, MYSQL_57_READY, MARIADB_POOL, ""]
)
def test_log_that_is_about_no_setting_names_none(text: str) -> None:
    settings: dict[str, Value] = {"sync_binlog": 1, "innodb_flush_neighbors": 0, "log_bin": "ON"}
    assert log.refusal_from_log(text, settings) is None
    assert log.refused_name(text, settings) is None


@pytest.mark.parametrize("text", [MARIADB_SPACE, MYSQL_57_SPACE, MYSQL_80_SPACE])
def test_full_disk_is_seen(text: str) -> None:
    line = log.no_space(text)
    assert line is not None
    assert "ib_logfile101" in line
    assert log.no_space(MARIADB_MEMORY) is None


def test_lack_of_memory_is_seen() -> None:
    line = log.no_memory(MARIADB_MEMORY)
    assert line is not None
    assert line.endswith("Out of memory (Needed 0 bytes)")
    assert log.no_memory(MARIADB_UNKNOWN) is None


@pytest.mark.parametrize("text", [MARIADB_PORT, MYSQL_57_PORT, MYSQL_80_PORT])
def test_taken_port_is_seen(text: str) -> None:
    assert log.port_taken(text)
    assert not log.port_taken(MARIADB_UNKNOWN)


def test_digest_is_the_errors_and_not_the_notes_around_them() -> None:
    assert log.digest(MYSQL_57_UNKNOWN).splitlines() == [
        "2026-11-21T00:08:20.354697Z 0 [ERROR] unknown variable 'innodb_nonsense=1'"
    ]
    assert log.digest(MYSQL_57_READY) == MYSQL_57_READY.strip()


def test_tail_and_since_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "error.log"
    assert log.tail(file) == ""
    assert log.since(file, 0) == ""
    file.write_text("one\ntwo\nthree\n")
    assert log.tail(file, 2) == "two\nthree"
    assert log.since(file, 4) == "two\nthree\n"


def test_a_full_disk_is_that_of_the_servers_data_and_a_full_memory_is_not() -> None:
    started, ran = (
        log.start_failed(MARIADB, Endpoint(user="root", password=""), {}, MARIADB_SPACE, "stopped"),
        log.died("s1", MARIADB_SPACE),
    )
    for error in (started, ran):
        assert isinstance(error, NoSpace)
        assert error.of_data
    memory = log.start_failed(MARIADB, Endpoint(user="root", password=""), {}, MARIADB_MEMORY, "stopped")
    assert isinstance(memory, NoSpace)
    assert not memory.of_data


def test_a_refused_setting_keeps_the_servers_reason() -> None:
    reason = "Unknown suffix 'a' used for variable 'mysqlx-port' (value 'abc')."
    error = refusal(reason, MYSQL80)
    assert type(error) is UsageError
    assert error.message == f"mysql@8.0.15 refused the settings: {reason}"
