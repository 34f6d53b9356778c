"""What a server tells, under the names, types, labels and values of mysqld_exporter. Pure.

Followed: prometheus/mysqld_exporter, `collector/` of 0.14 (Debian 12's) to 0.20, which agree in these. So
dashboards and alerts made for it work unchanged. What it has and this has not is in
docs/reference/metrics.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UntypedMetricFamily

from flushlab.telemetry.live import questions
from flushlab.telemetry.live.status import ServerStatus
from flushlab.watch.own import info, labelled

_GROUPED = re.compile(
    r"(com|handler|connection_errors|innodb_buffer_pool_pages|innodb_rows|performance_schema)_(.*)"
)
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_WORDS: Mapping[str, float] = {
    **dict.fromkeys(("yes", "on", "primary"), 1.0),
    **dict.fromkeys(("no", "off", "disabled", "connecting", "non-primary", "disconnected"), 0.0),
}
_DATES = ("%b %d %H:%M:%S %Y", "%Y-%m-%d %H:%M:%S")
_POOL_STATES = ("data", "free", "misc", "old")
_COUNTED = {
    "com": ("commands", "command", "Total number of executed MySQL commands."),
    "handler": ("handlers", "handler", "Total number of executed MySQL handlers."),
    "connection_errors": ("connection_errors", "error", "Total number of MySQL connection errors."),
    "innodb_rows": ("innodb_row_ops", "operation", "Total number of MySQL InnoDB row operations."),
    "performance_schema": (
        *("performance_schema_lost", "instrumentation"),
        "Total number of MySQL instrumentations that could not be loaded or created due to memory"
        " constraints.",
    ),
    "innodb_buffer_pool_pages": (
        *("buffer_pool_page_changes", "operation"),
        "Innodb buffer pool page state changes.",
    ),
}
_STATE = str.maketrans({**dict.fromkeys(";,:.()", ""), " ": "_", "-": "_"})


def value_of(text: str) -> float | None:
    """A variable's value as a number (parseStatus of its collector/collector.go); None for other texts."""
    if (word := _WORDS.get(text.lower())) is not None:
        return word
    if _NUMBER.fullmatch(text):
        return float(text)
    if text[-1:].isdigit() or text.endswith("GMT"):
        for form in _DATES:
            try:
                return datetime.strptime(text.removesuffix(" GMT"), form).replace(tzinfo=UTC).timestamp()
            except ValueError:
                continue
    return None


def status(seen: ServerStatus) -> Iterator[Metric]:
    """SHOW GLOBAL STATUS."""
    counted: dict[str, CounterMetricFamily] = {}
    pages = GaugeMetricFamily(
        "mysql_global_status_buffer_pool_pages", "Innodb buffer pool pages by state.", labels=["state"]
    )
    for told, text in seen.status.items():
        group, rest = _group(told)
        if not group:
            yield from _generic(told, text)
            continue
        value = value_of(text)
        if value is None:
            continue
        if group == "innodb_buffer_pool_pages" and rest in (*_POOL_STATES, "dirty", "total"):
            if rest in _POOL_STATES:
                pages.add_metric([rest], value)
            elif rest == "dirty":
                yield GaugeMetricFamily(
                    "mysql_global_status_buffer_pool_dirty_pages",
                    "Innodb buffer pool dirty pages.",
                    value=value,
                )
            continue
        if group not in counted:
            family, label, text = _COUNTED[group]
            counted[group] = CounterMetricFamily(f"mysql_global_status_{family}", text, labels=[label])
        counted[group].add_metric([rest], value)
    if pages.samples:
        yield pages
    yield from counted.values()


@lru_cache(maxsize=2048)
def _group(told: str) -> tuple[str, str]:
    """Of a status variable that is a sample of a family of several; empty for others."""
    found = _GROUPED.fullmatch(_NO_NAME.sub("_", told))
    return (found[1], found[2]) if found else ("", "")


@lru_cache(maxsize=2048)
def _generic(told: str, text: str) -> tuple[Metric, ...]:
    """The family of a status variable by itself; most have the value that they had a second ago."""
    value = value_of(text)
    if value is None:
        return ()
    name = f"mysql_global_status_{_NO_NAME.sub('_', told)}"
    return (UntypedMetricFamily(name, "Generic metric from SHOW GLOBAL STATUS.", value=value),)


