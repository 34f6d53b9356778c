"""A document as Markdown, for a ticket: no plots, and nothing that a server wrote is read as markup. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flushlab.report.document import Cell, Document, Section, Table

_MARKS = re.compile(r"([\\`*<>\[\]|#])")


def render(document: Document) -> str:
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    interval = f" {document.interval}" if document.interval else ""
    yield f"## {plain(document.headline + interval)}"
    about = ", ".join(filter(None, (document.servers, document.workload, document.when)))
    for text in (document.title, about, *document.lead):
        if text:
            yield from ("", plain(text))
    if document.keys:
        yield from ("", *(f"- {plain(name)}: {plain(value)}" for name, value in document.keys))
    for section in (*document.sections, *document.todo):
        yield from _section(section)
    made = " · ".join(filter(None, (document.id, document.state)))
    version = f" {document.flushlab}" if document.flushlab else ""
    yield from ("", f"Made by flushlab {document.kind}{version}{f': {plain(made)}' if made else ''}.")


def _section(section: Section) -> Iterator[str]:
    yield from ("", f"### {plain(section.title)}")
    for text in filter(None, (section.about, *section.texts)):
        yield from ("", plain(text))
    if section.lines:
        yield ""
    for line in section.lines:
        yield f"- {plain(line.text)}" + (f": {code(line.code)}" if line.code else "")
    for table in section.tables:
        yield from ("", *([plain(table.caption), ""] if table.caption else []), *_table(table))
    for block in section.code:
        if block.title:
            yield from ("", plain(block.title))
        if block.text:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
            yield from ("", fence, block.text.rstrip("\n"), fence)
    if section.notes:
        yield from ("", *(f"- {plain(note)}" for note in section.notes))


def _table(table: Table) -> Iterator[str]:
    count = max(map(len, (table.head, *table.rows)), default=0)
    yield _row([*map(plain, table.head or [""] * count)])
    yield f"|{'|'.join('--:' if table.has_numbers(at) else '---' for at in range(count))}|"
    for row in table.rows:
        yield _row([*map(_cell, row), *[""] * (count - len(row))])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = " ".join(cell.text.split())
    if text and "code" in cell.kind:
        text = code(text).replace("|", "\\|")
    else:
        text = plain(text)
    return f"{text} ({plain(cell.small)})" if cell.small and text else text or plain(cell.small)


def plain(text: str) -> str:
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    marks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{marks} {text} {marks}" if "`" in text else f"`{text}`"
