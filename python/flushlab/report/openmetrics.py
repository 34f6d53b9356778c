"""A stored campaign as OpenMetrics with timestamps, for `promtool tsdb create-blocks-from openmetrics`.

Sits in `report`; names, labels and units are those of `flushlab watch`, so that its dashboards show what is
past. Counters run over all trials. A second of load stands where it ended, a slice as far before the end of
its block as it did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from flushlab.campaign.facts import CampaignFacts
from flushlab.record import Ratio, Trial
from flushlab.report.stored import Request, floor_of, workload_of
from flushlab.store import CampaignRow

Dated = Sequence[tuple[float, Trial]]
"""Trials with the Unix times at which they ended."""

_QUANTILES = {"p50": "0.5", "p99": "0.99"}
T = TypeVar("T")


def render(row: CampaignRow, request: Request | None, trials: Dated, facts: CampaignFacts | None) -> bytes:
    """The text, complete with its `# EOF`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Past(row, request, trials, facts))
    encode: Callable[[CollectorRegistry], bytes] = generate_latest
    return encode(registry)


class _Past(Collector):
    def __init__(
        self, row: CampaignRow, request: Request | None, trials: Dated, facts: CampaignFacts | None
    ) -> None:
        self._row, self._request, self._trials, self._facts = row, request, trials, facts

    def describe(self) -> list[Metric]:
        """Nothing: it depends on the campaign."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All that is known."""
        yield self._campaign()
        yield from _trials(self._trials)
        yield _latencies(self._trials)
        yield _redo(self._trials)
        yield from _counters(self._trials)
        if self._facts is not None and self._trials:
            yield _ratios(self._facts, self._trials[-1][0])

    def _campaign(self) -> Metric:
        labels = {
            "kind": self._row.kind,
            "campaign": self._row.id,
            "server": self._request.build if self._request else "",
            "workload": workload_of(self._request),
            "floor": floor_of(self._request),
        }
        family = GaugeMetricFamily("flushlab_campaign_info", "What ran.", labels=list(labels))
        for at in sorted({at for ended, trial in self._trials for at in (_began(ended, trial), ended)}):
            family.add_metric(list(labels.values()), 1, timestamp=at)
        return family


def _trials(trials: Dated) -> Iterator[Metric]:
    labels = ["trial", "arm", "stage", "block"]
    info = GaugeMetricFamily("flushlab_trial_info", "The trial that ran.", labels=labels)
    figures = GaugeMetricFamily(
        "flushlab_trial_events_per_second", "Rate of the arm's last finished trial.", labels=["arm"]
    )
    times = GaugeMetricFamily(
        "flushlab_trial_seconds",
        "Time of the arm's last finished trial, if its result is a time.",
        labels=["arm"],
    )
    found: dict[str, list[tuple[float, Trial]]] = defaultdict(list)
    for number, (ended, trial) in enumerate(trials, 1):
        about = [str(number), trial.arm.name, trial.stage, str(trial.block + 1)]
        for at in sorted({_began(ended, trial), ended}):
            info.add_metric(about, 1, timestamp=at)
        if trial.result is not None:
            found[trial.arm.name].append((ended, trial))
    for arm, ones in found.items():
        for ended, trial in _ascending(ones):
            family = figures if trial.higher_is_better else times
            family.add_metric([arm], trial.result or 0.0, timestamp=ended)
    yield info
    yield figures
    yield times


def _latencies(trials: Dated) -> Metric:
    family = GaugeMetricFamily(
        "flushlab_trial_latency_seconds",
        "Latency of events in the arm's last finished trial.",
        labels=["arm", "quantile"],
    )
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for ended, trial in trials:
        if trial.load is not None and trial.load.latency_us is not None:
            for name, quantile in _QUANTILES.items():
                us = getattr(trial.load.latency_us, name)
                found[trial.arm.name, quantile].append((ended, us / 1e6))
    for labels, ones in found.items():
        for ended, seconds in _ascending(ones):
            family.add_metric(list(labels), seconds, timestamp=ended)
    return family


