"""Sections: on what a campaign was measured, with which load and which settings. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import CampaignFacts
from flushlab.errors import ValueOutOfRange
from flushlab.record import StandIn, Value
from flushlab.report.document import Cell, Row, Section, Table, facts_table
from flushlab.report.stored import when, workload_of
from flushlab.report.subject import OnServer, Subject
from flushlab.report.words import data_words, disk_words, load_came_from, reads_words, sizes
from flushlab.settings.catalog import SettingHere
from flushlab.settings.configuration import Configuration
from flushlab.units import counted, format_seconds, format_size, value_words
from flushlab.version import __version__


def machine(subject: Subject) -> Section:
    short = tuple(_short(subject.facts)) if subject.facts is not None else ()
    table = facts_table(_machine_rows(subject))
    return Section("machine", "Machine and versions", tables=(table,), short=short)


def _short(facts: CampaignFacts) -> Iterator[str]:
    if facts.clients:
        yield load_came_from(facts.clients)
    if facts.plan is not None and facts.plan.scale != 1:
        yield f"tables at {facts.plan.scale:g} of the plan's size"
    if facts.data is not None:
        yield f"your data: {data_words(facts.data, facts.tables)}"
    known = " : ".join(f"{name} {size}" for name, size in sizes(facts).items())
    if told := "; ".join(filter(None, (known, reads_words(facts)))):
        yield told


def _machine_rows(subject: Subject) -> Iterator[tuple[str, str]]:
    facts = subject.facts
    for one in subject.servers:
        yield "server", f"{one.server.title} ({one.server.version_text})"
        yield "build", one.server.build_id
    arguments = next((t.launch.arguments for t in subject.trials if t.launch and t.launch.arguments), ())
    yield "arguments", " ".join(arguments)
    yield "workload", facts.workload if facts is not None else workload_of(subject.request)
    if facts is not None and facts.plan is not None and facts.plan.scale != 1:
        yield "scale", f"tables at {facts.plan.scale:g} of the plan's size"
    if facts is not None and facts.data is not None:
        yield "your data", data_words(facts.data, facts.tables)
    if facts is not None:
        yield from _known(facts)
    row, spent = subject.row, sum(sum(trial.seconds.values()) for trial in subject.trials)
    if row is not None:
        trials = counted(len(subject.trials), "trial")
        yield "measured", f"{when(row)}, {trials} in {format_seconds(spent)}"
    yield "flushlab", row.flushlab if row is not None else __version__


def _known(facts: CampaignFacts) -> Iterator[tuple[str, str]]:
    names = {"data": "data", "pool": "buffer pool", "redo": "redo capacity"}
    yield from ((names[name], size) for name, size in sizes(facts).items())
    yield "page reads", reads_words(facts)
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


def stand_in(load: StandIn) -> Section:
    shares = ", ".join(f"{share:.0%} {kind}s" for kind, share in load.shares.items())
    rows = []
    for one in load.tables:
        without = Cell("; ".join(f"{kind}s: {why}" for kind, why in one.without.items()), "mute")
        counts = Cell(f"{one.rows:,}"), Cell(f"{one.keys:,}")
        rows.append((Cell(one.name, "code"), *counts, Cell(one.column, "code"), without))
    notes = [f"{one.name} is not touched: {one.why}." for one in load.skipped]
    if load.smaller:
        verb = "is" if load.smaller == 1 else "are"
        notes.append(f"{counted(load.smaller, 'smaller table')} {verb} not touched.")
    head = ("table", "rows", "rows that updates draw from", "updated column", "left out")
    return Section(
        "stand-in",
        "The load",
        f"The load is made from your data and stands in for yours: {shares}, each of one row by its primary"
        " key. A table gets transactions in proportion to its rows. An insert copies a row; a delete inserts"
        " its row again in the same transaction.",
        tables=(Table(head, rows),),
        notes=tuple(notes),
    )


_ONE_ARM = 3
"""Columns of a table that shows no arm beside the base."""


def settings(subject: Subject) -> Iterator[Section]:
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
        columns["winner" if subject.facts and subject.facts.tuning else one.chosen] = settings
    names = dict.fromkeys(name for values in columns.values() for name in values)
    values_of = {name: [values.get(name) for values in columns.values()] for name in names}
    rows = [row for name, values in values_of.items() if (row := _setting_row(name, values, one))]
    rows.sort(key=lambda row: (not any("changed" in cell.kind for cell in row), row[0].text))
    head = ("setting", "default", *columns)
    return Table(head, rows, one.server.title if len(subject.servers) > 1 else "")


def _read_back(subject: Subject, arm: str) -> dict[str, Value]:
    own = subject.arms.get(arm)
    return dict(own[-1].settings) if own else {}


def _setting_row(name: str, values: list[Value | None], one: OnServer) -> Row:
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
        return value_words(value)
    try:
        return here.render(value) or "(empty)"
    except ValueOutOfRange:
        return str(value)
