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
    small,
)
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
    per = _PER.get(subject.found.unit, "run")
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
        f"Where writes went, per {per}. A class without a bar wrote nothing; one without a figure (–) is not "
        "reported by this server."
    )
    yield Section(
        "files",
        "Fsyncs and bytes",
        lead,
        drawn,
        legend=tuple(_seen(rows)),
        tables=tuple(_classes(quantity, rows, per) for quantity in told),
        notes=tuple(_flags(rows)),
    )


def _classes(quantity: _Quantity, rows: Sequence[Activity], per: str) -> Table:
    kinds = [kind for kind in FILE_CLASSES if any(kind in quantity.read(row) for row in rows)]
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
