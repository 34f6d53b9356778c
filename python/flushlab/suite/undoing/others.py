"""Others: the application's connections, which stay unless they hold a transaction.

Sits in `suite.undoing`.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable

import pymysql

from flushlab.suite.undoing.causes import CannotUndo
from flushlab.suite.undoing.session import Session

_PATIENCE_S = 0.1
"""A transaction whose client is silent for so long is ended."""
_BUSY_S = 5.0
"""Longest wait for one that is at work."""
_LOOK_S = 0.002
_TRUNCATED = "\n... truncated...\n"
_THREAD = re.compile(r"(?:MySQL|MariaDB) thread id (\d+)")


def await_transactions(session: Session, *, cut: bool) -> int:
    """Waits until nobody has a transaction, and ends connections that do nothing in theirs; how many.

    Args:
        session: that undoes.
        cut: end all connections first.

    Raises:
        CannotUndo: one works on in its transaction.
    """
    ended = _kill(session, _all(session)) if cut else 0
    began = time.monotonic()
    while found := holders(session):
        waited_s = time.monotonic() - began
        idle = [number for number, command in found if command == "Sleep"]
        if waited_s > _PATIENCE_S and not all(command for _, command in found):
            raise CannotUndo("a transaction without a connection, as XA PREPARE leaves it")
        if waited_s > _PATIENCE_S and idle:
            ended += _kill(session, idle)
        elif waited_s > _BUSY_S:
            raise CannotUndo(f"a connection that is in a transaction for {waited_s:.0f} s")
        time.sleep(_LOOK_S)
    return ended


def holders(session: Session) -> list[tuple[int, str]]:
    """Connections in a transaction, with what they do.

    Not by information_schema.innodb_trx: what it shows may be 0.1 s old, and is not renewed while it is read
    more often than that (storage/innobase/trx/trx0i_s.cc, CACHE_MIN_IDLE_TIME).
    """
    text = str(session.ask("SHOW ENGINE INNODB STATUS")[0][2])
    if _TRUNCATED in text:
        raise CannotUndo("too many transactions for one list")
    parts = [one for one in text.split("---TRANSACTION ")[1:] if ", ACTIVE" in one.partition("\n")[0]]
    if not parts:
        return []
    numbers = [int(found[1]) if (found := _THREAD.search(one)) else 0 for one in parts]
    does = {int(row[0]): str(row[4]) for row in session.ask("SHOW PROCESSLIST")}
    return [(number, does.get(number, "")) for number in numbers if number != session.number]


def _all(session: Session) -> list[int]:
    system = ("system user", "event_scheduler")
    rows = session.ask("SHOW PROCESSLIST")
    return [int(row[0]) for row in rows if int(row[0]) != session.number and row[1] not in system]


def _kill(session: Session, numbers: Iterable[int]) -> int:
    killed = set(numbers)
    for number in killed:
        with contextlib.suppress(pymysql.MySQLError):  # it has left meanwhile
            session.ask(f"KILL {number}")
    limit = time.monotonic() + _BUSY_S
    while killed & {int(row[0]) for row in session.ask("SHOW PROCESSLIST")}:
        if time.monotonic() > limit:
            raise CannotUndo("a connection that does not end")
        time.sleep(_LOOK_S)
    return len(killed)
