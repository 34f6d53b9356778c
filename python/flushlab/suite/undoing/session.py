"""Session: the connection that undoes; what it does is not logged. Sits in `suite.undoing`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import pymysql

from flushlab.record import Endpoint, ServerIdentity
from flushlab.server.control import connect

COUNTER = "trx_commits_insert_update"
"""Transactions that ended with something to write: those that committed, and those that rolled it back."""

_LOCK_S = 1
"""Longest wait for a lock of another session, in whole seconds."""
_ANSWER_S = 60.0


class Session:
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
        """Whether the server is MySQL."""
        return self.identity.flavor == "mysql"

    @property
    def list_age_s(self) -> float:
        """Seconds since the list of transactions was read; long if it never was."""
        return time.monotonic() - self._list_read_s

    def list_read(self) -> None:
        """Notes that it is being read."""
        self._list_read_s = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether it is connected, as far as it knows."""
        return self._connection is not None and self._connection.open

    def connect(self) -> None:
        """Connects, if it is not.

        Raises:
            pymysql.MySQLError, OSError: the server does not answer.
        """
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
        """The rows that a statement returns."""
        assert self._connection is not None, "it is connected first"
        with self._connection.cursor() as cursor:
            cursor.execute(sql, tuple(args) or None)
            return list(cursor.fetchall())

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                self._connection.close()
            self._connection = None
