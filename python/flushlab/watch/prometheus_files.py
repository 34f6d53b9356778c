"""Prometheus' files: a scrape each second, and four alerts; and how all such files are written.

A trial is shorter than the usual 15 s between scrapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flushlab import atomic
from flushlab.errors import NotWritable, UsageError
from flushlab.watch.grafana import MADE


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
        "flushlab_redo_checkpoint_age_bytes / flushlab_redo_capacity_bytes > 0.8",
        "1m",
        "warning",
        "Redo age is over 80 % of the capacity: writes are about to wait for pages to be flushed",
    ),
    Alert(
        "AsleepInTransaction",
        'sum by (instance, user) (flushlab_connections_in_transaction{command="Sleep"}) > 0',
        "5m",
        "warning",
        "Connections of {{ $labels.user }} sleep inside transactions: they hold locks and hold up purge",
    ),
    Alert(
        "ConnectionsNearlyUsedUp",
        "mysql_global_status_threads_connected / mysql_global_variables_max_connections > 0.8",
        "1m",
        "warning",
        "More than 80 % of max_connections are connected",
    ),
)


def files(target: str) -> dict[str, str]:
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


def _yaml(what: Mapping[str, Any]) -> str:
    return f"# {MADE}\n{json.dumps(what, indent=2)}\n"  # JSON is YAML
