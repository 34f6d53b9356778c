"""Dump: the variables that a server has, as its clients and consoles of services write them. Pure.

Sits in `settings`. What they all lack is the option file's question, whether the server starts: it runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from flushlab.settings.catalog import canonical
from flushlab.settings.option_names import load_option_names
from flushlab.settings.optionfile import lines

_ROWS = tuple(
    re.compile(row)
    for row in (
        r"([\w.-]+)\t(?!\s*=)(.*)",  # mysql --batch; not the columns of an option file
        r"\|\s*([\w.-]+)\s*\|(.*)\|",  # mysql --table, mysqladmin variables
        r'"?([\w.-]+)"?[,;]"?([^"]*)"?',  # CSV of graphical clients
    )
)
_BORDER = re.compile(r"[+-]+|\d+ rows? in set.*|mysql: \[Warning\].*")
_VERTICAL = re.compile(r"\s*Variable_name: ([\w.-]+)\n\s*Value: ?(.*)")
_HEADS = {"variable_name", "variable name"}
_MOST = 0.8
"""Part of the lines that are variables, from which on a text is a list of them."""
_NO_OPTIONS = {
    *("version", "version_comment", "version_compile_machine", "version_compile_os", "protocol_version"),
    *("hostname", "license", "system_time_zone", "large_files_support", "large_page_size", "server_uuid"),
    *("gtid_executed", "have_dynamic_loading", "have_geometry", "have_compress", "locked_in_memory"),
}
"""Variables that no option sets; SHOW VARIABLES has most of them."""
_SO_MANY = 4
"""Of them make a list of options one of variables."""


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """Variables as a file has them.

    Attributes:
        variables: by name, as texts.
        lines: line number of each variable.
    """

    variables: Mapping[str, str]
    lines: Mapping[str, int]


def read_dump(text: str) -> Dump | None:
    """The variables of a text that is no option file; None if it is none of these.

    Takes the output of SHOW VARIABLES, with tabs, in boxes, as CSV, vertical or as options, and the
    parameters of a service as JSON: of `aws rds describe-db-parameters` and `az mysql flexible-server
    parameter list`.
    """
    found = _json(text) if text.lstrip()[:1] in ("{", "[") else None
    found = found or _rows(text) or _vertical(text) or _options(text)
    if not found or not {name for name, _, _ in found} & load_option_names().names():
        return None
    return Dump(
        variables={name: value for name, value, _ in found}, lines={name: line for name, _, line in found}
    )


Row = tuple[str, str, int]
"""Name, value and line."""


def _json(text: str) -> list[Row] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    listed = list(_parameters(document))
    return [(canonical(name), value, _line_of(f'"{name}"', text)) for name, value in listed]


def _parameters(document: Any) -> Iterator[tuple[str, str]]:
    """Those that have a value: what a service's parameter group leaves open is the engine's default."""
    if isinstance(document, dict):
        document = document.get("EngineDefaults", document).get("Parameters", ())
    for one in document if isinstance(document, list) else ():
        if not isinstance(one, dict):
            continue
        name = one.get("ParameterName", one.get("name"))
        value = one.get("ParameterValue", one.get("value"))
        if isinstance(name, str) and isinstance(value, str):
            yield name, value


def _line_of(what: str, text: str) -> int:
    return text.count("\n", 0, text.find(what)) + 1


def _rows(text: str) -> list[Row] | None:
    """Lines with a name and a value, if that is most of them."""
    said = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not _BORDER.fullmatch(line.strip())
    ]
    for form in _ROWS:
        found = [
            (canonical(match[1]), match[2].strip(), number)
            for number, line in said
            if (match := form.fullmatch(line.rstrip("\r\n"))) is not None
        ]
        if found and len(found) >= _MOST * len(said):
            return [row for row in found if row[0] not in _HEADS]
    return None


def _vertical(text: str) -> list[Row]:
    return [
        (canonical(match[1]), match[2].strip(), text.count("\n", 0, match.start(1)) + 1)
        for match in _VERTICAL.finditer(text)
    ]


def _options(text: str) -> list[Row] | None:
    """`name = value`, with or without a group above it."""
    found = [
        (canonical(line.name), line.text or "", line.line)
        for line in lines(text, "")
        if line.name and line.text is not None
    ]
    return found if len({name for name, _, _ in found} & _NO_OPTIONS) >= _SO_MANY else None
