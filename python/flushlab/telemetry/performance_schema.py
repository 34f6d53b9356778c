"""performance_schema: whether it is on, reading its counters, switching it on.

Telemetry layer. By default performance_schema is on in MySQL and off in MariaDB. Only a start with `SETTINGS`
changes the default. Tables of performance_schema list the instruments and consumers that count; `switch_on`
changes these tables while the server runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.errors import ServerError
from flushlab.record import Value
from flushlab.server.control import StatementFailed
from flushlab.server.identifier import account_of
from flushlab.server.protocol import Server

SETTINGS: Mapping[str, Value] = {"performance_schema": "ON"}
"""With which a server must start for the collectors to see anything."""

OFF = "performance_schema is OFF: start the server with performance_schema=ON"

_LACKS = "the account lacks SELECT on performance_schema"

_DENIED = {1044, 1142, 1143}
"""ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR."""

PICOSECONDS = 1e-12
"""Unit of its timers (manual: "Timers in the Performance Schema tables use picoseconds")."""

Key = tuple[str, ...]
Counters = Mapping[Key, tuple[int, ...]]
"""What is counted since the server's start, by what it belongs to."""


class Reading(msgspec.Struct, frozen=True):
    """What one collector read at one moment.

    Attributes:
        counters: empty where the server reports nothing.
        note: the missing counters and the reason; empty if none is missing.
    """

    counters: Counters = {}
    note: str = ""


def is_on(server: Server) -> bool:
    """True if the server started with it; older and stripped-down servers do not have it."""
    rows = server.query("SHOW GLOBAL VARIABLES LIKE 'performance_schema'")
    return bool(rows) and str(rows[0][1]).upper() in ("ON", "1")


def read(server: Server, summary: str, *, key_columns: int, instruments: str) -> Reading:
    """The counters since the server's start, or why there are none.

    Args:
        server: to ask.
        summary: statement that yields `key_columns` names, then integers.
        key_columns: of the names.
        instruments: pattern of those that must count for it.

    Raises:
        ServerDied: the server is gone.
    """
    try:
        if not is_on(server):
            return Reading(note=OFF)
        counters = {
            tuple(str(name) for name in row[:key_columns]): tuple(int(count) for count in row[key_columns:])
            for row in server.query(summary)
        }
        return Reading(counters, partly_off(server, instruments))
    except ServerError as error:
        return refused(server, error)


def refused(server: Server, error: ServerError) -> Reading:
    """What a collector read where the server said no, for want of a right or of a table.

    Raises:
        ServerError: the server is gone.
    """
    if not server.alive():
        raise error
    if not isinstance(error, StatementFailed):
        return Reading(note=error.message)
    if error.errno not in _DENIED:
        return Reading(note=f"{error.text} (error {error.errno})")
    account = account_of(str(server.query("SELECT CURRENT_USER()")[0][0]))
    return Reading(note=f"{_LACKS} (GRANT SELECT ON performance_schema.* TO {account})")


def partly_off(server: Server, instruments: str) -> str:
    """Says so if not all instruments of that pattern count and time; else empty."""
    ((count, on),) = server.query(
        "SELECT COUNT(*), SUM(ENABLED = 'YES' AND TIMED = 'YES') FROM performance_schema.setup_instruments"
        f" WHERE NAME LIKE '{instruments}'"
    )
    return "" if int(on or 0) == int(count) else f"{int(on or 0)} of {count} instruments {instruments} are on"


def switch_on(server: Server, instruments: str) -> None:
    """Makes the instruments of that pattern count and time, in every connection."""
    server.query(
        "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'"
        f" WHERE NAME LIKE '{instruments}'"
    )
    server.query(
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'"
        " WHERE NAME IN ('global_instrumentation', 'thread_instrumentation')"
    )


def leave_out_this_connection(server: Server) -> None:
    """Lets flushlab's own statements not count."""
    server.query(
        "UPDATE performance_schema.threads SET INSTRUMENTED = 'NO' WHERE PROCESSLIST_ID = CONNECTION_ID()"
    )


def deltas(before: Counters, after: Counters) -> dict[Key, tuple[int, ...]]:
    """What was counted in between; a counter that went back was begun anew (another file of that name)."""
    found = {}
    for key, counts in after.items():
        start = before.get(key, (0,) * len(counts))
        fresh = any(now < then for now, then in zip(counts, start, strict=True))
        found[key] = counts if fresh else tuple(n - t for n, t in zip(counts, start, strict=True))
    return found
