"""Notes: a small table beside the loaded ones that says which rows are committed.

Sits in `bulk`. Every transaction of a load moves the note of its range, so that notes and rows are
committed, or lost, together, whatever is killed. The table goes once the load has been verified.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flushlab.bulk.native import Range
from flushlab.bulk.tables import is_there
from flushlab.errors import UsageError
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted

NAME = "flushlab_fill"
_MARK = "rows that flushlab fill has committed"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A range of a table's rows and how far it has come.

    Attributes:
        plan: digest of the plan.
        add_indexes: SQL that gives the table its indexes back; empty if it has them.
    """

    id: int
    plan: str
    table: str
    first: int
    next: int
    end: int
    add_indexes: str = ""

    @property
    def left(self) -> Range:
        """What is still to be loaded."""
        return Range(id=self.id, first=self.next, end=self.end)


class Notes:
    """The notes of a database."""

    def __init__(self, server: Server, database: str) -> None:
        self._server = server
        self._database = database
        self.table = quoted(database, NAME)
        self._in_format = self.table.replace("%", "%%")  # beside values that PyMySQL puts in

    def read(self) -> list[Note]:
        """All notes; none if there is no such table.

        Raises:
            UsageError: somebody else has a table of that name.
        """
        if not is_there(self._server, self._database, NAME, _MARK):
            return []
        rows = self._server.query(
            f"SELECT id, plan, table_name, first_row, next_row, end_row, add_indexes FROM {self.table}"
            " ORDER BY id"
        )
        return [msgspec.convert(dict(zip(Note.__struct_fields__, row, strict=True)), Note) for row in rows]

    def write(self, notes: Iterable[Note]) -> None:
        """Makes the table with these notes.

        Raises:
            UsageError: another load has left its notes.
        """
        if self.read():
            raise UsageError(
                f"an earlier load into {self._database} did not finish",
                hint=f"--continue continues it; or drop its tables and {self.table}",
            )
        self._server.query(
            f"CREATE TABLE IF NOT EXISTS {self.table} (id INT UNSIGNED NOT NULL PRIMARY KEY,"
            " plan CHAR(64) CHARACTER SET ascii NOT NULL, table_name VARCHAR(64) CHARACTER SET utf8mb4 NOT"
            " NULL,"
            " first_row BIGINT UNSIGNED NOT NULL, next_row BIGINT UNSIGNED NOT NULL,"
            " end_row BIGINT UNSIGNED NOT NULL, add_indexes LONGTEXT CHARACTER SET utf8mb4 NOT NULL)"
            f" ENGINE=InnoDB COMMENT='{_MARK}'"
        )
        for note in notes:
            self._server.query(
                f"INSERT INTO {self._in_format} VALUES (%s, %s, %s, %s, %s, %s, %s)",
                msgspec.structs.astuple(note),
            )

    def indexes_wait(self, table: str, add: str) -> None:
        """Notes what gives a table its indexes back, before they go; or, with an empty text, that it has
        them."""
        self._server.query(
            f"UPDATE {self._in_format} SET add_indexes = %s WHERE table_name = %s", (add, table)
        )

    def drop(self) -> None:
        """The load is whole."""
        self._server.query(f"DROP TABLE IF EXISTS {self.table}")
