"""Tables: those that rows go to: there or made, with the plan's columns, and empty unless that was asked for.

Sits in `bulk`. Promises: nothing is made, and no row removed, without its flag.
"""

from __future__ import annotations

from flushlab.bulk import verify
from flushlab.bulk.source import Source, SourceTable
from flushlab.errors import UsageError
from flushlab.record import Warning
from flushlab.server.control import StatementFailed
from flushlab.server.identifier import quoted
from flushlab.server.protocol import Server
from flushlab.units import counted


class Tables:
    """The tables of a plan in a database.

    Args:
        server: target of the rows.
        database: theirs.
        create: make what is missing.
        existing: action on a table that has rows: refuse, append or truncate.

    Attributes:
        made: names of those that were made here.
        warnings: doubts about those that were there.
    """

    def __init__(self, server: Server, database: str, *, create: bool, existing: str) -> None:
        self._server = server
        self._database = database
        self._create = create
        self._existing = existing
        self.made: set[str] = set()
        self.warnings: list[Warning] = []

    def prepare(self, source: Source) -> dict[str, int]:
        """Makes the tables ready; the first row for each."""
        server = self._server
        there = self._names()
        if there is None:
            if not self._create:
                raise UsageError(
                    f"there is no database {self._database}", hint="--create makes it, and the tables"
                )
            server.query(f"CREATE DATABASE {quoted(self._database)}")
            there = set()
        first = {}
        for table in source.tables:
            if table.name not in there:
                if not self._create:
                    raise UsageError(
                        f"there is no table {table.name} in {self._database}",
                        hint="--create makes it as planned",
                    )
                server.query(f"USE {quoted(self._database)}")
                server.query(table.create)
                self.made.add(table.name)
                first[table.name] = 0
                continue
            self._require_columns(table)
            rows = verify.count(server, self._database, table.name)
            if rows and self._existing == "refuse":
                raise UsageError(
                    f"the table {table.name} has {counted(rows, 'row')} already",
                    hint="--append adds to them; --truncate removes them first",
                )
            first[table.name] = rows if self._existing == "append" else 0
        if self._existing == "truncate":
            for table in reversed(source.tables):
                self._truncate(table.name)
        return first

    def _truncate(self, table: str) -> None:
        try:
            self._server.query(f"TRUNCATE TABLE {quoted(self._database, table)}")
        except StatementFailed as error:
            if error.errno != 1701:  # ER_TRUNCATE_ILLEGAL_FK: another table refers to it
                raise
            self._delete(table)

    def _delete(self, table: str) -> None:
        """Removes all rows; those that refer to each other let go first."""
        name = quoted(self._database, table)
        for (column,) in self._server.query(
            "SELECT DISTINCT k.column_name FROM information_schema.key_column_usage k"
            " JOIN information_schema.columns c USING (table_schema, table_name, column_name)"
            " WHERE k.table_schema = %s AND k.table_name = %s AND k.referenced_table_schema = k.table_schema"
            " AND k.referenced_table_name = k.table_name AND c.is_nullable = 'YES'",
            (self._database, table),
        ):
            self._server.query(f"UPDATE {name} SET {quoted(str(column))} = NULL")
        self._server.query(f"DELETE FROM {name}")

    def _names(self) -> set[str] | None:
        """Names of the tables; None without the database."""
        if not self._server.query(
            "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (self._database,)
        ):
            return None
        rows = self._server.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (self._database,)
        )
        return {str(name) for (name,) in rows}

    def _require_columns(self, table: SourceTable) -> None:
        rows = self._server.query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
            (self._database, table.name),
        )
        ((engine,),) = self._server.query(
            "SELECT engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (self._database, table.name),
        )
        if str(engine).lower() != "innodb":
            self.warnings.append(
                Warning(
                    "not-transactional",
                    f"{table.name} is a table of {engine}: what a refused statement brought stays, and a"
                    " load that"
                    " is cut short cannot be resumed exactly",
                )
            )
        missing = [name for name in table.columns if name not in {str(column) for (column,) in rows}]
        if missing:
            raise UsageError(
                f"the table {table.name} has no column {missing[0]}",
                hint="change the plan, or drop the table and use --create",
            )
