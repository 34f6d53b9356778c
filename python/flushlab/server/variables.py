"""Variables: reading and setting global variables, typed as the catalog types them.

Server layer; shared by every server that answers SQL. Knows nothing of restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flushlab.record import ServerIdentity, Value, Warning
from flushlab.server.control import READ_ONLY_VARIABLE, WRONG_ARGUMENTS, StatementFailed
from flushlab.settings.catalog import PROVIDER_OPTIONS, SettingHere, canonical
from flushlab.settings.configuration import Configuration, literal, typed
from flushlab.settings.provider_options import read_options

Query = Callable[..., list[tuple[Any, ...]]]


def read_variables(query: Query, identity: ServerIdentity, names: Iterable[str]) -> dict[str, Value]:
    """Global variables under the names asked for; unknown ones are left out."""
    configuration = Configuration({}, identity)
    wanted = {name: configuration.here(name) for name in map(canonical, names)}
    if not wanted:
        return {}
    variables = {name: here.variable if here else name for name, here in wanted.items()}
    marks = ", ".join(["%s"] * len(set(variables.values())))
    rows = query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", sorted(set(variables.values())))
    texts = {str(name).lower(): "" if text is None else str(text) for name, text in rows}
    options = read_options(texts.get(PROVIDER_OPTIONS, ""))
    return {
        name: typed(texts[variables[name]] if not here or not here.part else options[here.part], here)
        for name, here in wanted.items()
        if (here.part in options if here and here.part else variables[name] in texts)
    }


def set_variable(query: Query, identity: ServerIdentity, name: str, value: Value) -> None:
    """SET GLOBAL; whatever the server answers is the caller's to judge.

    Raises:
        ServerError: the server refused it.
    """
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


def doubts(
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
