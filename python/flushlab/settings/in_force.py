"""In force: a server's variables as its settings, and what is to be said of them. Pure; sits in `settings`.

For servers that run, and for dumps of their variables: the counterpart of `check` for option files. Values
are taken as the server reports them; nothing is asked about its start, and no contradiction is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from flushlab.errors import ValueOutOfRange
from flushlab.record import ServerIdentity, Value
from flushlab.record.server import Flavor
from flushlab.settings.catalog import PROVIDER_OPTIONS, canonical, load_catalog, version_of
from flushlab.settings.check import Checked, in_reading_order
from flushlab.settings.configuration import Configuration, typed
from flushlab.settings.finding import Finding
from flushlab.settings.products import AURORA
from flushlab.settings.provider_options import read_options

_VERSION = re.compile(r"(\d+\.\d+\.\d+).*")
_FORMULA = re.compile(r".*\{\w.*\}.*")
"""What a service computes for each instance: `{DBInstanceClassMemory*3/4}`."""


def values_of(texts: Mapping[str, str], identity: ServerIdentity, names: Iterable[str]) -> dict[str, Value]:
    """The settings of these names in variables' texts, typed by the catalog; unknown ones are left out."""
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
    """The server whose variables these are; None if they do not tell."""
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
) -> Checked:
    """What a server's variables are as settings.

    Args:
        variables: by name, as texts.
        identity: the server.
        path: source: a file, or the server's address.
        lines: line number of each variable in the file.
    """
    catalog, given, findings = load_catalog(), dict(variables), list[Finding]()
    places = {name: (path, (lines or {}).get(name, 0)) for name in variables}

    def note(name: str, kind: str, text: str) -> None:
        findings.append(Finding.at(places[name], kind, "note", name, text))

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
        findings.append(Finding.at((path, 0), "product", "note", "", says))
    return Checked(
        settings=settings,
        others={name: text for name, text in given.items() if name not in catalog},
        lines=places,
        findings=in_reading_order(findings),
    )
