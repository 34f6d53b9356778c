"""A dry run for people and as `flushlab.forecast/1`. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flushlab.campaign.facts import ArmResult, CampaignFacts, Forecast, Kind, Resources
from flushlab.record import Machine, ServerIdentity, Warning
from flushlab.report.words import data_words
from flushlab.settings.floor import aims
from flushlab.units import counted, format_seconds, format_size

_NOTHING = Text("Dry run: nothing was started, nothing was written.", style="bold")


class ForecastDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.forecast/1"
):
    """The document of a dry run.

    Attributes:
        kind, server, workload, base, warnings, machine: as in [campaign-json.md](campaign-json.md).
        forecast: what the campaign would do; `writes` has the files of the command, too.
    """

    kind: Kind
    server: ServerIdentity
    workload: str
    base: ArmResult
    forecast: Forecast
    warnings: tuple[Warning, ...]
    machine: Machine


def document(facts: CampaignFacts, writes: Mapping[str, str]) -> ForecastDocument:
    """The JSON document; `writes` is what the command itself would write, by place."""
    forecast = _forecast(facts)
    return ForecastDocument(
        kind=facts.kind,
        server=facts.server,
        workload=facts.workload,
        base=facts.base,
        forecast=msgspec.structs.replace(forecast, writes={**forecast.writes, **writes}),
        warnings=facts.warnings,
        machine=facts.machine,
    )


def render(facts: CampaignFacts, writes: Mapping[str, str]) -> RenderableType:
    """What a person reads; fits 80 columns."""
    forecast = _forecast(facts)
    runs = sum(arm.outcome == "measured" for arm in forecast.arms)
    lowest = facts.tuning.lowest if facts.tuning else ""
    raised = facts.tuning.raised_why if facts.tuning else ()
    what = f"{counted(runs, 'candidate')} {aims(facts.floor, lowest)}"
    if facts.plan is not None:
        what = f"{counted(runs, 'arm')} in {counted(facts.plan.blocks, 'block')}"
    about = Text(f"{facts.server.title} · {facts.workload}", style="dim")
    if not forecast.trials_most and forecast.trials_most is not None:
        return Group(_NOTHING, about, "", Text(f"It would try {what}, and end at once."))
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    data = [("data", data_words(facts.data, ()))] if facts.data is not None else []
    for name, text in (*data, *_rows(forecast)):
        table.add_row(name, Text(text))
    places = Table(show_header=False, box=None, pad_edge=False)
    places.add_column(overflow="fold")
    places.add_column(style="dim", overflow="fold")
    for place, why in {**forecast.writes, **writes}.items():
        places.add_row(Text(place), why)
    return Group(
        _NOTHING,
        about,
        "",
        *(Text(f"Your settings do not meet {facts.raised_to}. It would raise them:") for _ in raised[:1]),
        *(Padding(Text(why), (0, 0, 0, 2)) for why in raised),
        *("" for _ in raised[:1]),
        Text(f"It would try {what}:"),
        *(line for arm in forecast.arms for line in _try(arm)),
        "",
        table,
        "",
        Text("It would write:"),
        places,
    )


def _try(arm: ArmResult) -> Iterator[RenderableType]:
    offer = f" (only for an offer, at floor {arm.floor})" if arm.floor else ""
    yield Padding(Text(arm.name).append(offer, style="dim"), (0, 0, 0, 2))
    if arm.outcome != "measured":
        yield Padding(Text(f"will not run: {arm.reason}", style="yellow"), (0, 0, 0, 4))
    elif arm.text and arm.text != arm.name:
        yield Padding(Text(arm.text, style="dim"), (0, 0, 0, 4))


def _rows(forecast: Forecast) -> Iterator[tuple[str, str]]:
    least, most = forecast.trials_least, forecast.trials_most
    each = "" if forecast.trial_s is None else f", about {format_seconds(forecast.trial_s)} each"
    many = f"at least {least}" if most is None else f"{least} to {most}" if most > least else f"{least}"
    yield "trials", many + each
    if forecast.machines:
        yield "machines", f"{', '.join(forecast.machines)}; each runs whole blocks"
    yield "time", _time(forecast)
    if forecast.resources.servers:
        yield from _sizes(forecast.resources)
    if forecast.machines and forecast.resources.servers:
        yield "", "memory and disk are this machine's; the others need as much"


def _time(forecast: Forecast) -> str:
    limit = "" if forecast.most_s is None else f"at most {format_seconds(forecast.most_s)}"
    if forecast.least_s is None or forecast.likely_s is None:
        return ", ".join(filter(None, (limit, "the first run will show how long one takes")))
    likely = f"likely {format_seconds(forecast.likely_s)}"
    parts = [f"at least {format_seconds(forecast.least_s)}", likely, limit]
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


def _forecast(facts: CampaignFacts) -> Forecast:
    assert facts.forecast is not None, "a dry run has a forecast"
    return facts.forecast
