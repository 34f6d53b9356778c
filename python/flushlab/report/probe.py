"""Report of a probe: its document, and its JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from flushlab.probe import against
from flushlab.probe.against import arms_of, is_here
from flushlab.probe.ceilings import SyncSettings
from flushlab.probe.reading import by_sync_settings, duration, gain_words, rate, ratio_words, sync_us
from flushlab.probe.servers import (
    OWN_FACTORS,
    PROCESSORS,
    STORY_GAIN,
    STORY_PROCESSORS,
    Curve,
    Gain,
    curves,
    gains,
)
from flushlab.record import BinlogStrategy, Ceiling, DiskResult, ProbeRecord, Share, Switching, Trial, Warning
from flushlab.report import probe_plots
from flushlab.report.document import (
    Cell,
    Code,
    Document,
    Row,
    Section,
    Table,
    facts_table,
    named,
    numbers,
)
from flushlab.report.stored import connections_of, request_of
from flushlab.report.words import disk_words, extended, times
from flushlab.store import CampaignRow
from flushlab.units import format_seconds, format_size


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """Rates as in a server on more processors, computed from the time of each commit.

    Attributes:
        processors: numbers of processors.
        curves: a curve for each binlog write strategy; none if no sync settings permit `parallel`.
        gains: of each strategy over `serial` on 16 and 64 processors.
    """

    processors: tuple[int, ...]
    curves: tuple[Curve, ...]
    gains: tuple[Gain, ...]


class ProbeDocument(ProbeRecord, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.probe/1"):
    """The document: `schema`, the record, and what follows from it.

    Attributes:
        scaling: ceilings on more processors.
    """

    scaling: Scaling


def as_json(record: ProbeRecord) -> ProbeDocument:
    scaling = Scaling(processors=PROCESSORS, curves=curves(record.servers), gains=gains(record))
    return extended(ProbeDocument, record, scaling=scaling)


def document(record: ProbeRecord, campaign: str = "") -> Document:
    sections = (
        *_servers(record),
        *_scaling(record),
        *_ceilings(record),
        *_switches(record),
        *_shares(record),
        *_disk(record),
        *_depths(record),
        *_warnings(record),
        *_machine(record),
        Section("repeat", "How to repeat it", code=(Code(record.command, shown="page"),), short=()),
    )
    placed = {text for section in sections for text in (*section.texts, *section.notes)}
    refused = [f"Not measured: {one.reason}." for one in record.refused]
    return Document(
        kind="probe",
        headline=record.headline,
        lead=tuple(text for text in (*record.reading, *refused) if text not in placed),
        workload="update_non_index, commits only",
        title=f"What {record.medium.directory} allows",
        keys=tuple(_keys(record)),
        sections=sections,
        id=campaign,
        when=f"{record.started_at[:16].replace('T', ' ')} UTC",
        state="done",
        flushlab=record.flushlab,
    )


def beside(
    record: ProbeRecord, probe_id: str, row: CampaignRow, trials: Sequence[Trial]
) -> Iterator[Section]:
    """Nothing if the probe is of another disk, or has no ceiling for any arm."""
    arms = arms_of(row.id, connections_of(request_of(row)), trials)
    shares = against.shares([arm for arm in arms if is_here(arm, record)], record.ceilings, record.medium)
    if not shares:
        return
    names = {f"{row.id}:{number}": trial.arm.name for number, trial in enumerate(trials, 1)}
    yield Section(
        "ceiling",
        "What this disk allows",
        f"The arms next to what {probe_id} measured on the same disk: commits/s of connections"
        " that only commit, with the same sync settings and number.",
        tables=(_share_table(shares, [names[share.trial] for share in shares]),),
        notes=record.reading[:1],
        short=(),
    )


def _keys(record: ProbeRecord) -> Iterator[tuple[str, str]]:
    yield "file system", record.medium.filesystem
    if record.medium.device:
        yield "device", record.medium.device
    yield "a synced write", duration(sync_us(record))
    yield "processors", str(record.machine.cpu_count)
    yield "took", format_seconds(record.seconds)


def _reading(record: ProbeRecord, *parts: str) -> tuple[str, ...]:
    return tuple(text for text in record.reading if any(part in text for part in parts))


def _servers(record: ProbeRecord) -> Iterator[Section]:
    figures = ("÷ serial", "connections", "commits/s", "group", "p50")
    for settings, rates in by_sync_settings(record.servers).items():
        rows = tuple(
            _rate(one, "1" if one.ratio_low is None else ratio_words(one), str(one.threads)) for one in rates
        )
        yield Section(
            f"server-{settings.trx_commit}-{settings.sync_binlog}",
            f"As in a server at {settings.name}",
            "A thread per connection spends the server's own time before each commit and sleeps until the"
            f" commit is acknowledged. {rates[0].rounds} rounds, strategies in turn; ratios per round,"
            " with the 95 % interval.",
            _reading(record, f"commits/s at {settings.name}. ", f"processors at {settings.name}:"),
            tables=(Table(("strategy", *figures), rows),),
        )


def _ceilings(record: ProbeRecord) -> Iterator[Section]:
    figures = ("connections", "commits/s", "group", "p50", "at risk", "syncs/s")
    for settings, cells in by_sync_settings(record.ceilings).items():
        key = f"ceiling-{settings.trx_commit}-{settings.sync_binlog}"
        rows = tuple(
            (
                *_rate(one, str(one.threads)),
                *numbers(format_size(one.bytes_at_risk), f"{one.fsyncs_per_s:,.0f}"),
            )
            for one in cells
        )
        title = f"Commits/s over connections at {settings.name}; the table has the numbers"
        yield Section(
            key,
            f"The disk's ceiling at {settings.name}",
            "Two threads do the work of all connections and never sleep.",
            tuple(text for text in record.reading if text.startswith(f"At {settings.name} ")),
            plots=(probe_plots.ceilings(cells, name=key, title=title),),
            legend=_legend(probe_plots.strategies(cells)),
            tables=(Table(("strategy", *figures), rows),),
            notes=tuple(
                f"Not measured: {one.reason}."
                for one in record.refused
                if SyncSettings(one.trx_commit, one.sync_binlog) == settings
            ),
        )


def _rate(one: Ceiling, *first: str) -> Row:
    latency = Cell(duration(one.latency_us.p50), "num", f"p99 {duration(one.latency_us.p99)}")
    return *named(one.binlog_strategy, *first, f"{one.commits_per_s:,.0f}", f"{one.group_size:,.1f}"), latency


def _legend(strategies: Iterable[BinlogStrategy]) -> tuple[tuple[str, str], ...]:
    return tuple((strategy, probe_plots.INKS[strategy]) for strategy in strategies)


def _switches(record: ProbeRecord) -> Iterator[Section]:
    head = ("strategy", "switch took", "commits/s")
    for one in record.switches:
        rows = tuple(
            named(
                phase.binlog_strategy,
                duration(phase.switch_us) if phase.switch_us else "-",
                f"{phase.commits / phase.seconds:,.0f}" if phase.seconds else "-",
            )
            for phase in one.phases
        )
        yield Section(
            f"switching-{one.trx_commit}-{one.sync_binlog}",
            f"Switching the binlog strategy live at {SyncSettings(one.trx_commit, one.sync_binlog).name}",
            texts=(switch_words(one),),
            tables=(Table(head, rows),),
        )


def switch_words(one: Switching) -> str:
    whole = "whole: every transaction is there once" if one.binlog_is_whole else "DAMAGED: this is a bug"
    return (
        f"With {one.threads} connections, no commit took longer than {duration(one.longest_commit_us)}."
        f" The binlog of {one.transactions:,} transactions is {whole}."
    )


def _shares(record: ProbeRecord) -> Iterator[Section]:
    if record.against:
        yield Section(
            "against",
            "A measured server next to its ceiling",
            "The ceiling: connections that only commit, with the same sync settings and number. A server also"
            " parses, locks, reads and replies.",
            _reading(record, " of the ceiling at "),
            tables=(_share_table(record.against, [share.server for share in record.against]),),
        )


def _share_table(shares: Sequence[Share], names: Sequence[str]) -> Table:
    figures = ("settings", "connections", "commits/s", "ceiling", "share", "best strategy")
    rows = []
    for name, share in zip(names, shares, strict=True):
        settings = SyncSettings(share.trx_commit, share.sync_binlog).pair
        rates = (f"{share.commits_per_s:,.0f}", f"{share.ceiling_per_s:,.0f}", f"{share.share:.0%}")
        best = Cell(share.best_strategy, "num", f"{share.best_per_s:,.0f}")
        rows.append((*named(name, settings, str(share.threads), *rates, small=share.trial), best))
    return Table(("server", *figures), rows)


def _scaling(record: ProbeRecord) -> Iterator[Section]:
    found = {curve.cost.binlog_strategy: curve for curve in curves(record.servers)}
    if "serial" not in found or len(found) < 2:
        return
    one = found["serial"]
    settings, here = SyncSettings(one.trx_commit, one.sync_binlog), record.machine.cpu_count
    reached = {
        cell.binlog_strategy: (here, cell.commits_per_s)
        for cell in by_sync_settings(record.servers)[settings]
    }
    low, high = (round(100 * (gain - 1)) for gain in STORY_GAIN)
    single = ", ".join(
        f"{curve.cost.binlog_strategy} {duration(curve.cost.single_ns / 1000)}" for curve in found.values()
    )
    yield Section(
        "scaling",
        "On more processors",
        f"Computed, not measured: the rate that {one.threads} connections and more could reach at"
        f" {settings.name} on up to {PROCESSORS[-1]} processors, with {duration(one.own_us)} of the server's"
        " own time per commit. The basis is the time per commit that only one thread"
        f" at a time can spend: {single}. The dots were measured here.",
        plots=(
            probe_plots.scaling(
                tuple(found.values()),
                reached,
                dict.fromkeys(STORY_PROCESSORS, f"+{low}–{high} %"),
                name="scaling",
                title="Rates over processors; the table has the numbers",
            ),
        ),
        legend=_legend(found),
        tables=(_gains(found, gains(record, PROCESSORS)),),
        notes=(
            "The interval of a gain is that of the rounds (95 %), widened to half and twice of the server's"
            f" own time: {' to '.join(duration(one.own_us * factor) for factor in OWN_FACTORS[::2])}.",
            "Published gain of Binlog Parallel Flush on real servers of"
            f" {' and '.join(map(str, STORY_PROCESSORS))} processors: +{low} to {high} % transactions/s. The"
            " computed gain is an upper bound. It leaves out the cost of caches and locks, which grows with"
            " the processors, and all that a server passes one by one besides the commit. It begins on as"
            " many processors as fill the part that is passed one by one.",
        ),
        short=(),
    )


def _gains(found: Mapping[BinlogStrategy, Curve], computed: Iterable[Gain]) -> Table:
    serial = found["serial"]
    best = found.get("parallel") or next(one for strategy, one in found.items() if strategy != "serial")
    of_best = (best.trx_commit, best.sync_binlog, best.cost.binlog_strategy)
    words = {
        one.processors: gain_words(one)
        for one in computed
        if (one.trx_commit, one.sync_binlog, one.binlog_strategy) == of_best
    }
    rows = tuple(
        named(
            str(processors),
            rate(serial.commits_per_s[place]),
            rate(best.commits_per_s[place]),
            words.get(processors, times(best.commits_per_s[place] / serial.commits_per_s[place])),
        )
        for place, processors in enumerate(PROCESSORS)
        if processors >= 4
    )
    return Table(("processors", "serial", best.cost.binlog_strategy, "gain"), rows)


def _disk(record: ProbeRecord) -> Iterator[Section]:
    alone = [
        one
        for one in record.disk
        if one.depth == 1 and one.order == "sequential" and (one.way != "direct" or one.bytes == 4096)
    ]
    measured = [one for one in alone if one.latency_us is not None]
    if not measured:
        return
    refused = (
        f"{probe_plots.way_words(one)}, {probe_plots.size_words(one.bytes)}: {one.refused}."
        for one in record.disk
        if one.refused
    )
    yield Section(
        "disk",
        "One write at a time",
        "A write and the call that makes it durable. Dot: median; line: up to the 99th percentile;"
        " mark: the slowest. Gray rows make nothing durable: they show what the flush costs.",
        _reading(record, "A growing file"),
        plots=(
            probe_plots.syncs(
                [one for one in measured if one.bytes == 4096 or one.way == "pair"],
                name="disk",
                title="Latency of synchronous writes by way; the table has the numbers",
            ),
        ),
        tables=(
            Table(
                ("way", "size", "per s", "p50", "p99", "max"),
                [
                    _figures(probe_plots.way_words(one), one, probe_plots.size_words(one.bytes))
                    for one in measured
                ],
            ),
        ),
        notes=tuple(dict.fromkeys(refused)),
    )


def _depths(record: ProbeRecord) -> Iterator[Section]:
    deep = [one for one in record.disk if one.way == "direct" and one.bytes == 16384 and one.latency_us]
    if deep:
        rates = [f"{one.operations_per_s * one.bytes / (1 << 20):,.0f}" for one in deep]
        rows = [_figures(one.order, one, str(one.depth), mib) for one, mib in zip(deep, rates, strict=True)]
        yield Section(
            "depth",
            "Many writes at once: 16 KiB, O_DIRECT, no flush",
            "InnoDB's page cleaners write so.",
            tables=(Table(("order", "at once", "MiB/s", "per s", "p50", "p99", "max"), rows),),
        )


def _figures(name: str, one: DiskResult, *first: str) -> tuple[Cell, ...]:
    latency = one.latency_us
    assert latency is not None
    spread = map(duration, (latency.p50, latency.p99, latency.max))
    return Cell(name, "name"), *numbers(*first, f"{one.operations_per_s:,.0f}", *spread)


def warnings_of(record: ProbeRecord) -> list[Warning]:
    return [*record.warnings, *(warning for one in record.against for warning in one.warnings)]


def _warnings(record: ProbeRecord) -> Iterator[Section]:
    found = warnings_of(record)
    rows = tuple((Cell(one.slug, "name"), Cell(one.text)) for one in found)
    yield Section(
        "warnings",
        "Warnings",
        texts=() if rows else ("None.",),
        tables=(Table(("warning", "what"), rows),) if rows else (),
        short=tuple(f"warning: {one.text}" for one in found),
    )


def _machine(record: ProbeRecord) -> Iterator[Section]:
    medium, machine = record.medium, record.machine
    facts = (
        ("directory", medium.directory),
        ("file system", " ".join([medium.filesystem, *medium.options])),
        ("device", device_words(record)),
        ("free", format_size(medium.free_bytes)),
        ("processor", f"{machine.cpu_model}, {machine.cpu_count} usable"),
        ("memory", format_size(machine.memory_bytes)),
        ("kernel", machine.kernel),
        ("flushlab", record.flushlab),
    )
    yield Section("machine", "Machine and versions", tables=(facts_table(facts),))


def device_words(record: ProbeRecord) -> str:
    medium = record.medium
    if medium.device is None:
        return "none visible to the kernel"
    words = [medium.device]
    if (slow := record.machine.slow_disk) is not None:
        words.append(f"emulating {disk_words(slow)}")
    if medium.scheduler:
        words.append(f"scheduler {medium.scheduler}")
    if medium.rotational is not None:
        words.append("rotational" if medium.rotational else "non-rotational")
    if medium.volatile_cache is not None:
        words.append("volatile cache" if medium.volatile_cache else "no volatile cache")
    if medium.logical_block_bytes:
        words.append(f"blocks of {medium.logical_block_bytes:,} B")
    return ", ".join(words)
