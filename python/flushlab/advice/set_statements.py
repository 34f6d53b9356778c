"""SET statements for a running server; what cannot be set without a restart becomes a comment. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import SettingHere, load_catalog


def statements_file(settings: Mapping[str, Value], identity: ServerIdentity) -> str:
    """The statements as a file for the server's client.

    Where it persists, the file first prints what the user had persisted of these settings, as statements:
    `rollback_statements` makes the server forget that.
    """
    lines = set_statements(settings, identity)
    return "\n".join([*(_had_persisted(settings, identity) if identity.persists else ()), *lines]) + "\n"


def set_statements(settings: Mapping[str, Value], identity: ServerIdentity) -> list[str]:
    """Statements and comment lines that bring a running server to these settings.

    SET PERSIST on MySQL 8 and later (it survives a restart), SET GLOBAL elsewhere (it does not: the option
    file is needed too). Settings that need a restart: SET PERSIST_ONLY where there is one, else a comment.

    Raises:
        UnknownSetting, ValueOutOfRange: a setting that this server would not take.
    """
    catalog = load_catalog()
    lines: list[str] = []
    for name, value in settings.items():
        lines += _lines(catalog.require(name, identity.flavor, identity.version), value, identity.persists)
    return lines


def _had_persisted(settings: Mapping[str, Value], identity: ServerIdentity) -> list[str]:
    """What prints it; a value that is the advised one is left out: a second run prints nothing."""
    catalog = load_catalog()
    queries = []
    for name, value in settings.items():
        here = catalog.require(name, identity.flavor, identity.version)
        parsed = here.parse(value)
        text, advised = (
            ("QUOTE(variable_value)", f"'{parsed}'")
            if isinstance(parsed, str)
            else ("variable_value", str(parsed))
        )
        queries.append(
            f"SELECT CONCAT('{_persist(here)} {here.variable} = ', {text}, ';') AS had_persisted"
            f" FROM performance_schema.persisted_variables"
            f" WHERE variable_name = '{here.variable}' AND variable_value <> {advised}"
        )
    return [
        "-- Prints what you have persisted of these settings. Keep it: it belongs behind rollback.sql.",
        "\nUNION ALL ".join(queries) + ";",
        "",
    ]


def _persist(here: SettingHere) -> str:
    return "SET PERSIST" if here.dynamic else "SET PERSIST_ONLY"


def _lines(here: SettingHere, value: Value, persistent: bool) -> list[str]:
    if here.part and here.dynamic:
        by_plugin = f"-- where the plugin wsrep_provider is on: SET GLOBAL {here.name} = {here.parse(value)};"
        return [f"SET GLOBAL {here.variable} = {here.sql(value)};", by_plugin]
    if here.dynamic:
        return [f"{_persist(here) if persistent else 'SET GLOBAL'} {here.variable} = {here.sql(value)};"]
    if persistent and not here.entry.switch:
        return [f"{_persist(here)} {here.variable} = {here.sql(value)};  -- needs a restart"]
    return [f"-- {here.option(value)}: needs a restart; set it in the option file"]
