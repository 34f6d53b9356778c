from __future__ import annotations

import pytest

from flushlab.advice.statements import lost_at_restart, set_statements, statements_file, verification
from flushlab.errors import UnknownSetting
from flushlab.record import Value
from tests.unit.settings.servers import MARIADB118, MARIADB1011, MYSQL57, MYSQL80

SETTINGS: dict[str, Value] = {
    "innodb_flush_log_at_trx_commit": 2,
    "innodb_flush_method": "O_DIRECT",
    "innodb_adaptive_flushing": "ON",
    "log_bin": "OFF",
    "transaction_isolation": "READ-COMMITTED",
}


def test_mysql_8_persists_also_what_needs_a_restart() -> None:
    assert set_statements(SETTINGS, MYSQL80) == [
        "SET PERSIST innodb_flush_log_at_trx_commit = 2;",
        "SET PERSIST_ONLY innodb_flush_method = 'O_DIRECT';  -- needs a restart",
        "SET PERSIST innodb_adaptive_flushing = ON;",
        "-- skip_log_bin: needs a restart; set it in the option file",
        "SET PERSIST transaction_isolation = 'READ-COMMITTED';",
    ]


def test_mysql_57_sets_globals_and_points_to_the_option_file() -> None:
    assert set_statements(SETTINGS, MYSQL57) == [
        "SET GLOBAL innodb_flush_log_at_trx_commit = 2;",
        "-- innodb_flush_method = O_DIRECT: needs a restart; set it in the option file",
        "SET GLOBAL innodb_adaptive_flushing = ON;",
        "-- skip_log_bin: needs a restart; set it in the option file",
        "SET GLOBAL transaction_isolation = 'READ-COMMITTED';",
    ]


def test_mariadb_is_set_under_the_variables_own_name() -> None:
    assert set_statements(SETTINGS, MARIADB1011)[-1] == "SET GLOBAL tx_isolation = 'READ-COMMITTED';"


def test_a_statement_that_may_change_nothing_says_so() -> None:
    (line,) = set_statements({"innodb_buffer_pool_size": "1G"}, MARIADB118)
    assert line.startswith("SET GLOBAL innodb_buffer_pool_size = 1073741824;  -- may take a restart")
    assert "--" not in set_statements({"innodb_buffer_pool_size": "1G"}, MARIADB1011)[0]


@pytest.mark.parametrize(
    ("change", "now", "advised"),
    [
        ({"innodb_flush_sync": "OFF"}, "IF(@@GLOBAL.innodb_flush_sync, 'ON', 'OFF')", "OFF"),
        (
            {"innodb_max_dirty_pages_pct": 75},
            "TRIM(TRAILING '0' FROM CAST(@@GLOBAL.innodb_max_dirty_pages_pct AS CHAR))),"
            " CAST(@@GLOBAL.innodb_max_dirty_pages_pct AS CHAR)",
            "75",
        ),
        ({"innodb_io_capacity": 800}, "CAST(@@GLOBAL.innodb_io_capacity AS CHAR)", "800"),
    ],
)
def test_the_value_in_force_and_the_advised_one_are_spelled_alike(
    change: dict[str, Value], now: str, advised: str
) -> None:
    text = verification(change, MYSQL80)
    assert f"{now} AS now, '{advised}' AS advised;" in text or f"{now}) AS now, '{advised}'" in text


def test_a_setting_that_the_server_lacks_is_refused() -> None:
    with pytest.raises(UnknownSetting):
        set_statements({"innodb_page_cleaners": 4}, MARIADB1011)


def test_statements_that_a_restart_forgets_say_so_where_they_are_handed_over() -> None:
    for server in (MARIADB1011, MYSQL57):
        first = statements_file(SETTINGS, server).splitlines()[0]
        assert first == "-- SET GLOBAL is lost at a restart: add my.cnf to the option file too."
    assert lost_at_restart(SETTINGS, MYSQL80) == [], "SET PERSIST survives it"
    assert lost_at_restart({"innodb_flush_method": "O_DIRECT"}, MYSQL57) == []
