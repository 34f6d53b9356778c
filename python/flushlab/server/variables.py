"""Variables: reading and setting global variables, typed as the catalog types them.

Server layer; shared by every server that answers SQL. Knows nothing of restarts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flushlab.errors import UsageError, ValueOutOfRange
from flushlab.record import ServerIdentity, Value, Warning
from flushlab.settings.catalog import SettingHere, canonical, load_catalog
from flushlab.units import parse_size

Query = Callable[..., list[tuple[Any, ...]]]

_INTEGER = re.compile(r"-?\d+")
_REAL = re.compile(r"-?\d+\.\d+")
_SIZE = re.compile(r"\d+[KMGT]", re.IGNORECASE)


def setting_here(identity: ServerIdentity, name: str) -> SettingHere | None:
    """What the catalog knows of a setting on this server; None if nothing."""
    catalog = load_catalog()
    return catalog.here(name, identity.flavor, identity.version) if name in catalog else None


def read_variables(query: Query, identity: ServerIdentity, names: Iterable[str]) -> dict[str, Value]:
    """Global variables under the names asked for; unknown ones are left out."""
    wanted = {canonical(name): setting_here(identity, canonical(name)) for name in names}
    if not wanted:
        return {}
    variables = {name: here.variable if here else name for name, here in wanted.items()}
    marks = ", ".join(["%s"] * len(set(variables.values())))
    rows = query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", sorted(set(variables.values())))
    texts = {str(name).lower(): "" if text is None else str(text) for name, text in rows}
    return {
        name: typed(texts[variables[name]], here) for name, here in wanted.items() if variables[name] in texts
    }


def typed(text: str, here: SettingHere | None) -> Value:
    """A variable's text as a value: as the catalog types it, else a number if it looks like one."""
    if here is not None:
        try:
            return here.parse(text)
        except ValueOutOfRange:
            return text  # the server knows more than the catalog: what it says is what it is
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text


def set_variable(query: Query, identity: ServerIdentity, name: str, value: Value) -> None:
    """SET GLOBAL; whatever the server answers is the caller's to judge.

    Raises:
        ServerError: the server refused it.
    """
    here = setting_here(identity, name)
    query(f"SET GLOBAL {here.variable if here else name} = %s", [literal(value, here)])


def literal(value: Value, here: SettingHere | None) -> Value:
    """The value as SET takes it: numbers as numbers, sizes in bytes, all else as text."""
    if here is not None:
        try:
            return here.parse(value)
        except ValueOutOfRange:
            return value  # the server's own refusal is the better reason
    text = str(value).strip()
    if isinstance(value, str) and _SIZE.fullmatch(text):
        try:
            return parse_size(text)
        except UsageError:
            return value
    return typed(text, None) if isinstance(value, str) else value


def doubts(
    identity: ServerIdentity, asked: Mapping[str, Value], got: Mapping[str, Value]
) -> tuple[Warning, ...]:
    """Warnings for values that the server rounded, changed or does not show."""
    found = []
    for name, value in asked.items():
        if name not in got:
            text = f"{name} was set to {value}, but the server has no such variable"
            found.append(Warning("not-shown", text))
            continue
        here = setting_here(identity, name)
        if not same(value, got[name], here):
            rounded = isinstance(got[name], int) and isinstance(literal(value, here), int)
            text = f"{name} was set to {value}, and the server changed it to {got[name]}"
            found.append(Warning("rounded" if rounded else "differs", text))
    return tuple(found)


def same(one: Value, other: Value, here: SettingHere | None) -> bool:
    """True if two values mean the same to the server."""
    if here is not None:
        return here.same(one, other)
    first, second = (_plain(literal(value, None)) for value in (one, other))
    return first == second


def _plain(value: Value) -> Value:
    """ON and OFF as numbers and enumerations in one case, for settings whose type is not known."""
    if isinstance(value, str):
        return {"ON": 1, "TRUE": 1, "YES": 1, "OFF": 0, "FALSE": 0, "NO": 0}.get(value.upper(), value.upper())
    return value
