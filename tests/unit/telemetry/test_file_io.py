from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flushlab.record import FileActivity, FileIo
from flushlab.telemetry import Observation, observe, performance
from flushlab.telemetry.files import REMOVED, Names
from flushlab.telemetry.performance import Reading
from tests.fakes.server import FakeServer

# Rows of file_summary_by_event_name and, with a name, of file_summary_by_instance, before and after some DDL
# and 51 inserts: EVENT_NAME, FILE_NAME, COUNT_READ, COUNT_WRITE, COUNT_MISC, bytes read, bytes written,
# SUM_TIMER_WAIT, SUM_TIMER_MISC. ALTER TABLE rebuilt app/t several times; the files before are gone.
LOG, DATA, FRM = (
    "wait/io/file/innodb/innodb_log_file",
    "wait/io/file/innodb/innodb_data_file",
    "wait/io/file/sql/FRM",
)
MYSQL_5_7_DATADIR = "/var/lib/mysql/"
MYSQL_5_7 = (
    [
        (LOG, "", 7, 1, 7, 70144, 512, 36844878070, 34372948610),
        (LOG, "/var/lib/mysql/ib_logfile0", 7, 1, 4, 70144, 512, 36835578780, 34363649320),
        (DATA, "", 299, 12, 108, 7012352, 12582912, 96495268870, 14170145990),
        (DATA, "/var/lib/mysql/ibdata1", 155, 0, 5, 4653056, 0, 4527412890, 44404360),
        (DATA, "/var/lib/mysql/mysql/user.ibd", 144, 12, 103, 2359296, 12582912, 91967855980, 14125741630),
    ],
    [
        (LOG, "", 7, 104, 110, 70144, 232448, 498372464590, 493935582140),
        (LOG, "/var/lib/mysql/ib_logfile0", 7, 104, 107, 70144, 232448, 498363165300, 493926282850),
        (DATA, "", 302, 32, 173, 7061504, 13156352, 363020397740, 279768378890),
        (DATA, "/var/lib/mysql/ibdata1", 158, 5, 10, 4702208, 81920, 50207987830, 45301776520),
        (DATA, "/var/lib/mysql/mysql/user.ibd", 144, 12, 103, 2359296, 12582912, 91967855980, 14125741630),
        (DATA, "/var/lib/mysql/app/t.ibd", 0, 2, 8, 0, 81920, 29075686640, 28976077130),
    ],
)
# The redo log is not among the files of MariaDB's performance_schema since 10.8.
DDL_LOG = "wait/io/file/sql/global_ddl_log"
MARIADB_10_11 = (
    [
        (DDL_LOG, "", 0, 1, 3, 0, 9, 3917853940, 3896262370),
        (DDL_LOG, "./ddl_recovery.log", 0, 1, 2, 0, 9, 3887894010, 3866302440),
    ],
    [
        (DDL_LOG, "", 0, 55, 56, 0, 94314, 291498987780, 290679929540),
        (DDL_LOG, "./ddl_recovery.log", 0, 55, 55, 0, 94314, 291469027850, 290649969610),
        (DATA, "", 0, 0, 5, 0, 0, 5344328990, 5344328990),
        (DATA, "./app/t.ibd", 0, 0, 5, 0, 0, 5344328990, 5344328990),
    ],
)
MARIADB_FSYNCS = {"app/t.ibd": 8, REMOVED: 13, "app/t.frm": 3, "ddl_recovery.log": 53, "ib_logfile0": 82}


def reading(rows: list[tuple[Any, ...]], *, room: int = -1, on: int = 51) -> Reading:
    server = FakeServer(
        answers={
            "SHOW GLOBAL VARIABLES LIKE 'performance_schema'": [("performance_schema", "ON")],
            performance._SUMMARY % "information_schema": rows,
            performance._PLACE: [(MYSQL_5_7_DATADIR, room)],
            "SELECT COUNT(*), SUM(ENABLED = 'YES' AND TIMED = 'YES') FROM"
            " performance_schema.setup_instruments WHERE NAME LIKE 'wait/io/file/%'": [(51, on)],
        }
    )
    return performance.read_files(server)


