"""Sections: on what a campaign was measured, with which settings, and how to repeat it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flushlab.campaign.facts import CampaignFacts, resuming
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.errors import ValueOutOfRange
from flushlab.plan.parse import PIPED
from flushlab.record import SourceText, Value
from flushlab.redact import HIDDEN, values_without_passwords
from flushlab.report.clients import load_came_from
from flushlab.report.page.parts import Cell, OnServer, Section, Subject, Table, when
from flushlab.report.stored import Request, command, workload_of
from flushlab.report.words import data_words, disk_words, sizes, spell
from flushlab.settings.catalog import SettingHere
from flushlab.settings.configuration import Configuration
from flushlab.spec.parts import RemoteAccess
from flushlab.store import CampaignRow
from flushlab.units import counted, format_seconds, format_size


def machine(subject: Subject) -> Iterator[Section]:
    """What was measured, on what, and when."""
    rows = tuple((Cell(name, "mute"), Cell(text)) for name, text in _machine_rows(subject) if text)
    yield Section("machine", "Machine and versions", tables=(Table((), rows),))


def _machine_rows(subject: Subject) -> Iterator[tuple[str, str]]:
    facts = subject.facts
    for one in subject.servers:
        yield "server", f"{one.server.title} ({one.server.version_text})"
        yield "build", one.server.build_id
    arguments = next((t.launch.arguments for t in subject.trials if t.launch and t.launch.arguments), ())
    yield "arguments", " ".join(arguments)
    yield "workload", facts.workload if facts is not None else workload_of(subject.request)
    if facts is not None and facts.data is not None:
        yield "your data", data_words(facts.data, facts.tables)
    if facts is not None:
        yield from _known(facts)
    spent = format_seconds(sum(sum(trial.seconds.values()) for trial in subject.trials))
    yield "measured", f"{when(subject.row)}, {counted(len(subject.trials), 'trial')} in {spent}"
    yield "flushlab", subject.row.flushlab


def _known(facts: CampaignFacts) -> Iterator[tuple[str, str]]:
    names = {"data": "data", "pool": "buffer pool", "redo": "redo capacity"}
    yield from ((names[name], size) for name, size in sizes(facts).items())
    found = facts.machine
    if found.is_client:
        yield "client", "flushlab ran on the machine below; the server's host cannot be seen"
    if facts.machines:
        ran = ", ".join(one.name for one in facts.machines)
        yield "fleet", f"{ran}; the command ran on the machine below"
    if facts.clients:
        yield "load", load_came_from(facts.clients).removeprefix("the load came ")
    yield "processor", f"{found.cpu_model}, {found.cpu_count} usable"
    yield "memory", format_size(found.memory_bytes)
    yield "kernel", found.kernel
    yield "file system", found.filesystem
    caches = {True: "volatile write cache", False: "no volatile write cache", None: ""}
    parts = (found.device, found.scheduler, caches[found.volatile_cache])
    yield "device", ", ".join(part for part in parts if part)
    if (slow := found.slow_disk) is not None:
        yield "emulated disk", disk_words(slow)
    if (others := facts.others) is not None:
        waited = f", after {format_seconds(others.waited_s)} of waiting" if others.waited_s else ""
        yield "before the first trial", f"{others.words}{waited}"


def stand_in(subject: Subject) -> Iterator[Section]:
    """The load that is made from the user's data: its tables, and what it leaves out."""
    load = subject.facts.stand_in if subject.facts is not None else None
    if load is None:
        return
    shares = ", ".join(f"{share:.0%} {kind}s" for kind, share in load.shares.items())
    head = ("table", "rows", "rows that updates draw from", "updated column", "left out")
    rows = tuple(
        (
            Cell(one.name, "code"),
            Cell(f"{one.rows:,}"),
            Cell(f"{one.keys:,}"),
            Cell(one.column, "code"),
            Cell("; ".join(f"{kind}s: {why}" for kind, why in one.without.items()), "mute"),
        )
        for one in load.tables
    )
    notes = [f"{one.name} is not touched: {one.why}." for one in load.skipped]
    if load.smaller:
        verb = "is" if load.smaller == 1 else "are"
        notes.append(f"{counted(load.smaller, 'smaller table')} {verb} not touched.")
    lead = (
        f"The load is made from your data and stands in for yours: {shares}, each of one row by its primary"
        " key. A table gets transactions in proportion to its rows. An insert copies a row; a delete inserts"
        " its row again in the same transaction."
    )
    yield Section(
        "stand-in", "The load", lead, tables=(Table(tuple(map(Cell, head)), rows),), notes=tuple(notes)
    )


_ONE_ARM = 3
"""Columns of a table that shows no arm beside the base."""


