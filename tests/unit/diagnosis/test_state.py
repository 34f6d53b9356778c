"""The state: each value with its source, what a restart changes, what the version does by itself."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from flushlab.diagnosis.diagnose import diagnose
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.host import ServerStart
from flushlab.diagnosis.state import SettingState, state_of
from flushlab.record import ServerIdentity, Value
from flushlab.report.doctor import document
from flushlab.settings.check import check
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import Origin, doctor_questions, parse_origins
from tests.golden.test_reports import text_of
from tests.unit.diagnosis.hosts import host
from tests.unit.diagnosis.watched import MARIADB, MYSQL97, evidence
from tests.unit.telemetry.live.told import MYSQL57

# As MySQL 9.7.4 and MariaDB 10.11.19 answered; the last of each is what they did while they started.
MYSQL_ROWS = [
    ("innodb_io_capacity", "EXPLICIT", "/etc/mysql/my.cnf", None, None, None),
    ("sync_binlog", "DYNAMIC", "", "app", "10.0.0.5", datetime.datetime(2026, 11, 27, 5, 4, 45, 719367)),
    ("innodb_flush_neighbors", "PERSISTED", "/data/mysqld-auto.cnf", "root", "localhost", None),
    ("foreign_key_checks", "DYNAMIC", "", None, None, datetime.datetime(2026, 11, 27, 5, 4, 45)),
]
MARIADB_ROWS = [
    ("SYNC_BINLOG", "SQL", None, None, None, None),
    ("INNODB_IO_CAPACITY", "CONFIG", "/etc/mysql/my.cnf", None, None, None),
    ("BACK_LOG", "AUTO", None, None, None, None),
]
FILE = "[mysqld]\n\nsync_binlog = 10\ninnodb_io_capacity = 500\nquery_cache_size = 1M\n"


def start(identity: ServerIdentity, text: str = FILE, **more: Any) -> ServerStart:
    checked = check(text, identity, path="/etc/mysql/my.cnf")
    facts: dict[str, Any] = {"files": ("/etc/mysql/my.cnf",), "unread": (), "arguments": {}}
    return ServerStart(checked=checked, **(facts | more))


def seen(
    identity: ServerIdentity = MYSQL97,
    *,
    origins: dict[str, Origin] | None = None,
    persisted: dict[str, str] | None = None,
    settings: dict[str, Value] | None = None,
    **more: Any,
) -> Evidence:
    found = evidence(identity=identity, settings=settings or {"sync_binlog": 100}, **more)
    after = msgspec.structs.replace(found.after, origins=origins, persisted=persisted or {})
    return msgspec.structs.replace(found, after=after)


def one(found: Evidence, name: str = "sync_binlog") -> SettingState:
    return next(each for each in state_of(found).settings if each.name == name)


def test_mysql_says_who_set_a_value_and_when() -> None:
    found = parse_origins(MYSQL_ROWS)
    assert found["sync_binlog"] == Origin(kind="SET", account="app@10.0.0.5", at="2026-11-27 05:04:45")
    assert found["innodb_io_capacity"] == Origin(kind="option file", path="/etc/mysql/my.cnf")
    assert found["innodb_flush_neighbors"].kind == "persisted"
    assert found["foreign_key_checks"].kind == "computed"  # nobody set it


def test_mariadb_says_whether_a_value_was_set() -> None:
    found = parse_origins(MARIADB_ROWS)
    assert found["sync_binlog"] == Origin(kind="SET")
    assert found["innodb_io_capacity"] == Origin(kind="option file", path="/etc/mysql/my.cnf")
    assert found["back_log"].kind == "computed"


@pytest.mark.parametrize("identity", [MYSQL97, MARIADB, MYSQL57])
def test_the_sources_are_asked_once(identity: ServerIdentity) -> None:
    asked = {each.name: each for each in doctor_questions(identity, {})}
    wanted = {MYSQL97: 2, MARIADB: 1, MYSQL57: 0}[identity]
    once = [each for each in asked.values() if each.every_s > 3600]
    assert len(once) == wanted


def test_a_value_of_an_option_file_has_its_line() -> None:
    told = seen(origins=parse_origins(MYSQL_ROWS), settings={"innodb_io_capacity": 500}, start=start(MYSQL97))
    assert one(told, "innodb_io_capacity").place == "/etc/mysql/my.cnf:4"
    far = seen(origins=parse_origins(MYSQL_ROWS), settings={"innodb_io_capacity": 500})
    assert one(far, "innodb_io_capacity").place == "/etc/mysql/my.cnf"


@pytest.mark.parametrize(
    ("more", "after", "source"),
    [
        ({"start": start(MYSQL97)}, 10, "/etc/mysql/my.cnf:3"),
        ({"start": start(MYSQL97, "[mysqld]\n")}, 1, "default"),
        ({"start": start(MYSQL97, arguments={"sync_binlog": 7})}, 7, "command line"),
        ({"start": start(MYSQL97, arguments={"sync_binlog": 7}), "persisted": {"sync_binlog": "3"}}, 3,
         "persisted"),
        ({"persisted": {"sync_binlog": "3"}}, 3, "persisted"),
        ({"persisted": {"sync_binlog": "100"}, "start": start(MYSQL97)}, None, ""),
        ({"start": start(MYSQL97, "[mysqld]\nsync_binlog=100\n")}, None, ""),
        ({}, None, "unseen"),
        ({"start": start(MYSQL97, "[mysqld]\n", unread=("/etc/my.cnf",))}, None, "unseen"),
    ],
)  # fmt: skip
def test_a_restart_takes_persisted_then_arguments_then_files(
    more: dict[str, Any], after: int | None, source: str
) -> None:
    found = one(seen(origins=parse_origins(MYSQL_ROWS), **more))
    assert (found.origin, found.account) == ("SET", "app@10.0.0.5")
    assert (found.at_restart, found.restart_origin) == (after, source)


def test_persisted_values_that_were_not_told_are_not_called_lost() -> None:
    told = seen(origins={"sync_binlog": Origin(kind="persisted")}, start=start(MYSQL97, "[mysqld]\n"))
    after = msgspec.structs.replace(told.after, failed=frozenset({questions.PERSISTED}))
    found = one(msgspec.structs.replace(told, after=after))
    assert (found.at_restart, found.restart_origin) == (None, "")


def test_persisted_values_do_not_count_where_they_are_not_loaded() -> None:
    found = seen(
        origins=parse_origins(MYSQL_ROWS),
        persisted={"sync_binlog": "3"},
        variables={"persisted_globals_load": "OFF"},
        start=start(MYSQL97),
    )
    assert one(found).at_restart == 10


def test_a_file_that_was_changed_since_the_start_is_found() -> None:
    origins = {"sync_binlog": Origin(kind="option file", path="/etc/mysql/my.cnf")}
    assert one(seen(origins=origins, start=start(MYSQL97))).at_restart == 10


def test_the_value_in_force_came_from_the_file_that_the_server_names() -> None:
    """Another file has been added since."""
    origins = {"sync_binlog": Origin(kind="option file", path="/etc/mysql/conf.d/a.cnf")}
    found = one(seen(origins=origins, start=start(MYSQL97)))
    assert (found.place, found.restart_origin) == ("/etc/mysql/conf.d/a.cnf", "/etc/mysql/my.cnf:3")


def test_a_value_that_the_server_rounds_is_the_same_after_a_restart() -> None:
    text = "[mysqld]\ninnodb_buffer_pool_size = 200000000\n"
    settings: dict[str, Value] = {"innodb_buffer_pool_size": 199229440}
    origins = {"innodb_buffer_pool_size": Origin(kind="option file", path="/etc/mysql/my.cnf")}
    found = seen(MARIADB, origins=origins, settings=settings, start=start(MARIADB, text))
    assert one(found, "innodb_buffer_pool_size").at_restart is None


def test_a_pool_that_the_server_fills_up_to_whole_chunks_is_the_same_after_a_restart() -> None:
    text = "[mysqld]\ninnodb_buffer_pool_size = 1300M\n"
    origins = {"innodb_buffer_pool_size": Origin(kind="option file", path="/etc/mysql/my.cnf")}
    found = seen(
        origins=origins,
        settings={"innodb_buffer_pool_size": 2 << 30},
        variables={"innodb_buffer_pool_chunk_size": str(128 << 20), "innodb_buffer_pool_instances": "8"},
        start=start(MYSQL97, text),
    )
    assert one(found, "innodb_buffer_pool_size").at_restart is None
    smaller = msgspec.structs.replace(
        found, start=start(MYSQL97, "[mysqld]\ninnodb_buffer_pool_size = 900M\n")
    )
    assert one(smaller, "innodb_buffer_pool_size").at_restart == 900 << 20


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"start": start(MYSQL57, "[mysqld]\nsync_binlog=100\n")}, "option file"),
        ({"start": start(MYSQL57, "[mysqld]\n", arguments={"sync_binlog": 100})}, "command line"),
        ({"start": start(MYSQL57, "[mysqld]\n")}, "SET"),
        ({"start": start(MYSQL57, "[mysqld]\n", unread=("/etc/my.cnf",))}, None),
        ({}, None),
        ({"settings": {"sync_binlog": 1}}, "default"),
    ],
)
def test_of_a_server_that_does_not_tell_the_files_do(more: dict[str, Any], kind: str | None) -> None:
    found = seen(MYSQL57, **more)
    assert one(found).origin == kind
    assert "where values came from: MySQL 5.7 does not tell" in state_of(found).unseen


def test_mistakes_of_the_option_file_are_named() -> None:
    found = state_of(seen(origins={}, start=start(MYSQL97)))
    (problem,) = [each for each in found.problems if "query_cache_size" in each.text]
    assert problem.place == "/etc/mysql/my.cnf:5"


def test_the_version_says_what_it_does_by_itself() -> None:
    settings: dict[str, Value] = {
        "gtid_mode": "ON",
        "innodb_log_writer_threads": "OFF",
        "innodb_flush_method": "O_DIRECT",
        "innodb_dedicated_server": "ON",
        "innodb_buffer_pool_size": 8 << 30,
        "innodb_redo_log_capacity": 2 << 30,
    }
    chosen = {"innodb_redo_log_capacity": Origin(kind="command line")}
    dedicated = {"innodb_dedicated_server": "ON"}
    told = state_of(seen(origins=chosen, settings=settings, variables=dedicated, host=host(cpus=8))).by_itself
    assert "innodb_dedicated_server derives innodb_buffer_pool_size=8G from the machine's memory" in told
    assert "gtid_mode=ON by default; 8.4 had OFF" in told
    assert "innodb_log_writer_threads=OFF: with a binary log, ON from 32 logical CPUs on, here 8" in told
    assert not any("innodb_flush_method" in text for text in told)  # as 8.4 had it
    by_hand = {name: Origin(kind="option file") for name in settings}
    assert state_of(seen(origins=by_hand, settings=settings, variables=dedicated)).by_itself == (
        "innodb_dedicated_server is on and derives nothing: the sizes are set",
    )


def test_without_a_binary_log_writer_threads_come_earlier() -> None:
    settings: dict[str, Value] = {"innodb_log_writer_threads": "ON", "log_bin": "OFF"}
    told = state_of(seen(origins={}, settings=settings, variables={"log_bin": "OFF"})).by_itself
    assert "innodb_log_writer_threads=ON: without a binary log, ON from 5 logical CPUs on" in told


def test_the_report_says_what_a_restart_changes() -> None:
    found = diagnose(seen(origins=parse_origins(MYSQL_ROWS), start=start(MYSQL97)))
    assert "A restart changes: sync_binlog 100 to 10." in text_of(document(found))
    told = " ".join(text_of(document(found), full=True).split())
    assert (
        "sync_binlog=100: SET GLOBAL by app@10.0.0.5, 2026-11-27 05:04:45; after a restart 10"
        " (/etc/mysql/my.cnf:3)" in told
    )
    unsure = diagnose(seen(origins=parse_origins(MYSQL_ROWS)))
    assert "A restart changes" not in text_of(document(unsure))
    assert "a restart loses it, unless an option file has it" in " ".join(
        text_of(document(unsure), full=True).split()
    )


def test_a_value_in_a_file_is_not_called_a_default() -> None:
    settings: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}
    found = seen(settings=settings, files=("variables: SHOW GLOBAL VARIABLES",))
    assert one(found).origin is None
    lines = text_of(document(diagnose(found)), full=True).splitlines()
    assert "- sync_binlog=1" in [line.strip() for line in lines]
    assert not any(line.endswith(": default") for line in lines)
