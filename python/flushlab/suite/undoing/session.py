"""Session: the connection that undoes, the application's connections, and causes not to undo."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pymysql

from flushlab.record import Endpoint, ServerIdentity
from flushlab.server.control import connect

COUNTER = "trx_commits_insert_update"
"""Transactions that ended with something to write: those that committed, and those that rolled it back."""

_LOCK_S = 1
"""Longest wait for a lock of another session, in whole seconds."""
_ANSWER_S = 60.0


class UndoSession:
    """A connection over the socket, made by `connect`; statement errors are PyMySQL's.

    Attributes:
        identity: of the server.
        number: its id on the server.
        described: it knows the form of the log's events.
    """

    def __init__(self, endpoint: Endpoint, identity: ServerIdentity) -> None:
        self.identity = identity
        self.number = 0
        self.described = False
        self._list_read_s = -1.0
        self._endpoint = endpoint
        self._connection: pymysql.connections.Connection[Any] | None = None

    @property
    def is_mysql(self) -> bool:
        return self.identity.flavor == "mysql"

    @property
    def list_age_s(self) -> float:
        """Seconds since the list of transactions was read; long if it never was."""
        return time.monotonic() - self._list_read_s

    def list_read(self) -> None:
        self._list_read_s = time.monotonic()

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.open

    def connect(self) -> None:
        if self.is_open:
            return
        self._connection = connect(self._endpoint, "socket", answer_s=_ANSWER_S, connect_s=10.0)
        self.described = False
        expiry = self.is_mysql and self.identity.version >= (8,)
        self.ask(
            "SET SESSION sql_log_bin = 0, group_concat_max_len = 1000000, foreign_key_checks = 0,"
            f" lock_wait_timeout = {_LOCK_S}, innodb_lock_wait_timeout = {_LOCK_S}"
            f"{', information_schema_stats_expiry = 0' if expiry else ''}"
        )
        self.ask(f"SET GLOBAL innodb_monitor_enable = '{COUNTER}'")
        ((self.number,),) = self.ask("SELECT CONNECTION_ID()")

    def ask(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        assert self._connection is not None, "it is connected first"
        with self._connection.cursor() as cursor:
            cursor.execute(sql, tuple(args) or None)
            return list(cursor.fetchall())

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                self._connection.close()
            self._connection = None


MEANWHILE = "a session that wrote meanwhile"


class CannotUndo(Exception):
    """What was done cannot be taken back row by row; the text is the cause."""


class RowsNeeded(CannotUndo):
    """What was done could be taken back by someone who knows the template's rows of some tables.

    Attributes:
        tables: those, for `Undoing.learn`.
    """

    def __init__(self, cause: str, tables: Iterable[str]) -> None:
        super().__init__(cause)
        self.tables = frozenset(tables)


class UndoneWrongly(Exception):
    """The data are not as they were, although all that changed them was taken back."""


_PATIENCE_S = 0.1
"""A transaction whose client is silent for so long is ended."""
_BUSY_S = 5.0
"""Longest wait for one that is at work."""
_LOOK_S = 0.002
_TRUNCATED = "\n... truncated...\n"
_VIEWS = re.compile(r"(\d+) read views open inside InnoDB")
_CACHED_S = 0.11
_THREAD = re.compile(r"(?:MySQL|MariaDB) thread id (\d+)")


def await_transactions(session: UndoSession, *, cut: bool) -> int:
    """Waits until nobody has a transaction, and ends connections that are idle in theirs; how many."""
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


def holders(session: UndoSession, *, whole: bool = False) -> list[tuple[int, str]]:
    """Connections in a transaction, with what they do.

    On MySQL, one with READ COMMITTED that only read is missing if the list was read less than 0.1 s ago,
    except in a `whole` answer, which waits for it.
    """
    text = _status(session)
    numbers = _writing(text)
    if session.is_mysql and (whole or _reads(text) or session.list_age_s > _CACHED_S):
        numbers += _listed(session)
    return _with_commands(session, numbers)


def writers(session: UndoSession) -> list[tuple[int, str]]:
    """Those of a transaction that wrote or locked; on MariaDB those that read, too."""
    return _with_commands(session, _writing(_status(session)))


def _status(session: UndoSession) -> str:
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


def _listed(session: UndoSession) -> list[int]:
    """Numbers of connections in a transaction of any kind.

    What information_schema.innodb_trx shows may be 0.1 s old, and is not renewed while it is read more often
    than that (storage/innobase/trx/trx0i_s.cc, CACHE_MIN_IDLE_TIME).
    """
    time.sleep(max(0.0, _CACHED_S - session.list_age_s))
    rows = session.ask("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx")
    session.list_read()
    return [int(number) for (number,) in rows]


def _with_commands(session: UndoSession, numbers: Iterable[int]) -> list[tuple[int, str]]:
    others = set(numbers) - {session.number}
    if not others:
        return []
    does = {int(row[0]): str(row[4]) for row in session.ask("SHOW PROCESSLIST")}
    return [(number, does.get(number, "")) for number in sorted(others)]


def _all(session: UndoSession) -> list[int]:
    system = ("system user", "event_scheduler")
    rows = session.ask("SHOW PROCESSLIST")
    return [int(row[0]) for row in rows if int(row[0]) != session.number and row[1] not in system]


def _kill(session: UndoSession, numbers: Iterable[int]) -> int:
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
