"""The way back: the user's own value where the file has one, else what the server had without the change."""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.advice.statements import persisted_comments, rollback_file, rollback_statements
from flushlab.record import Value
from flushlab.settings.check import check
from tests.unit.settings.servers import MARIADB1011, MYSQL57, MYSQL80

CHANGES: Mapping[str, Value] = {
    "innodb_flush_log_at_trx_commit": 2,
    "innodb_log_buffer_size": 64 << 20,
    "innodb_flush_method": "O_DIRECT",
}
OWN: Mapping[str, Value] = {"innodb_flush_log_at_trx_commit": 1, "innodb_flush_method": "fsync", "port": 3306}
BEFORE: Mapping[str, Value] = {**OWN, "innodb_log_buffer_size": 16 << 20}


def test_the_file_has_the_users_own_values_and_names_the_lines_to_remove() -> None:
    text = rollback_file(CHANGES, OWN, BEFORE, MYSQL57, comments=["campaign x"])
    assert check(text, MYSQL57).settings == {
        "innodb_flush_log_at_trx_commit": 1,
        "innodb_flush_method": "fsync",
    }
    assert "# campaign x\n" in text
    assert "# innodb_log_buffer_size was not in your option file: remove its line" in text
    assert "16M" in text


def test_a_server_without_persisted_settings_is_given_what_it_had() -> None:
    assert rollback_statements(CHANGES, OWN, BEFORE, MARIADB1011) == [
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1;",
        "-- remove innodb_log_buffer_size: needs a restart; put rollback.cnf in place of the advised lines",
        "-- innodb_flush_method = fsync: needs a restart; put rollback.cnf in place of the advised lines",
    ]


def test_what_was_persisted_is_forgotten_before_the_old_value_is_set() -> None:
    lines = rollback_statements(CHANGES, OWN, BEFORE, MYSQL80)
    assert lines[:2] == [
        "RESET PERSIST IF EXISTS innodb_flush_log_at_trx_commit;",
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1;",
    ]
    assert lines.count("RESET PERSIST IF EXISTS innodb_flush_method;") == 1


def test_a_value_that_nobody_knows_goes_back_to_the_servers_default() -> None:
    assert rollback_statements({"sync_binlog": 0}, {}, {}, MYSQL57) == ["SET GLOBAL sync_binlog = DEFAULT;"]


def test_of_an_option_file_that_was_not_seen_the_values_that_the_server_had_are_written() -> None:
    text = rollback_file(
        {"sync_binlog": 0}, {"sync_binlog": 1}, {"sync_binlog": 1}, MARIADB1011, is_seen=False
    )
    assert "sync_binlog = 1\n" in text
    assert "was not in your option file" not in text
    assert "flushlab has not seen" in text


def test_what_the_server_has_persisted_otherwise_is_named_for_it_wins_over_the_file() -> None:
    stored = {"innodb_flush_log_at_trx_commit": "1", "innodb_flush_method": "O_DIRECT", "sync_binlog": "0"}
    assert persisted_comments(CHANGES, stored, MYSQL80) == [
        "SET PERSIST wins over this file: innodb_flush_log_at_trx_commit = 1 is stored."
        " RESET PERSIST innodb_flush_log_at_trx_commit; or run settings.sql."
    ]
    (unknown,) = persisted_comments(CHANGES, None, MYSQL80)
    assert unknown.startswith("SET PERSIST wins over an option file")
    assert persisted_comments(CHANGES, None, MARIADB1011) == []
