from __future__ import annotations

import pytest

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.settings.reading import negated, read
from tests.unit.settings.servers import MARIADB1011, MYSQL57, MYSQL80, MYSQL97


def here(name: str, server: ServerIdentity) -> SettingHere:
    return load_catalog().require(name, server.flavor, server.version)


@pytest.mark.parametrize(
    ("name", "server", "text", "value", "kind"),
    [
        ("sync_binlog", MYSQL80, "1", 1, ""),
        ("sync_binlog", MYSQL80, "2k", 2048, ""),
        ("sync_binlog", MYSQL80, "99999999999", 4294967295, "out-of-range"),
        ("sync_binlog", MYSQL80, "often", None, "wrong-type"),
        ("sync_binlog", MYSQL80, "", None, "wrong-type"),
        ("sync_binlog", MYSQL80, None, None, "wrong-type"),
        ("sync_binlog", MYSQL80, "1.0", None, "wrong-type"),
        ("innodb_io_capacity", MYSQL80, "-5", 100, "out-of-range"),
        ("innodb_io_capacity", MARIADB1011, "-5", None, "out-of-range"),
        ("innodb_log_buffer_size", MYSQL57, "1T", None, "wrong-type"),
        ("innodb_log_buffer_size", MYSQL80, "1T", 1 << 40, ""),
        ("innodb_log_buffer_size", MARIADB1011, "1T", 2147479552, "out-of-range"),
        ("innodb_log_buffer_size", MYSQL80, "1.5G", None, "wrong-type"),
        ("binlog_cache_size", MYSQL80, "5000", 4096, "rounded"),
        ("innodb_log_write_ahead_size", MYSQL80, "5000", 4096, "rounded"),
        ("innodb_page_size", MYSQL80, "10000", None, "out-of-range"),
        ("innodb_max_dirty_pages_pct", MYSQL80, "150", 99.999, "out-of-range"),
        ("innodb_max_dirty_pages_pct", MYSQL80, "90K", None, "wrong-type"),
        ("innodb_max_dirty_pages_pct", MYSQL80, "80.5", 80.5, ""),
        ("innodb_buffer_pool_size", MYSQL57, "maybe", 5242880, "wrong-type"),
        ("innodb_buffer_pool_size", MARIADB1011, "maybe", 2097152, "wrong-type"),
        ("sync_binlog", MYSQL80, "maybe", 0, "wrong-type"),
        ("innodb_doublewrite", MYSQL80, "off", "OFF", ""),
        ("innodb_doublewrite", MYSQL80, "no", "ON", "wrong-type"),
        ("innodb_doublewrite", MYSQL97, "no", None, "wrong-type"),
        ("innodb_doublewrite", MYSQL97, "FALSE", "OFF", ""),
        ("innodb_file_per_table", MYSQL80, None, "ON", ""),
        ("innodb_file_per_table", MARIADB1011, "2", "ON", "wrong-type"),
        ("binlog_format", MYSQL80, "1", "STATEMENT", ""),
        ("binlog_format", MYSQL80, "st", "STATEMENT", ""),
        ("binlog_format", MYSQL80, "raw", None, "wrong-type"),
        ("binlog_format", MYSQL80, "+1", "STATEMENT", ""),
        ("binlog_format", MYSQL80, "-0", "MIXED", ""),
        ("binlog_format", MYSQL80, "-1", None, "wrong-type"),
        ("binlog_format", MYSQL80, "+3", None, "wrong-type"),
        ("innodb_doublewrite", MYSQL97, "+1", "ON", ""),
        ("innodb_flush_method", MYSQL80, "1", "O_DSYNC", ""),
        ("innodb_flush_method", MYSQL80, "o_direct", "O_DIRECT", ""),
        ("innodb_flush_method", MYSQL57, "O_DIRECT", "O_DIRECT", ""),
        ("innodb_flush_method", MYSQL57, "o_direct", None, "wrong-type"),
        ("innodb_flush_method", MYSQL57, "1", None, "wrong-type"),
        ("innodb_change_buffering", MYSQL57, "INSERTS", "inserts", ""),
        ("innodb_change_buffering", MYSQL57, "ins", None, "wrong-type"),
        ("innodb_change_buffering", MYSQL57, "1", None, "wrong-type"),
        ("sql_mode", MYSQL80, "+4", "+4", ""),
        ("sql_mode", MYSQL80, "8589934591", "8589934591", ""),
        ("sql_mode", MYSQL80, "99999999999", None, "wrong-type"),
        ("sql_mode", MARIADB1011, "34359738367", "34359738367", ""),
        ("sql_mode", MARIADB1011, "34359738368", None, "wrong-type"),
        ("log_bin", MYSQL80, None, "ON", ""),
        ("log_bin", MYSQL80, "/var/log/bin", "ON", ""),
        ("log_bin", MYSQL80, "OFF", "ON", "not-a-switch"),
    ],
)
def test_text_means_what_the_server_makes_of_it(
    name: str, server: ServerIdentity, text: str | None, value: Value | None, kind: str
) -> None:
    found = read(here(name, server), text)
    assert (found.value, found.kind) == (value, kind)
    assert found.fatal == (value is None)
    assert bool(found.text) == bool(kind)


def test_a_misspelled_value_is_told_the_nearest() -> None:
    assert read(here("innodb_flush_method", MYSQL80), "O_DIRCT").hint == "did you mean O_DIRECT?"


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("innodb_doublewrite", "OFF", ""),
        ("innodb_flush_neighbors", 0, "prefix"),
        ("innodb_io_capacity", 100, "out-of-range"),
        ("binlog_format", "MIXED", "prefix"),
    ],
)
def test_skip_means_off_or_nought(name: str, value: Value | None, kind: str) -> None:
    found = negated(here(name, MYSQL80))
    assert (found.value, found.kind) == (value, kind)


@pytest.mark.parametrize(("text", "value"), [("1GB", 1 << 30), ("100MiB", 100 << 20), ("64kx", 64 << 10)])
def test_servers_read_nothing_behind_the_first_letter_of_a_size(text: str, value: int) -> None:
    assert read(here("max_binlog_size", MYSQL80), text).value == value
