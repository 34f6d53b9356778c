"""A dry run for people and as `flushlab.outlook/1`. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flushlab.campaign.facts import Foreseen, Outlook, SeriesFacts, Takes, TuneFacts
from flushlab.report.identity import server_document
from flushlab.units import counted, format_seconds, format_size

SCHEMA = "flushlab.outlook/1"
_NOTHING = Text("Dry run: nothing was started, nothing was written.", style="bold")


def document(facts: TuneFacts | SeriesFacts, writes: Mapping[str, str]) -> dict[str, Any]:
    """The JSON document; `writes` is what the command itself would write, by place."""
    outlook = _outlook(facts)
    return {
        "schema": SCHEMA,
        "server": server_document(facts.server),
        "workload": facts.workload,
        "base": dict(facts.base),
        "tries": list(outlook.tries),
        "trials": {"least": outlook.trials_least, "most": outlook.trials_most, "seconds": outlook.trial_s},
        "seconds": {"least": outlook.least_s, "likely": outlook.likely_s, "most": outlook.most_s},
        "takes": outlook.takes,
        "writes": {**outlook.writes, **writes},
        "machine": facts.machine,
    }


def render(facts: TuneFacts | SeriesFacts, writes: Mapping[str, str]) -> RenderableType:
    """What a person reads; fits 80 columns."""
    outlook = _outlook(facts)
    runs = sum(one.runs for one in outlook.tries)
    if isinstance(facts, TuneFacts):
        what = f"{counted(runs, 'candidate')} down to the floor {facts.floor}"
    else:
        what = f"{counted(runs, 'arm')} in {counted(facts.planned_blocks, 'block')}"
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
        *(line for one in outlook.tries for line in _try(one)),
        "",
        table,
        "",
        Text("It would write:"),
        places,
    )


def _try(one: Foreseen) -> Iterator[RenderableType]:
    yield Padding(Text(one.what), (0, 0, 0, 2))
    if not one.runs:
        yield Padding(Text(f"will not run: {one.why}", style="yellow"), (0, 0, 0, 4))
    elif one.why and one.why != one.what:
        yield Padding(Text(one.why, style="dim"), (0, 0, 0, 4))


def _rows(outlook: Outlook) -> Iterator[tuple[str, str]]:
    least, most = outlook.trials_least, outlook.trials_most
    each = "" if outlook.trial_s is None else f", about {format_seconds(outlook.trial_s)} each"
    many = f"at least {least}" if most is None else f"{least} to {most}" if most > least else f"{least}"
    yield "trials", many + each
    yield "time", _time(outlook)
    if outlook.takes.servers:
        yield from _sizes(outlook.takes)


def _time(outlook: Outlook) -> str:
    limit = "" if outlook.most_s is None else f"at most {format_seconds(outlook.most_s)}"
    if outlook.least_s is None or outlook.likely_s is None:
        return ", ".join(filter(None, (limit, "the first run will show how long one takes")))
    likely = f"likely {format_seconds(outlook.likely_s)}"
    parts = [f"at least {format_seconds(outlook.least_s)}", likely, limit]
    return ", ".join(part for part in parts if part)


def _sizes(takes: Takes) -> Iterator[tuple[str, str]]:
    pool, worst = format_size(takes.pool_bytes), format_size(takes.memory_bytes)
    free = format_size(takes.available_memory_bytes)
    servers = f"{takes.servers} servers at once" if takes.servers > 1 else "a server"
    yield "memory", f"buffer pool {pool}; {servers} {worst} at worst; {free} available"
    free = format_size(takes.free_disk_bytes)
    if takes.disk_bytes is None or takes.data_bytes is None:
        yield "disk", f"depends on what the workload writes; {free} free"
    else:
        data, disk = format_size(takes.data_bytes), format_size(takes.disk_bytes)
        copies = "two" if takes.servers == 1 else takes.servers + 1
        yield "disk", f"about {disk} with {copies} copies of the data ({data}); {free} free"


def _outlook(facts: TuneFacts | SeriesFacts) -> Outlook:
    assert facts.outlook is not None, "a dry run has an outlook"
    return facts.outlook
