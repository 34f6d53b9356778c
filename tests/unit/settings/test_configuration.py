from __future__ import annotations

from flushlab.settings.configuration import Configuration
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