def settings(subject: Subject) -> Iterator[Section]:
    """Of each server what differs from the default, in its base and in the arm of the answer."""
    tables = tuple(table for one in subject.servers if (table := _table(subject, one)).rows)
    if not tables:
        return
    lead = "Settings that differ from this version's default, as the server read them back" + (
        "; changed settings come first." if any(len(table.head) > _ONE_ARM for table in tables) else "."
    )
    yield Section("settings", "Settings", lead, tables=tables)


def _table(subject: Subject, one: OnServer) -> Table:
    columns = {one.name: _read_back(subject, one.base) or dict(one.given)}
    if one.chosen is not None and (settings := _read_back(subject, one.chosen)):
        columns["winner" if subject.row.kind == "tune" else one.chosen] = settings
    names = dict.fromkeys(name for values in columns.values() for name in values)
    values_of = {name: [values.get(name) for values in columns.values()] for name in names}
    rows = [row for name, values in values_of.items() if (row := _setting_row(name, values, one))]
    rows.sort(key=lambda row: (not any("changed" in cell.kind for cell in row), row[0].text))
    head = (Cell("setting"), Cell("default"), *map(Cell, columns))
    return Table(head, tuple(rows), one.server.title if len(subject.servers) > 1 else "")


def _read_back(subject: Subject, arm: str) -> dict[str, Value]:
    own = subject.arms.get(arm)
    return dict(own[-1].settings) if own else {}


def _setting_row(name: str, values: list[Value | None], one: OnServer) -> tuple[Cell, ...]:
    """The setting's row; empty where it has its default, or a computed one that nobody set."""
    configuration = Configuration(one.given, one.server)
    here, default = configuration.here(name), configuration.default(name)

    def same(one: Value | None, other: Value | None) -> bool:
        return configuration.same(name, one, other)

    changed = any(not same(values[0], value) for value in values[1:])
    usual = name not in one.given if default is None else all(same(default, value) for value in values)
    if usual and not changed:
        return ()
    shown = "depends" if here is not None and here.computed else "?"
    return (
        Cell(name, "code", here.entry.effect if here is not None else ""),
        Cell(shown if default is None else _spell(here, default), "mute"),
        *(Cell(_spell(here, value), "changed" if not same(values[0], value) else "") for value in values),
    )


def _spell(here: SettingHere | None, value: Value | None) -> str:
    if value is None:
        return ""
    if here is None:
        return spell(value)
    try:
        return here.render(value) or "(empty)"
    except ValueOutOfRange:
        return str(value)


_TITLES = {
    "option file": "The option file",
    "plan": "The plan",
    "transactions": "The transactions",
    "setup": "The setup",
    "script": "The script",
}


def repeat(subject: Subject) -> Iterator[Section]:
    """The command and the texts that it names."""
    yield from repeating(subject.row, subject.request)


def repeating(row: CampaignRow, request: Request | None, *notes: str) -> Iterator[Section]:
    """The command, the texts that it names, the plan as stored where none of these is it, how to resume.

    Args:
        request: what it was asked for; None: another version of flushlab stored it.
    """
    code = [] if request is None else [("", command(request))]
    shown = [source for source in (request.sources if request else ()) if source.text is not None]
    code += [(f"{_TITLES[source.kind]}: {source.name}", source.text or "") for source in shown]
    if not any(source.kind == "plan" for source in shown) and (text := plan_text(row)):
        code.append(("The plan as stored", text))
    said = [*notes, *(_notes(request) if request is not None else ())]
    if row.state != "done":
        remote = RemoteAccess()
        if isinstance(request, TuneRequest | SeriesRequest):
            remote = request.spec.remote
        said.append(f"To resume it: {resuming(row.kind, row.id, remote)}")
    if code or said:
        yield Section("repeat", "How to repeat it", code=tuple(code), notes=tuple(said))


def _notes(request: Request) -> Iterator[str]:
    sources = request.sources
    if isinstance(request, SeriesRequest) and request.plan == PIPED:
        yield f"The plan came through a pipe: save it as {PIPED}.toml first."
    has_settings = isinstance(request, TuneRequest)
    if any(source.text is not None and not (has_settings and _is_option_file(source)) for source in sources):
        yield "Elsewhere, save each text as a file first and name that file in the command."
    if has_settings and any(map(_is_option_file, sources)):
        yield "The command sets what flushlab took from the option file."
    for source in sources:
        if source.text is None:
            size = format_size(source.size_bytes)
            yield f"{source.name} is not shown: it has {size} or is no text. SHA-256: {source.sha256}"
    if any(HIDDEN in text for text in (workload_of(request), *(source.text or "" for source in sources))):
        yield f"{HIDDEN} stands for a password."


def _is_option_file(source: SourceText) -> bool:
    return source.kind == "option file"


def plan_text(row: CampaignRow) -> str:
    """The request as it was decided, without passwords, and without the texts: they stand by themselves."""
    try:
        request = msgspec.json.decode(row.plan)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    if isinstance(request, dict):
        request.pop("sources", None)
    return msgspec.json.format(msgspec.json.encode(values_without_passwords(request)), indent=2).decode()