def _redo(trials: Dated) -> Metric:
    family = GaugeMetricFamily("flushlab_redo_checkpoint_age_bytes", "Redo that a recovery would read.")
    ones = [
        (ended, float(trial.after.checkpoint_age_bytes))
        for ended, trial in trials
        if trial.after is not None and trial.after.checkpoint_age_bytes is not None
    ]
    for ended, age in _ascending(ones):
        family.add_metric([], age, timestamp=ended)
    return family


def _counters(trials: Dated) -> Iterator[Metric]:
    events: dict[str, list[tuple[float, float]]] = defaultdict(list)
    syncs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for ended, trial in trials:
        events[trial.unit.partition("/")[0]] += _seconds(ended, trial)
        for kind, activity in trial.file_activity.items():
            if activity.fsyncs is not None:
                syncs[kind].append((ended, activity.fsyncs))
        for code, refused in _errors(trial).items():
            errors[code].append((ended, refused))
    for name, text, label, counted in (
        ("flushlab_events", "Events that were completed.", "kind", events),
        ("flushlab_errors", "Errors of the server.", "code", errors),
        ("flushlab_fsyncs", "Syncs of the server's files in measured windows.", "file_class", syncs),
    ):
        family = CounterMetricFamily(name, text, labels=[label])
        for value, ones in counted.items():
            total = 0.0
            for at, count in _added(ones):
                total += count
                family.add_metric([value], total, timestamp=at)
        yield family


def _ratios(facts: CampaignFacts, at: float) -> Metric:
    family = GaugeMetricFamily(
        "flushlab_ratio",
        "Gain over the base by the objective, proven by interim analyses; early while later ones follow.",
        labels=["arm", "bound", "early", "objective"],
    )
    for arm, ratio in sorted(_found(facts).items()):
        for bound, value in (("low", ratio.low), ("mid", ratio.estimate), ("high", ratio.high)):
            family.add_metric([arm, bound, "false", facts.objective], value, timestamp=at)
    return family


def _found(facts: CampaignFacts) -> Mapping[str, Ratio]:
    if facts.tuning is not None:
        return {point.arm: point.ratio for point in facts.tuning.frontier}
    return {arm.name: arm.comparison.ratio for arm in facts.arms if arm.comparison is not None}


def _seconds(ended: float, trial: Trial) -> list[tuple[float, float]]:
    """What was completed by when: slice by slice, second by second, or the window at once."""
    if trial.slices:
        last = max(one.start_s + one.seconds for one in trial.slices)
        return [(ended - last + one.start_s + one.seconds, one.events) for one in trial.slices]
    if trial.load is None:
        return []
    closed = ended - trial.seconds.get("stop", 0.0) - trial.seconds.get("other", 0.0)
    if not trial.load.per_second:
        return [(closed, trial.load.events)]
    begun = closed - trial.load.seconds
    return [(begun + number, count) for number, count in enumerate(trial.load.per_second, 1)]


def _errors(trial: Trial) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for error in trial.load.errors if trial.load else ():
        counts[str(error.errno)] += error.count
    return counts


def _began(ended: float, trial: Trial) -> float:
    return ended - sum(
        seconds for name, seconds in trial.seconds.items() if name not in ("between", "before")
    )


def _ascending(ones: Iterable[tuple[float, T]]) -> list[tuple[float, T]]:
    """By time, the last of those at the same millisecond, as Prometheus counts time."""
    return sorted({round(at, 3): (round(at, 3), what) for at, what in ones}.values(), key=lambda one: one[0])


def _added(ones: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """By time; what came in the same millisecond together."""
    counts: dict[float, float] = defaultdict(float)
    for at, count in ones:
        counts[round(at, 3)] += count
    return sorted(counts.items())
