"""Variables: reading and setting global variables, typed as the catalog types them.

Server layer; shared by every server that answers SQL. Knows nothing of restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flushlab.record import ServerIdentity, Value, Warning
from flushlab.settings.catalog import canonical
from flushlab.settings.configuration import Configuration, literal, typed

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
    return {
        name: typed(texts[variables[name]], here) for name, here in wanted.items() if variables[name] in texts
    }


def set_variable(query: Query, identity: ServerIdentity, name: str, value: Value) -> None:
    """SET GLOBAL; whatever the server answers is the caller's to judge.

    Raises:
        ServerError: the server refused it.
    """
    here = Configuration({}, identity).here(name)
    query(f"SET GLOBAL {here.variable if here else name} = %s", [literal(value, here)])


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
