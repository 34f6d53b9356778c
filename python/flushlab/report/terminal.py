"""A document in a terminal of 80 columns or more: the answer, and sections that have no short form. Pure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import ConsoleOptions, Group, RenderableType
from rich.text import Text

from flushlab.report.document import Cell, Document, Section, Table

_LEAST_NAME, _LEAST_TEXT = 28, 20
"""Columns of a name and of a text that a table always has room for."""
_STYLES = {"good": "green", "bad": "red", "mute": "dim", "changed": "bold", "code": "bold"}


def render(document: Document, *, full: bool = False) -> RenderableType:
    """What a person reads.

    Args:
        full: sections with a short form are shown whole, with all code.
    """
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
        yield _Indented(f"- {line.text}", 2, 4)
        if full and line.code:
            yield _whole(f"    {line.code}")
    for number, table in enumerate(section.tables):
        if number:
            yield ""
        if table.caption:
            yield Text(table.caption, style="dim")
        yield _Grid(table)
    for code in section.code:
        if full or code.shown == "always":
            if code.title:
                yield Text(code.title)
            yield from (_whole(f"   {line}", "bold") for line in code.text.splitlines())
    yield from (_short(note) for note in section.notes)


def _whole(text: str, style: str = "dim") -> Text:
    return Text(text, style=style, overflow="ignore", no_wrap=True)


class _Indented(NamedTuple):
    """Wrapped text, its first line and the others indented."""

    text: str
    first: int = 2
    others: int = 2
    style: str = ""

    def __rich_console__(self, _console: object, options: ConsoleOptions) -> Iterator[RenderableType]:
        for number, line in enumerate(_wrapped(self.text, options.max_width - max(self.first, self.others))):
            yield _whole(" " * (self.others if number else self.first) + line, self.style)


class _Grid(NamedTuple):
    """A table as wide as the terminal: columns that find no room stand below their rows."""

    table: Table

    def __rich_console__(self, _console: object, options: ConsoleOptions) -> Iterator[RenderableType]:
        table, whole = self.table, options.max_width
        rows = [row for row in table.rows if len(row) > 1 or len(table.head) == 1]
        if not rows:
            return
        count = max(map(len, (table.head, *rows)))
        columns = [[row[at] if at < len(row) else Cell("") for row in rows] for at in range(count)]
        heads = [cell.text for cell in table.head] or [""] * count
        widest = [
            max(
                len(line)
                for text in (head, *(_inline(cell, at) for cell in column))
                for line in text.split("\n")
            )
            for at, (head, column) in enumerate(zip(heads, columns, strict=True))
        ]
        is_figure = [at > 0 and any("num" in cell.kind for cell in own) for at, own in enumerate(columns)]
        least = [
            wide if is_figure[at] else min(wide, _LEAST_TEXT if at else _LEAST_NAME)
            for at, wide in enumerate(widest)
        ]
        shown = [*range(count)]
        while len(shown) > 2 and sum(least[at] + 2 for at in shown) - 2 > whole:
            shown.pop()
        widths = {at: least[at] for at in shown}
        for _ in range(whole - sum(widths.values()) - 2 * (len(shown) - 1)):
            at = max(shown, key=lambda one: widest[one] - widths[one])
            if widest[at] == widths[at]:
                break
            widths[at] += 1
        if any(heads):
            yield from _lines([Cell(heads[at], "mute") for at in shown], shown, widths, is_figure)
        for row in table.rows:
            if len(row) == 1 < count:
                yield from _below(row[0].text, row[0].kind)
                continue
            cells = [row[at] if at < len(row) else Cell("") for at in shown]
            if "name" in row[0].kind and len(row[0].text) > widths[0]:
                yield Text(row[0].text, style="bold")
                cells[0] = Cell("")
            yield from _lines(cells, shown, widths, is_figure)
            hidden = ((heads[at], row[at]) for at in range(len(row)) if at not in widths)
            beside = "; ".join(filter(None, (_alone(head, cell) for head, cell in hidden)))
            for text in filter(None, (row[0].small, beside)):
                yield from _below(text)


def _inline(cell: Cell, at: int) -> str:
    """The text with its second line, which below the first column has a line of its own."""
    return (
        f"{cell.text} ({cell.small})"
        if at and cell.small and cell.text
        else cell.text or cell.small * bool(at)
    )


def _alone(head: str, cell: Cell) -> str:
    text = _inline(cell, 1)
    return cell.alone or (f"{head} {text}".strip() if text else "")


def _below(text: str, kind: str = "") -> Iterator[RenderableType]:
    style = next((style for name, style in _STYLES.items() if name in kind), "dim")
    if "code" in kind:  # a command stays whole
        yield from (_whole(f"  {line}", style) for line in text.split("\n"))
    else:
        yield _Indented(text, style=style)


def _lines(
    cells: Sequence[Cell], shown: Sequence[int], widths: dict[int, int], is_figure: Sequence[bool]
) -> Iterator[Text]:
    texts = [_wrapped(_inline(cell, at), widths[at]) for at, cell in zip(shown, cells, strict=True)]
    for parts in itertools.zip_longest(*texts, fillvalue=""):
        line = Text()
        for at, cell, part in zip(shown, cells, parts, strict=True):
            padded = f"{part:>{widths[at]}}" if is_figure[at] else f"{part:<{widths[at]}}"
            style = next((style for name, style in _STYLES.items() if name in cell.kind), "")
            line.append(padded, style=style or ("bold" if "name" in cell.kind else "")).append("  ")
        line.rstrip()
        line.no_wrap, line.overflow = True, "ignore"
        yield line


def _wrapped(text: str, width: int) -> list[str]:
    lines: Iterable[list[str]] = (
        textwrap.wrap(line, max(width, 1), break_on_hyphens=False) for line in text.split("\n")
    )
    return [*itertools.chain.from_iterable(lines)] or [""]
