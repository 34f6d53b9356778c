"""A document in a terminal of 80 columns or more: the answer, and sections that have no short form. Pure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from rich.console import ConsoleOptions, Group, RenderableType
from rich.text import Text

from flushlab.report.document import Cell, Document, Row, Section, Table

_LEAST_NAME, _LEAST_TEXT = 28, 20
"""Columns of a name and of a text that a table always has room for."""
_STYLES = {"good": "green", "bad": "red", "mute": "dim", "changed": "bold", "code": "bold"}


def render(document: Document, *, full: bool = False) -> RenderableType:
    """`full`: sections with a short form are shown whole, with all code."""
    parts: list[RenderableType] = []
    if about := " · ".join(filter(None, (document.servers, document.workload))):
        parts.append(Text(about, style="dim"))
    if document.title:
        parts.append(Text(document.title, style="dim"))
    interval = f" {document.interval}" if document.interval else ""
    parts.append(Text(document.headline, style="bold").append(interval, style="not bold"))
    parts += map(Text, document.lead)
    if document.keys:
        parts.append(Text(" · ".join(f"{name} {value}" for name, value in document.keys), style="dim"))
    was_short = False
    for section in (*document.sections, *document.todo):
        if section.short is None or full:
            parts += ["", *_section(section, full)]
            was_short = False
        elif section.short:
            parts += [] if was_short else [""]
            parts += map(_short, section.short)
            was_short = True
    if document.hint:
        parts += ["", Text(document.hint, style="dim")]
    return Group(*parts)


def _short(line: str) -> Text:
    return Text(line, style="yellow" if line.startswith("warning: ") else "dim")


def _section(section: Section, full: bool) -> Iterator[RenderableType]:
    yield Text(section.title, style="bold")
    yield from map(Text, section.texts)
    for line in section.lines:
        yield _indented(f"- {line.text}", others=4)
        if full and line.code:
            yield _whole(f"    {line.code}")
    for number, table in enumerate(section.tables):
        if number:
            yield ""
        if table.caption:
            yield Text(table.caption, style="dim")
        yield _AsWide(partial(_grid, table))
    for code in section.code:
        if full or code.shown == "always":
            if code.title:
                yield Text(code.title)
            yield from (_whole(f"   {line}", "bold") for line in code.text.splitlines())
    yield from (_short(note) for note in section.notes)


def _whole(text: str, style: str = "dim") -> Text:
    return Text(text, style=style, overflow="ignore", no_wrap=True)


class _AsWide(NamedTuple):
    make: Callable[[int], Iterable[RenderableType]]

    def __rich_console__(self, _console: object, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield from self.make(options.max_width)


def _indented(text: str, style: str = "", first: int = 2, others: int = 2) -> _AsWide:
    def lines(width: int) -> Iterator[RenderableType]:
        for number, line in enumerate(_wrapped(text, width - max(first, others))):
            yield _whole(" " * (others if number else first) + line, style)

    return _AsWide(lines)


class _Columns(NamedTuple):
    heads: Sequence[str]
    widths: Mapping[int, int]
    figures: Collection[int]


def _layout(table: Table, rows: Sequence[Row], room: int) -> _Columns:
    """A number is never wrapped; texts share the room that numbers leave, the longest first."""
    count = max(map(len, (table.head, *rows)))
    columns = [[row[at] for row in rows if at < len(row)] for at in range(count)]
    heads = table.head or [""] * count
    longest = []
    for at, head in enumerate(heads):
        texts = [head, *(_inline(cell, at) for cell in columns[at])]
        longest.append(max(len(line) for text in texts for line in text.split("\n")))
    figures = {at for at in range(1, count) if table.has_numbers(at)}
    least = [
        wide if at in figures else min(wide, _LEAST_TEXT if at else _LEAST_NAME)
        for at, wide in enumerate(longest)
    ]
    shown = [at for at in range(count) if not at or longest[at]]
    while len(shown) > 2 and sum(least[at] + 2 for at in shown) - 2 > room:
        shown.pop()
    widths = {at: least[at] for at in shown}
    for _ in range(room - sum(widths.values()) - 2 * (len(shown) - 1)):
        at = max(shown, key=lambda one: longest[one] - widths[one])
        widths[at] += longest[at] > widths[at]
    return _Columns(heads, widths, figures)


def _grid(table: Table, room: int) -> Iterator[RenderableType]:
    rows = [row for row in table.rows if len(row) > 1 or len(table.head) == 1]
    if not rows:
        return
    columns = _layout(table, rows, room)
    if any(columns.heads):
        yield from _lines([Cell(head, "mute") for head in columns.heads], columns)
    for row in table.rows:
        if len(row) == 1 < len(columns.heads):
            yield from _below(row[0].text, row[0].kind)
            continue
        name, *others = row
        if "name" in name.kind and len(name.text) > columns.widths[0]:
            yield Text(name.text, style="bold")
            name = Cell("")
        yield from _lines([name, *others], columns)
        beside = (_alone(columns.heads[at], row[at]) for at in range(len(row)) if at not in columns.widths)
        for text in filter(None, (row[0].small, "; ".join(filter(None, beside)))):
            yield from _below(text)


def _inline(cell: Cell, at: int) -> str:
    if not at or not cell.small:
        return cell.text
    return f"{cell.text} ({cell.small})" if cell.text else cell.small


def _alone(head: str, cell: Cell) -> str:
    text = _inline(cell, 1)
    return cell.alone or (f"{head} {text}".strip() if text else "")


def _below(text: str, kind: str = "") -> Iterator[RenderableType]:
    style = next((style for name, style in _STYLES.items() if name in kind), "dim")
    if "code" in kind:  # a command stays whole
        yield from (_whole(f"  {line}", style) for line in text.split("\n"))
    else:
        yield _indented(text, style)


def _lines(cells: Sequence[Cell], columns: _Columns) -> Iterator[Text]:
    shown = [(at, width, cells[at] if at < len(cells) else Cell("")) for at, width in columns.widths.items()]
    texts = [_wrapped(_inline(cell, at), width) for at, width, cell in shown]
    for parts in itertools.zip_longest(*texts, fillvalue=""):
        line = Text(no_wrap=True, overflow="ignore")
        for (at, width, cell), part in zip(shown, parts, strict=True):
            style = next((style for name, style in _STYLES.items() if name in cell.kind), "")
            style = style or ("bold" if "name" in cell.kind else "")
            line.append(part.rjust(width) if at in columns.figures else part.ljust(width), style).append("  ")
        line.rstrip()
        yield line


def _wrapped(text: str, width: int) -> list[str]:
    wrap = partial(textwrap.wrap, width=max(width, 1), break_on_hyphens=False)
    return [*itertools.chain.from_iterable(map(wrap, text.split("\n")))] or [""]
