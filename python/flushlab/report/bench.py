"""One trial for people and as `flushlab.bench/1`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flushlab.errors import ValueOutOfRange
from flushlab.record import KindTime, Latency, Launch, LoadResult, NodeActivity, Trial
from flushlab.report.clients import load_came_from
from flushlab.report.words import data_words, disk_words, small, unit_of_work
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


def document(trial: Trial) -> BenchDocument:
    """The JSON document of a measured trial."""
    known = {name: getattr(trial, name) for name in trial.__struct_fields__}
    kept = _kept(trial)
    return BenchDocument(
        **known,
        range_per_s=_range(trial.load),
        floor=kept[0].floor if kept else None,
        guarantees=kept[1] if kept else {},
    )


def render(trial: Trial) -> RenderableType:
    """What a person reads; fits 80 columns."""
    assert trial.result is not None and trial.server is not None
    table = Table("", "", show_header=False, box=None, pad_edge=False)
    table.columns[0].style = "dim"
    digits = 2 if trial.result < 100 else 0
    table.add_row("result", Text(f"{trial.result:,.{digits}f} {trial.unit}", style="bold"))
    if (seconds := _range(trial.load)) is not None:
        words = f"{seconds.slowest:,} to {seconds.fastest:,} a second, median {seconds.median:,}"
        table.add_row("range", words)
    if trial.foreign_cpu_share is not None:
        stolen = f", the hypervisor {trial.steal_share:.0%}" if trial.steal_share >= 0.01 else ""
        table.add_row("others", f"other programs took {trial.foreign_cpu_share:.0%} of the CPU{stolen}")
    if trial.load is not None:
        _add_load(table, trial.load)
    _add_syncs(table, trial)
    for node in trial.nodes:
        table.add_row(f"node {node.node}", node_words(node))
    if lines := trial.output.strip().splitlines():
        table.add_row("printed", Text(lines[-1]))
    table.add_row("server", trial.server.title)
    if trial.workload:
        table.add_row("workload", Text(trial.workload))
    if trial.data is not None:
        table.add_row("data", Text(data_words(trial.data, trial.tables)))
    if kept := _kept(trial):
        table.add_row("floor", str(kept[0]))
    if trial.disk is not None:
        table.add_row("disk", disk_words(trial.disk))
    table.add_row(
        "window",
        f"{trial.seconds.get('window', 0):.1f} s after {trial.seconds.get('warm_up', 0):.1f} s of warm-up",
    )
    if trial.seed is not None:
        table.add_row("seed", str(trial.seed))
    warnings = [Text(f"warning: {warning.text}", style="yellow") for warning in trial.warnings]
    tables = _tables(trial.load) if trial.load is not None else ()
    one = Text(
        "one run proves no difference: flushlab compare alternates slices, with intervals",
        style="dim",
    )
    discarded = (
        [f"discarded: {trial.reason}, so these results do not count"] if trial.outcome == "discarded" else []
    )
    return Group(*(Text(words, style="bold red") for words in discarded), table, *tables, *warnings, one)


def _kept(trial: Trial) -> tuple[Verdict, dict[str, str]] | None:
    """The floor that its settings meet, and plain words per failure; None if the server has a value that no
    rule knows, or its storage was not noted."""
    if trial.server is None or trial.storage is None:
        return None
    situation = trial.settings, trial.server, trial.storage, trial.launch or Launch()
    try:
        return verdict(*situation), described(*situation)
    except ValueOutOfRange:
        return None


def node_words(node: NodeActivity) -> str:
    """`7,589 commits, 0 applied, paused 4 %`."""
    words = [f"{node.commits:,} commits, {node.received:,} received", f"paused {node.paused_share:.0%}"]
    if node.recv_queue_avg is not None:
        words.append(f"queue {node.recv_queue_avg:,.1f}")
    if conflicts := node.cert_failures + node.bf_aborts:
        words.append(f"{conflicts:,} conflicts lost")
    return ", ".join(words)


def _range(load: LoadResult | None) -> SecondRange | None:
    """How far the seconds of the window lie apart; None where there are too few to say."""
    if load is None or len(load.per_second) < _LEAST_SECONDS:
        return None
    seconds = load.per_second
    return SecondRange(slowest=min(seconds), median=statistics.median_low(seconds), fastest=max(seconds))


def render_interrupted(load: LoadResult, unit: str) -> RenderableType:
    """What was measured until Ctrl-C."""
    table = Table("", "", show_header=False, box=None, pad_edge=False)
    table.columns[0].style = "dim"
    table.add_row("result", Text(f"{load.throughput:,.0f} {unit}", style="bold"))
    _add_load(table, load)
    table.add_row("window", f"{load.seconds:.1f} s, until interrupted")
    caveat = Text("warning: interrupted: the window is shorter than requested", style="yellow")
    return Group(table, *_tables(load), caveat)


def _add_load(table: Table, load: LoadResult) -> None:
    event = "transaction" if load.rows is None and not load.kinds else "statement"
    if load.latency_us is not None:
        table.add_row("latency", _latency(load.latency_us) + (" per statement" if load.rows else ""))
    if load.rows is not None:
        rows = load.rows
        text = f"{rows.committed:,} committed, {rows.updated / max(rows.committed, 1):.0%} of them updates"
        table.add_row("rows", text + (f" · {rows.rolled_back:,} rolled back" if rows.rolled_back else ""))
        if rows.commit_latency_us is not None:
            table.add_row("commits", f"{rows.commits:,}")
            table.add_row("COMMIT", _latency(rows.commit_latency_us))
    if load.open_loop is not None:
        loop = load.open_loop
        table.add_row("intended", f"{loop.intended:,.0f}/s; backlog at most {loop.backlog_max:,} events")
        if loop.lag_us is not None:
            lag = loop.lag_us
            parts = (("p50", lag.p50), ("p99", lag.p99), ("p99.9", lag.p999), ("max", lag.max))
            table.add_row("lag", _percentiles(parts))
    if load.client_cpu_us_per_event is not None:
        busy = "" if load.client_busy is None else f", busy {load.client_busy:.0%} of the time"
        table.add_row("client", f"{load.client_cpu_us_per_event:.1f} µs of CPU per {event}{busy}")
    if load.clients:
        table.add_row("from", load_came_from(load.clients, load.clients_skew_us))
    for error in load.errors:
        table.add_row("error", Text(f"{error.count:,} × {error.errno} ({error.sqlstate}): {error.message}"))
    if load.failed is not None:
        failed = load.failed
        total = format_seconds(failed.count * failed.latency_us.mean / 1e6)
        took = failed.latency_us
        spread = (("p50", took.p50), ("p99", took.p99), ("max", took.max))
        table.add_row("failed", f"{failed.count:,} attempts, {total} in all: {_percentiles(spread)}")


def _add_syncs(table: Table, trial: Trial) -> None:
    """Syncs by file class where they were seen, else what InnoDB itself counts."""
    per, count = unit_of_work(trial)
    seen = {name: one.fsyncs for name, one in trial.file_activity.items() if one.fsyncs or name == "binlog"}
    if "redo" not in seen and "data" not in seen:
        seen = {"InnoDB": trial.deltas.get("Innodb_data_fsyncs")} | seen
    counted = {name: fsyncs / max(count, 1) for name, fsyncs in seen.items() if fsyncs is not None}
    hidden = "; of the binlog not visible" if "binlog" in seen.keys() - counted.keys() else ""
    if hidden and trial.performance and (why := trial.performance.untold.get("io_by_file")):
        hidden += f": {why.partition(': ')[0].partition(' (')[0]}"
    if words := " · ".join(f"{name} {small(fsyncs)}" for name, fsyncs in counted.items()):
        table.add_row("fsyncs", f"{words} per {per}{hidden}")


def _latency(latency: Latency) -> str:
    return _percentiles(
        (("p50", latency.p50), ("p95", latency.p95), ("p99", latency.p99), ("max", latency.max))
    )


def _percentiles(parts: Iterable[tuple[str, float]]) -> str:
    return " · ".join(f"{name} {format_latency(value)}" for name, value in parts)


def _tables(load: LoadResult) -> Iterator[Table]:
    """Kinds of transactions and of statements, where there are several."""
    if len(load.transactions) > 1:
        yield _by_name(
            "transactions",
            ((kind.transaction, kind.count, kind.latency_us) for kind in load.transactions),
            load.seconds,
        )
    if len(load.statements) > 1:
        shown = [one for one in load.statements if one.statement != "COMMIT" or load.rows is None]
        yield _by_name(
            "statements", ((one.statement, one.count, one.latency_us) for one in shown), load.seconds
        )
    if load.kinds:
        yield _kinds(load.kinds)


def _figures(title: str, *heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(title, overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _by_name(title: str, rows: Iterable[tuple[str, int, Latency | None]], seconds: float) -> Table:
    table = _figures(title, "count", "per second", "p50", "p95", "p99")
    for name, count, latency in rows:
        parts = ("", "", "") if latency is None else (latency.p50, latency.p95, latency.p99)
        cells = (part if isinstance(part, str) else format_latency(part) for part in parts)
        table.add_row(Text(name), f"{count:,}", f"{count / seconds:,.1f}", *cells)
    return table


def _kinds(kinds: tuple[KindTime, ...]) -> Table:
    table = _figures("statements", "count", "seconds", "share", "slowest", "in line")
    total = sum(kind.seconds for kind in kinds)
    for kind in kinds:
        table.add_row(
            Text(kind.kind),
            f"{kind.count:,}",
            f"{kind.seconds:.3f}",
            f"{kind.seconds / total:.0%}" if total else "",
            f"{kind.slowest_s:.3f}",
            str(kind.slowest_line),
        )
    return table
