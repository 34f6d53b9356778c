"""The page of a probe: what a disk allows, as one HTML file that needs nothing else. Pure.

Sits in `report`; its looks and its promises are those of `page`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from flushlab.probe import against
from flushlab.probe.against import arms_of, is_here
from flushlab.probe.ceilings import SyncSettings
from flushlab.probe.reading import (
    by_sync_settings,
    duration,
    gain_words,
    rate,
    ratio_words,
    sync_us,
    threads_words,
)
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
from flushlab.record import BinlogStrategy, Ceiling, DiskResult, ProbeRecord, Share, Trial
from flushlab.report import probe_plots
from flushlab.report.page.page import Foot, page
from flushlab.report.page.parts import Cell, Head, Section, Table
from flushlab.report.probe import (
    device_words,
    impossible,
    size_words,
    switch_figures,
    switch_words,
    warnings_of,
    way_words,
)
from flushlab.report.stored import connections_of, request_of
from flushlab.report.words import times
from flushlab.store import CampaignRow
from flushlab.units import format_seconds, format_size


def render(record: ProbeRecord, campaign: str) -> str:
    """The page of a stored probe."""
    sections = [
        *_servers(record),
        *_scaling(record),
        *ceilings(record),
        *_switches(record),
        *_shares(record),
        *_disk(record),
        *_depths(record),
        *_warnings(record),
        *_machine(record),
        *_repeat(record),
    ]
    head = Head(
        headline=record.headline,
        lead=record.reading[:1],
        workload="update_non_index, commits only",
        title=f"What {record.medium.directory} allows",
    )
    began = f"{record.started_at[:16].replace('T', ' ')} UTC"
    return page(Foot(campaign, "probe", "done", record.flushlab), head, began, _keys(record), sections)


def beside(
    record: ProbeRecord, probe_id: str, row: CampaignRow, trials: Sequence[Trial]
) -> Iterator[Section]:
    """A section of a campaign's page: its arms beside the ceilings of a probe of the same disk.

    Nothing if the probe is of another disk, or has no ceiling for any arm.
    """
    arms = arms_of(row.id, connections_of(request_of(row)), trials)
    servers = [one for one in arms if is_here(one, record)]
    found = against.shares(servers, record.ceilings, record.medium)
    if not found:
        return
    names = {f"{row.id}:{number}": trial.arm.name for number, trial in enumerate(trials, 1)}
    yield Section(
        "ceiling",
        "What this disk allows",
        f"The arms next to what {probe_id} measured on the same disk: commits/s of connections"
        " that only commit, with the same sync settings and number.",
        tables=(_share_table(found, [names[one.trial] for one in found]),),
        notes=record.reading[:1],
    )


def _keys(record: ProbeRecord) -> Iterator[tuple[str, str]]:
    yield "file system", record.medium.filesystem
    if record.medium.device:
        yield "device", record.medium.device
    yield "a synced write", duration(sync_us(record))
    yield "processors", str(record.machine.cpu_count)
    yield "took", format_seconds(record.seconds)


def _servers(record: ProbeRecord) -> Iterator[Section]:
    """A section per sync settings: pipelines beside `serial`, as in a server."""
    head = (Cell("strategy"), *(Cell(name, "num") for name in ("÷ serial", "commits/s", "p50")))
    for settings, rates in by_sync_settings(record.servers).items():
        rows = tuple(
            (
                Cell(one.binlog_strategy, "name"),
                Cell("1" if one.ratio_low is None else ratio_words(one), "num"),
                Cell(f"{one.commits_per_s:,.0f}", "num", f"groups of {one.group_size:,.1f}"),
                Cell(duration(one.latency_us.p50), "num", f"p99 {duration(one.latency_us.p99)}"),
            )
            for one in rates
        )
        wanted = f"of its own time per commit, serial makes {rate(rates[0].commits_per_s)} commits/s at"
        yield Section(
            f"server-{settings.trx_commit}-{settings.sync_binlog}",
            f"As in a server at {settings.name}",
            next((one for one in record.reading if f"{wanted} {settings.name}." in one), ""),
            tables=(Table(head, rows),),
            notes=(
                "A thread per connection spends the server's own time before each commit and sleeps until the"
                f" commit is acknowledged. {rates[0].rounds} rounds, strategies in turn; ratios per round,"
                " with the 95 % interval.",
            ),
        )


def ceilings(record: ProbeRecord) -> Iterator[Section]:
    """A section per sync settings, the reading's sentence above its plot and table."""
    for settings, cells in by_sync_settings(record.ceilings).items():
        yield Section(
            f"ceiling-{settings.trx_commit}-{settings.sync_binlog}",
            f"The disk's ceiling at {settings.name}",
            next((one for one in record.reading if one.startswith(f"At {settings.name} ")), ""),
            plots=(
                probe_plots.ceilings(
                    cells,
                    name=f"ceiling-{settings.trx_commit}-{settings.sync_binlog}",
                    title=f"Commits/s over connections at {settings.name}; the table has the numbers",
                ),
            ),
            tables=(_cells(cells),),
            notes=tuple(_refused(record, settings)),
        )


