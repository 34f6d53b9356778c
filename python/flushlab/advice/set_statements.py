"""SET statements for a running server; what cannot be set without a restart becomes a comment. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import SettingHere, load_catalog

PERSIST_SINCE = (8, 0, 11)
"""First generally available MySQL with SET PERSIST
(https://dev.mysql.com/doc/refman/8.0/en/persisted-system-variables.html)."""


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
        lines += _lines(catalog.require(name, identity.flavor, identity.version), value, persists(identity))
    return lines


def persists(identity: ServerIdentity) -> bool:
    """Whether the server has SET PERSIST."""
    return identity.flavor == "mysql" and identity.version >= PERSIST_SINCE


def _lines(here: SettingHere, value: Value, persistent: bool) -> list[str]:
    if here.dynamic:
        return [f"SET {'PERSIST' if persistent else 'GLOBAL'} {here.variable} = {here.sql(value)};"]
    if persistent and not here.entry.switch:
        return [
            f"SET PERSIST_ONLY {here.variable} = {here.sql(value)};  -- needs a restart",
        ]
    return [f"-- {here.option(value)}: needs a restart; set it in the option file"]
