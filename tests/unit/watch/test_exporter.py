"""A scrape: what is in it, in which format, and what it costs the server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

from flushlab.record import LoadSeen
from flushlab.record.running import FillProgress, Running, ShownRatio
from flushlab.telemetry.live.questions import parse_threads
from flushlab.watch import metrics
from flushlab.watch.exporter import Exporter
from flushlab.watch.metrics import value_of
from flushlab.watch.poller import PollResult
from tests.unit.telemetry.live.told import seen
from tests.unit.watch.judged import JUDGED

OPEN = "application/openmetrics-text; version=1.0.0"
RUNNING = Running(
    kind="compare",
    campaign="compare-1",
    server="mariadb@10.11.19",
    workload="upsert",
    floor="second",
    pid=7,
    began=1.0,
    arm="flush=2",
    stage="arms",
    round=3,
    trial=9,
    left_s=80.0,
    unit="rows/s",
    totals=LoadSeen(
        events=60,
        errors=((1213, 2),),
        latencies_us=((90, 10), (1500, 40), (30_000_000, 10)),
        latency_sum_s=2.5,
    ),
    trial_results={"flush=2": 1234.5},
    ratios=(ShownRatio(arm="flush=2", low=1.4, mid=1.45, high=1.5, early=True, objective="p99"),),
    fill=FillProgress(
        table="users",
        rows=5,
        total=10,
        bytes=9,
        rows_per_s=1.0,
        left_s=5.0,
        bound_by="the disk",
        rows_by_table={"users": 5},
    ),
)


def scraped(known: PollResult, running: Running | None = None) -> dict[str, float]:
    _, text = Exporter().exposition(known, running, 0.5, "")
    return {
        f"{sample.name}{sorted(sample.labels.items()) or ''}": sample.value
        for family in plain(text.decode())
        for sample in family.samples
    }


def test_a_server_that_is_gone_is_down_and_no_error() -> None:
    found = scraped(PollResult(up=False, since=1.0, why="gone", seen=seen()))
    assert found["mysql_up"] == 0
    assert not any(name.startswith("mysql_global") for name in found)
    assert found["flushlab_watch_cpu_seconds_total"] == 0.5


def test_without_a_server_to_watch_none_is_down() -> None:
    assert "mysql_up" not in scraped(PollResult(why="no server"))


def test_what_an_account_may_not_see_is_named_and_the_rest_is_there() -> None:
    told = seen(
        threads=None, missing=("PROCESS",), took_s={"info_schema.processlist": 0.1, "global_status": 0.1}
    )
    found = scraped(
        PollResult(up=True, seen=msgspec.structs.replace(told, failed=frozenset({"info_schema.processlist"})))
    )
    assert found["mysql_exporter_collector_success[('collector', 'collect.info_schema.processlist')]"] == 0
    assert found["mysql_exporter_collector_success[('collector', 'collect.global_status')]"] == 1
    assert found["flushlab_missing_privilege[('privilege', 'PROCESS')]"] == 1
    assert found["mysql_global_status_uptime"] == 100


def test_what_runs_is_told() -> None:
    found = scraped(PollResult(), RUNNING)
    assert found["flushlab_events_total[('kind', 'rows')]"] == 60
    assert found["flushlab_errors_total[('code', '1213')]"] == 2
    assert found["flushlab_trial_events_per_second[('arm', 'flush=2')]"] == 1234.5
    ratio = "[('arm', 'flush=2'), ('bound', 'low'), ('early', 'true'), ('objective', 'p99')]"
    assert found[f"flushlab_ratio{ratio}"] == 1.4
    assert found["flushlab_rows_total[('table', 'users')]"] == 5
    assert found["flushlab_budget_seconds_left"] == 80
    info = "[('arm', 'flush=2'), ('block', '3'), ('stage', 'arms'), ('trial', '9')]"
    assert found[f"flushlab_trial_info{info}"] == 1
    assert "flushlab_backlog_events" not in found
    assert found["flushlab_event_seconds_count"] == 60
    assert found["flushlab_event_seconds_sum"] == 2.5


def test_buckets_are_cumulative_and_end_with_everything() -> None:
    counts = metrics.buckets(((90, 10), (1500, 40), (30_000_000, 10)))
    assert counts[0] == ("0.0001", 10)
    assert dict(counts)["0.0018"] == 50
    assert [count for _, count in counts] == sorted(count for _, count in counts)
    assert counts[-1] == ("+Inf", 60)


def test_what_bounds_writes_is_told_of_a_server_that_is_diagnosed() -> None:
    found = scraped(PollResult(up=True, seen=seen(), judged=JUDGED))
    assert found["flushlab_writer_wait_seconds_total[('wait', 'commit')]"] == 321.25
    first = JUDGED.diagnosis.findings[0]
    assert first.name == "commit_sync" and first.share is not None
    share = "flushlab_finding_share_ratio[('bound', '{}'), ('finding', 'commit_sync')]"
    assert [found[share.format(bound)] for bound in ("low", "mid", "high")] == [
        first.share.low,
        first.share.mid,
        first.share.high,
    ]
    assert found["flushlab_finding_speedup_limit_ratio[('finding', 'commit_sync')]"] == first.at_most
    assert found["flushlab_finding_info[('finding', 'commit_sync'), ('strength', 'binds')]"] == 1
    assert found["flushlab_finding_samples"] == JUDGED.diagnosis.evidence.time.samples
    assert not any("finding" in name for name in scraped(PollResult(up=True, seen=seen())))
    assert not any("finding" in name for name in scraped(PollResult(seen=seen(), judged=JUDGED)))


def test_both_formats_are_whole() -> None:
    exporter, known = Exporter(), PollResult(up=True, seen=seen())
    kind, text = exporter.exposition(known, RUNNING, 0.5, OPEN)
    assert kind.startswith("application/openmetrics-text")
    assert text.count(b"# EOF") == 1
    parse: Any = open_metrics
    names = {family.name for family in parse(text.decode())}
    assert {"mysql_global_variables_max_connections", "mysql_up", "flushlab_event_seconds"} <= names
    again = {family.name for family in plain(exporter.exposition(known, RUNNING, 0.5, "")[1].decode())}
    assert "mysql_global_variables_max_connections" in again


def test_names_that_somebody_chose_stay_names() -> None:
    hostile = 'a"} 1\nmysql_up 7\\'
    told = seen(threads=parse_threads([(hostile, "h", "Sleep", "", 1, 1, 1, 0)]))
    found = scraped(PollResult(up=True, seen=told))
    assert found["mysql_up"] == 1
    assert any(hostile in name.encode().decode("unicode_escape") for name in found)


def test_samples_that_could_not_be_taken_are_counted_even_if_nothing_else_changes() -> None:
    exporter, known = Exporter(), PollResult()
    assert b"flushlab_watch_failed_samples_total 0.0" in exporter.exposition(known, None, 0.5, "")[1]
    assert b"flushlab_watch_failed_samples_total 3.0" in exporter.exposition(known, None, 0.5, "", 3)[1]


def test_a_scrape_that_piles_up_gets_the_last_answer() -> None:
    exporter, known = Exporter(), PollResult(up=True, seen=seen())
    first = exporter.exposition(known, None, 0.5, "")[1]
    assert exporter.exposition(known, None, 0.6, "")[1] is first
    assert exporter.exposition(PollResult(up=True, seen=seen()), None, 0.6, "")[1] is not first


def test_a_label_that_is_gone_does_not_stay() -> None:
    exporter = Exporter()
    assert b'mysql_user="app"' in exporter.exposition(PollResult(up=True, seen=seen()), None, 0, "")[1]
    assert (
        b'mysql_user="app"'
        not in exporter.exposition(PollResult(up=True, seen=seen(threads=())), None, 0, "")[1]
    )


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