def _cells(cells: Iterable[Ceiling]) -> Table:
    head = (Cell("strategy"), *(Cell(name, "num") for name in ("commits/s", "p50", "at risk")))
    rows = tuple(
        (
            Cell(one.binlog_strategy, "name", threads_words(one.threads)),
            Cell(f"{one.commits_per_s:,.0f}", "num", f"groups of {one.group_size:,.1f}"),
            Cell(duration(one.latency_us.p50), "num", f"p99 {duration(one.latency_us.p99)}"),
            Cell(format_size(one.bytes_at_risk), "num", f"{one.fsyncs_per_s:,.0f} fsyncs/s"),
        )
        for one in cells
    )
    return Table(head, rows)


def _refused(record: ProbeRecord, settings: SyncSettings) -> Iterator[str]:
    for one in record.refused:
        if SyncSettings(one.trx_commit, one.sync_binlog) == settings:
            yield f"Not measured: {one.reason}."


def _switches(record: ProbeRecord) -> Iterator[Section]:
    head = (Cell("strategy"), Cell("switch took", "num"), Cell("commits/s", "num"))
    for one in record.switches:
        rows = [
            (Cell(phase.binlog_strategy, "name"), *(Cell(text, "num") for text in switch_figures(phase)))
            for phase in one.phases
        ]
        yield Section(
            f"switching-{one.trx_commit}-{one.sync_binlog}",
            f"Switching the binlog strategy live at {SyncSettings(one.trx_commit, one.sync_binlog).name}",
            switch_words(one),
            tables=(Table(head, tuple(rows)),),
        )


def _shares(record: ProbeRecord) -> Iterator[Section]:
    if not record.against:
        return
    yield Section(
        "against",
        "A measured server next to its ceiling",
        "The ceiling: connections that only commit, with the same sync settings and number. A server also"
        " parses, locks, reads and replies.",
        tables=(_share_table(record.against, [one.server for one in record.against]),),
    )


def _share_table(shares: Sequence[Share], names: Sequence[str]) -> Table:
    head = (
        Cell("server"),
        *(Cell(name, "num") for name in ("settings", "commits/s", "share", "best strategy")),
    )
    rows = tuple(
        (
            Cell(name, "name", one.trial),
            Cell(SyncSettings(one.trx_commit, one.sync_binlog).pair, "num", threads_words(one.threads)),
            Cell(f"{one.commits_per_s:,.0f}", "num", f"of {one.ceiling_per_s:,.0f}"),
            Cell(f"{one.share:.0%}", "num"),
            Cell(one.best_strategy, "num", f"{one.best_per_s:,.0f}"),
        )
        for name, one in zip(names, shares, strict=True)
    )
    return Table(head, rows)


def _scaling(record: ProbeRecord) -> Iterator[Section]:
    """Rates on more processors than there are here, beside what was published."""
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
    yield Section(
        "scaling",
        "On more processors",
        f"Computed, not measured: the rate that {one.threads} connections and more could reach at"
        f" {settings.name} on up to {PROCESSORS[-1]} processors, with {duration(one.own_us)} of the server's"
        " own time per commit. The basis is the time per commit that only one thread"
        f" at a time can spend: {', '.join(_single(curve) for curve in found.values())}. The dots were"
        " measured here.",
        plots=(
            probe_plots.scaling(
                tuple(found.values()),
                reached,
                dict.fromkeys(STORY_PROCESSORS, f"+{low}–{high} %"),
                name="scaling",
                title="Rates over processors; the table has the numbers",
            ),
        ),
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
    )


def _single(curve: Curve) -> str:
    return f"{curve.cost.binlog_strategy} {duration(curve.cost.single_ns / 1000)}"


