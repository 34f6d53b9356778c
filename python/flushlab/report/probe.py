"""A probe for people and as `flushlab.probe/1`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flushlab.probe.ceilings import SyncSettings
from flushlab.probe.reading import by_sync_settings, duration, ratio_words
from flushlab.probe.servers import PROCESSORS, Curve, Gain, curves, gains
from flushlab.record import (
    Ceiling,
    DiskResult,
    ProbeRecord,
    ServerRate,
    Switching,
    SwitchPhase,
    Warning,
)
from flushlab.report.words import disk_words
from flushlab.units import format_size


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


def document(record: ProbeRecord) -> ProbeDocument:
    """The JSON document."""
    known = {name: getattr(record, name) for name in record.__struct_fields__}
    scaling = Scaling(processors=PROCESSORS, curves=curves(record.servers), gains=gains(record))
    return ProbeDocument(**known, scaling=scaling)


def render(record: ProbeRecord) -> RenderableType:
    """What a person reads; fits 80 columns."""
    parts: list[RenderableType] = [_place(record), Text(""), _syncs(record.disk), Text("")]
    parts += [_depths(record.disk), Text("")]
    if told := impossible(record.disk):
        parts += [*(Text(one, style="dim") for one in told), Text("")]
    if record.servers:
        own = duration(record.servers[0].own_us)
        parts += [Text(f"as in a server: a thread per connection, {own} of its own time per commit")]
    for settings, rates in by_sync_settings(record.servers).items():
        parts += [_servers(settings, rates), Text("")]
    if record.ceilings:
        parts += [Text("the disk's ceiling: two threads for all connections, without sleeping")]
    for settings, cells in by_sync_settings(record.ceilings).items():
        parts += [_ceilings(settings, cells), Text("")]
    if record.refused:
        parts += [*_refused(record), Text("")]
    for switched in record.switches:
        parts += [_switching(switched), Text(switch_words(switched)), Text("")]
    if record.against:
        parts += [_shares(record), Text("")]
    parts += [Text(sentence) for sentence in record.reading]
    parts += [Text(f"warning: {one.text}", style="yellow") for one in warnings_of(record)]
    return Group(*parts)


def warnings_of(record: ProbeRecord) -> list[Warning]:
    """All of them: of the disk, of the measurements, of the comparisons."""
    return [*record.warnings, *(warning for one in record.against for warning in one.warnings)]


def _place(record: ProbeRecord) -> Table:
    medium, machine = record.medium, record.machine
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row("directory", Text(medium.directory, overflow="fold"))
    options = f" ({', '.join(medium.options)})" if medium.options else ""
    table.add_row("file system", Text(f"{medium.filesystem}{options}, {format_size(medium.free_bytes)} free"))
    table.add_row("device", Text(device_words(record)))
    table.add_row("machine", Text(f"{machine.cpu_model}, {machine.cpu_count} processors"))
    return table


def device_words(record: ProbeRecord) -> str:
    """What the kernel tells of the device, in one line."""
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


def _grid(*heads: str, left: int = 1) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place < left else "right", no_wrap=place >= left)
    return table


def _syncs(disk: Iterable[DiskResult]) -> Table:
    table = _grid("one write at a time", "size", "per s", "p50", "p99", "max")
    for one in disk:
        if one.depth == 1 and one.order == "sequential" and (one.way != "direct" or one.bytes == 4096):
            _add(table, way_words(one), one)
    return table


def _depths(disk: Iterable[DiskResult]) -> Table:
    table = _grid("16 KiB, O_DIRECT, no flush", "at once", "per s", "p50", "p99", "max")
    for one in disk:
        if one.way == "direct" and one.bytes == 16384:
            _add(table, one.order, one, second=str(one.depth))
    return table


def _add(table: Table, name: str, one: DiskResult, second: str | None = None) -> None:
    latency = one.latency_us
    if latency is not None:
        times = (duration(us) for us in (latency.p50, latency.p99, latency.max))
        cell = second if second is not None else size_words(one.bytes)
        table.add_row(name, cell, f"{one.operations_per_s:,.0f}", *times)


def impossible(disk: Iterable[DiskResult]) -> list[str]:
    """What this place can't do, and why, each once."""
    found = (f"{way_words(one)}, {size_words(one.bytes)}: {one.refused}" for one in disk if one.refused)
    return list(dict.fromkeys(found))


