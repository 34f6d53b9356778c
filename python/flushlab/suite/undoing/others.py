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
_VIEWS = re.compile(r"(\d+) read views open inside InnoDB")
_CACHED_S = 0.11
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
    found = holders(session)
    began = time.monotonic()
    while found:
        waited_s = time.monotonic() - began
        idle = [number for number, command in found if command == "Sleep"]
        if waited_s > _PATIENCE_S and not all(command for _, command in found):
            raise CannotUndo("a transaction without a connection, as XA PREPARE leaves it")
        if waited_s > _PATIENCE_S and idle:
            ended += _kill(session, idle)
        elif waited_s > _BUSY_S:
            raise CannotUndo(f"a connection that is in a transaction for {waited_s:.0f} s")
        time.sleep(_LOOK_S)
        found = holders(session, whole=True)
    return ended


def holders(session: Session, *, whole: bool = False) -> list[tuple[int, str]]:
    """Connections in a transaction, with what they do.

    On MySQL, one with READ COMMITTED that only read is missing if the list was read less than 0.1 s ago,
    except in a `whole` answer, which waits for it.
    """
    text = _status(session)
    numbers = _writing(text)
    if session.is_mysql and (whole or _reads(text) or session.list_age_s > _CACHED_S):
        numbers += _listed(session)
    return _with_commands(session, numbers)


def writers(session: Session) -> list[tuple[int, str]]:
    """Those of a transaction that wrote or locked; on MariaDB those that read, too."""
    return _with_commands(session, _writing(_status(session)))


def _status(session: Session) -> str:
    text = str(session.ask("SHOW ENGINE INNODB STATUS")[0][2])
    if _TRUNCATED in text:
        raise CannotUndo("too many transactions for one list")
    return text


def _writing(status: str) -> list[int]:
    """Numbers of connections, 0 for a transaction without one; MySQL leaves out those that only read."""
    parts = [one for one in status.split("---TRANSACTION ")[1:] if ", ACTIVE" in one.partition("\n")[0]]
    return [int(found[1]) if (found := _THREAD.search(one)) else 0 for one in parts]


def _reads(status: str) -> bool:
    """Whether somebody has a snapshot; with READ COMMITTED nobody has between two statements."""
    found = _VIEWS.search(status)
    return found is not None and found[1] != "0"


def _listed(session: Session) -> list[int]:
    """Numbers of connections in a transaction of any kind.

    What information_schema.innodb_trx shows may be 0.1 s old, and is not renewed while it is read more often
    than that (storage/innobase/trx/trx0i_s.cc, CACHE_MIN_IDLE_TIME).
    """
    time.sleep(max(0.0, _CACHED_S - session.list_age_s))
    rows = session.ask("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx")
    session.list_read()
    return [int(number) for (number,) in rows]


def _with_commands(session: Session, numbers: Iterable[int]) -> list[tuple[int, str]]:
    others = set(numbers) - {session.number}
    if not others:
        return []
    does = {int(row[0]): str(row[4]) for row in session.ask("SHOW PROCESSLIST")}
    return [(number, does.get(number, "")) for number in sorted(others)]


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
