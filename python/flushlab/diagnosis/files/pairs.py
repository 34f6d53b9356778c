"""Pairs: names with values, as SHOW GLOBAL STATUS and SHOW GLOBAL VARIABLES print them. Pure.

In every form of the clients: with tabs, in boxes, vertical (\\G), as CSV, and in two columns of values as
pt-mysql-summary joins two statuses.
"""

from __future__ import annotations

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
    """Each list of pairs: a new one begins with a head, or where a name comes again."""
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
    """Whether these are such pairs, of LIKE '…' too: lists of anything have names of one word, as `port`."""
    known = block.keys() & usual
    return len(known) >= _SO_MANY or bool(known and all("_" in one for one in block.keys() - known))


_SO_MANY = 2


def joined(text: str) -> tuple[Mapping[str, str], Mapping[str, str]] | None:
    """Two lists that were joined into lines of `name first second`; None if there are none."""
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
