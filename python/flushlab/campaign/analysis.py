"""Analysis of a campaign: what all planners conclude alike from its request and its trials.

    TuneAnalysis | SeriesAnalysis (request, …) -> experiment -> told its trials -> conclude -> CampaignFacts

Pure. Everything that depends on the server's version and the storage is bound here, once. A planner adds its
arms, its own warnings, and what only its facts have (`tuning`, `plan`).

A load that was only observed has a fixed demand, if requests come at the rate of the application's users:
latency alone shows a gain. In a closed loop, connections send the next request when they have the answer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from flushlab.campaign.arms import BoundArm
from flushlab.campaign.data import warnings_of
from flushlab.campaign.facts import ArmResult, CampaignFacts, CampaignRun, Demand, FleetMachine, resuming
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.diagnosis.evidence import WITH_READS
from flushlab.experiment.protocol import SELECTING, is_stalled, p99_us
from flushlab.record import (
    BASE,
    CONTROL,
    Comparison,
    LoadClient,
    ObservedLoad,
    ServerIdentity,
    StandIn,
    Storage,
    Trial,
    Warning,
    together,
)
from flushlab.redact import without_passwords
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.spec.parts import WorkloadSpec
from flushlab.units import counted, format_size
from flushlab.workload.parse import command_of, workload_options

if TYPE_CHECKING:  # a planner takes scipy, and reports do without
    from flushlab.experiment.series import Series, SeriesResult
    from flushlab.experiment.tune import Tune
    from flushlab.experiment.tune_plan import TuneResult

FOLLOWS = 0.5
"""Throughput that gains less than this part of the latency's gain, in logarithms, does not follow it."""
_SIZES = ("threads", "tables", "table_size")
NOISE_RANGE = 0.30
"""Results of the base that scatter over more than this share of their mean mark an unstable machine
(TUNA, EuroSys 2025, uses the same mark for unstable configurations)."""

BUSY_SHARE = 0.25
"""Share of disturbed trials from which on a campaign that found nothing blames the machine; where arms
alternate in slices, of the CPU time that other programs used."""


LOPSIDED = 2.0
"""If one bound is this many times as far from the ratio as the other, a warning gives the reason."""

LEAST_MACHINES = 3
"""From so many machines on, intervals are about all machines like them; see `statistics.machines`."""
FOR_OTHERS = f"{LEAST_MACHINES} machines or more"
"""So many it takes to tell of others like them."""

GROWTH = 1.25
"""Data that are this many times as large at the end as at the beginning are another workload."""

R = TypeVar("R", TuneRequest, SeriesRequest)
E = TypeVar("E", "Tune", "Series")
Result: TypeAlias = "TuneResult | SeriesResult"


