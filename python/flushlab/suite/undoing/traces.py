"""Traces: the connection that undoes, and what a test left: log, counters, variables, transactions."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pymysql

from flushlab import _core
from flushlab.machine import home_part
from flushlab.record import Endpoint, ServerIdentity
from flushlab.server.control import connect

COUNTER = "trx_commits_insert_update"
"""Transactions that ended with something to write: those that committed, and those that rolled it back."""

_LOCK_S = 1
"""Longest wait for a lock of another session, in whole seconds."""
_ANSWER_S = 60.0


class UndoSession:
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
    """Changes cannot be taken back row by row; the text is the cause."""


class RowsNeeded(CannotUndo):
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
    """On MySQL, one with READ COMMITTED that only read is missing if the list was read less than 0.1 s ago,
    except in a `whole` answer, which waits for it."""
    text = _status(session)
    numbers = _writing(text)
    if session.is_mysql and (whole or _reads(text) or session.list_age_s > _CACHED_S):
        numbers += _listed(session)
    return _with_commands(session, numbers)


def writers(session: UndoSession) -> list[tuple[int, str]]:
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
    found = _VIEWS.search(status)
    return found is not None and found[1] != "0"


def _listed(session: UndoSession) -> list[int]:
    """The list in information_schema.innodb_trx may be 0.1 s old, and is not renewed while it is read more
    often than that (storage/innobase/trx/trx0i_s.cc, CACHE_MIN_IDLE_TIME)."""
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


_HARMLESS = {
    "admin_commands", "begin", "binlog", "call_procedure", "change_db", "check", "checksum",
    "commit", "compound_sql", "create_temporary_table", "dealloc_sql", "delete", "delete_multi", "do",
    "drop_temporary_table", "empty_query", "execute_immediate", "execute_sql", "explain_other",
    "explain_stmt", "flush", "get_diagnostics", "ha_close", "ha_open", "ha_read", "help", "insert",
    "insert_select", "kill", "load", "lock_tables", "multi", "preload_keys", "prepare_sql",
    "release_savepoint", "replace", "replace_select", "resignal", "rollback", "rollback_to_savepoint",
    "savepoint", "select", "set_option", "signal", "stmt_close", "stmt_execute", "stmt_fetch",
    "stmt_prepare", "stmt_reprepare", "stmt_reset", "stmt_send_long_data", "unlock_tables", "update",
    "update_multi",
}  # fmt: skip
"""Statements (`Com_…`) that change rows, which are logged, or their session alone. `SHOW …` besides."""
_LOCKING = ("lock_tables", "flush")
"""FLUSH TABLES WITH READ LOCK, for one. The session keeps the lock, and nothing else tells of it."""
_TEMPORARY = ("create_table", "drop_table")
"""MySQL counts temporary tables here; what is not temporary is logged, or seen in the list of tables."""
_OF_DATABASES = ("create_db", "drop_db")
_MOVES = ("gtid_binlog_", "gtid_current_pos", "gtid_executed", "gtid_owned", "gtid_purged", "innodb_monitor_")
"""Beginnings of variables that change without SET GLOBAL, or are ours."""


class Traces:
    def __init__(self, session: UndoSession, datadir: Path) -> None:
        self._session = session
        self._persistent = datadir / "mysqld-auto.cnf"
        self._variables = self._read_variables()
        self._persisted = self._persisted_at()
        self._statements = dict[str, int]()
        self._now = dict[str, int]()
        self._commits = 0

    def begin(self) -> None:
        self._statements = self._now = self._read_statements()
        self._commits = self._read_commits()

    def go_on(self) -> None:
        self._statements = self._now
        self._commits = self._read_commits()

    def did(self, kind: str) -> None:
        self._now[kind] = self._now.get(kind, 0) + 1

    def commits(self) -> int:
        return self._read_commits() - self._commits

    def look(self) -> bool:
        self._now = self._read_statements()
        return any(self._now.get(name) != self._statements.get(name) for name in _LOCKING)

    def require_harmless(
        self, truncations: int, has_same_tables: Callable[[], bool], has_same_databases: Callable[[], bool]
    ) -> None:
        for name, count in self._now.items():
            before = self._statements.get(name, 0)
            if count < before:
                raise CannotUndo("FLUSH STATUS")
            if count == before or name in _HARMLESS or name.startswith("show_"):
                continue
            if name == "truncate" and count - before == truncations:
                continue
            if name in _OF_DATABASES and has_same_databases() and has_same_tables():
                continue  # it failed, as `CREATE DATABASE` of Django's --keepdb does, or it was IF EXISTS
            if name not in _TEMPORARY or not has_same_tables():
                raise CannotUndo(name.replace("_", " ").upper())

    def restore_variables(self) -> None:
        if self._now["set_option"] == self._statements["set_option"]:
            return
        if self._persisted_at() != self._persisted:
            raise CannotUndo("SET PERSIST")
        now = self._read_variables()
        changed = [name for name, value in self._variables.items() if now.get(name) != value]
        for name in changed:
            self._session.ask(f"SET GLOBAL {name} = {_literal(self._variables[name])}")
        if changed:
            now = self._read_variables()
        if left := [name for name, value in self._variables.items() if now.get(name) != value]:
            raise CannotUndo(f"SET GLOBAL {left[0]}")

    def _read_statements(self) -> dict[str, int]:
        rows = self._session.ask("SHOW GLOBAL STATUS LIKE 'Com\\_%'")
        return {str(name)[4:].lower(): int(value) for name, value in rows if str(value).isdecimal()}

    def _read_commits(self) -> int:
        rows = self._session.ask(
            f"SELECT count FROM information_schema.innodb_metrics WHERE name = '{COUNTER}'"
        )
        return int(rows[0][0])

    def _read_variables(self) -> dict[str, str | None]:
        rows = self._session.ask("SHOW GLOBAL VARIABLES")
        return {str(name): value for name, value in rows if not str(name).startswith(_MOVES)}

    def _persisted_at(self) -> tuple[int, int] | None:
        with contextlib.suppress(FileNotFoundError):
            facts = self._persistent.stat()
            return facts.st_mtime_ns, facts.st_size
        return None


def _literal(value: str | None) -> str:
    if value is None:
        return "NULL"
    try:
        float(value)
    except ValueError:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return value


MOST_BYTES = 64 << 20
"""More is not taken back row by row."""
_LONG = 16 << 20
"""A log that has grown to this is ended by the next undo."""


class TableName(msgspec.Struct, frozen=True):
    schema: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.schema}.{self.name}"


class Changed(TableName, frozen=True):
    """A table whose rows were changed, with their numbers, and columns that were not logged, from 0."""

    inserted: int
    updated: int
    deleted: int
    missing: Sequence[int]

    @property
    def rows(self) -> int:
        return self.inserted + self.updated + self.deleted


class Inverse(msgspec.Struct, frozen=True):
    end: int
    description: str
    statements: Sequence[str]
    tables: Sequence[Changed]
    emptied: Sequence[TableName]
    truncations: int
    transactions: int
    conditional: str | None
    barrier: str | None


class Log:
    def __init__(self, session: UndoSession, datadir: Path) -> None:
        self._session, self._datadir = session, datadir
        ((log, form, image),) = session.ask(
            "SELECT @@GLOBAL.log_bin, @@GLOBAL.binlog_format, @@GLOBAL.binlog_row_image"
        )
        if not log or form != "ROW" or image != "FULL":
            raise CannotUndo("no binary log of full rows")
        self._earlier: Path | None = None
        self._is_gone = False
        self._file, self._position = self._now()

    def inverse(self, without: Sequence[tuple[str, str]] = ()) -> Inverse:
        if self._is_gone:
            raise CannotUndo(f"more than {MOST_BYTES >> 20} MiB of binary log")
        try:
            told = _core.invert_binlog(str(self._file), self._position, MOST_BYTES, list(without))
        except FileNotFoundError:
            raise CannotUndo("a binary log that was removed") from None
        found = msgspec.json.decode(told, type=Inverse)
        if found.barrier is not None:
            raise CannotUndo(found.barrier)
        return found

    def has_grown(self, end: int | None = None) -> bool:
        try:
            return self._is_gone or self._file.stat().st_size != (self._position if end is None else end)
        except OSError:
            return True

    def go_on(self, end: int) -> None:
        if self.has_grown(end):
            raise CannotUndo(MEANWHILE)
        self._position = end

    def shorten(self) -> bool:
        if self._position <= _LONG:
            return False
        self._begin()
        return True

    def trim(self) -> int:
        if self._file.stat().st_size - self._position > MOST_BYTES:
            self._begin()
            self._is_gone = True
            return 1
        if self._earlier is not None:
            self._purge()
            return 1
        return 0

    def keep(self) -> Path:
        to = home_part("faults") / f"{self._datadir.parent.name}-{self._position}.binlog"
        shutil.copyfile(self._file, to)
        return to

    def _now(self) -> tuple[Path, int]:
        session = self._session
        words = "BINARY LOG" if session.is_mysql and session.identity.version >= (8, 2) else "MASTER"
        name, position, *_ = session.ask(f"SHOW {words} STATUS")[0]
        return self._datadir / name, int(position)

    def _begin(self) -> None:
        self._earlier = self._file
        self._session.ask("FLUSH BINARY LOGS")
        self._file, self._position = self._now()
        self._purge()

    def _purge(self) -> None:
        """Removes earlier files; MariaDB keeps them until InnoDB has synced its own, which takes a second."""
        self._session.ask(f"PURGE BINARY LOGS TO '{self._file.name}'")
        if self._earlier is not None and not self._earlier.exists():
            self._earlier = None
