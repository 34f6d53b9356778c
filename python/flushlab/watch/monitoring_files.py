"""Files for Grafana and Prometheus: two dashboards with provisioning, a scrape each second, six alerts.

Classic schema, which Grafana 9 to 13 read. The data source is a variable of type `datasource`, so that import
by hand and provisioning both work (file provisioning fills no `__inputs`, grafana issue 10786). A trial is
shorter than the usual 15 s between scrapes of Prometheus.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flushlab import atomic
from flushlab.errors import NotWritable, UsageError

MADE = "made by flushlab watch"
"""Stands in every file that may be overwritten."""
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SOURCE_VARIABLE = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
_TRIALS = {
    "name": "Trials",
    "datasource": _SOURCE,
    "enable": True,
    "iconColor": "blue",
    "expr": "flushlab_trial_info",
    "titleFormat": "{{arm}}",
    "textFormat": "{{stage}} block {{block}}",
}
_COLUMNS, _HEIGHT = 3, 8
_OVER = "[$__rate_interval]"


class Panel(NamedTuple):
    """A panel: its title, its unit as Grafana names it, and expressions with their legends."""

    title: str
    unit: str
    queries: Mapping[str, str]
    kind: str = "timeseries"


def _rate(name: str) -> str:
    return f"rate({name}{_OVER})"


CAMPAIGN = (
    Panel("Events/s", "ops", {"{{kind}}": _rate("flushlab_events_total")}),
    Panel(
        "Latency",
        "s",
        {
            f"p{percent}": f"histogram_quantile({percent / 100:g}, sum by (le)"
            f" ({_rate('flushlab_event_seconds_bucket')}))"
            for percent in (50, 99)
        },
    ),
    Panel("Last finished trial of each arm", "ops", {"{{arm}}": "flushlab_trial_events_per_second"}),
    Panel("Ratio to the base", "none", {"{{arm}} {{bound}}, interim: {{early}}": "flushlab_ratio"}),
    Panel("Time left", "s", {"left": "flushlab_budget_seconds_left"}, "stat"),
    Panel(
        "Errors/s by number",
        "ops",
        {
            "{{code}}": _rate("flushlab_errors_total"),
            "all": f"sum({_rate('flushlab_errors_total')}) or sum({_rate('flushlab_events_total')}) * 0",
        },
    ),
    Panel("Rows loaded/s", "rowsps", {"{{table}}": _rate("flushlab_rows_total")}),
    Panel("Trial that runs", "none", {"{{arm}} {{stage}} block {{block}}": "flushlab_trial_info"}),
    Panel(
        "CPU that watching takes",
        "percentunit",
        {"flushlab watch": _rate("flushlab_watch_cpu_seconds_total")},
    ),
)
SERVER = (
    Panel(
        "Rows written/s",
        "rowsps",
        {"{{handler}}": _rate('mysql_global_status_handlers_total{handler=~"write|update|delete"}')},
    ),
    Panel(
        "Commands/s",
        "ops",
        {
            "{{command}}": _rate(
                'mysql_global_status_commands_total{command=~"insert|update|delete|replace|load|commit|rollback"}'
            )
        },
    ),
    Panel(
        "Commits/s in the engines",
        "ops",
        {"commits": _rate('mysql_global_status_handlers_total{handler="commit"}')},
    ),
    Panel(
        "Checkpoint age against capacity",
        "bytes",
        {
            "age": "flushlab_redo_checkpoint_age_bytes",
            "writers wait at": "flushlab_redo_limit_bytes",
            "capacity": "flushlab_redo_capacity_bytes",
        },
    ),
    Panel(
        "Dirty pages",
        "percentunit",
        {
            "dirty": "mysql_global_status_buffer_pool_dirty_pages / ignoring(state)"
            ' sum without (state) (mysql_global_status_buffer_pool_pages{state=~"data|free|misc"})'
        },
    ),
    Panel(
        "Syncs/s by file",
        "ops",
        {
            "{{file_class}}": _rate("flushlab_fsyncs_total"),
            "InnoDB's": _rate("mysql_global_status_innodb_data_fsyncs"),
        },
    ),
    Panel(
        "Bytes written/s",
        "Bps",
        {
            "redo": _rate("mysql_global_status_innodb_os_log_written"),
            "data": _rate("mysql_global_status_innodb_data_written"),
        },
    ),
    Panel(
        "Commits per group of the binary log",
        "none",
        {
            "commits per group (MariaDB)": f"{_rate('mysql_global_status_binlog_commits')}"
            f" / ({_rate('mysql_global_status_binlog_group_commits')} > 0)",
            "transactions per sync": f"{_rate('mysql_global_status_binlog_cache_use')} / ignoring(file_class)"
            f""" ({_rate('flushlab_fsyncs_total{file_class="binlog"}')} > 0)""",
        },
    ),
    Panel(
        "Row lock waits",
        "none",
        {
            "waiting now": "mysql_global_status_innodb_row_lock_current_waits",
            "begun/s": _rate("mysql_global_status_innodb_row_lock_waits"),
        },
    ),
    Panel(
        "Threads",
        "none",
        {
            "connected": "mysql_global_status_threads_connected",
            "running": "mysql_global_status_threads_running",
            "most that may connect": "mysql_global_variables_max_connections",
        },
    ),
    Panel("Connections by command", "none", {"{{command}}": "sum by (command) (flushlab_connections)"}),
    Panel(
        "Asleep inside a transaction",
        "none",
        {"{{user}}": 'sum by (user) (flushlab_connections_in_transaction{command="Sleep"})'},
    ),
    Panel(
        "Writers by wait, mean number",
        "none",
        {"{{wait}}": _rate("flushlab_writer_wait_seconds_total")},
    ),
    Panel(
        "Share of the writers' time",
        "percentunit",
        {"{{finding}}": 'flushlab_finding_share_ratio{bound="mid"}'},
    ),
    Panel("Most that a fix can gain", "none", {"{{finding}}": "flushlab_finding_speedup_limit_ratio"}),
    Panel("Clients that went away/s", "ops", {"aborted": _rate("mysql_global_status_aborted_clients")}),
)
DASHBOARDS = {
    "flushlab-campaign": ("flushlab: a campaign", CAMPAIGN),
    "flushlab-server": ("flushlab: a server's writes", SERVER),
}
"""By uid: title and panels. What only some servers tell says so in its title."""


class Alert(NamedTuple):
    """An alert: what must hold for how long, and what it means."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str


