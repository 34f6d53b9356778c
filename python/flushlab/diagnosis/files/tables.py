"""Tables: how clients print pairs and rows, and pt-stalk copies of files. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

from flushlab.diagnosis.files.told import lines

_NAME = r"[A-Za-z][\w.:-]*(?: [\w.:-]+)*"
_BOX = re.compile(rf"\s*\|\s*({_NAME})\s*\|(.*)\|\s*")
_TABS = re.compile(rf"({_NAME})\t([^\t]*)")
_COLUMNS = re.compile(r"\s\|\s")
_VERTICAL_NAME = re.compile(rf"\s*(?i:variable_name): ({_NAME})\s*")
_VERTICAL_VALUE = re.compile(r"\s*(?i:(?:variable_)?value): ?(.*)")
_CSV = re.compile(rf'"({_NAME})"[,;]"([^"]*)"')
_JOINED = re.compile(r"(\w+) (-?\d+(?:\.\d+)?) (-?\d+(?:\.\d+)?)")
_HEAD = "variable_name"


def blocks(text: str) -> Iterator[Mapping[str, str]]:
    found: dict[str, str] = {}
    for name, value in _pairs(text):
        if found and (name == _HEAD or name in found):
            yield found
            found = {}
        if name != _HEAD:
            found[name] = value
    if found:
        yield found


def are(block: Mapping[str, str], usual: frozenset[str]) -> bool:
    known = block.keys() & usual
    return len(known) > 1 or bool(known and all("_" in one for one in block.keys() - known))


def joined(text: str) -> tuple[Mapping[str, str], Mapping[str, str]] | None:
    rows = [match.groups() for line in lines(text) if (match := _JOINED.fullmatch(line)) is not None]
    if not rows:
        return None
    return {row[0].lower(): row[1] for row in rows}, {row[0].lower(): row[2] for row in rows}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    vertical = ""
    for line in lines(text):
        if vertical:
            if (match := _VERTICAL_VALUE.fullmatch(line)) is not None:
                yield vertical, match[1].strip()
            vertical = ""
        elif "|" in line:
            match = _BOX.fullmatch(line)
            if match is not None and (match[1].lower() == _HEAD or not _COLUMNS.search(match[2])):
                yield match[1].lower(), match[2].strip()
        elif "\t" in line:
            if (match := _TABS.fullmatch(line)) is not None:
                yield match[1].lower(), match[2].strip()
        elif line.startswith('"'):
            if (match := _CSV.fullmatch(line.rstrip())) is not None:
                yield match[1].lower(), match[2]
        elif (match := _VERTICAL_NAME.fullmatch(line)) is not None:
            vertical = match[1].lower()


_FIRST_ROW = re.compile(r"\*{10,} 1\. row \*{10,}")
_ROW = re.compile(r"\*{10,} \d+\. row \*{10,}")
_FIELD = re.compile(r"\s*(\w+): ?(.*)")
_MOST = 1000
"""Characters of a statement: its first word is behind the comments that applications set before it."""

Record = Mapping[str, str]


def results(text: str, columns: frozenset[str]) -> Iterator[list[Record]]:
    vertical = _vertical(text) if "1. row ***" in text else ()
    for rows in itertools.chain(vertical, _tables(text)):
        if rows and columns <= rows[0].keys():
            yield rows


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
    if not line.startswith("|") and "\t" not in line:
        return None
    parts = line.strip().strip("|").split("|") if line.startswith("|") else line.split("\t")
    return [part.strip() for part in parts] if len(parts) > 2 else None


_STAMP = re.compile(r"TS (\d{1,12}(?:\.\d{1,9})?)(?: .*)?")


def stamped(text: str) -> Iterator[tuple[float, list[str]]]:
    at_s: float | None = None
    copy: list[str] = []
    for line in lines(text):
        if (match := _STAMP.fullmatch(line)) is not None:
            if at_s is not None:
                yield at_s, copy
            at_s, copy = float(match[1]), []
        else:
            copy.append(line)
    if at_s is not None:
        yield at_s, copy
