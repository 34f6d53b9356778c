"""Sql: names in statements, databases that are the server's own, and global variables, typed as the catalog
types them. Server layer; shared by every server that answers SQL. Knows nothing of restarts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flushlab.errors import UsageError
from flushlab.record import ServerIdentity, Value, Warning
from flushlab.server.control import READ_ONLY_VARIABLE, WRONG_ARGUMENTS, StatementFailed
from flushlab.settings.catalog import PROVIDER_OPTIONS, SettingHere, canonical
from flushlab.settings.configuration import Configuration, literal
from flushlab.settings.in_force import values_of

SYSTEM_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")
"""MySQL 5.7 and later; MariaDB has `sys` since 10.6, and a user's database of that name is none before."""

SYSTEM_LIST = f"({', '.join(repr(name) for name in SYSTEM_DATABASES)})"
"""For SQL: `table_schema NOT IN (…)`."""


def is_system(name: str) -> bool:
    return name.lower() in SYSTEM_DATABASES


def require_not_system(name: str) -> str:
    if is_system(name):
        raise UsageError(
            f"the database {name} is the server's own: flushlab writes nothing into it",
            hint="choose another name",
        )
    return name


def quoted(*names: str) -> str:
    """A name as SQL spells it: backticks are doubled ("Identifier Names" in the manuals of both servers)."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def account_of(current_user: str) -> str:
    user, _, host = current_user.rpartition("@")
    return "@".join("'" + re.sub(r"(['\\])", r"\\\1", part) + "'" for part in (user, host))


Query = Callable[..., list[tuple[Any, ...]]]


def read_variables(query: Query, identity: ServerIdentity, names: Iterable[str]) -> dict[str, Value]:
    wanted = {name: Configuration({}, identity).here(name) for name in map(canonical, names)}
    if not wanted:
        return {}
    variables = sorted({here.variable if here else name for name, here in wanted.items()})
    marks = ", ".join(["%s"] * len(variables))
    rows = query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", variables)
    return values_of(_texts(rows), identity, wanted)


def all_variables(query: Query) -> dict[str, str]:
    return _texts(query("SHOW GLOBAL VARIABLES"))


def persisted(query: Query, identity: ServerIdentity) -> dict[str, str] | None:
    if not identity.persists:
        return None
    try:
        return _texts(
            query("SELECT variable_name, variable_value FROM performance_schema.persisted_variables")
        )
    except StatementFailed:
        return None


REDO_CAPACITY = "innodb_redo_log_capacity"


def redo_capacity_in_force(query: Query) -> int | None:
    """Bytes of the redo log, whichever variables gave them; None where the server does not tell, and while it
    makes the log of another size.

    MySQL 8.0.30 and later shows the default of `innodb_redo_log_capacity` if `innodb_log_file_size` gave it
    (https://dev.mysql.com/doc/refman/8.0/en/innodb-redo-log.html).
    """
    status = _texts(query("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_%'"))
    size = status.get("innodb_redo_log_capacity_resized", "")
    is_resized = status.get("innodb_redo_log_resize_status", "").upper() == "OK"
    return int(size) if size.isdecimal() and is_resized else None


def redo_enabled(query: Query, identity: ServerIdentity) -> bool:
    """MySQL can do without since 8.0.21 (https://dev.mysql.com/doc/refman/8.0/en/innodb-redo-log.html)."""
    if identity.flavor == "mariadb" or identity.version < (8, 0, 21):
        return True
    rows = query("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'")
    return not rows or str(rows[0][1]).upper() == "ON"


def _texts(rows: Iterable[tuple[Any, ...]]) -> dict[str, str]:
    return {str(name).lower(): "" if text is None else str(text) for name, text in rows}


def set_variable(query: Query, identity: ServerIdentity, name: str, value: Value) -> None:
    here = Configuration({}, identity).here(name)
    if here is not None and here.part:
        _set_option(query, here, value)
        return
    query(f"SET GLOBAL {here.variable if here else name} = %s", [literal(value, here)])


def _set_option(query: Query, here: SettingHere, value: Value) -> None:
    """Sets one of Galera's options, which keeps all others. Where the plugin wsrep_provider is on, each is a
    variable of its own, and the one that holds them all cannot be set (error 1210 since 11.8.9)."""
    try:
        query(f"SET GLOBAL {PROVIDER_OPTIONS} = %s", [f"{here.part}={here.render(value)}"])
    except StatementFailed as error:
        by_plugin = error.errno == WRONG_ARGUMENTS and "plugin is loaded" in error.text
        if error.errno != READ_ONLY_VARIABLE and not by_plugin:
            raise
        query(f"SET GLOBAL {here.name} = %s", [literal(value, here)])


def changed_values(
    identity: ServerIdentity, asked: Mapping[str, Value], got: Mapping[str, Value]
) -> tuple[Warning, ...]:
    """Warnings for values that the server rounded, changed or does not show."""
    configuration, found = Configuration(asked, identity), []
    for name, value in asked.items():
        if name not in got:
            text = f"{name} was set to {value}, but the server has no such variable"
            found.append(Warning("not-shown", text))
            continue
        if not configuration.same(name, value, got[name]):
            asked_for = literal(value, configuration.here(name))
            rounded = isinstance(got[name], int) and isinstance(asked_for, int)
            text = f"{name} was set to {value}, and the server changed it to {got[name]}"
            found.append(Warning("rounded" if rounded else "differs", text))
    return tuple(found)
