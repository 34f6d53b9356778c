"""Sql: names in statements, and which databases are the server's own."""

from __future__ import annotations

import re

from flushlab.errors import UsageError

SYSTEM_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")
"""MySQL 5.7 and later; MariaDB has `sys` since 10.6, and a user's database of that name is none before."""

SYSTEM_LIST = f"({', '.join(repr(name) for name in SYSTEM_DATABASES)})"
"""For SQL: `table_schema NOT IN (…)`."""


def is_system(name: str) -> bool:
    """Whether a database is the server's own, in whatever case it is spelled."""
    return name.lower() in SYSTEM_DATABASES


def require_not_system(name: str) -> str:
    """The name of a database that is to be written to.

    Raises:
        UsageError: it is the server's own.
    """
    if is_system(name):
        raise UsageError(
            f"the database {name} is the server's own: flushlab writes nothing into it",
            hint="choose another name",
        )
    return name


def quoted(*names: str) -> str:
    """A name as SQL spells it, qualified by those before it: `schema`.`table`.

    Backticks are doubled, as the manuals of both servers say ("Schema Object Names", "Identifier Names").
    """
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def account_of(current_user: str) -> str:
    """The account as GRANT spells it, from what CURRENT_USER() gives."""
    user, _, host = current_user.rpartition("@")
    return "@".join("'" + re.sub(r"(['\\])", r"\\\1", part) + "'" for part in (user, host))