@dataclass(frozen=True)
class Analysis(Generic[R, E]):
    request: R
    identity: ServerIdentity
    storage: Storage

    @property
    def bases(self) -> Mapping[str, BoundArm]:
        """By their names in trials; the first is the campaign's."""
        raise NotImplementedError

    def experiment(self) -> E:
        raise NotImplementedError

    def conclude(self, experiment: E, trials: Iterable[Trial], run: CampaignRun) -> CampaignFacts:
        raise NotImplementedError

    def retold(self, trials: Sequence[Trial], run: CampaignRun) -> CampaignFacts:
        experiment = self.experiment()
        for trial in trials:
            experiment.tell(trial)
        return self.conclude(experiment, trials, run)

    def on_server(self, warning: Warning, base: str = BASE) -> Warning:
        """Names the base's server, where there are several."""
        return warning

    def measured(self, arm: BoundArm, own: Sequence[Trial], result: Result, **more: Any) -> ArmResult:
        name = more.get("name", arm.name)
        known: dict[str, Any] = {
            "comparison": result.comparisons.get(name),
            "p99": result.p99.get(name),
            "throughput": result.throughput.get(name),
            "machines": result.machines.get(name),
            "observed": observed_of(own),
            "result": mean_result(own),
            "p99_us": mean_p99_us(own),
        }
        return ArmResult.of(arm, **{**known, **more})

    def caveats(
        self,
        result: Result,
        trials: Sequence[Trial],
        arms: Iterable[ArmResult],
        against: Mapping[str, str] = {},
        takes: str = FOR_OTHERS,
    ) -> Iterator[Warning]:
        """`against`: by arm, the base of its ratio; `takes`: how many machines tell of others like them."""
        yield from map(self.on_server, of_controls(result.control, result.best_control))
        yield from map(self.on_server, of_observed(observed_of(trials)))
        for name, base in self.bases.items():
            own = results_of(trials, name)
            for caveat in of_base(confirming(own), Sizes.of(own, self.configured(base, own))):
                yield self.on_server(caveat, name)
        yield from of_machine(trials, disk=self.request.spec.storage.disk)
        looked_at = {CONTROL: result.control, **result.comparisons}
        yield from of_interim((one for one in looked_at.values() if one is not None), against)
        yield from of_fleet(arms, takes)

    def configured(self, base: BoundArm, own: Sequence[Trial]) -> Configuration:
        return Configuration(base.settings, base.server or self.identity, own[-1].settings if own else {})

    def gathered(
        self,
        result: Result,
        trials: Sequence[Trial],
        run: CampaignRun,
        *,
        warnings: Iterable[Warning],
        recovery_s: Mapping[str, float] = {},
        **own: Any,
    ) -> CampaignFacts:
        request: TuneRequest | SeriesRequest = self.request
        base, of_base = self.bases[BASE], results_of(trials, BASE)
        last, is_interrupted = of_base[-1] if of_base else None, run.ending == "interrupted"
        configuration = self.configured(base, of_base)
        stand_in: StandIn | None = next(filter(None, (trial.stand_in for trial in trials)), None)
        warnings = (*warnings_of(request.dataset, stand_in), *request.notes, *warnings)
        control = None
        if result.control is not None:
            again = confirming(results_of(trials, CONTROL))
            control = self.measured(base, again, result, name=CONTROL, text="", comparison=result.control)
        return CampaignFacts(
            campaign_id=run.campaign_id,
            kind=request.kind,
            ending=run.ending,
            resume=resuming(request.kind, run.campaign_id, request.spec.remote) if is_interrupted else "",
            server=(last.server if last else None) or self.identity,
            load_command=without_passwords(command_of(request.workload)),
            sources=request.sources,
            data=request.dataset,
            tables=next(filter(None, (trial.tables for trial in of_base)), ()),
            stand_in=stand_in,
            objective=request.objective,
            unit=last.unit if last else "",
            higher_is_better=last.higher_is_better if last else True,
            base=self.measured(
                base,
                confirming(of_base),
                result,
                name=request.base_name,
                settings=configuration.as_reported(),
                recovery_s=recovery_s.get(BASE),
            ),
            control=control,
            blocks=result.blocks,
            trials=len(trials),
            disturbed=disturbed(trials),
            others=run.others,
            interleaved=any(group.kept_running for group in request.groups),
            why_fresh=request.why_fresh,
            **Sizes.of(of_base, configuration)._asdict(),
            machine=run.machine,
            machines=fleet_machines(of_base),
            clients=clients_of(of_base),
            warnings=tuple(dict.fromkeys(warnings)),
            **own,
        )


def results_of(trials: Iterable[Trial], arm: str) -> list[Trial]:
    """Without those of the blocks of `best`, which has its own base."""
    return [
        trial
        for trial in trials
        if trial.arm.name == arm and trial.stage != "best" and trial.result is not None
    ]


def confirming(own: list[Trial]) -> list[Trial]:
    """The trials that ratios are of; before the first of them, all."""
    return [trial for trial in own if trial.stage in ("arms", "confirm")] or own


def short_windows(trials: Iterable[Trial]) -> set[str]:
    """Arms with a window that did not outlast the redo log."""
    return {
        trial.arm.name
        for trial in trials
        if any(warning.slug == "window-too-short" for warning in trial.warnings)
    }


def needing_steady_state(settings: Iterable[str]) -> list[str]:
    catalog = load_catalog()
    return [name for name in settings if name in catalog and catalog.setting(name).needs_steady_state]


def _by_machine(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.machine, []).append(trial)
    return found


def fleet_machines(base: Iterable[Trial]) -> tuple[FleetMachine, ...]:
    return tuple(
        FleetMachine(
            name=name,
            blocks=len({(trial.stage, trial.block) for trial in own}),
            result=result,
            compared=any(trial.stage not in SELECTING for trial in own),
        )
        for name, own in sorted(_by_machine(base).items())
        if name and (result := mean_result(own)) is not None
    )


