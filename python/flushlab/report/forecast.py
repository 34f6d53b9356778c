"""Report of a dry run: its document, and the JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from flushlab.campaign.facts import ArmResult, CampaignFacts, Forecast, Kind, Resources
from flushlab.record import Machine, ServerIdentity, Warning
from flushlab.report.document import Cell, Document, Line, Row, Section, Table, facts_table
from flushlab.report.words import data_words, extended
from flushlab.settings.floor import aims
from flushlab.units import counted, format_seconds, format_size


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


def as_json(facts: CampaignFacts, writes: Mapping[str, str]) -> ForecastDocument:
    """The JSON; `writes` is what the command itself would write, by place."""
    forecast = _forecast(facts)
    every = msgspec.structs.replace(forecast, writes={**forecast.writes, **writes})
    return extended(ForecastDocument, facts, forecast=every)


def document(facts: CampaignFacts, writes: Mapping[str, str]) -> Document:
    forecast = _forecast(facts)
    runs = sum(arm.outcome == "measured" for arm in forecast.arms)
    what = f"{counted(runs, 'candidate')} {aims(facts.floor, facts.tuning.lowest if facts.tuning else '')}"
    if facts.plan is not None:
        what = f"{counted(runs, 'arm')} in {counted(facts.plan.blocks, 'block')}"
    raised = facts.tuning.raised_why if facts.tuning else ()
    found = Document(
        facts.kind,
        "Dry run: nothing was started, nothing was written.",
        servers=facts.server.title,
        workload=facts.workload,
    )
    if not forecast.trials_most and forecast.trials_most is not None:
        return found._replace(lead=(f"It would try {what}, and end at once.",))
    written = [(Cell(place), Cell(why)) for place, why in {**forecast.writes, **writes}.items()]
    sections = [
        Section("arms", f"It would try {what}:", tables=(Table((), [*map(_arm, forecast.arms)]),)),
        Section("takes", "It would take:", tables=(facts_table(_rows(facts, forecast)),)),
        Section("writes", "It would write:", tables=(Table((), written),)),
    ]
    if raised:
        title = f"Your settings do not meet {facts.raised_to}. It would raise them:"
        sections.insert(0, Section("raised", title, lines=tuple(map(Line, raised))))
    return found._replace(sections=tuple(sections))


def _arm(arm: ArmResult) -> Row:
    offer = f"only for an offer, at floor {arm.floor}" if arm.floor else ""
    why = "" if arm.text == arm.name else arm.text
    if arm.outcome != "measured":
        why = f"will not run: {arm.reason}"
    return Cell(arm.name, "name"), Cell("; ".join(filter(None, (why, offer))))


def _rows(facts: CampaignFacts, forecast: Forecast) -> Iterator[tuple[str, str]]:
    if facts.data is not None:
        yield "data", data_words(facts.data, ())
    least, most = forecast.trials_least, forecast.trials_most
    each = "" if forecast.trial_s is None else f", about {format_seconds(forecast.trial_s)} each"
    many = f"at least {least}" if most is None else f"{least} to {most}" if most > least else f"{least}"
    yield "trials", many + each
    if forecast.machines:
        yield "machines", f"{', '.join(forecast.machines)}; each runs whole blocks"
    yield "time", _time(forecast)
    if forecast.resources.servers:
        others = "; the other machines need as much" if forecast.machines else ""
        yield from ((name, text + others) for name, text in _sizes(forecast.resources))


def _time(forecast: Forecast) -> str:
    limit = "" if forecast.most_s is None else f"at most {format_seconds(forecast.most_s)}"
    if forecast.least_s is None or forecast.likely_s is None:
        return ", ".join(filter(None, (limit, "the first run will show how long one takes")))
    least, likely = format_seconds(forecast.least_s), format_seconds(forecast.likely_s)
    return ", ".join(filter(None, (f"at least {least}", f"likely {likely}", limit)))


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
