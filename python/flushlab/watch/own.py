"""What flushlab itself has to tell, and what it tells of every server under one name. Pure.

Counters run over all trials of a process. A trial is shorter than the time between most scrapes, so its
result stays as a gauge until the arm's next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from flushlab.record.running import LoadTotals, Running
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
    """A family with a sample for each tuple of the labels' values."""
    family = kind(name, text, labels=labels)
    for of, value in values:
        family.add_metric(of, value)
    return family


def info(name: str, text: str, labels: Mapping[str, str]) -> Metric:
    """A family whose one sample is its labels."""
    return labelled(GaugeMetricFamily, name, text, list(labels), [(list(labels.values()), 1)])


def own_metrics(own_cpu_s: float, failures: int) -> Iterator[Metric]:
    """What is there in any case."""
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
    """What every flavor and version tells under another name."""
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
    """What bounds writes, over the last half minute."""
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
    """What runs."""
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


def load(totals: LoadTotals, unit: str) -> Iterator[Metric]:
    """Load of flushlab's own."""
    events = [([unit.partition("/")[0]], totals.events)]
    yield labelled(CounterMetricFamily, "flushlab_events", "Events that were completed.", ["kind"], events)
    errors = (([str(code)], count) for code, count in sorted(totals.errors.items()))
    yield labelled(CounterMetricFamily, "flushlab_errors", "Errors of the server.", ["code"], errors)
    yield HistogramMetricFamily(
        "flushlab_event_seconds",
        "Latency of events.",
        buckets=buckets(totals.latencies_us),
        sum_value=totals.latency_sum_s,
    )
    for name, text, value in (
        ("flushlab_backlog_events", "Events that are due and not begun.", totals.backlog),
        ("flushlab_lag_seconds", "How late events were begun, at p99.", totals.lag_s),
    ):
        if value is not None:
            yield GaugeMetricFamily(name, text, value=value)


def buckets(counts_us: Iterable[tuple[int, int]]) -> list[tuple[str, float]]:
    """Counts by upper end in microseconds as cumulative ones up to `BUCKETS_S` and beyond."""
    known = list(counts_us)
    found = [(f"{end:g}", float(sum(count for us, count in known if us <= end * 1e6))) for end in BUCKETS_S]
    return [*found, ("+Inf", float(sum(count for _, count in known)))]
