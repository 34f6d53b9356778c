from __future__ import annotations

from msgspec.structs import replace

from flushlab.settings.configuration import Configuration, layout_of
from tests.unit.settings.servers import MARIADB1011, MYSQL57, MYSQL80, MYSQL97

MIB = 1 << 20


def test_defaults_count_where_nothing_is_set() -> None:
    assert Configuration({}, MARIADB1011).redo_capacity_bytes == 96 * MIB
    assert Configuration({}, MYSQL57).redo_capacity_bytes == 96 * MIB
    assert Configuration({}, MYSQL97).redo_capacity_bytes == 100 * MIB


def test_files_are_multiplied_by_their_number_on_older_mysql() -> None:
    settings = {"innodb_log_file_size": 512 * MIB, "innodb_log_files_in_group": 4}
    assert Configuration(settings, MYSQL80).redo_capacity_bytes == 2048 * MIB


def test_mariadb_has_one_file() -> None:
    assert Configuration({"innodb_log_file_size": "1G"}, MARIADB1011).redo_capacity_bytes == 1024 * MIB


def test_capacity_rules_on_newer_mysql() -> None:
    assert Configuration({"innodb_redo_log_capacity": 8192 * MIB}, MYSQL97).redo_capacity_bytes == 8192 * MIB


def test_what_the_server_reported_counts_before_what_was_given_and_that_before_the_default() -> None:
    name = "innodb_log_buffer_size"
    assert Configuration({}, MARIADB1011).value(name) == 16 * MIB
    assert Configuration({name: "64M"}, MARIADB1011).value(name) == 64 * MIB
    assert Configuration({name: "64M"}, MARIADB1011, {name: 32 * MIB}).value(name) == 32 * MIB


def test_names_follow_aliases_and_absent_settings_have_no_value() -> None:
    assert Configuration({"tx-isolation": "READ-COMMITTED"}, MYSQL80).value("transaction_isolation") == (
        "READ-COMMITTED"
    )
    assert (
        Configuration({"innodb_redo_log_capacity": "1G"}, MARIADB1011).value("innodb_redo_log_capacity")
        is None
    )
    assert Configuration({"sort_buffer_size": "4M"}, MYSQL57).value("sort_buffer_size") == "4M"


def test_values_are_compared_as_the_server_means_them() -> None:
    here = Configuration({}, MYSQL80)
    assert here.same("innodb_log_buffer_size", "64M", 64 * MIB)
    assert here.same("sort_buffer_size", "4M", 4 * MIB)
    assert not here.same("sort_buffer_size", None, 4 * MIB)
    assert here.default("innodb_doublewrite") == "ON"


def test_what_acts_on_the_binary_log_alone_has_no_effect_without_one() -> None:
    names = ("sync_binlog", "binlog_cache_size", "innodb_flush_log_at_trx_commit")
    without = Configuration({"log_bin": "OFF"}, MYSQL80)
    assert [name for name in names if without.without_effect(name)] == ["sync_binlog", "binlog_cache_size"]
    assert not any(map(Configuration({}, MYSQL97).without_effect, names)), "it is on by default"
    assert Configuration({}, MARIADB1011).without_effect("sync_binlog") == "no effect without a binary log"
    node = Configuration({}, replace(MARIADB1011, nodes=3))
    assert node.without_effect("sync_binlog")
    assert not node.without_effect("binlog_cache_size"), "write sets pass through it"


def test_settings_that_shape_files_are_picked_by_name() -> None:
    settings = {"lower_case_table_names": 1, "innodb_page_size": 8192, "sync_binlog": 0}
    assert layout_of(settings) == {"innodb_page_size": 8192, "lower_case_table_names": 1}
