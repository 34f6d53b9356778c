"""Tables: those that rows go to, flushlab's own beside them, and whether rows are as they were sent.

Sits in `bulk`. Nothing is made, and no row removed, without its flag. A table that has a name of flushlab's
own without its mark, the comment, is somebody else's: it is an error, and stays as it is. Tables of
flushlab's own:

- Notes say which rows are committed. Every transaction of a load moves the note of its range, so that notes
  and rows are committed, or lost, together, whatever is killed. The table goes once the load is verified.
- A sample has rows that the generator makes again, inserted in strict mode. Before the load, a row that does
  not fit is an error. After it, the server compares both tables, value by value and strings byte by byte.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from flushlab.bulk.native import Range, sample_rows
from flushlab.errors import UsageError
from flushlab.generate.plan import FillPlan, PlanTable
from flushlab.record import Warning
from flushlab.server.control import StatementFailed
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted
from flushlab.settings.configuration import LOST_AT_RESTART
from flushlab.spec.kinds import FillSpec
from flushlab.units import counted, format_size

_MARK = "made by flushlab fill"
_TRUNCATE_ILLEGAL = 1701
"""ER_TRUNCATE_ILLEGAL_FK: another table refers to it."""


class Tables:
    def __init__(self, server: Server, database: str, asked: FillSpec, *, create: bool) -> None:
        self._server = server
        self._database = database
        self._asked = asked
        self._create = asked.create or create
        self.made: set[str] = set()
        self.warnings: list[Warning] = []

    def prepare(self, plan: FillPlan) -> dict[str, int]:
        there = self._names()
        first = {table.name: self._first_row(table, there) for table in plan.tables}
        if self._asked.truncate:
            for table in reversed(plan.tables):
                self._truncate(quoted(self._database, table.name), table.name)
        return first

    def _names(self) -> set[str]:
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
    ((rows,),) = server.query(f"SELECT COUNT(*) FROM {quoted(database, table)}")
    return int(rows)


def is_there(server: Server, database: str, name: str, mark: str = _MARK) -> bool:
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


NOTES = "flushlab_fill"
_NOTES_MARK = "rows that flushlab fill has committed"


class LoadNote(msgspec.Struct, frozen=True, kw_only=True):
    """`add_indexes`: SQL that gives the table its indexes back; empty if it has them."""

    id: int
    plan: str
    table: str
    first: int
    next: int
    end: int
    add_indexes: str = ""

    @property
    def left(self) -> Range:
        return Range(id=self.id, first=self.next, end=self.end)


class Notes:
    def __init__(self, server: Server, database: str) -> None:
        self._server = server
        self._database = database
        self.table = quoted(database, NOTES)
        self._in_format = self.table.replace("%", "%%")  # beside values that PyMySQL puts in

    def read(self) -> list[LoadNote]:
        if not is_there(self._server, self._database, NOTES, _NOTES_MARK):
            return []
        rows = self._server.query(
            f"SELECT id, plan, table_name, first_row, next_row, end_row, add_indexes FROM {self.table}"
            " ORDER BY id"
        )
        return [
            msgspec.convert(dict(zip(LoadNote.__struct_fields__, row, strict=True)), LoadNote) for row in rows
        ]

    def write(self, notes: Iterable[LoadNote]) -> None:
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
            f" ENGINE=InnoDB COMMENT='{_NOTES_MARK}'"
        )
        for note in notes:
            self._server.query(
                f"INSERT INTO {self._in_format} VALUES (%s, %s, %s, %s, %s, %s, %s)",
                msgspec.structs.astuple(note),
            )

    def indexes_wait(self, table: str, add: str) -> None:
        self._server.query(
            f"UPDATE {self._in_format} SET add_indexes = %s WHERE table_name = %s", (add, table)
        )

    def drop(self) -> None:
        self._server.query(f"DROP TABLE IF EXISTS {self.table}")


SAMPLED = 1000
_BATCH = 100
_LEAST_PACKET = 16 << 10
"""Servers take as much whatever max_allowed_packet says: net_buffer_length by default."""
_SAMPLE = "flushlab_sample"
_COMPARED_AS_BYTES = {"char", "varchar", "binary", "varbinary", "enum", "set"}
_BLOBS = ("text", "blob", "geometry", "point", "linestring", "polygon", "collection")


def sampled_rows(first: int, end: int, count: int = SAMPLED) -> list[int]:
    if end - first <= count:
        return list(range(first, end))
    drawn = random.Random(end - first).sample(range(first + 1, end - 1), count - 2)
    return sorted({first, end - 1, *drawn})


class LoadSample:
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
        if not self.rows:
            yield
            return
        with own_table(self._server, self._database, _SAMPLE, self._table.name):
            ((most,),) = self._server.query(
                "SELECT LEAST(@@global.max_allowed_packet, @@session.max_allowed_packet)"
            )
            for at in range(0, len(self.rows), _BATCH):
                self._insert(self.rows[at : at + _BATCH], int(most))
            yield

    def _insert(self, rows: Sequence[int], most: int) -> None:
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
        if not self.rows:
            return 0
        if not (key := self._key()):
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
    if kind in _COMPARED_AS_BYTES or kind.endswith(_BLOBS):
        return f"CAST({theirs} AS BINARY) <=> CAST({mine} AS BINARY)"
    return f"{theirs} <=> {mine}"


def orphans(server: Server, database: str, table: str) -> list[str]:
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