def variables(seen: ServerStatus) -> Iterator[Metric]:
    """SHOW GLOBAL VARIABLES."""
    for told, text in seen.variables.items():
        if (value := value_of(text)) is not None:
            yield GaugeMetricFamily(
                f"mysql_global_variables_{_NO_NAME.sub('_', told)}",
                "Generic gauge metric from SHOW GLOBAL VARIABLES.",
                value=value,
            )
    names = ("innodb_version", "version", "version_comment")
    yield info(
        "mysql_version_info",
        "MySQL version and distribution.",
        {name: _text(seen.variables, name) for name in names},
    )
    if cluster := _text(seen.variables, "wsrep_cluster_name"):
        about = "PXC/Galera variables information."
        yield info("mysql_galera_variables_info", about, {"wsrep_cluster_name": cluster})
    if level := _text(seen.variables, "transaction_isolation") or _text(seen.variables, "tx_isolation"):
        yield info("mysql_transaction_isolation", "MySQL transaction isolation.", {"level": level})


def threads(seen: ServerStatus) -> Iterator[Metric]:
    """The process list."""
    states = Counter[tuple[str, ...]]()
    seconds, users, hosts = states.copy(), states.copy(), states.copy()
    for one in seen.threads or ():
        state = _state(one.command), _state(one.state)
        states[state] += one.count
        seconds[state] += one.seconds
        users[one.user,] += one.count
        hosts[one.host or "unknown",] += one.count
    of_state = ("command", "state")
    for name, text, labels, counts in (
        ("threads", "The number of threads split by current state.", of_state, states),
        ("seconds", "The number of seconds threads have used split by current state.", of_state, seconds),
        ("processes_by_user", "The number of processes by user.", ("mysql_user",), users),
        ("processes_by_host", "The number of processes by host.", ("client_host",), hosts),
    ):
        prefix = "mysql_info_schema_processlist_"
        yield labelled(GaugeMetricFamily, prefix + name, text, labels, sorted(counts.items()))


def innodb_metrics(seen: ServerStatus) -> Iterator[Metric]:
    """INNODB_METRICS, those that are enabled."""
    prefix = "mysql_info_schema_innodb_metrics_"
    pages: dict[str, CounterMetricFamily] = {}
    pool = GaugeMetricFamily(
        f"{prefix}buffer_pool_pages", "Total number of buffer pool pages by state.", labels=["state"]
    )
    for metric in seen.metrics:
        if metric.subsystem == "buffer_page_io":
            found = re.fullmatch(r"buffer_page_(read|written)_(.*)", metric.name)
            if found is not None:
                family = pages.setdefault(
                    found[1],
                    CounterMetricFamily(
                        f"{prefix}buffer_page_{found[1]}",
                        f"Total number of buffer pages {found[1]} total.",
                        labels=["type"],
                    ),
                )
                family.add_metric([found[2]], metric.count)
        elif metric.subsystem == "buffer" and metric.name.startswith("buffer_pool_pages_"):
            state = metric.name.removeprefix("buffer_pool_pages_")
            if state == "dirty":
                yield GaugeMetricFamily(
                    f"{prefix}buffer_pool_dirty_pages",
                    "Total number of dirty pages in the buffer pool.",
                    value=metric.count,
                )
            elif state != "total":
                pool.add_metric([state], metric.count)
        else:
            kind = (
                CounterMetricFamily
                if metric.kind in ("counter", "status_counter") and metric.count >= 0
                else GaugeMetricFamily
            )
            yield kind(
                f"{prefix}{_NO_NAME.sub('_', metric.subsystem)}_{_NO_NAME.sub('_', metric.name)}",
                metric.comment,
                value=metric.count,
            )
    if pool.samples:
        yield pool
    yield from pages.values()


def collectors(seen: ServerStatus | None, *, up: bool) -> Iterator[Metric]:
    """How asking went."""
    yield GaugeMetricFamily("mysql_up", "Whether the MySQL server is up.", value=float(up))
    if seen is None or not up:
        return
    took_s = sorted(seen.took_s.items())
    yield labelled(
        GaugeMetricFamily,
        "mysql_exporter_collector_success",
        "mysqld_exporter: Whether a collector succeeded.",
        ["collector"],
        (([f"collect.{name}"], float(name not in seen.failed)) for name, _ in took_s),
    )
    yield labelled(
        GaugeMetricFamily,
        "mysql_exporter_collector_duration_seconds",
        "Collector time duration.",
        ["collector"],
        (([f"collect.{name}"], seconds) for name, seconds in took_s),
    )


PARTS: Mapping[str, Callable[[ServerStatus], Iterator[Metric]]] = {
    questions.STATUS: status,
    questions.VARIABLES: variables,
    questions.THREADS: threads,
    questions.METRICS: innodb_metrics,
}
"""What each question yields."""


def _state(text: str) -> str:
    return (text or "unknown").lower().translate(_STATE)


def _text(told: Mapping[str, str], name: str) -> str:
    """A variable's text; the exporter leaves empty what it could read as a number."""
    text = told.get(name, "")
    return "" if value_of(text) is not None else text
