"""Metrics: a server's under mysqld_exporter's names, and flushlab's own. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UntypedMetricFamily,
)

from flushlab.record import LoadSeen
from flushlab.record.running import Running
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.status import ServerStatus
from flushlab.version import __version__
from flushlab.watch.live_diagnosis import Judged

BUCKETS_S = tuple(float(f"{10 ** (step / 4 - 4):.2g}") for step in range(22))
"""From 0.1 ms to 18 s, four to a power of ten."""


def labelled(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    labels: Sequence[str],
    values: Iterable[tuple[Sequence[str], float]],
) -> Metric:
    family = kind(name, text, labels=labels)
    for of, value in values:
        family.add_metric(of, value)
    return family


def info(name: str, text: str, labels: Mapping[str, str]) -> Metric:
    return labelled(GaugeMetricFamily, name, text, list(labels), [(list(labels.values()), 1)])


def own_metrics(own_cpu_s: float, failures: int) -> Iterator[Metric]:
    yield info("flushlab_build_info", "The version of flushlab.", {"version": __version__})
    yield CounterMetricFamily(
        "flushlab_watch_cpu_seconds", "CPU time that watching has taken.", value=own_cpu_s
    )
    yield CounterMetricFamily(
        "flushlab_watch_failed_samples",
        "Samples that could not be taken because of an error inside flushlab.",
        value=failures,
    )


def server(seen: ServerStatus) -> Iterator[Metric]:
    redo = seen.redo
    for name, text, value in (
        ("flushlab_redo_checkpoint_age_bytes", "Redo that a recovery would read.", redo.checkpoint_age),
        ("flushlab_redo_capacity_bytes", "Size of the redo log.", redo.capacity),
        ("flushlab_redo_limit_bytes", "Checkpoint age at which writers wait.", redo.limit),
    ):
        if value is not None:
            yield GaugeMetricFamily(name, text, value=value)
    yield labelled(
        CounterMetricFamily,
        "flushlab_fsyncs",
        "Syncs of the server's files, as the kernel or it counts them.",
        ["file_class"],
        (([kind], count) for kind, count in seen.all_syncs.items()),
    )
    labels, connections = ["user", "command"], seen.connections
    yield labelled(
        GaugeMetricFamily,
        "flushlab_connections",
        "Connections of users.",
        labels,
        (([one.user, one.command], one.count) for one in connections),
    )
    yield labelled(
        GaugeMetricFamily,
        "flushlab_connections_in_transaction",
        "Connections of users that have a transaction open.",
        labels,
        (
            ([one.user, one.command], one.in_transaction)
            for one in connections
            if one.in_transaction is not None
        ),
    )
    yield labelled(
        GaugeMetricFamily,
        "flushlab_missing_privilege",
        "A privilege that the account lacks, so that something is not told.",
        ["privilege"],
        (([privilege], 1) for privilege in seen.missing),
    )


def diagnosed(judged: Judged) -> Iterator[Metric]:
    found = judged.diagnosis
    yield labelled(
        CounterMetricFamily,
        "flushlab_writer_wait_seconds",
        "Time of connections that write, by wait, from samples of their states.",
        ["wait"],
        (([wait], seconds) for wait, seconds in sorted(judged.wait_s.items())),
    )
    yield labelled(
        GaugeMetricFamily,
        "flushlab_finding_info",
        "A finding of the doctor.",
        ["finding", "strength"],
        (([one.name, one.strength], 1) for one in found.findings),
    )
    yield labelled(
        GaugeMetricFamily,
        "flushlab_finding_share_ratio",
        "Share of the writers' time that a finding takes, with its 95 % interval.",
        ["finding", "bound"],
        (
            ([one.name, bound], getattr(one.share, bound))
            for one in found.findings
            if one.share is not None
            for bound in ("low", "mid", "high")
        ),
    )
    yield labelled(
        GaugeMetricFamily,
        "flushlab_finding_speedup_limit_ratio",
        "Factor that writes cannot exceed without a finding's wait, at this number of connections.",
        ["finding"],
        (([one.name], one.at_most) for one in found.findings if one.at_most is not None),
    )
    yield GaugeMetricFamily(
        "flushlab_finding_samples",
        "Samples of connections that the findings are from.",
        value=found.evidence.time.samples,
    )


def running(what: Running) -> Iterator[Metric]:
    asked = ("kind", "campaign", "server", "workload", "floor")
    yield info("flushlab_campaign_info", "What runs.", {name: getattr(what, name) for name in asked})
    if what.arm:
        block = "" if what.round is None else str(what.round)
        labels = {"trial": str(what.trial), "arm": what.arm, "stage": what.stage, "block": block}
        yield info("flushlab_trial_info", "The trial that runs.", labels)
    left_s = what.left_s if what.left_s is not None else what.fill.left_s if what.fill else None
    if left_s is not None:
        yield GaugeMetricFamily(
            "flushlab_budget_seconds_left", "Time that is left for what runs.", value=left_s
        )
    yield labelled(
        GaugeMetricFamily,
        "flushlab_trial_events_per_second",
        "Rate of the arm's last finished trial.",
        ["arm"],
        (([arm], result) for arm, result in what.trial_results.items()),
    )
    yield labelled(
        GaugeMetricFamily,
        "flushlab_ratio",
        "Gain over the base by the objective, proven by interim analyses; early while later ones follow.",
        ["arm", "bound", "early", "objective"],
        (
            ([one.arm, bound, str(one.early).lower(), one.objective], getattr(one, bound))
            for one in what.ratios
            for bound in ("low", "mid", "high")
        ),
    )
    if what.unit:
        yield from load(what.totals, what.unit)
    if what.fill is not None:
        rows = (([table], count) for table, count in what.fill.rows_by_table.items())
        yield labelled(CounterMetricFamily, "flushlab_rows", "Rows that were loaded.", ["table"], rows)


def load(totals: LoadSeen, unit: str) -> Iterator[Metric]:
    events = [([unit.partition("/")[0]], totals.events)]
    yield labelled(CounterMetricFamily, "flushlab_events", "Events that were completed.", ["kind"], events)
    errors = (([str(code)], count) for code, count in totals.errors)
    yield labelled(CounterMetricFamily, "flushlab_errors", "Errors of the server.", ["code"], errors)
    yield HistogramMetricFamily(
        "flushlab_event_seconds",
        "Latency of events.",
        buckets=buckets(totals.latencies_us),
        sum_value=totals.latency_sum_s,
    )
    lag_s = None if totals.lag_p99_us is None else totals.lag_p99_us / 1e6
    for name, text, value in (
        ("flushlab_backlog_events", "Events that are due and not begun.", totals.backlog),
        ("flushlab_lag_seconds", "How late events were begun, at p99.", lag_s),
    ):
        if value is not None:
            yield GaugeMetricFamily(name, text, value=value)


def buckets(counts_us: Iterable[tuple[int, int]]) -> list[tuple[str, float]]:
    known = list(counts_us)
    found = [(f"{end:g}", float(sum(count for us, count in known if us <= end * 1e6))) for end in BUCKETS_S]
    return [*found, ("+Inf", float(sum(count for _, count in known)))]


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
