"""Rollback: what brings a server back from advised settings to what it had. Pure.

A setting of the user's own file goes back to its value there; one that the file does not have, to what the
server had without it: its line is removed, and a running server is given that value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.optionfile import render

UNSEEN = "What your option file had, flushlab has not seen: these values are of the measured server."
_PERSISTED = (
    "SET PERSIST wins over an option file: RESET PERSIST what it has stored; settings.sql lists that."
)
"""For a server that persists settings, where those could not be read."""


def persisted_comments(
    changes: Mapping[str, Value], persisted: Mapping[str, str] | None, identity: ServerIdentity
) -> list[str]:
    """Lines for the option file of a server that flushlab did not start: what would win over that file.

    Args:
        changes: the advised settings.
        persisted: what SET PERSIST has stored on it; None: not known.
        identity: the server.
    """
    if not identity.persists:
        return []
    if persisted is None:
        return [_PERSISTED]
    known = [Configuration({}, identity).here(name) for name in changes]
    found = [here for here in known if here and here.variable in persisted]
    differ = [here for here in found if not here.same(changes[here.name], persisted[here.variable])]
    return [
        f"SET PERSIST wins over this file: {here.variable} = {persisted[here.variable]} is stored."
        f" RESET PERSIST {here.variable}; or run settings.sql."
        for here in differ
    ]


def rollback_file(
    changes: Mapping[str, Value],
    own: Mapping[str, Value],
    before: Mapping[str, Value],
    identity: ServerIdentity,
    *,
    is_seen: bool = True,
    comments: Sequence[str] = (),
) -> str:
    """The option file that takes the place of the advised one.

    Args:
        changes: the advised settings.
        own: settings of the user's option file.
        before: what the server reported without the changes.
        identity: the server.
        is_seen: flushlab has read the user's option file; else `own` holds the values that the server had.
        comments: lines for the top.

    Raises:
        UnknownSetting, ValueOutOfRange: a setting that this server would not take.
    """
    catalog = load_catalog()
    back = {name: own[name] for name in changes if name in own}
    header = [
        *comments,
        "Puts back what was there. Use it in place of the advised lines and restart the server.",
        *([] if is_seen else [UNSEEN]),
    ]
    for name in (name for name in changes if name not in own):
        here = catalog.here(name, identity.flavor, identity.version) if name in catalog else None
        value = before.get(name)
        spelled = value if here is None or value is None else here.option(value).partition(" = ")[2]
        had = (
            f"the server then has {spelled} again" if value is not None else "the server has its own default"
        )
        why = f"{name} was not in your option file" if is_seen else f"The earlier {name} is not known"
        header.append(f"{why}: remove its line ({had}).")
    return render(back, identity, catalog, header=header)


def rollback_statements(
    changes: Mapping[str, Value],
    own: Mapping[str, Value],
    before: Mapping[str, Value],
    identity: ServerIdentity,
) -> list[str]:
    """Statements and comment lines that bring a running server back; see `rollback_file`.

    A server that persists settings forgets the advised ones; what its user had persisted is printed by
    `statements_file`, and set after these.
    """
    catalog, lines = load_catalog(), list[str]()
    for name in changes:
        here = catalog.require(name, identity.flavor, identity.version)
        if identity.persists:
            lines.append(f"RESET PERSIST IF EXISTS {here.variable};")
        lines.append(_statement(here, own.get(name, before.get(name)), in_file=name in own))
    return lines


def _statement(here: SettingHere, value: Value | None, *, in_file: bool) -> str:
    if here.dynamic:
        default = here.sql(here.default) if here.part else "DEFAULT"
        return f"SET GLOBAL {here.variable} = {default if value is None else here.sql(value)};"
    line = here.option(value) if in_file and value is not None else f"remove {here.name}"
    return f"-- {line}: needs a restart; put rollback.cnf in place of the advised lines"
