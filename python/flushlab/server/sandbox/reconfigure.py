"""Reconfigure: other settings for a running sandbox, at run time where that works, else by a restart."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flushlab.errors import NoSpace, StartFailed, ValueOutOfRange
from flushlab.record import Value
from flushlab.server.control import READ_ONLY_VARIABLE, StatementFailed
from flushlab.server.protocol import Applied, Refusal, Server
from flushlab.server.sandbox import log
from flushlab.server.sql import changed_values, set_variable
from flushlab.settings.configuration import Configuration

if TYPE_CHECKING:
    from flushlab.server.sandbox.sandbox import Sandbox

RESIZE_LIMIT_S = 60.0
"""Longest wait for the buffer pool's new size; what is read back then counts."""

_POOL_SIZE = "innodb_buffer_pool_size"
_RESIZED = ("Completed", "Size did not change", "Resizing buffer pool failed")
_POLL_S = 0.002
_NOT_NOW = "it cannot be changed while the server runs, and the arms share one server"


def apply(server: Sandbox, asked: Mapping[str, Value]) -> Applied:
    reasons = {name: _set_now(server, name, value) for name, value in asked.items()}
    refused = [Refusal(name=name, value=asked[name], reason=why) for name, why in reasons.items() if why]
    now = {name: asked[name] for name, why in reasons.items() if why is None}
    later = {name: asked[name] for name, why in reasons.items() if why == ""}
    server.note_settings({**server.settings, **now})
    if later:
        refused += _set_by_restart(server, later)
    out = {refusal.name for refusal in refused}
    accepted = {name: value for name, value in asked.items() if name not in out}
    got = server.read_back(accepted)
    return Applied(
        settings=got,
        refused=tuple(refused),
        restarted=bool(later),
        warnings=changed_values(server.identity, accepted, got),
    )


def switch(server: Server, asked: Mapping[str, Value]) -> tuple[Refusal, ...]:
    reasons = {name: _set_now(server, name, value) for name, value in asked.items()}
    return tuple(
        Refusal(name=name, value=asked[name], reason=why or _NOT_NOW)
        for name, why in reasons.items()
        if why is not None
    )


def _set_now(server: Server, name: str, value: Value) -> str | None:
    here = Configuration({}, server.identity).here(name)
    if here is not None and not here.dynamic:
        try:
            here.parse(value)
        except ValueOutOfRange as error:
            return error.message
        got = server.read_back([name])
        return None if name in got and here.same(value, got[name]) else ""
    try:
        set_variable(server.query, server.identity, name, value)
    except StatementFailed as error:
        takes_restart = error.errno == READ_ONLY_VARIABLE or (here is not None and here.partly_dynamic)
        return "" if takes_restart else error.text
    if name == _POOL_SIZE:
        _await_resize(server)
    if here is not None and here.partly_dynamic and not here.same(value, server.read_back([name])[name]):
        return ""  # taken, and without effect
    return None


def _await_resize(server: Server) -> None:
    """MySQL (and older MariaDB) resizes the buffer pool behind SET's back, and tells how far it is.

    Without waiting, the size before it would be read back. The status is set before SET returns.
    """
    deadline = time.monotonic() + RESIZE_LIMIT_S
    while time.monotonic() < deadline:
        rows = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status'")
        if not rows or not str(rows[0][1]) or str(rows[0][1]).startswith(_RESIZED):
            return
        time.sleep(_POLL_S)


def _set_by_restart(server: Sandbox, wanted: Mapping[str, Value]) -> list[Refusal]:
    before = dict(server.settings)
    remaining = dict(wanted)
    refused: list[Refusal] = []
    while True:
        try:
            server.restart({**before, **remaining})
            return refused
        except (StartFailed, NoSpace) as error:
            if not remaining:
                raise
            said = server.said_since_start()
            named = log.refused_name(said, remaining)
            if isinstance(error, NoSpace) and named not in remaining:
                server.restart(before)
                raise
            out = [named] if named in remaining else list(remaining)
            reason = log.refusal_from_log(said, remaining) or log.digest(said, 1) or error.message
            refused += [Refusal(name=name, value=remaining.pop(name), reason=reason) for name in out if name]