WAYS = {
    "fsync": "fsync",
    "fdatasync": "fdatasync",
    "dsync": "O_DSYNC",
    "direct_dsync": "O_DIRECT + O_DSYNC",
    "direct": "O_DIRECT (no flush)",
    "pair": "fdatasync of redo + binlog",
}
"""Ways of writing, as people know them."""

_LAYOUTS = {"written": "", "allocated": ", preallocated", "extending": ", growing file"}


def way_words(one: DiskResult) -> str:
    """A way with the state of its blocks."""
    return WAYS[one.way] + _LAYOUTS[one.layout]


def size_words(size: int) -> str:
    """`512 B`, `4 KiB`."""
    return f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def _servers(settings: SyncSettings, rates: Iterable[ServerRate]) -> Table:
    """Pipelines beside `serial`, a thread per connection."""
    table = _grid(settings.name, "threads", "commits/s", "p50", "÷ serial")
    for one in rates:
        beside = "1" if one.ratio_low is None else ratio_words(one)
        table.add_row(
            one.binlog_strategy,
            str(one.threads),
            f"{one.commits_per_s:,.0f}",
            duration(one.latency_us.p50),
            beside,
        )
    return table


def _ceilings(settings: SyncSettings, cells: Iterable[Ceiling]) -> Table:
    table = _grid(settings.name, "at once", "commits/s", "p50", "p99", "group", "syncs/s", "at risk")
    table.columns[0].no_wrap = True
    for one in cells:
        table.add_row(
            one.binlog_strategy,
            str(one.threads),
            f"{one.commits_per_s:,.0f}",
            duration(one.latency_us.p50),
            duration(one.latency_us.p99),
            f"{one.group_size:.1f}",
            f"{one.fsyncs_per_s:,.0f}",
            format_size(one.bytes_at_risk),
        )
    return table


def _refused(record: ProbeRecord) -> list[Text]:
    return [
        Text(f"not at {SyncSettings(one.trx_commit, one.sync_binlog).name}: {one.reason}", style="dim")
        for one in record.refused
    ]


def _switching(one: Switching) -> Table:
    """What was reached under each strategy, in their order."""
    table = _grid(
        f"switching live, {SyncSettings(one.trx_commit, one.sync_binlog).name}", "switch took", "commits/s"
    )
    for phase in one.phases:
        table.add_row(phase.binlog_strategy, *switch_figures(phase))
    return table


def switch_figures(phase: SwitchPhase) -> tuple[str, str]:
    """How long the switch took, and commits/s after it."""
    took = duration(phase.switch_us) if phase.switch_us else "-"
    return took, f"{phase.commits / phase.seconds:,.0f}" if phase.seconds else "-"


def switch_words(one: Switching) -> str:
    """What became of the commits and of the binlog meanwhile."""
    whole = "whole: every transaction is there once" if one.binlog_is_whole else "DAMAGED: this is a bug"
    return (
        f"With {one.threads} connections, no commit took longer than {duration(one.longest_commit_us)}."
        f" The binlog of {one.transactions:,} transactions is {whole}."
    )


def _shares(record: ProbeRecord) -> Table:
    table = _grid("measured server", "settings", "threads", "commits/s", "ceiling", "share", left=2)
    for one in record.against:
        table.add_row(
            Text(f"{one.server}, {one.trial}"),
            SyncSettings(one.trx_commit, one.sync_binlog).pair,
            str(one.threads),
            f"{one.commits_per_s:,.0f}",
            f"{one.ceiling_per_s:,.0f}",
            f"{one.share:.0%}",
        )
    return table
