"""Report of `bench`: the document of a run, here or on each machine of a fleet, and the JSON. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from flushlab.errors import ValueOutOfRange
from flushlab.record import FleetBench, Latency, Launch, LoadResult, NodeActivity, Trial
from flushlab.report.document import (
    Cell,
    Document,
    Section,
    Table,
    facts_table,
    named,
    warnings_section,
)
from flushlab.report.words import (
    data_words,
    disk_words,
    extended,
    load_came_from,
    rounded,
    small,
    unit_of_work,
)
from flushlab.settings.durability import Verdict, described, verdict
from flushlab.units import format_latency, format_seconds

_LEAST_SECONDS = 3


class SecondRange(msgspec.Struct, frozen=True, kw_only=True):
    """How far the seconds of the window lie apart, in events per second.

    Attributes:
        slowest: the slowest second.
        median: the median second.
        fastest: the fastest second.
    """

    slowest: int
    median: int
    fastest: int


class BenchDocument(Trial, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.bench/1"):
    """The document: `schema`, the trial, and what follows from it.

    Attributes:
        range_per_s: of the seconds of the window; null where there are too few to say.
        floor: the safest floor that the settings meet; null where no rule knows them.
        guarantees: plain words per failure, and the floor with its condition on the disk; empty where no rule
            knows the settings.
    """

    range_per_s: SecondRange | None = None
    floor: str | None = None
    guarantees: Mapping[str, str] = {}


class FleetBenchDocument(
    FleetBench, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.fleet-bench/1"
):
    """The document: `schema` and the results."""


def as_json(trial: Trial) -> BenchDocument:
    floor, guarantees = _kept(trial) or (None, {})
    return extended(
        BenchDocument,
        trial,
        range_per_s=_range(trial.load),
        floor=floor.floor if floor else None,
        guarantees=guarantees,
    )


def fleet_as_json(found: FleetBench) -> FleetBenchDocument:
    return extended(FleetBenchDocument, found)


def document(trial: Trial) -> Document:
    assert trial.result is not None and trial.server is not None
    result, discarded = f"{rounded(trial.result)} {trial.unit}", trial.outcome == "discarded"
    return Document(
        "bench",
        f"Discarded: {trial.reason}, so these results do not count" if discarded else result,
        lead=(result,) if discarded else (),
        servers=trial.server.title,
        workload=trial.workload,
        sections=(*_results(_facts(trial), trial.load), *warnings_section(trial.warnings)),
        hint="one run proves no difference: flushlab compare alternates slices, with intervals",
    )


def interrupted_document(load: LoadResult, unit: str) -> Document:
    facts = [*_load(load), ("window", f"{load.seconds:.1f} s, until interrupted")]
    short = warnings_section(["interrupted: the window is shorter than requested"])
    return Document("bench", f"{load.throughput:,.0f} {unit}", sections=(*_results(facts, load), *short))


def fleet_document(found: FleetBench) -> Document:
    rows = []
    for run in found.runs:
        trial = run.trial
        if trial is None:
            cells = Cell("none", "num"), Cell(run.problem)
        elif trial.outcome != "measured" or trial.result is None:
            cells = Cell(trial.outcome, "num"), Cell(trial.reason)
        else:
            cells = Cell(f"{rounded(trial.result)} {trial.unit}", "num"), Cell(_others(trial))
        rows.append((Cell(run.machine, "name"), *cells))
    measured = [run.trial for run in found.runs if run.trial is not None]
    server = measured[0].server.title if measured and measured[0].server else ""
    warnings = dict.fromkeys(
        f"{run.machine}: {warning.text}" for run in found.runs if run.trial for warning in run.trial.warnings
    )
    headline, lead = "No machine has a result.", list[str]()
    if found.between is not None:
        headline = f"Fastest {found.fastest}, slowest {found.slowest}: {found.between:.2f}× between them"
        if found.mean is not None:
            low, high = rounded(found.mean.low), rounded(found.mean.high)
            mean = f"{rounded(found.mean.estimate)} {measured[0].unit} [{low}, {high}], 95 %"
            lead.append(f"Mean of such machines: {mean}.")
        lead.append("One run on each machine: the difference contains the noise of single runs.")
    elif found.fastest:
        headline = f"Only {found.fastest} has a result."
    return Document(
        "bench",
        headline,
        lead=tuple(lead),
        servers=server,
        sections=(
            Section("machines", "On each machine", tables=(Table(("machine", "result", "others"), rows),)),
            *warnings_section(warnings),
        ),
    )


def _facts(trial: Trial) -> Iterator[tuple[str, str]]:
    if (seconds := _range(trial.load)) is not None:
        yield "range", f"{seconds.slowest:,} to {seconds.fastest:,} a second, median {seconds.median:,}"
    yield "others", _others(trial)
    if trial.load is not None:
        yield from _load(trial.load)
    yield "fsyncs", _syncs(trial)
    for node in trial.nodes:
        yield f"node {node.node}", node_words(node)
    yield "printed", (trial.output.strip().splitlines() or [""])[-1]
    if trial.data is not None:
        yield "data", data_words(trial.data, trial.tables)
    if kept := _kept(trial):
        yield "floor", str(kept[0])
    if trial.disk is not None:
        yield "disk", disk_words(trial.disk)
    window, warm_up = trial.seconds.get("window", 0), trial.seconds.get("warm_up", 0)
    yield "window", f"{window:.1f} s after {warm_up:.1f} s of warm-up"
    yield "seed", "" if trial.seed is None else str(trial.seed)


def _kept(trial: Trial) -> tuple[Verdict, dict[str, str]] | None:
    """None if the server has a value that no rule knows, or its storage was not noted."""
    if trial.server is None or trial.storage is None:
        return None
    situation = trial.settings, trial.server, trial.storage, trial.launch or Launch()
    try:
        return verdict(*situation), described(*situation)
    except ValueOutOfRange:
        return None


def _others(trial: Trial) -> str:
    if trial.foreign_cpu_share is None:
        return ""
    stolen = f", the hypervisor {trial.steal_share:.0%}" if trial.steal_share >= 0.01 else ""
    return f"other programs took {trial.foreign_cpu_share:.0%} of the CPU{stolen}"


def node_words(node: NodeActivity) -> str:
    words = [f"{node.commits:,} commits, {node.received:,} received", f"paused {node.paused_share:.0%}"]
    if node.recv_queue_avg is not None:
        words.append(f"queue {node.recv_queue_avg:,.1f}")
    if conflicts := node.cert_failures + node.bf_aborts:
        words.append(f"{conflicts:,} conflicts lost")
    return ", ".join(words)


def _range(load: LoadResult | None) -> SecondRange | None:
    if load is None or len(load.per_second) < _LEAST_SECONDS:
        return None
    seconds = load.per_second
    return SecondRange(slowest=min(seconds), median=statistics.median_low(seconds), fastest=max(seconds))


def _load(load: LoadResult) -> Iterator[tuple[str, str]]:
    rows, loop, failed = load.rows, load.open_loop, load.failed
    if load.latency_us is not None:
        yield "latency", _latency(load.latency_us) + (" per statement" if rows else "")
    if rows is not None:
        text = f"{rows.committed:,} committed, {rows.updated / max(rows.committed, 1):.0%} of them updates"
        yield "rows", text + (f" · {rows.rolled_back:,} rolled back" if rows.rolled_back else "")
        if rows.commit_latency_us is not None:
            yield "commits", f"{rows.commits:,}"
            yield "COMMIT", _latency(rows.commit_latency_us)
    if loop is not None:
        yield "intended", f"{loop.intended:,.0f}/s; backlog at most {loop.backlog_max:,} events"
        if loop.lag_us:
            yield "lag", _latency(loop.lag_us, "p50", "p99", "p999", "max")
    if load.client_cpu_us_per_event is not None:
        event = "transaction" if rows is None and not load.kinds else "statement"
        busy = "" if load.client_busy is None else f", busy {load.client_busy:.0%} of the time"
        yield "client", f"{load.client_cpu_us_per_event:.1f} µs of CPU per {event}{busy}"
    if load.clients:
        yield "from", load_came_from(load.clients, load.clients_skew_us)
    for error in load.errors:
        yield "error", f"{error.count:,} × {error.errno} ({error.sqlstate}): {error.message}"
    if failed is not None:
        spread = _latency(failed.latency_us, "p50", "p99", "max")
        total = format_seconds(failed.count * failed.latency_us.mean / 1e6)
        yield "failed", f"{failed.count:,} attempts, {total} in all: {spread}"


def _syncs(trial: Trial) -> str:
    per, count = unit_of_work(trial)
    seen = {name: one.fsyncs for name, one in trial.file_activity.items() if one.fsyncs or name == "binlog"}
    if "redo" not in seen and "data" not in seen:
        seen = {"InnoDB": trial.deltas.get("Innodb_data_fsyncs")} | seen
    counted = {name: fsyncs / max(count, 1) for name, fsyncs in seen.items() if fsyncs is not None}
    hidden = "; of the binlog not visible" if "binlog" in seen.keys() - counted.keys() else ""
    if hidden and trial.performance and (why := trial.performance.untold.get("io_by_file")):
        hidden += f": {why.partition(': ')[0].partition(' (')[0]}"
    words = " · ".join(f"{name} {small(fsyncs)}" for name, fsyncs in counted.items())
    return f"{words} per {per}{hidden}" if words else ""


def _latency(latency: Latency, *fields: str) -> str:
    names = {name: "p99.9" if name == "p999" else name for name in fields or ("p50", "p95", "p99", "max")}
    return " · ".join(f"{name} {format_latency(getattr(latency, field))}" for field, name in names.items())


def _results(facts: Iterable[tuple[str, str]], load: LoadResult | None) -> Iterator[Section]:
    yield Section("results", "Results", tables=(facts_table(facts),))
    if load is None:
        return
    if len(load.transactions) > 1:
        transactions = ((kind.transaction, kind.count, kind.latency_us) for kind in load.transactions)
        yield _by_name("transactions", transactions, load.seconds)
    if len(load.statements) > 1:
        shown = (one for one in load.statements if one.statement != "COMMIT" or load.rows is None)
        statements = ((one.statement, one.count, one.latency_us) for one in shown)
        yield _by_name("statements", statements, load.seconds)
    if load.kinds:
        total = sum(kind.seconds for kind in load.kinds)
        rows = []
        for kind in load.kinds:
            share = f"{kind.seconds / total:.0%}" if total else ""
            slowest = f"{kind.slowest_s:.3f}", str(kind.slowest_line)
            rows.append(named(kind.kind, f"{kind.count:,}", f"{kind.seconds:.3f}", share, *slowest))
        head = ("statement", "count", "seconds", "share", "slowest", "in line")
        yield Section("statements", "Statements", tables=(Table(head, rows),))


def _by_name(key: str, rows: Iterable[tuple[str, int, Latency | None]], seconds: float) -> Section:
    head = (key.removesuffix("s"), "count", "per second", "p50", "p95", "p99")
    body = []
    for name, count, latency in rows:
        spread = ["", "", ""]
        if latency is not None:
            spread = [format_latency(value) for value in (latency.p50, latency.p95, latency.p99)]
        body.append(named(name, f"{count:,}", f"{count / seconds:,.1f}", *spread))
    return Section(key, key.capitalize(), tables=(Table(head, body),))
