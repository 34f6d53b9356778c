"""Records: rows with many columns, as clients print them: vertical (\\G), in boxes, with tabs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from flushlab.diagnosis.files.told import lines

_FIRST_ROW = re.compile(r"\*{10,} 1\. row \*{10,}")
_ROW = re.compile(r"\*{10,} \d+\. row \*{10,}")
_FIELD = re.compile(r"\s*(\w+): ?(.*)")
_MOST = 1000
"""Characters of a statement: its first word is behind the comments that applications set before it."""

Record = Mapping[str, str]
"""Values by column, in small letters."""


def results(text: str, columns: frozenset[str]) -> Iterator[list[Record]]:
    """The rows of each result that has these columns."""
    for rows in _every(text):
        if rows and columns <= rows[0].keys():
            yield rows


def _every(text: str) -> Iterator[list[Record]]:
    if "1. row ***" in text:
        yield from _vertical(text)
    yield from _tables(text)


def _vertical(text: str) -> Iterator[list[Record]]:
    """A first row begins a result. A statement may go on over lines, which may look like columns: the first
    of a name counts."""
    rows: list[Record] = []
    row: dict[str, str] | None = None
    last = ""
    for line in lines(text):
        if line.startswith("***") and _ROW.fullmatch(line.rstrip()):
            if row:
                rows.append(row)
            row = {}
            if _FIRST_ROW.fullmatch(line.rstrip()):
                yield rows
                rows = []
        elif line.startswith("TS "):
            if row:
                rows.append(row)
            row = None
        elif row is not None:
            match = _FIELD.fullmatch(line)
            if match is not None and match[1].lower() not in row:
                last = match[1].lower()
                row[last] = match[2].strip()
            elif last in row and len(row[last]) < _MOST:
                row[last] += f"\n{line}"
    if row:
        rows.append(row)
    yield rows


def _tables(text: str) -> Iterator[list[Record]]:
    """A head begins a result: its first column is Id."""
    rows: list[Record] = []
    head: list[str] = []
    for line in lines(text):
        cells = _cells(line)
        if cells is None:
            continue
        if cells[0].lower() == "id":
            yield rows
            rows, head = [], [cell.lower() for cell in cells]
        elif head and len(cells) >= len(head):
            rows.append(dict(zip(head, cells, strict=False)))
    yield rows


def _cells(line: str) -> list[str] | None:
    if line.startswith("|"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    elif "\t" in line:
        cells = [cell.strip() for cell in line.split("\t")]
    else:
        return None
    return cells if len(cells) > 2 else None
