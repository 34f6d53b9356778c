"""Report of the doctor on the server's state: lines for the terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.diagnosis.state import SettingState, State
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import load_catalog

_ALWAYS = (
    *("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite"),
    *("innodb_flush_method", "innodb_buffer_pool_size", "innodb_redo_log_capacity", "innodb_log_file_size"),
)
"""Shown with their defaults, too."""


def state_lines(state: State, server: ServerIdentity) -> Iterator[str]:
    """Settings with their sources, mistakes of option files, and what the version does; one fact per line."""
    for one in state.settings:
        if one.name in _ALWAYS or one.origin not in ("default", "computed", None) or _changes(one):
            yield f"{one.name}={_shown(one.name, one.value, server)}{_origin(one)}{_restart(one, server)}"
    for problem in state.problems:
        hint = f" ({problem.hint})" if problem.hint else ""
        yield f"{problem.place}: {problem.text}{hint}"
    yield from state.by_itself
    yield from (f"not seen: {text}" for text in state.unseen)


def restart_changes(state: State, server: ServerIdentity) -> list[str]:
    """Settings that a restart changes, as far as that is known."""
    return [
        f"{one.name} {_shown(one.name, one.value, server)} to {_shown(one.name, one.at_restart, server)}"
        for one in state.settings
        if one.at_restart is not None
    ]


def _changes(one: SettingState) -> bool:
    return one.at_restart is not None or bool(one.restart_origin)


def _origin(one: SettingState) -> str:
    """Empty if it is not known: a line of its own says why."""
    if one.origin is None:
        return ""
    if one.origin == "SET":
        who = f" by {one.account}" if one.account else ""
        return f": SET GLOBAL{who}{f', {one.at}' if one.at else ''}"
    return f": {one.place or one.origin}"


def _restart(one: SettingState, server: ServerIdentity) -> str:
    if one.at_restart is not None:
        return f"; after a restart {_shown(one.name, one.at_restart, server)} ({one.restart_origin})"
    return "; a restart loses it, unless an option file has it" if one.restart_origin else ""


def _shown(name: str, value: Value, server: ServerIdentity) -> str:
    here = load_catalog().require(name, server.flavor, server.version)
    return here.render(value) if here.same(value, value) else str(value)
