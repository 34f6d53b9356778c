"""Verify: whether the rows in a table are those of the plan.

Sits in `bulk`. The generator makes the sampled rows again; they are inserted, in strict mode, into a table of
the same shape. Before the load, a row that does not fit is an error. After the load, the server compares both
tables, value by value and strings byte by byte.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flushlab.bulk.native import sample_rows
from flushlab.bulk.tables import own_table
from flushlab.errors import UsageError
from flushlab.generate.plan import FillPlan, PlanTable
from flushlab.server.control import StatementFailed
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted
from flushlab.settings.configuration import LOST_AT_RESTART
from flushlab.units import format_size

SAMPLED = 1000
_BATCH = 100
_LEAST_PACKET = 16 << 10
"""Servers take as much whatever max_allowed_packet says: net_buffer_length by default."""
_SAMPLE = "flushlab_sample"
_BYTES = {"char", "varchar", "binary", "varbinary", "enum", "set"}
_BLOBS = ("text", "blob", "geometry", "point", "linestring", "polygon", "collection")


def sampled_rows(first: int, end: int, count: int = SAMPLED) -> list[int]:
    """Numbers of rows to look at: both ends, and others drawn from between; always the same ones."""
    if end - first <= count:
        return list(range(first, end))
    drawn = random.Random(end - first).sample(range(first + 1, end - 1), count - 2)
    return sorted({first, end - 1, *drawn})


class Sample:
    """Rows of a table, as the generator has them, in a table of their own beside it."""

    def __init__(
        self, server: Server, database: str, plan: FillPlan, table: PlanTable, rows: Sequence[int]
    ) -> None:
        self._server = server
        self._database = database
        self._plan = plan
        self._table = table
        self.rows = rows

    @contextmanager
    def inserted(self) -> Iterator[None]:
        """Inserts them; gone behind it.

        Raises:
            UsageError: the table cannot hold one of them, or the server take it in one statement.
        """
        with own_table(self._server, self._database, _SAMPLE, self._table.name):
            ((most,),) = self._server.query(
                "SELECT LEAST(@@global.max_allowed_packet, @@session.max_allowed_packet)"
            )
            for at in range(0, len(self.rows), _BATCH):
                self._insert(self.rows[at : at + _BATCH], int(most))
            yield

    def _insert(self, rows: Sequence[int], most: int) -> None:
        """Inserts rows in statements of less than `most` bytes."""
        sample, columns = quoted(self._database, _SAMPLE), ",".join(map(quoted, self._table.columns))
        values = sample_rows(self._server, self._plan, self._table.name, rows)
        sql = f"INSERT INTO {sample} ({columns}) VALUES {values}"
        size = len(sql.encode())
        if size >= most and len(rows) > 1:
            half = len(rows) // 2
            self._insert(rows[:half], most)
            self._insert(rows[half:], most)
            return
        if size >= max(most, _LEAST_PACKET):
            raise UsageError(
                f"a row of {self._table.name} takes {format_size(size)}, and max_allowed_packet is"
                f" {format_size(most)}",
                hint=f"SET GLOBAL max_allowed_packet to more there ({LOST_AT_RESTART}), or give the plan"
                " shorter values",
            )
        try:
            self._server.query(sql)
        except StatementFailed as error:
            raise UsageError(
                f"the table {self._table.name} cannot hold the plan's rows: {error.text} (error"
                f" {error.errno})",
                hint="change the plan's column, or the table's",
            ) from error

    def different(self) -> int | None:
        """How many are not in the table as they are here; None if it has no key to find them by."""
        key = self._key()
        if not key:
            return None
        kinds = dict(
            self._server.query(
                "SELECT column_name, data_type FROM information_schema.columns"
                " WHERE table_schema = %s AND table_name = %s",
                (self._database, self._table.name),
            )
        )
        on = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)
        same = " AND ".join(_same(name, str(kinds[name]).lower()) for name in self._table.columns)
        ((found,),) = self._server.query(
            f"SELECT COUNT(*) FROM {quoted(self._database, _SAMPLE)} s"
            f" STRAIGHT_JOIN {quoted(self._database, self._table.name)} t ON {on} WHERE {same}"
        )
        return len(self.rows) - int(found)

    def _key(self) -> list[str]:
        """Columns of a unique index that the plan fills: the primary key if it does."""
        indexes: dict[str, list[str]] = {}
        for index, column in self._server.query(
            "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = %s"
            " AND table_name = %s AND non_unique = 0 ORDER BY index_name <> 'PRIMARY', index_name,"
            " seq_in_index",
            (self._database, self._table.name),
        ):
            indexes.setdefault(str(index), []).append(str(column))
        filled = set(self._table.columns)
        return next((columns for columns in indexes.values() if filled.issuperset(columns)), [])


def _same(name: str, kind: str) -> str:
    mine, theirs = f"s.{quoted(name)}", f"t.{quoted(name)}"
    if kind in _BYTES or kind.endswith(_BLOBS):
        return f"CAST({theirs} AS BINARY) <=> CAST({mine} AS BINARY)"
    return f"{theirs} <=> {mine}"


def orphans(server: Server, database: str, table: str) -> list[str]:
    """Foreign keys of a table that some of its rows break, each with how many."""
    keys: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for name, schema, parent, column, referred in server.query(
        "SELECT constraint_name, referenced_table_schema, referenced_table_name, column_name,"
        " referenced_column_name"
        " FROM information_schema.key_column_usage WHERE table_schema = %s AND table_name = %s"
        " AND referenced_table_name IS NOT NULL ORDER BY constraint_name, ordinal_position",
        (database, table),
    ):
        keys.setdefault((str(name), str(schema), str(parent)), []).append((str(column), str(referred)))
    found = []
    for (name, schema, parent), columns in keys.items():
        on = " AND ".join(f"p.{quoted(referred)} = c.{quoted(column)}" for column, referred in columns)
        given = " AND ".join(f"c.{quoted(column)} IS NOT NULL" for column, _ in columns)
        ((rows,),) = server.query(
            f"SELECT COUNT(*) FROM {quoted(database, table)} c LEFT JOIN {quoted(schema, parent)} p ON {on}"
            f" WHERE {given} AND p.{quoted(columns[0][1])} IS NULL"
        )
        if rows:
            found.append(f"{rows:,} rows of {table} break the foreign key {name}")
    return found
