from __future__ import annotations

from flushlab.settings.redo import redo_capacity_bytes
from tests.unit.settings.servers import MARIADB1011, MYSQL57, MYSQL80, MYSQL97

MIB = 1 << 20


def test_defaults_count_where_nothing_is_set() -> None:
    assert redo_capacity_bytes({}, MARIADB1011) == 96 * MIB
    assert redo_capacity_bytes({}, MYSQL57) == 96 * MIB
    assert redo_capacity_bytes({}, MYSQL97) == 100 * MIB


def test_files_are_multiplied_by_their_number_on_older_mysql() -> None:
    settings = {"innodb_log_file_size": 512 * MIB, "innodb_log_files_in_group": 4}
    assert redo_capacity_bytes(settings, MYSQL80) == 2048 * MIB


def test_mariadb_has_one_file() -> None:
    assert redo_capacity_bytes({"innodb_log_file_size": "1G"}, MARIADB1011) == 1024 * MIB


def test_capacity_rules_on_newer_mysql() -> None:
    assert redo_capacity_bytes({"innodb_redo_log_capacity": 8192 * MIB}, MYSQL97) == 8192 * MIB
