"""A dry run for people and as `flushlab.outlook/1`. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flushlab.campaign.facts import ArmFacts, CampaignFacts, Kind, Outlook, PlannedArm, Resources
from flushlab.record import Machine, ServerIdentity, Warning
from flushlab.units import counted, format_seconds, format_size

_NOTHING = Text("Dry run: nothing was started, nothing was written.", style="bold")


class OutlookDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.outlook/1"
):
    """The document of a dry run.

    Attributes:
        kind, server, workload, base, warnings, machine: as in [campaign-json.md](campaign-json.md).
        outlook: what the campaign would do; `writes` has the files of the command, too.
    """

    kind: Kind
    server: ServerIdentity
    workload: str
    base: ArmFacts
    outlook: Outlook
    warnings: tuple[Warning, ...]
    machine: Machine


def document(facts: CampaignFacts, writes: Mapping[str, str]) -> OutlookDocument:
    """The JSON document; `writes` is what the command itself would write, by place."""
    outlook = _outlook(facts)
    return OutlookDocument(
        kind=facts.kind,
        server=facts.server,
        workload=facts.workload,
        base=facts.base,
        outlook=msgspec.structs.replace(outlook, writes={**outlook.writes, **writes}),
        warnings=facts.warnings,
        machine=facts.machine,
    )


def render(facts: CampaignFacts, writes: Mapping[str, str]) -> RenderableType:
    """What a person reads; fits 80 columns."""
    outlook = _outlook(facts)
    runs = sum(one.runs for one in outlook.arms)
    what = f"{counted(runs, 'candidate')} down to the floor {facts.floor}"
    if facts.plan is not None:
        what = f"{counted(runs, 'arm')} in {counted(facts.plan.blocks, 'block')}"
    about = Text(f"{facts.server.title} · {facts.workload}", style="dim")
    if not outlook.trials_most and outlook.trials_most is not None:
        return Group(_NOTHING, about, "", Text(f"It would try {what}, and end at once."))
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _rows(outlook):
        table.add_row(name, Text(text))
    places = Table(show_header=False, box=None, pad_edge=False)
    places.add_column(overflow="fold")
    places.add_column(style="dim", overflow="fold")
    for place, why in {**outlook.writes, **writes}.items():
        places.add_row(Text(place), why)
    return Group(
        _NOTHING,
        about,
        "",
        Text(f"It would try {what}:"),
        *(line for one in outlook.arms for line in _try(one)),
        "",
        table,
        "",
        Text("It would write:"),
        places,
    )


def _try(one: PlannedArm) -> Iterator[RenderableType]:
    yield Padding(Text(one.name), (0, 0, 0, 2))
    if not one.runs:
        yield Padding(Text(f"will not run: {one.why}", style="yellow"), (0, 0, 0, 4))
    elif one.why and one.why != one.name:
        yield Padding(Text(one.why, style="dim"), (0, 0, 0, 4))


def _rows(outlook: Outlook) -> Iterator[tuple[str, str]]:
    least, most = outlook.trials_least, outlook.trials_most
    each = "" if outlook.trial_s is None else f", about {format_seconds(outlook.trial_s)} each"
    many = f"at least {least}" if most is None else f"{least} to {most}" if most > least else f"{least}"
    yield "trials", many + each
    yield "time", _time(outlook)
    if outlook.resources.servers:
        yield from _sizes(outlook.resources)


def _time(outlook: Outlook) -> str:
    limit = "" if outlook.most_s is None else f"at most {format_seconds(outlook.most_s)}"
    if outlook.least_s is None or outlook.likely_s is None:
        return ", ".join(filter(None, (limit, "the first run will show how long one takes")))
    likely = f"likely {format_seconds(outlook.likely_s)}"
    parts = [f"at least {format_seconds(outlook.least_s)}", likely, limit]
    return ", ".join(part for part in parts if part)


def _sizes(resources: Resources) -> Iterator[tuple[str, str]]:
    pool, worst = format_size(resources.pool_bytes), format_size(resources.memory_bytes)
    free = format_size(resources.available_memory_bytes)
    servers = f"{resources.servers} servers at once" if resources.servers > 1 else "a server"
    yield "memory", f"buffer pool {pool}; {servers} {worst} at worst; {free} available"
    free = format_size(resources.free_disk_bytes)
    if resources.disk_bytes is None or resources.data_bytes is None:
        yield "disk", f"depends on what the workload writes; {free} free"
    else:
        data, disk = format_size(resources.data_bytes), format_size(resources.disk_bytes)
        copies = "two" if resources.servers == 1 else resources.servers + 1
        yield "disk", f"about {disk} with {copies} copies of the data ({data}); {free} free"


def _outlook(facts: CampaignFacts) -> Outlook:
    assert facts.outlook is not None, "a dry run has an outlook"
    return facts.outlook
