"""Names, types, labels and values as mysqld_exporter gives them."""

from __future__ import annotations

import pytest
from prometheus_client.core import Metric

from flushlab.watch import metrics
from flushlab.watch.metrics import value_of
from tests.unit.telemetry.live.told import seen


def samples(families: list[Metric]) -> dict[tuple[str, tuple[tuple[str, str], ...]], tuple[str, float]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): (family.type, sample.value)
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ON", 1.0),
        ("Yes", 1.0),
        ("DISABLED", 0.0),
        ("Primary", 1.0),
        ("non-Primary", 0.0),
        ("12", 12.0),
        ("0.900000", 0.9),
        ("Nov 19 10:40:13 2036 GMT", 2110704013.0),
        ("2024-05-06 07:08:09", 1714979289.0),
        ("9.7.4", None),
        ("mysql-bin.000001", None),
        ("1_0", None),
        ("", None),
        ("REPEATABLE-READ", None),
        ("0x10", None),
    ],
)
def test_values(text: str, value: float | None) -> None:
    assert value_of(text) == value


def test_status() -> None:
    found = samples(list(metrics.status(seen())))
    prefix = "mysql_global_status_"
    assert found[f"{prefix}uptime", ()] == ("unknown", 100)
    assert found[f"{prefix}commands_total", (("command", "commit"),)] == ("counter", 400)
    assert found[f"{prefix}handlers_total", (("handler", "write"),)] == ("counter", 12)
    assert found[f"{prefix}connection_errors_total", (("error", "accept"),)] == ("counter", 0)
    assert found[f"{prefix}innodb_row_ops_total", (("operation", "inserted"),)] == ("counter", 50)
    assert found[f"{prefix}buffer_pool_pages", (("state", "free"),)] == ("gauge", 80)
    assert found[f"{prefix}buffer_pool_dirty_pages", ()] == ("gauge", 20)
    assert found[f"{prefix}buffer_pool_page_changes_total", (("operation", "flushed"),)] == ("counter", 7)
    assert found[f"{prefix}performance_schema_lost_total", (("instrumentation", "users_lost"),)][1] == 0
    assert found[f"{prefix}innodb_redo_log_enabled", ()] == ("unknown", 1)
    assert not any(value == "total" for _, labels in found for _, value in labels)
    assert not any("rsa" in name for name, _ in found)


def test_variables() -> None:
    found = samples(list(metrics.variables(seen())))
    assert found["mysql_global_variables_max_connections", ()] == ("gauge", 151)
    assert found["mysql_global_variables_long_query_time", ()] == ("gauge", 10)
    version = (
        ("innodb_version", "9.7.4"),
        ("version", "9.7.4"),
        ("version_comment", "MySQL Community Server - GPL"),
    )
    assert found["mysql_version_info", version] == ("gauge", 1)
    galera = samples(list(metrics.variables(seen(variables={"wsrep_cluster_name": "my_wsrep_cluster"}))))
    assert galera["mysql_galera_variables_info", (("wsrep_cluster_name", "my_wsrep_cluster"),)] == (
        "gauge",
        1,
    )
    assert found["mysql_transaction_isolation", (("level", "REPEATABLE-READ"),)] == ("gauge", 1)
    assert "mysql_global_variables_version" not in {name for name, _ in found}


def test_threads() -> None:
    found = samples(list(metrics.threads(seen())))
    prefix = "mysql_info_schema_processlist_"
    sleeping = (("command", "sleep"), ("state", "unknown"))
    assert found[f"{prefix}threads", sleeping] == ("gauge", 120)
    assert found[f"{prefix}seconds", sleeping] == ("gauge", 9000)
    assert found[f"{prefix}threads", (("command", "query"), ("state", "sending_to_client_ab_c"))][1] == 3
    assert found[f"{prefix}processes_by_user", (("mysql_user", "app"),)][1] == 123
    assert found[f"{prefix}processes_by_host", (("client_host", "10.0.0.5"),)][1] == 123


def test_innodb_metrics() -> None:
    found = samples(list(metrics.innodb_metrics(seen())))
    prefix = "mysql_info_schema_innodb_metrics_"
    assert found == {
        (f"{prefix}buffer_pool_dirty_pages", ()): ("gauge", 20),
        (f"{prefix}buffer_pool_pages", (("state", "data"),)): ("gauge", 300),
        (f"{prefix}buffer_buffer_pool_reads_total", ()): ("counter", 12),
        (f"{prefix}buffer_page_written_total", (("type", "undo_log"),)): ("counter", 9),
        (f"{prefix}transaction_trx_rseg_history_len", ()): ("gauge", 5),
    }
