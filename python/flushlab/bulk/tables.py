"""Tables: those that rows go to, there or made; and flushlab's own, beside them for the time of a load.

Sits in `bulk`. Promises: nothing is made, and no row removed, without its flag. A table that has a name of
flushlab's own without its mark, the comment, is somebody else's: it is an error, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flushlab.errors import UsageError
from flushlab.generate.plan import FillPlan, PlanTable
from flushlab.record import Warning
from flushlab.server.control import StatementFailed
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted
from flushlab.spec.kinds import FillSpec
from flushlab.units import counted

_MARK = "made by flushlab fill"
_TRUNCATE_ILLEGAL = 1701
"""ER_TRUNCATE_ILLEGAL_FK: another table refers to it."""


class Tables:
    """The tables of a plan in a database; missing ones are made if `asked` or `create` says so.

    Attributes:
        made: names of those that were made here.
        warnings: caveats about those that were there.
    """

    def __init__(self, server: Server, database: str, asked: FillSpec, *, create: bool) -> None:
        self._server = server
        self._database = database
        self._asked = asked
        self._create = asked.create or create
        self.made: set[str] = set()
        self.warnings: list[Warning] = []

    def prepare(self, plan: FillPlan) -> dict[str, int]:
        """Makes the tables ready; the first row for each."""
        there = self._names()
        first = {table.name: self._first_row(table, there) for table in plan.tables}
        if self._asked.truncate:
            for table in reversed(plan.tables):
                self._truncate(quoted(self._database, table.name), table.name)
        return first

    def _names(self) -> set[str]:
        """Names of the tables; makes the database if it is missing."""
        query, database = self._server.query, self._database
        if not query("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (database,)):
            if not self._create:
                raise UsageError(f"there is no database {database}", hint="--create makes it, and the tables")
            query(f"CREATE DATABASE {quoted(database)}")
        rows = query("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (database,))
        return {str(name) for (name,) in rows}

    def _first_row(self, table: PlanTable, there: set[str]) -> int:
        if table.name not in there:
            if not self._create:
                raise UsageError(
                    f"there is no table {table.name} in {self._database}",
                    hint="--create makes it as planned",
                )
            self._server.query(f"USE {quoted(self._database)}")
            self._server.query(table.create)
            self.made.add(table.name)
            return 0
        self._require_columns(table)
        rows = count(self._server, self._database, table.name)
        if rows and not self._asked.append and not self._asked.truncate:
            raise UsageError(
                f"the table {table.name} has {counted(rows, 'row')} already",
                hint="--append adds to them; --truncate removes them first",
            )
        return rows if self._asked.append else 0

    def _truncate(self, table: str, name: str) -> None:
        """Removes all rows; where the server does not truncate, rows that refer to others let go first."""
        try:
            self._server.query(f"TRUNCATE TABLE {table}")
            return
        except StatementFailed as error:
            if error.errno != _TRUNCATE_ILLEGAL:
                raise
        for (column,) in self._server.query(
            "SELECT DISTINCT k.column_name FROM information_schema.key_column_usage k"
            " JOIN information_schema.columns c USING (table_schema, table_name, column_name)"
            " WHERE k.table_schema = %s AND k.table_name = %s AND k.referenced_table_schema = k.table_schema"
            " AND k.referenced_table_name = k.table_name AND c.is_nullable = 'YES'",
            (self._database, name),
        ):
            self._server.query(f"UPDATE {table} SET {quoted(str(column))} = NULL")
        self._server.query(f"DELETE FROM {table}")

    def _require_columns(self, table: PlanTable) -> None:
        where = (self._database, table.name)
        rows = self._server.query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
            where,
        )
        ((engine,),) = self._server.query(
            "SELECT engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", where
        )
        if str(engine).lower() != "innodb":
            text = (
                f"{table.name} is a table of {engine}: what a refused statement brought stays, and a load"
                " that is cut short cannot be resumed exactly"
            )
            self.warnings.append(Warning("not-transactional", text))
        missing = [name for name in table.columns if name not in {str(column) for (column,) in rows}]
        if missing:
            raise UsageError(
                f"the table {table.name} has no column {missing[0]}",
                hint="change the plan, or drop the table and use --create",
            )


def count(server: Server, database: str, table: str) -> int:
    """Rows in a table."""
    ((rows,),) = server.query(f"SELECT COUNT(*) FROM {quoted(database, table)}")
    return int(rows)


def is_there(server: Server, database: str, name: str, mark: str = _MARK) -> bool:
    """Whether flushlab has made the table.

    Raises:
        UsageError: a table of that name is somebody else's.
    """
    found = server.query(
        "SELECT table_comment FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
        (database, name),
    )
    if found and found[0][0] != mark:
        raise UsageError(
            f"the table {database}.{name} was not made by flushlab, which needs that name for a while",
            hint="rename it, or fill another database",
        )
    return bool(found)


@contextmanager
def own_table(server: Server, database: str, name: str, like: str) -> Iterator[str]:
    """An empty table of flushlab's own with the columns of another, as SQL spells it; gone behind it.

    Raises:
        UsageError: a table of that name is somebody else's.
    """
    table = quoted(database, name)
    if is_there(server, database, name):
        server.query(f"DROP TABLE {table}")
    server.query(f"CREATE TABLE {table} LIKE {quoted(database, like)}")
    server.query(f"ALTER TABLE {table} COMMENT = '{_MARK}'")
    try:
        yield table
    finally:
        if server.alive():
            server.query(f"DROP TABLE IF EXISTS {table}")