def between(
    rows: Iterable[list[tuple[Any, ...]]],
    called: Names | None = None,
    fsyncs: Mapping[str, int] | None = None,
) -> tuple[FileIo, ...]:
    before, after = map(reading, rows)
    return performance.files_between(before, after, called, fsyncs)


def by_name(told: tuple[FileIo, ...]) -> dict[str, FileIo]:
    assert len({one.file for one in told}) == len(told)
    return {one.file: one for one in told}


def test_mysql_tells_calls_bytes_and_time_of_each_file_most_time_first() -> None:
    told = between(MYSQL_5_7)
    assert [one.file for one in told] == [
        "ib_logfile0",
        "removed files of class data",
        "ibdata1",
        "app/t.ibd",
    ]
    redo = told[0]
    assert (redo.kind, redo.reads, redo.writes, redo.misc) == ("redo", 0, 103, 103)
    assert (redo.read_bytes, redo.written_bytes) == (0, 231_936)
    assert redo.seconds is not None and redo.misc_seconds is not None
    assert (round(redo.seconds, 3), round(redo.misc_seconds, 3)) == (0.462, 0.460)
    assert redo.fsyncs is None, "nobody counted them"


def test_what_was_done_to_removed_files_is_what_their_kind_has_more_than_those_that_are_left() -> None:
    removed = by_name(between(MYSQL_5_7))["removed files of class data"]
    assert (removed.kind, removed.files) == ("data", 0)
    assert (removed.writes, removed.misc, removed.written_bytes) == (13, 52, 409_600)
    total = sum(one.seconds or 0 for one in between(MYSQL_5_7) if one.kind == "data")
    assert round(total, 6) == round((363020397740 - 96495268870) * 1e-12, 6), "nothing is counted twice"


def test_files_that_only_the_kernel_knows_have_syncs_and_nothing_else() -> None:
    told = by_name(between(MARIADB_10_11, None, MARIADB_FSYNCS))
    redo = told["ib_logfile0"]
    assert (redo.kind, redo.fsyncs, redo.writes, redo.seconds) == ("redo", 82, None, None)
    assert (told["ddl_recovery.log"].fsyncs, told["ddl_recovery.log"].misc) == (53, 53)
    assert told["syncs of removed files"].fsyncs == 13
    assert sum(one.fsyncs or 0 for one in told.values()) == sum(MARIADB_FSYNCS.values())


def test_without_performance_schema_the_kernels_syncs_remain() -> None:
    off = performance.read_files(
        FakeServer(
            answers={"SHOW GLOBAL VARIABLES LIKE 'performance_schema'": [("performance_schema", "OFF")]}
        )
    )
    assert off.note == "performance_schema is OFF: start the server with performance_schema=ON"
    told = performance.files_between(off, off, Names(), {"ib_logfile0": 82})
    assert told == (FileIo(file="ib_logfile0", kind="redo", fsyncs=82),)
    assert performance.files_between(off, off) == ()


def test_of_many_files_those_with_the_most_time_are_told_one_by_one() -> None:
    rows = [(DATA, f"./app/t{i}.ibd", 0, 1, 2, 0, 10, i * 10**9, 10**8) for i in range(1, 31)]
    told = by_name(
        performance.files_between(Reading(), reading(rows), None, {f"app/t{i}.ibd": 1 for i in range(1, 31)})
    )
    assert len(told) == performance.MOST_FILES + 1
    assert "app/t30.ibd" in told and "app/t10.ibd" not in told
    more = told["10 more of class data"]
    assert (more.files, more.writes, more.misc, more.written_bytes, more.fsyncs) == (10, 10, 20, 100, 10)
    assert more.seconds is not None and round(more.seconds, 6) == round(sum(range(1, 11)) * 1e-3, 6)


