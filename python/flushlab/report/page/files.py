"""Section: where fsyncs and bytes went. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from flushlab.record import FILE_CLASSES
from flushlab.report import plots
from flushlab.report.page.arms import Activity, activity
from flushlab.report.page.parts import (
    MAX_PANELS,
    Cell,
    Section,
    Subject,
    Table,
    shown_arms,
)
from flushlab.report.words import small
from flushlab.units import format_size

_CLASSES = {
    "redo": "redo log",
    "binlog": "binlog",
    "doublewrite": "doublewrite",
    "data": "data",
    "undo": "undo",
    "other": "other",
}
_PER = {"transactions/s": "transaction", "rows/s": "row"}


class _Quantity(NamedTuple):
    """What is counted per class of files."""

    name: str
    read: Callable[[Activity], Mapping[str, float]]
    spell: Callable[[float], str]
    unit: str = ""

    def spelled(self, value: float) -> str:
        """The value with its unit."""
        return self.spell(value) + self.unit


_QUANTITIES = (
    _Quantity("fsyncs", lambda row: row.fsyncs, small, " fsyncs"),
    _Quantity("bytes", lambda row: row.bytes, format_size),
)


def section(subject: Subject) -> Iterator[Section]:
    """Where fsyncs and bytes went."""
    shown = shown_arms(subject)[:MAX_PANELS]
    rows = [one for arm in shown if (one := activity(subject.named(arm), subject.arms[arm])) is not None]
    told = [quantity for quantity in _QUANTITIES if any(quantity.read(row) for row in rows)]
    if not told:
        return
    per = _PER.get(subject.unit, "run")
    drawn = tuple(
        plots.stacked(
            rows,
            quantity.read,
            quantity.spelled,
            name=quantity.name,
            title=f"{quantity.name.capitalize()} per {per} and class of files, per arm",
        )
        for quantity in told
    )
    lead = (
        f"Where writes went, per {per}. In the tables, 0 means that nothing was written, and – that the "
        "server does not show it; bars have no part for either."
    )
    yield Section(
        "files",
        "Fsyncs and bytes",
        lead,
        drawn,
        legend=tuple(_seen(rows)),
        tables=tuple(_classes(quantity, rows, per) for quantity in told),
        notes=(*(note for quantity in told for note in _unseen(quantity, rows)), *_flags(rows)),
    )


def _classes(quantity: _Quantity, rows: Sequence[Activity], per: str) -> Table:
    kinds = _columns(quantity, rows)
    return Table(
        head=(Cell("arm"), *(Cell(_CLASSES[kind], "num") for kind in kinds)),
        rows=tuple(
            (
                Cell(row.arm, "name"),
                *(
                    Cell(quantity.spell(known[kind]) if kind in known else "–", "num")
                    for known in [quantity.read(row)]
                    for kind in kinds
                ),
            )
            for row in rows
        ),
        caption=f"{quantity.name.capitalize()} per {per}",
    )


def _columns(quantity: _Quantity, rows: Sequence[Activity]) -> list[str]:
    """Classes that are told of, and those that every reader looks for."""
    return [
        kind for kind in FILE_CLASSES if any(kind in (*row.looked_for, *quantity.read(row)) for row in rows)
    ]


def _unseen(quantity: _Quantity, rows: Sequence[Activity]) -> Iterator[str]:
    """What is not visible, in which arms, and why."""
    for kind in _columns(quantity, rows):
        hidden = [row for row in rows if kind in row.classes and kind not in quantity.read(row)]
        if not hidden:
            continue
        arms = "" if len(hidden) == len(rows) else f" in {', '.join(row.arm for row in hidden)}"
        why = next((row.why for row in hidden if row.why), "") if kind == "binlog" else ""
        text = f"{quantity.name.capitalize()} of the {_CLASSES[kind]} are not visible on this server{arms}"
        yield f"{text}: {why}." if why else f"{text}."


def _seen(rows: Sequence[Activity]) -> Iterator[str]:
    """Classes that have a bar."""
    for kind in FILE_CLASSES:
        if any(quantity.read(row).get(kind) for quantity in _QUANTITIES for row in rows):
            yield kind


def _flags(rows: Sequence[Activity]) -> Iterator[str]:
    """With which flags files were open, where arms differ in it."""
    opened: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        for kind, flags in row.flags.items():
            opened.setdefault((_CLASSES[kind], flags), []).append(row.arm)
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (kind, flags), arms in opened.items():
        if len(arms) < len(rows):
            together.setdefault((flags, tuple(arms)), []).append(kind)
    for (flags, some), kinds in together.items():
        yield f"{', '.join(kinds)}: opened with {' and '.join(flags)} in {', '.join(some)} only."
