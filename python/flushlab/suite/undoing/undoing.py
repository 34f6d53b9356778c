"""Undoing: resets of a server, undone by its log. Sits in `suite.undoing`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pymysql

from flushlab.record import Endpoint, ServerIdentity
from flushlab.suite.undoing.content import Content
from flushlab.suite.undoing.session import (
    MEANWHILE,
    CannotUndo,
    RowsNeeded,
    UndoneWrongly,
    UndoSession,
    await_transactions,
    writers,
)
from flushlab.suite.undoing.traces import Inverse, Log, Traces
from flushlab.units import counted

_LARGEST_TABLE = 1 << 20
"""Bytes of a table whose rows are kept, at most."""


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    rows: int
    tables: int
    cut: int

    def __str__(self) -> str:
        what = f"{counted(self.rows, 'row')} in {counted(self.tables, 'table')}" if self.tables else "no rows"
        ended = f"; {counted(self.cut, 'connection')} ended" if self.cut else ""
        return what + ended


class Undoing:
    """Undoes on a server from now on. `rows`: statements that insert a table's rows; shared by servers of a
    template."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: ServerIdentity,
        datadir: Path,
        rows: dict[str, Sequence[str]],
        *,
        verify: bool = False,
    ) -> None:
        self._rows = rows
        self._session = UndoSession(endpoint, identity)
        try:
            self._session.connect()
            self._log = Log(self._session, datadir)
            self._content = Content(self._session, verify=verify)
            self._traces = Traces(self._session, datadir)
            self._traces.begin()
        except BaseException:
            self._session.close()
            raise

    @property
    def number(self) -> int:
        return self._session.number

    def close(self) -> None:
        self._session.close()

    def keep_log(self) -> Path:
        return self._log.keep()

    def is_pristine(self) -> bool:
        return not self._log.has_grown()

    def undo(self, *, cut: bool = False) -> Undone:
        """Takes back what was committed since the last call; after `CannotUndo`, the data may be half
        undone."""
        try:
            return self._undo(cut)
        except pymysql.MySQLError as error:
            self.close()
            raise CannotUndo(f"an error of the server: {error.args[-1]}") from error
        except OSError as error:
            self.close()
            raise CannotUndo(str(error)) from error

    def trim(self) -> None:
        if self._session.is_open:
            for _ in range(self._log.trim()):
                self._traces.did("purge")

    def learn(self, tables: Iterable[str]) -> None:
        """Finds out the template's rows of small tables: they are deleted and put back.

        Raises:
            CannotUndo, pymysql.MySQLError, OSError: it failed, and rows may be missing.
        """
        for key in sorted(key for key in set(tables) if key not in self._rows):
            table = self._content.tables.get(key)
            if table is None or table.size > _LARGEST_TABLE:
                continue
            self._session.ask("SET SESSION sql_log_bin = 1")
            self._session.ask(f"DELETE FROM {table.sql}")
            self._session.ask("SET SESSION sql_log_bin = 0")
            inverse = self._log.inverse()
            self._apply(inverse, ())
            self._log.go_on(inverse.end)
            self._rows[key] = inverse.statements
        self._traces.begin()

    def _undo(self, cut: bool) -> Undone:
        self._session.connect()
        ended = await_transactions(self._session, cut=cut)
        if self._traces.look() and not cut:
            ended += await_transactions(self._session, cut=True)
        inverse = self._log.inverse()
        self._content.require_same(inverse)
        self._content.require_invertible(inverse.tables, inverse.emptied)
        anew, children = self._rows_anew(inverse)
        if not anew.issubset(one.key for one in inverse.emptied):
            tables = [self._content.tables[key] for key in anew]
            inverse = self._log.inverse([(one.schema, one.name) for one in tables])
        self._traces.require_harmless(
            inverse.truncations,
            partial(self._content.has_same_tables, inverse.emptied),
            self._content.has_same_databases,
        )
        unexplained = self._traces.commits() != inverse.transactions
        self._traces.restore_variables()
        touched = anew.union(one.key for one in inverse.tables)
        try:
            self._apply(inverse, anew)
            self._content.restore_numbers(touched, self._traces.did)
            self._content.verify(touched, children, unexplained=unexplained)
        except (CannotUndo, UndoneWrongly, pymysql.MySQLError) as error:
            if self._log.has_grown(inverse.end):
                raise CannotUndo(MEANWHILE) from error
            if not children or isinstance(error, UndoneWrongly):
                raise
            raise RowsNeeded("rows that a foreign key deleted or changed", children) from error
        self._log.go_on(inverse.end)
        if writers(self._session):
            raise CannotUndo(MEANWHILE)
        self._traces.go_on()
        if inverse.truncations:
            self._content.remember_tables()
        if self._log.shorten():
            self._traces.begin()
        return Undone(rows=sum(one.rows for one in inverse.tables), tables=len(touched), cut=ended)

    def _rows_anew(self, inverse: Inverse) -> tuple[set[str], set[str]]:
        """Tables that get the template's rows anew, and those that lack them.

        The latter are tables that a foreign key may have changed, without a word in the log.

        Raises:
            RowsNeeded: the rows are not known.
        """
        emptied = {one.key for one in inverse.emptied}
        if unknown := {key for key in emptied if key not in self._rows}:
            raise RowsNeeded("TRUNCATE TABLE", unknown)
        children = self._content.by_cascade(one.key for one in inverse.tables if one.updated or one.deleted)
        if all(key in self._rows for key in children):
            return emptied | children, set()
        return emptied, children

    def _apply(self, inverse: Inverse, anew: Iterable[str]) -> None:
        tables = [self._content.tables[key] for key in anew]
        if not inverse.statements and not tables:
            return
        ask = self._session.ask
        if not self._session.described:
            ask(f"BINLOG '{inverse.description}'")
            if self._session.is_mysql:
                ask("SET SESSION gtid_next = 'AUTOMATIC'")  # BINLOG leaves it as a replica has it
            self._session.described = True
        ask("BEGIN")
        for events in inverse.statements:
            ask(f"BINLOG '{events}'")
        for table in tables:
            ask(f"DELETE FROM {table.sql}")
            for events in self._rows[table.key]:
                ask(f"BINLOG '{events}'")
        ask("COMMIT")