def _gains(found: Mapping[BinlogStrategy, Curve], computed: Iterable[Gain]) -> Table:
    """Rates of `serial` and of the best other strategy by processors."""
    serial = found["serial"]
    best = found.get("parallel") or next(one for strategy, one in found.items() if strategy != "serial")
    head = (
        Cell("processors"),
        Cell("serial", "num"),
        Cell(best.cost.binlog_strategy, "num"),
        Cell("gain", "num"),
    )
    of_best = (best.trx_commit, best.sync_binlog, best.cost.binlog_strategy)
    words = {
        one.processors: gain_words(one)
        for one in computed
        if (one.trx_commit, one.sync_binlog, one.binlog_strategy) == of_best
    }
    rows = tuple(
        (
            Cell(str(processors), "name"),
            Cell(rate(serial.commits_per_s[place]), "num"),
            Cell(rate(best.commits_per_s[place]), "num"),
            Cell(
                words.get(processors, times(best.commits_per_s[place] / serial.commits_per_s[place])), "num"
            ),
        )
        for place, processors in enumerate(PROCESSORS)
        if processors >= 4
    )
    return Table(head, rows)


def _disk(record: ProbeRecord) -> Iterator[Section]:
    alone = [one for one in record.disk if _is_alone(one)]
    measured = [one for one in alone if one.latency_us is not None]
    if not measured:
        return
    yield Section(
        "disk",
        "One write at a time",
        "A write and the call that makes it durable. Dot: median; line: up to the 99th percentile;"
        " mark: the slowest. Gray rows make nothing durable: they show what the flush costs.",
        plots=(
            probe_plots.syncs(
                [one for one in measured if one.bytes == 4096 or one.way == "pair"],
                name="disk",
                title="Latency of synchronous writes by way; the table has the numbers",
            ),
        ),
        tables=(_figures(alone),),
        notes=tuple(f"{one}." for one in impossible(alone)),
    )


def _is_alone(one: DiskResult) -> bool:
    return one.depth == 1 and one.order == "sequential" and (one.way != "direct" or one.bytes == 4096)


def _figures(figures: Iterable[DiskResult]) -> Table:
    head = (
        Cell("way"), Cell("size", "num"), Cell("per s", "num"), Cell("p50", "num"), Cell("p99", "num"),
        Cell("max", "num"),
    )  # fmt: skip
    rows = tuple(
        (
            Cell(way_words(one), "name"),
            Cell(size_words(one.bytes), "num"),
            Cell(f"{one.operations_per_s:,.0f}", "num"),
            *(Cell(duration(us), "num") for us in (latency.p50, latency.p99, latency.max)),
        )
        for one in figures
        if (latency := one.latency_us) is not None
    )
    return Table(head, rows)


def _depths(record: ProbeRecord) -> Iterator[Section]:
    deep = [one for one in record.disk if one.way == "direct" and one.bytes == 16384 and one.latency_us]
    if not deep:
        return
    head = (
        Cell("order"), Cell("at once", "num"), Cell("per s", "num"), Cell("MiB/s", "num"), Cell("p50", "num"),
        Cell("p99", "num"),
    )  # fmt: skip
    rows = tuple(
        (
            Cell(one.order, "name"),
            Cell(str(one.depth), "num"),
            Cell(f"{one.operations_per_s:,.0f}", "num"),
            Cell(f"{one.operations_per_s * one.bytes / (1 << 20):,.0f}", "num"),
            Cell(duration(latency.p50), "num"),
            Cell(duration(latency.p99), "num"),
        )
        for one in deep
        if (latency := one.latency_us) is not None
    )
    yield Section(
        "depth",
        "Many writes at once",
        "16 KiB with O_DIRECT and no flush, as InnoDB's page cleaners write.",
        tables=(Table(head, rows),),
    )


def _warnings(record: ProbeRecord) -> Iterator[Section]:
    found = warnings_of(record)
    rows = tuple((Cell(one.slug, "name"), Cell(one.text)) for one in found)
    if rows:
        yield Section("warnings", "Warnings", tables=(Table((Cell("warning"), Cell("what")), rows),))
    else:
        yield Section("warnings", "Warnings", "None.")


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
    rows = tuple((Cell(name, "mute"), Cell(text)) for name, text in facts)
    yield Section("machine", "Machine and versions", tables=(Table((), rows),))


def _repeat(record: ProbeRecord) -> Iterator[Section]:
    yield Section("repeat", "How to repeat it", code=(("", record.command),))