def test_a_file_made_anew_under_its_name_counts_from_zero() -> None:
    before = reading([(DATA, "./app/t.ibd", 5, 50, 9, 0, 800_000, 10**10, 10**9)])
    after = reading([(DATA, "./app/t.ibd", 0, 2, 3, 0, 32_768, 10**9, 10**8)])
    (told,) = performance.files_between(before, after)
    assert (told.writes, told.misc, told.written_bytes) == (2, 3, 32_768)


def test_the_users_name_of_the_binary_log_is_known() -> None:
    event = "wait/io/file/sql/binlog"
    after = reading([(event, "./log.000001", 0, 60, 60, 0, 16_435, 27 * 10**9, 26 * 10**9)])
    (told,) = performance.files_between(Reading(), after, Names(binlog="log"))
    assert told.kind == "binlog"


def test_the_binary_log_has_what_its_kind_counted_whatever_became_of_its_files() -> None:
    # 5 s of oltp_update_non_index on MySQL 8.0.15; the log was purged meanwhile, and other kinds counted.
    event = "wait/io/file/sql/binlog"
    before = reading([(event, "", 1, 100, 90, 4, 50_000, 9 * 10**9, 8 * 10**9), MYSQL_5_7[0][0]])
    after = reading([(event, "", 1, 6444, 6247, 4, 7_518_515, 10**12, 9 * 10**11), MYSQL_5_7[1][0]])
    assert performance.binlog_between(before, after) == FileActivity(fsyncs=6157, bytes=7_468_515)
    assert performance.binlog_between(Reading(), Reading(note="performance_schema is OFF")) is None


def test_files_that_found_no_place_are_said() -> None:
    rows = [(DATA, f"./app/t{i}.ibd", 0, 1, 2, 0, 10, 10**9, 10**8) for i in range(3)]
    assert reading(rows, room=4).note == ""
    assert reading(rows, room=3).note == (
        "files beyond 3 were not seen: raise performance_schema_max_file_instances"
    )


def test_instruments_that_are_off_are_said() -> None:
    assert reading([]).note == ""
    assert reading([], on=50).note == "50 of 51 instruments wait/io/file/% are on"


class Busy(FakeServer):
    """A server under load, also while it answers: an fsync and 300 bytes of binary log per transaction."""

    committed = 0

    def query(
        self, sql: str, args: Sequence[object] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        self.committed += 10
        io = (0, self.committed, self.committed, 0, 300 * self.committed, 0, 0)
        answers: dict[str, list[tuple[Any, ...]]] = {
            performance._SUMMARY % "information_schema": [
                ("wait/io/file/sql/binlog", "", *io),
                (performance._COMMITS, "", self.committed, 0, 0, 0, 0, 0, 0),
            ],
            "SHOW GLOBAL VARIABLES LIKE 'performance_schema'": [("performance_schema", "ON")],
            "SHOW BINARY LOGS": [],
            "SHOW ENGINE INNODB STATUS": [("InnoDB", "", "")],
            "SHOW GLOBAL STATUS": [("Handler_commit", str(2 * self.committed))],
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin_basename', 'innodb_data_file_path')": [
                ("log_bin_basename", "/var/lib/mysql/binlog")
            ],
        }
        if sql.startswith(("SELECT COUNT(*), SUM(ENABLED", performance._PLACE)):
            return [(1, 1)]
        return answers.get(sql, [("", "0")] if sql.startswith("SHOW") else [("0",)])


def test_the_binary_logs_fsyncs_are_those_of_the_windows_transactions_however_long_reading_takes() -> None:
    server, seen = Busy(), Observation()
    with observe(server, seen):
        server.committed += 100
    whole = seen.file_activity()["binlog"].fsyncs
    assert whole is not None and whole > 200, "the load went on while counters were read"
    assert seen.file_activity(commits=100)["binlog"].fsyncs == 100
    assert seen.told is not None
    before, after = seen.told
    binlog = performance.binlog_between(before.files, after.files, 100)
    assert binlog == FileActivity(fsyncs=100, bytes=30_000)