ALERTS = (
    Alert("ServerDown", "mysql_up == 0", "15s", "critical", "The server does not answer"),
    Alert(
        "RedoNearlyFull",
        "flushlab_redo_checkpoint_age_bytes / flushlab_redo_limit_bytes > 0.9",
        "1m",
        "warning",
        "Checkpoint age is over 90 % of that at which writers wait for pages to be flushed",
    ),
    Alert(
        "TransactionsStayOpen",
        'max by (instance) (flushlab_finding_info{finding="idle_transactions"}) > 0',
        "5m",
        "warning",
        "Transactions stay open for 10 s or longer: they hold locks and hold up purge",
    ),
    Alert(
        "ConnectionsNearlyUsedUp",
        "mysql_global_status_threads_connected / mysql_global_variables_max_connections > 0.8",
        "1m",
        "warning",
        "More than 80 % of max_connections are connected",
    ),
    Alert(
        "WritesBound",
        'flushlab_finding_share_ratio{bound="low", finding!="client"} > 0.5 and on (instance)'
        ' sum by (instance) (rate(flushlab_writer_wait_seconds_total{wait!="client"}[1m])) > 1',
        "5m",
        "info",
        "{{ $labels.finding }} takes more than half of the writers' time: flushlab doctor has the evidence",
    ),
    Alert(
        "WritersWaitForLocks",
        'flushlab_finding_share_ratio{bound="low", finding=~"metadata_locks|row_locks"} > 0.25',
        "1m",
        "warning",
        "Writers wait for locks ({{ $labels.finding }}) for more than a quarter of their time",
    ),
)


def prometheus(target: str) -> dict[str, str]:
    """Texts by name: the scrape of `flushlab watch` at HOST:PORT, and the alerts."""
    scrape = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "5s"},
        "rule_files": ["flushlab-alerts.yml"],
        "scrape_configs": [{"job_name": "flushlab", "static_configs": [{"targets": [target]}]}],
    }
    rules = [
        {
            "alert": one.name,
            "expr": one.expression,
            "for": one.lasts,
            "labels": {"severity": one.severity},
            "annotations": {"summary": one.summary},
        }
        for one in ALERTS
    ]
    alerts = {"groups": [{"name": "flushlab", "rules": rules}]}
    return {"prometheus.yml": _yaml(scrape), "flushlab-alerts.yml": _yaml(alerts)}


def grafana(folder: Path, url: str = "http://localhost:9090") -> dict[str, str]:
    """Texts by path below a folder: dashboards, their provider, and Prometheus as data source."""
    provider = {
        "name": "flushlab",
        "type": "file",
        "options": {"path": str(folder.absolute() / "dashboards")},
    }
    source = {
        "name": "flushlab-prometheus",
        "type": "prometheus",
        "uid": "flushlab-prometheus",
        "url": url,
        "access": "proxy",
        "jsonData": {"timeInterval": "1s"},
    }
    return {
        **{f"dashboards/{uid}.json": _json(_dashboard(uid, *what)) for uid, what in DASHBOARDS.items()},
        "provisioning/dashboards/flushlab.yml": _yaml({"apiVersion": 1, "providers": [provider]}),
        "provisioning/datasources/flushlab.yml": _yaml({"apiVersion": 1, "datasources": [source]}),
    }


def _dashboard(uid: str, title: str, panels: tuple[Panel, ...]) -> dict[str, Any]:
    return {
        "id": None,
        "uid": uid,
        "title": title,
        "description": MADE,
        "tags": ["flushlab"],
        "schemaVersion": 36,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_SOURCE_VARIABLE]},
        "annotations": {"list": [_TRIALS]},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    width = 24 // _COLUMNS
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": column * width, "y": row * _HEIGHT, "w": width, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for index, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


def _json(what: Mapping[str, Any]) -> str:
    return json.dumps(what, indent=2) + "\n"


def _yaml(what: Mapping[str, Any]) -> str:
    return f"# {MADE}\n{_json(what)}"  # JSON is YAML


def write(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Writes files below a folder, over none that differs: it may have been edited since.

    Raises:
        UsageError: another file has one of the names; nothing is written then.
        NotWritable: the folder cannot be written.
    """
    paths = {folder / name: text for name, text in texts.items()}
    try:
        for path, text in paths.items():
            if path.is_symlink() or (path.exists() and path.read_text(errors="replace") != text):
                raise UsageError(
                    f"{path} exists and is not what would be written",
                    hint="name another folder, or move it away",
                )
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(path, text)
    except OSError as error:
        raise NotWritable(
            f"{folder} cannot be written: {error.strerror}", hint="name another folder"
        ) from error
    return list(paths)