def clients_of(base: Iterable[Trial]) -> tuple[LoadClient, ...]:
    found = [trial.load.clients for trial in base if trial.load is not None and trial.load.clients]
    found.sort(key=lambda clients: max(one.round_trip_us.p50 for one in clients))
    return found[len(found) // 2] if found else ()


def of_fleet(arms: Iterable[ArmResult], takes: str = FOR_OTHERS) -> Iterator[Warning]:
    over = {arm.name: arm.machines for arm in arms if arm.machines is not None}
    few = [arm for arm, one in over.items() if len(one.ratios) < LEAST_MACHINES]
    if few:
        which = "" if len(few) == len(over) else f" of {', '.join(few)}"
        ran = sorted({one.machine for arm in few for one in over[arm].ratios})
        if len(ran) == 2:
            hold = f"the intervals{which} hold for {' and '.join(ran)}"
        else:
            hold = f"each of the intervals{which} holds for the two machines that its arm ran on"
        yield Warning("two-machines", f"{hold}, not for others like them, which takes {takes}")
    for arm, one in over.items():
        if one.unstable:
            least, most = one.slowest, max(one.ratios, key=lambda one: one.ratio.estimate)
            text = (
                f"the ratio of {arm} depends on the machine: {least.ratio.estimate:.2f} on {least.machine},"
                f" {most.ratio.estimate:.2f} on {most.machine}"
            )
            yield Warning("depends-on-machine", text, arms=(arm,))


def of_controls(*controls: Comparison | None) -> Iterator[Warning]:
    found = [
        f"{where}at {one.ratio.estimate:.2f} ({one.ratio.low:.2f} – {one.ratio.high:.2f})"
        for where, one in zip(("", "beside best "), controls, strict=False)
        if one is not None and differs(one)
    ]
    if found:
        text = f"the control, the base measured again, came out {' and '.join(found)}, not 1"
        way_out = "the machine changed meanwhile. Repeat this before relying on it."
        yield Warning("control-differs", f"{text}: {way_out}")


def differs(control: Comparison) -> bool:
    return control.verdict != "no difference found"


class Sizes(NamedTuple):
    """Of a base's data, buffer pool and redo log, in bytes, and its reads; None: not known."""

    data_bytes: int | None
    pool_bytes: int | None
    redo_bytes: int | None
    page_reads: float | None = None

    @classmethod
    def of(cls, base: Sequence[Trial], configuration: Configuration) -> Sizes:
        pool = base[-1].settings.get("innodb_buffer_pool_size") if base else None
        return cls(
            max((trial.data_bytes or 0 for trial in base), default=0) or None,
            pool if isinstance(pool, int) else None,
            configuration.redo_capacity_bytes or None,
            page_reads_of(base),
        )


def page_reads_of(trials: Iterable[Trial]) -> float | None:
    """Pages read from disk per event of the load; None where the server or the load does not tell."""
    pages = events = 0
    for trial in trials:
        before, after = trial.before, trial.after
        if trial.slices or trial.load is None or before is None or after is None:
            continue  # between slices, others' pages are read
        if before.pool_reads is not None and after.pool_reads is not None:
            pages += after.pool_reads - before.pool_reads
            events += trial.load.events
    return pages / events if events else None


def of_base(base: Sequence[Trial], sizes: Sizes) -> Iterator[Warning]:
    data, pool, redo, _ = sizes
    if pool is not None and data is not None and data < pool:
        fit = f"all data ({format_size(data)}) fits in the buffer pool ({format_size(pool)})"
        all_wait = redo is None or redo >= data  # else pages are written before they can
        blind = "I/O settings" if all_wait else "settings that speed up reads"
        text = f"{fit}, so {blind} can show no gain here. If yours does not fit, your gains will differ."
        yield Warning("fits-in-pool", text)
    by_machine, spread = _by_machine(base), 0.0
    for own in by_machine.values():
        results = [trial.result for trial in own if trial.result is not None]
        if len(results) > 2:
            mean = sum(results) / len(results)
            spread = max(spread, (max(results) - min(results)) / mean)
    if spread > NOISE_RANGE:
        where = "" if len(by_machine) < 2 else " on one machine"
        yield Warning("noisy", f"the base's results{where} vary over {spread:.0%} of their mean")
    seen = [[trial.data_bytes for trial in own if trial.data_bytes] for own in by_machine.values()]
    first, last = max(
        ((own[0], own[-1]) for own in seen if own), key=lambda one: one[1] / one[0], default=(0, 0)
    )
    if last > GROWTH * first:
        grew = f"the data grew from {format_size(first)} to {format_size(last)} from run to run"
        yield Warning("data-grew", f"{grew}: ratios are of all these sizes together")


def of_machine(trials: Collection[Trial], *, disk: str | None) -> Iterator[Warning]:
    beside = [trial.foreign_cpu_share or 0.0 for trial in trials if trial.slices]
    if beside and (share := sum(beside) / len(beside)) > BUSY_SHARE:
        text = f"other programs used {share:.0%} of the CPU time meanwhile, which makes intervals wider"
        yield Warning("busy-machine", text)
    if discarded := disturbed(trials):
        text = (
            f"{disturbed_words(discarded)}; a disturbed trial is repeated once, and left out of the ratios "
            "where enough blocks are left"
        )
        yield Warning("discarded-trials", text)
    if disk is not None:
        yield Warning(
            "emulated-disk", f"measured on an emulated disk ({disk}), with a file system of its own"
        )


def of_interim(comparisons: Iterable[Comparison], against: Mapping[str, str] = {}) -> Iterator[Warning]:
    """Caveats where interim analyses exclude each other, or where an earlier one still bounds the
    interval."""
    for one in comparisons:
        if one.arm == CONTROL and differs(one):
            continue
        if one.contradicted:
            yield Warning(
                "analyses-disagree",
                f"{one.arm}: the interval of an earlier part and that of all blocks do not overlap: "
                "something changed, probably for this arm alone. The interval spans both; repeat this before "
                "relying on it.",
                arms=(one.arm,),
                against=against.get(one.arm, ""),
            )
            continue
        ratio = one.ratio
        below, above = math.log(ratio.estimate / ratio.low), math.log(ratio.high / ratio.estimate)
        if max(below, above) > LOPSIDED * min(below, above):
            which, bound = ("lower", ratio.low) if below < above else ("upper", ratio.high)
            yield Warning(
                "earlier-analysis",
                f"{one.arm}: its {which} bound, {bound:.2f}, was proven by an earlier interim analysis and is"
                f" kept; later blocks scattered more, or moved the ratio towards it, to {ratio.estimate:.2f}",
                arms=(one.arm,),
                against=against.get(one.arm, ""),
            )


def workload_words(workload: WorkloadSpec, threads: Sequence[int] = ()) -> str:
    known, options = workload_options(workload.name), dict(workload.options)
    sizes = {name: options.pop(name, known[name].default) for name in _SIZES if name in known}
    words = [without_passwords(workload.name)]
    if "threads" in sizes:
        counts = threads or (int(sizes["threads"]),)
        words.append(f"{', '.join(map(str, counts))} thread{'' if tuple(counts) == (1,) else 's'}")
    if "tables" in sizes:
        rows = sizes.get("table_size")
        words.append(
            f"the {sizes['tables']} largest tables" if rows is None else f"{sizes['tables']} × {rows:,} rows"
        )
    for name, value in options.items():
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        words.append(f"{name} {int(value):,}" if whole else f"{name} {value}")
    return ", ".join(words)


def disturbed(trials: Iterable[Trial]) -> int:
    return sum(
        trial.outcome == "discarded" and trial.result is not None and not trial.slices for trial in trials
    )


def disturbed_words(trials: int) -> str:
    return f"{trials:,} {'trial was' if trials == 1 else 'trials were'} disturbed by other load"


def too_busy(trials: int, disturbed: int) -> str:
    if not trials or disturbed < BUSY_SHARE * trials:
        return ""
    return f"The machine was too busy: {disturbed:,} of {counted(trials, 'trial')} disturbed"


def mean_result(trials: Iterable[Trial]) -> float | None:
    """Geometric mean of undisturbed trials, if any; arithmetic if a window committed nothing: ratios of
    sums."""
    good = _good(trials)
    figures = [trial.result for trial in good if trial.result]
    if not figures:
        return None
    return fmean(figures) if is_stalled(good) else geometric_mean(figures)


def mean_p99_us(trials: Iterable[Trial]) -> float | None:
    """Geometric mean of the latencies' 99th percentiles, of the same trials; None unless all have one."""
    latencies = [p99_us(trial) for trial in _good(trials)]
    known = [latency for latency in latencies if latency is not None]
    return geometric_mean(known) if known and len(known) == len(latencies) else None


def _good(trials: Iterable[Trial]) -> list[Trial]:
    found = list(trials)
    return [trial for trial in found if trial.outcome == "measured"] or found


# -- a load that was only observed


def demand_of(arms: Iterable[ArmResult]) -> Demand:
    demands = set[Demand]()
    for latency, throughput in ((arm.comparison, arm.throughput) for arm in arms):
        if latency is None or throughput is None or latency.verdict == "no difference found":
            continue
        # Sizes first: a narrow interval proves a gain of 1 %, beside a latency of half the time.
        side = 1.0 if latency.verdict == "faster" else -1.0
        most = max(side * math.log(throughput.ratio.low), side * math.log(throughput.ratio.high))
        if most < FOLLOWS * side * math.log(latency.ratio.estimate):
            demands.add("fixed")
        elif throughput.verdict == latency.verdict:
            demands.add("closed loop")
    return demands.pop() if len(demands) == 1 else "unknown"


def observed_of(trials: Iterable[Trial]) -> ObservedLoad | None:
    parts = [trial.observed for trial in trials if trial.observed is not None]
    return together(parts) if parts else None


def of_observed(load: ObservedLoad | None) -> Iterator[Warning]:
    if load is not None and load.commits_by == WITH_READS:
        yield Warning(
            "reads-among-commits",
            "the server has no binary log, and Handler_commit counts reads, too: if the load reads much, its"
            " write latency is too low and the ratios are too near to 1",
        )
