"""Section: settings that differ from the default, as read back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flushlab.errors import ValueOutOfRange
from flushlab.plan.plan import BASE
from flushlab.record import ServerIdentity, Value
from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
)
from flushlab.report.tune import spell
from flushlab.settings.catalog import SettingHere
from flushlab.settings.configuration import Configuration


def section(subject: Subject) -> Iterator[Section]:
    """What differs from the default, in the base and in the arm of the answer, as read back."""
    what = subject.found
    if what.server is None:
        return
    server, base = what.server, BASE
    for one in what.compared:
        if one.arm == what.chosen and one.base and (own := subject.arms.get(one.arm)):  # on a further server
            server, base = own[-1].server or server, one.base
    columns = {base: _read_back(subject, base) or dict(what.base)}
    if what.chosen is not None and (settings := _read_back(subject, what.chosen)):
        columns["winner" if subject.row.kind == "tune" else what.chosen] = settings
    rows = [
        (any("changed" in cell.kind for cell in cells), cells)
        for name in dict.fromkeys(name for values in columns.values() for name in values)
        if (cells := _setting_row(name, [values.get(name) for values in columns.values()], server, what.base))
    ]
    if not rows:
        return
    rows.sort(key=lambda row: not row[0])
    head = (Cell("setting"), Cell("default"), *(Cell(name) for name in columns))
    lead = "Settings that differ from this version's default, as the server read them back" + (
        "; changed settings come first." if len(columns) > 1 else "."
    )
    yield Section("settings", "Settings", lead, tables=(Table(head, tuple(cells for _, cells in rows)),))


def _read_back(subject: Subject, arm: str) -> dict[str, Value]:
    own = subject.arms.get(arm)
    return dict(own[-1].settings) if own else {}


def _setting_row(
    name: str, values: list[Value | None], server: ServerIdentity, base: Mapping[str, Value]
) -> tuple[Cell, ...]:
    """The setting's row; empty where it has its default, or a computed one that nobody set."""
    configuration = Configuration(base, server)
    here, default = configuration.here(name), configuration.default(name)

    def same(one: Value | None, other: Value | None) -> bool:
        return configuration.same(name, one, other)

    changed = any(not same(values[0], value) for value in values[1:])
    usual = name not in base if default is None else all(same(default, value) for value in values)
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
