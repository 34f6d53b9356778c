"""Section: settings that differ from the default, as read back. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.errors import ValueOutOfRange
from flushlab.record import Value
from flushlab.report.page.parts import Cell, OnServer, Section, Subject, Table
from flushlab.report.words import spell
from flushlab.settings.catalog import SettingHere
from flushlab.settings.configuration import Configuration

_ONE_ARM = 3
"""Columns of a table that shows no arm beside the base."""


def section(subject: Subject) -> Iterator[Section]:
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
