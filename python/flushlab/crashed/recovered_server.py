"""Recovered server: a server on what a crash has left, and what it answers."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flushlab.crashed import binlog, judge
from flushlab.crashed.acks import TABLE, Note
from flushlab.crashed.judge import Commits, RecoveredServer
from flushlab.errors import ServerDied, ServerError, StartFailed
from flushlab.record import Crash, CrashPoint
from flushlab.server import Sandbox
from flushlab.server.control import StatementFailed
from flushlab.server.databases import SYSTEM_LIST
from flushlab.server.sandbox import failures

_MOST_SAID = 400
_ERROR = re.compile(r"\d{4}-\d\d.*\[(ERROR|FATAL)\]|.*\bAssertion\b", re.IGNORECASE)
IDLE_S = 60.0
"""A server that is not ready, and has done nothing for so long, does not start: MySQL 9.7 waits for ever for
pages that neither their place nor the doublewrite file has whole."""
_ANSWER_S = 900.0
"""Longest wait for one answer."""
CANNOT_NOW = {1021, 1037, 1038, 1040, 1041, 1047, 1205}
"""Errors that tell of no damage: no space, no memory, too many connections, no quorum, a lock."""
_DYING_S = 30.0
"""A server that ends itself writes a stack trace first, and nobody has an answer meanwhile."""
_POLL_S = 0.05


class AcksTable(NamedTuple):
    """The acknowledgement table on a server.

    Attributes:
        database: schema of the acknowledgement table.
        rows: of each of its transactions.
        alone: there are no transactions but its own.
    """

    database: str
    rows: int
    alone: bool = False


def ask(server: Sandbox, acks: AcksTable | None) -> RecoveredServer:
    """Asks a server that has come back from a crash, kills it, starts it again and asks again.

    Args:
        server: it runs; at the end it does too, or never again.
        acks: the acknowledgement table; None: only the soundness of the tables is checked.

    Raises:
        FlushlabError: flushlab cannot look: no memory, no space, no answer from a server that lives.
    """
    try:
        found = look(server, acks)
    except ServerError as error:
        if isinstance(error, StatementFailed):
            if error.errno in CANNOT_NOW:
                raise
        elif not isinstance(error, ServerDied) and not dies(server):
            raise
        if server.was_killed:
            raise failures.killed("the server") from error
        return RecoveredServer(None if acks is None else {}, extra=(f"its tables cannot be read: {error}",))
    try:
        server.kill()
        server.start_again()
        again = _rows(server, acks) if acks else None
    except (StartFailed, ServerDied, StatementFailed) as error:
        if isinstance(error, StartFailed) and error.unfinished:
            raise
        if isinstance(error, StatementFailed) and error.errno in CANNOT_NOW:
            raise
        if server.was_killed:
            raise failures.killed("the server") from error
        return found._replace(not_again=said(str(error)))
    return found._replace(again=again)


def dies(server: Sandbox) -> bool:
    """Whether a server that gave no answer is dead, or so in a moment."""
    until = time.monotonic() + _DYING_S
    while server.alive():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True


def unfinished(error: StartFailed) -> str:
    """What became of a server that was still at work when nobody waited any longer, without its log."""
    return error.message.splitlines()[0].removesuffix("; its log says:")


def not_ready(point: CrashPoint, notes: Sequence[Note], error: StartFailed) -> Crash:
    """A crash after which the server does not start; unknown if it was still at work."""
    if error.unfinished:
        return judge.unknown(point, notes, unfinished(error))
    return judge.not_started(point, notes, said(error.message))


def said(message: str) -> str:
    """Why a server does not start: the first errors of its log, in one line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return " / ".join(errors[:2] or lines[-1:])[:_MOST_SAID]


def look(server: Sandbox, acks: AcksTable | None) -> RecoveredServer:
    """Asks a server, and leaves it as it is.

    Raises:
        ServerError: it does not answer in time, or cannot read its tables.
    """
    server.answer_s = _ANSWER_S
    commits = _rows(server, acks) if acks else None
    broken: Sequence[tuple[int, int]] = ()
    events: Mapping[int, Commits] | str | None = None
    gtids: int | None = None
    if acks:
        broken = [
            (int(connection), int(counter))
            for connection, counter in server.query(
                f"SELECT c, n FROM {acks.database}.{TABLE} GROUP BY c, n HAVING COUNT(*) <> {acks.rows}"
            )
        ]
        events = _binlog(server)
        if acks.alone:
            gtids = _gtids(server)
    damaged = _damaged(server)
    return RecoveredServer(commits, broken=broken, damaged=damaged, binlog=events, gtids=gtids)


def _rows(server: Sandbox, acks: AcksTable) -> dict[int, Commits]:
    table = f"{acks.database}.{TABLE}"
    rows = server.query(f"SELECT c, COUNT(DISTINCT n), MAX(n) FROM {table} GROUP BY c")
    return {int(connection): Commits(int(count), int(last)) for connection, count, last in rows}


def _binlog(server: Sandbox) -> Mapping[int, Commits] | str | None:
    """What the binary log has; why it cannot be read; None if it is off."""
    ((on, base),) = server.query("SELECT @@log_bin, @@log_bin_basename")
    if not int(on):
        return None
    folder = (server.datadir / str(base)).parent
    files = [folder / str(row[0]) for row in server.query("SHOW BINARY LOGS")]
    try:
        return binlog.commits(files)
    except (binlog.Unreadable, OSError) as error:
        return str(error)


def _gtids(server: Sandbox) -> int | None:
    """Transactions that its GTIDs count since the acknowledgement table was created; None without GTIDs."""
    if server.identity.flavor == "mariadb":
        ((on, state),) = server.query("SELECT @@log_bin, @@gtid_binlog_state")
        return counted_mariadb(str(state)) if int(on) else None
    ((mode, executed),) = server.query("SELECT @@gtid_mode, @@gtid_executed")
    return counted_mysql(str(executed)) if mode == "ON" else None


def counted_mariadb(state: str) -> int:
    """Transactions of a `gtid_binlog_state` that was empty once: `DOMAIN-SERVER-NUMBER`, the last of each."""
    return sum(int(one.rsplit("-", 1)[1]) for one in state.split(",") if one.strip())


def counted_mysql(executed: str) -> int:
    """Transactions of a set of GTIDs: `UUID:1-5:7`."""
    count = 0
    for one in executed.split(","):
        for interval in one.strip().split(":")[1:]:
            first, _, last = interval.partition("-")
            count += int(last or first) - int(first) + 1
    return count


def _damaged(server: Sandbox) -> list[str]:
    tables = server.query(
        "SELECT table_schema, table_name FROM information_schema.tables"
        f" WHERE table_type = 'BASE TABLE' AND table_schema NOT IN {SYSTEM_LIST}"
    )
    if not tables:
        return []
    listed = ", ".join(f"`{schema}`.`{name}`" for schema, name in tables)
    said = [row for row in server.query(f"CHECK TABLE {listed}") if row[2] != "note"]  # it cannot be checked
    return [f"CHECK TABLE {row[0]}: {row[3]}" for row in said if row[2] != "status" or row[3] != "OK"]
