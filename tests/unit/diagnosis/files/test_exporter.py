"""Scrapes of mysqld_exporter."""

from __future__ import annotations

from flushlab.diagnosis.files import exporter
from tests.unit.diagnosis.files.outputs import SCRAPE


def test_a_scrape_has_the_names_of_the_server() -> None:
    told = exporter.parse(SCRAPE)
    (status,), (variables,) = told.statuses, told.variables
    assert status == {
        "com_insert": "500",
        "handler_commit": "510",
        "innodb_rows_inserted": "900",
        "innodb_buffer_pool_pages_free": "12",
        "innodb_buffer_pool_pages_dirty": "30",
        "innodb_data_written": "12345670",
        "threads_running": "2",
        "uptime": "1000",
        "innodb_history_list_length": "44",
    }
    assert variables["version"] == "8.0.40"
    assert variables["innodb_buffer_pool_size"] == "134217728"
    assert told.file_events[0]["binlog"].syncs == 200
    assert told.file_events[0]["binlog"].sync_s == 0.4


def test_the_pages_of_the_pool_are_added_up() -> None:
    states = "".join(
        f'mysql_global_status_buffer_pool_pages{{state="{state}"}} {pages}\n'
        for state, pages in (("data", 900), ("misc", 88))
    )
    (status,) = exporter.parse(SCRAPE + states).statuses
    assert status["innodb_buffer_pool_pages_total"] == "1000"


def test_two_scrapes_in_a_file_are_two() -> None:
    told = exporter.parse(SCRAPE + SCRAPE.replace("uptime 1000", "uptime 1015"))
    assert [one["uptime"] for one in told.statuses] == ["1000", "1015"]
    assert len(told.file_events) == 2


def test_a_scrape_of_a_server_that_is_down_has_no_status() -> None:
    told = exporter.parse("mysql_up 0\nmysql_global_variables_sync_binlog 1\n")
    assert (told.statuses, told.timeless) == ((), 0)


def test_no_number_is_no_sample() -> None:
    told = exporter.parse("mysql_global_status_uptime NaN\nmysql_global_status_uptime_x +Inf\n")
    assert not told.statuses
