"""In force: the variables of a running server, as it or a dump of them has them, as its settings. Pure.

Sits in `settings`, the counterpart of `check` for option files. Values are taken as the server reports them;
nothing is asked about its start, and no contradiction is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from flushlab.errors import ValueOutOfRange
from flushlab.record import ServerIdentity, Value
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import PROVIDER_OPTIONS, canonical, load_catalog, version_of
from flushlab.settings.check import CheckedFile, in_reading_order
from flushlab.settings.configuration import Configuration, typed
from flushlab.settings.option_names import AURORA, load_option_names
from flushlab.settings.optionfile import Remark, lines, read_options

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


class VariableDump(msgspec.Struct, frozen=True, kw_only=True):
    variables: Mapping[str, str]
    lines: Mapping[str, int]


def read_dump(text: str) -> VariableDump | None:
    """Takes the output of SHOW VARIABLES, with tabs, in boxes, as CSV, vertical or as options, and a
    service's parameters as JSON: of `aws rds describe-db-parameters` and `az mysql flexible-server parameter
    list`."""
    text = text.replace("\0", "").lstrip("\ufeff\ufffd")  # PowerShell writes UTF-16
    found = _json(text) if text.lstrip()[:1] in ("{", "[") else None
    found = found or _rows(text) or _vertical(text) or _options(text)
    if not found or not {name for name, _, _ in found} & load_option_names().names():
        return None
    return VariableDump(
        variables={name: value for name, value, _ in found}, lines={name: line for name, _, line in found}
    )


Row = tuple[str, str, int]


def _json(text: str) -> list[Row] | None:
    try:
        parameters = list(_parameters(json.loads(text)))
    except ValueError:
        return None
    line_of = {name: text.count("\n", 0, text.find(f'"{name}"')) + 1 for name, _ in parameters}
    return [(canonical(name), value, line_of[name]) for name, value in parameters]


def _parameters(document: Any) -> Iterator[tuple[str, str]]:
    """Parameters with a value: one that a service's parameter group leaves open has the engine's default."""
    if isinstance(document, dict):
        document = document.get("EngineDefaults", document).get("Parameters", ())
    for one in document if isinstance(document, list) else ():
        if not isinstance(one, dict):
            continue
        name = one.get("ParameterName", one.get("name"))
        value = one.get("ParameterValue", one.get("value"))
        if isinstance(name, str) and isinstance(value, str):
            yield name, value


def _rows(text: str) -> list[Row] | None:
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
    found = [
        (canonical(line.name), line.text or "", line.line)
        for line in lines(text, "")
        if line.name and line.text is not None
    ]
    return found if len({name for name, _, _ in found} & _NO_OPTIONS) >= _SO_MANY else None


_VERSION = re.compile(r"(\d+\.\d+\.\d+).*")
_FORMULA = re.compile(r".*\{\w.*\}.*")
"""A service computes it for each instance: `{DBInstanceClassMemory*3/4}`."""


def values_of(texts: Mapping[str, str], identity: ServerIdentity, names: Iterable[str]) -> dict[str, Value]:
    configuration = Configuration({}, identity)
    wanted = {name: configuration.here(name) for name in map(canonical, names)}
    options = read_options(texts.get(PROVIDER_OPTIONS, ""))
    found = dict[str, Value]()
    for name, here in wanted.items():
        if here is not None and here.part:
            if here.part in options:
                found[name] = typed(options[here.part], here)
        elif (text := texts.get(here.variable if here else name)) is not None:
            found[name] = typed(text, here)
    return found


def identity_of(variables: Mapping[str, str]) -> ServerIdentity | None:
    version = variables.get("version", "")
    match = _VERSION.fullmatch(version)
    if match is None:
        return None
    said = f"{version} {variables.get('version_comment', '')}".lower()
    flavor: Flavor = "mariadb" if "mariadb" in said else "mysql"
    return ServerIdentity(flavor=flavor, version=version_of(match[1]), version_text=version)


def in_force(
    variables: Mapping[str, str],
    identity: ServerIdentity,
    *,
    path: str,
    lines: Mapping[str, int] | None = None,
) -> CheckedFile:
    catalog, given, findings = load_catalog(), dict(variables), list[Remark]()
    places = {name: (path, (lines or {}).get(name, 0)) for name in variables}

    def note(name: str, kind: str, text: str) -> None:
        findings.append(Remark(kind, "note", name, *places[name], text))

    for name, text in variables.items():
        if _FORMULA.fullmatch(text):
            note(name, "formula", f"is {text}, which the service computes: this check takes the default")
            del given[name]
    settings = values_of(given, identity, catalog.names(identity.flavor, identity.version))
    for name in list(settings):
        here = catalog.require(name, identity.flavor, identity.version)
        places.setdefault(name, places.get(here.variable, (path, 0)))
        try:
            here.parse(settings[name])
        except ValueOutOfRange:
            says = f"is {settings.pop(name)!r}, which flushlab does not know: this check takes the default"
            note(name, "unknown-value", says)
    if any(name.startswith("aurora_") for name in variables):
        says = f"{AURORA} keeps redo and pages on storage of its own: the guarantees are those of MySQL's"
        findings.append(Remark("product", "note", "", path, 0, says))
    return CheckedFile(
        settings=settings,
        others={name: text for name, text in given.items() if name not in catalog},
        lines=places,
        findings=in_reading_order(findings),
    )
