"""Metrics: flushlab's own, and a server's under the names, types, labels and values of mysqld_exporter. Pure.

Own counters run over all trials of a process. A trial is shorter than the time between most scrapes, so its
result stays as a gauge until the arm's next.

Followed: prometheus/mysqld_exporter, `collector/` of 0.14 (Debian 12's) to 0.20, which agree in these. So
dashboards and alerts made for it work unchanged. docs/reference/metrics.md lists the metrics that it has and
flushlab lacks.
"""

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

from flushlab.record.running import Running
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.status import ServerStatus
from flushlab.version import __version__
from flushlab.watch.live_diagnosis import JudgedWindow

BUCKETS_S = tuple(float(f"{10 ** (step / 4 - 4):.2g}") for step in range(22))
"""From 0.1 ms to 18 s, four to a power of ten."""
_Labelled = Iterable[tuple[Sequence[str], float]]


def _gauge(name: str, text: str, values: float | _Labelled, *labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for of, value in [((), values)] if isinstance(values, int | float) else values:
        family.add_metric(of, value)
    return family


def _counter(name: str, text: str, values: float | _Labelled, *labels: str) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for of, value in [((), values)] if isinstance(values, int | float) else values:
        family.add_metric(of, value)
    return family


def _info(name: str, text: str, **labels: str) -> Metric:
    return _gauge(name, text, [([*labels.values()], 1)], *labels)


def own_metrics(own_cpu_s: float, failures: int) -> Iterator[Metric]:
    yield _info("flushlab_build_info", "The version of flushlab.", version=__version__)
    yield _counter("flushlab_watch_cpu_seconds", "CPU time that watching has taken.", own_cpu_s)
    text = "Samples that could not be taken because of an error inside flushlab."
    yield _counter("flushlab_watch_failed_samples", text, failures)


def server(seen: ServerStatus) -> Iterator[Metric]:
    redo, groups, labels = seen.redo, seen.connections, ("user", "command")
    for name, text, value in (
        ("checkpoint_age_bytes", "Redo that a recovery would read.", redo.checkpoint_age),
        ("capacity_bytes", "Size of the redo log.", redo.capacity),
        ("limit_bytes", "Checkpoint age at which writers wait.", redo.limit),
    ):
        if value is not None:
            yield _gauge(f"flushlab_redo_{name}", text, value)
    syncs = [([kind], count) for kind, count in seen.all_syncs.items()]
    text = "Syncs of the server's files, as the kernel or it counts them."
    yield _counter("flushlab_fsyncs", text, syncs, "file_class")
    counts = [([one.user, one.command], one.count) for one in groups]
    yield _gauge("flushlab_connections", "Connections of users.", counts, *labels)
    known = ((one, one.in_transaction) for one in groups)
    inside = [([one.user, one.command], count) for one, count in known if count is not None]
    text = "Connections of users that have a transaction open."
    yield _gauge("flushlab_connections_in_transaction", text, inside, *labels)
    missing = [([privilege], 1.0) for privilege in seen.missing]
    text = "A privilege that the account lacks, so that something is not told."
    yield _gauge("flushlab_missing_privilege", text, missing, "privilege")


def diagnosed(judged: JudgedWindow) -> Iterator[Metric]:
    findings = judged.diagnosis.findings
    waits = [([wait], seconds) for wait, seconds in sorted(judged.wait_s.items())]
    text = "Time of connections that write, by wait, from samples of their states."
    yield _counter("flushlab_writer_wait_seconds", text, waits, "wait")
    strengths = [([one.name, one.strength], 1.0) for one in findings]
    yield _gauge("flushlab_finding_info", "A finding of the doctor.", strengths, "finding", "strength")
    shares = [
        ([one.name, bound], getattr(one.share, bound))
        for one in findings
        if one.share is not None
        for bound in ("low", "mid", "high")
    ]
    text = "Share of the writers' time that a finding takes, with its 95 % interval."
    yield _gauge("flushlab_finding_share_ratio", text, shares, "finding", "bound")
    limits = [([one.name], one.at_most) for one in findings if one.at_most is not None]
    text = "Factor that writes cannot exceed without a finding's wait, at this number of connections."
    yield _gauge("flushlab_finding_speedup_limit_ratio", text, limits, "finding")
    text = "Samples of connections that the findings are from."
    yield _gauge("flushlab_finding_samples", text, judged.diagnosis.evidence.time.samples)


def running(what: Running) -> Iterator[Metric]:
    asked = ("kind", "campaign", "server", "workload", "floor")
    yield _info("flushlab_campaign_info", "What runs.", **{name: getattr(what, name) for name in asked})
    if what.arm:
        block = "" if what.round is None else str(what.round)
        labels = {"trial": str(what.trial), "arm": what.arm, "stage": what.stage, "block": block}
        yield _info("flushlab_trial_info", "The trial that runs.", **labels)
    left_s = what.left_s if what.left_s is not None else what.fill.left_s if what.fill else None
    if left_s is not None:
        yield _gauge("flushlab_budget_seconds_left", "Time that is left for what runs.", left_s)
    results = [([arm], result) for arm, result in what.trial_results.items()]
    text = "Rate of the arm's last finished trial."
    yield _gauge("flushlab_trial_events_per_second", text, results, "arm")
    ratios = [
        ([one.arm, bound, str(one.early).lower(), one.objective], getattr(one, bound))
        for one in what.ratios
        for bound in ("low", "mid", "high")
    ]
    text = "Gain over the base by the objective, proven by interim analyses; early while later ones follow."
    yield _gauge("flushlab_ratio", text, ratios, "arm", "bound", "early", "objective")
    if what.unit:
        yield from _load(what)
    if what.fill is not None:
        rows = [([table], count) for table, count in what.fill.rows_by_table.items()]
        yield _counter("flushlab_rows", "Rows that were loaded.", rows, "table")


def _load(what: Running) -> Iterator[Metric]:
    totals, kind = what.totals, what.unit.partition("/")[0]
    yield _counter("flushlab_events", "Events that were completed.", [([kind], totals.events)], "kind")
    errors = [([str(code)], count) for code, count in totals.errors]
    yield _counter("flushlab_errors", "Errors of the server.", errors, "code")
    yield HistogramMetricFamily(
        "flushlab_event_seconds",
        "Latency of events.",
        buckets=buckets(totals.latencies_us),
        sum_value=totals.latency_sum_s,
    )
    if totals.backlog is not None:
        yield _gauge("flushlab_backlog_events", "Events that are due and not begun.", totals.backlog)
    if totals.lag_p99_us is not None:
        lag_s = totals.lag_p99_us / 1e6
        yield _gauge("flushlab_lag_seconds", "How late events were begun, at p99.", lag_s)


def buckets(counts_us: Iterable[tuple[int, int]]) -> list[tuple[str, float]]:
    known = list(counts_us)
    sums = [(f"{end:g}", float(sum(count for us, count in known if us <= end * 1e6))) for end in BUCKETS_S]
    return [*sums, ("+Inf", float(sum(count for _, count in known)))]


# ---- as mysqld_exporter

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
    counted: dict[str, list[tuple[list[str], float]]] = {}
    pages = list[tuple[list[str], float]]()
    for name, text in seen.status.items():
        group, rest = _group(name)
        if not group:
            yield from _generic(name, text)
            continue
        value = value_of(text)
        if value is None:
            continue
        if group != "innodb_buffer_pool_pages" or rest not in (*_POOL_STATES, "dirty", "total"):
            counted.setdefault(group, []).append(([rest], value))
        elif rest in _POOL_STATES:
            pages.append(([rest], value))
        elif rest == "dirty":
            dirty = "mysql_global_status_buffer_pool_dirty_pages"
            yield _gauge(dirty, "Innodb buffer pool dirty pages.", value)
    if pages:
        family = "mysql_global_status_buffer_pool_pages"
        yield _gauge(family, "Innodb buffer pool pages by state.", pages, "state")
    for group, values in counted.items():
        family, label, text = _COUNTED[group]
        yield _counter(f"mysql_global_status_{family}", text, values, label)


@lru_cache(maxsize=2048)
def _group(name: str) -> tuple[str, str]:
    match = _GROUPED.fullmatch(_NO_NAME.sub("_", name))
    return (match[1], match[2]) if match else ("", "")


@lru_cache(maxsize=2048)
def _generic(name: str, text: str) -> tuple[Metric, ...]:
    value, family = value_of(text), f"mysql_global_status_{_NO_NAME.sub('_', name)}"
    about = "Generic metric from SHOW GLOBAL STATUS."
    return () if value is None else (UntypedMetricFamily(family, about, value=value),)


def variables(seen: ServerStatus) -> Iterator[Metric]:
    about = "Generic gauge metric from SHOW GLOBAL VARIABLES."
    for name, text in seen.variables.items():
        if (value := value_of(text)) is not None:
            yield _gauge(f"mysql_global_variables_{_NO_NAME.sub('_', name)}", about, value)

    def text_of(name: str) -> str:
        text = seen.variables.get(name, "")
        return "" if value_of(text) is not None else text

    versions = {name: text_of(name) for name in ("innodb_version", "version", "version_comment")}
    yield _info("mysql_version_info", "MySQL version and distribution.", **versions)
    if cluster := text_of("wsrep_cluster_name"):
        about = "PXC/Galera variables information."
        yield _info("mysql_galera_variables_info", about, wsrep_cluster_name=cluster)
    if level := text_of("transaction_isolation") or text_of("tx_isolation"):
        yield _info("mysql_transaction_isolation", "MySQL transaction isolation.", level=level)


def threads(seen: ServerStatus) -> Iterator[Metric]:
    states = Counter[tuple[str, ...]]()
    seconds, users, hosts = states.copy(), states.copy(), states.copy()
    for alike in seen.threads or ():
        command, what = (
            (text or "unknown").lower().translate(_STATE) for text in (alike.command, alike.state)
        )
        states[command, what] += alike.count
        seconds[command, what] += alike.seconds
        users[alike.user,] += alike.count
        hosts[alike.host or "unknown",] += alike.count
    of_state = ("command", "state")
    for name, text, labels, counts in (
        ("threads", "The number of threads split by current state.", of_state, states),
        ("seconds", "The number of seconds threads have used split by current state.", of_state, seconds),
        ("processes_by_user", "The number of processes by user.", ("mysql_user",), users),
        ("processes_by_host", "The number of processes by host.", ("client_host",), hosts),
    ):
        yield _gauge(f"mysql_info_schema_processlist_{name}", text, sorted(counts.items()), *labels)


def innodb_metrics(seen: ServerStatus) -> Iterator[Metric]:
    prefix = "mysql_info_schema_innodb_metrics_"
    pages: dict[str, list[tuple[list[str], float]]] = {}
    pool = list[tuple[list[str], float]]()
    for metric in seen.metrics:
        value, state = metric.count, metric.name.removeprefix("buffer_pool_pages_")
        if metric.subsystem == "buffer_page_io":
            match = re.fullmatch(r"buffer_page_(read|written)_(.*)", metric.name)
            if match is not None:
                pages.setdefault(match[1], []).append(([match[2]], value))
        elif metric.subsystem != "buffer" or state == metric.name:
            is_counter = metric.kind in ("counter", "status_counter") and value >= 0
            name = f"{_NO_NAME.sub('_', metric.subsystem)}_{_NO_NAME.sub('_', metric.name)}"
            yield (_counter if is_counter else _gauge)(f"{prefix}{name}", metric.comment, value)
        elif state == "dirty":
            text = "Total number of dirty pages in the buffer pool."
            yield _gauge(f"{prefix}buffer_pool_dirty_pages", text, value)
        elif state != "total":
            pool.append(([state], value))
    if pool:
        text = "Total number of buffer pool pages by state."
        yield _gauge(f"{prefix}buffer_pool_pages", text, pool, "state")
    for kind, values in pages.items():
        text = f"Total number of buffer pages {kind} total."
        yield _counter(f"{prefix}buffer_page_{kind}", text, values, "type")


def collectors(seen: ServerStatus | None, *, up: bool) -> Iterator[Metric]:
    yield _gauge("mysql_up", "Whether the MySQL server is up.", float(up))
    if seen is None or not up:
        return
    took_s = [([f"collect.{name}"], seconds) for name, seconds in sorted(seen.took_s.items())]
    success = [([f"collect.{name}"], float(name not in seen.failed)) for name in sorted(seen.took_s)]
    text = "mysqld_exporter: Whether a collector succeeded."
    yield _gauge("mysql_exporter_collector_success", text, success, "collector")
    name = "mysql_exporter_collector_duration_seconds"
    yield _gauge(name, "Collector time duration.", took_s, "collector")


PARTS: Mapping[str, Callable[[ServerStatus], Iterator[Metric]]] = {
    questions.STATUS: status,
    questions.VARIABLES: variables,
    questions.THREADS: threads,
    questions.METRICS: innodb_metrics,
}
"""What each question yields."""
