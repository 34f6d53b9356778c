"""Plan: point statements on the largest tables of the user's data, made and tried on a server that has them.

A table's keys are sampled by a hash of the primary key, so that the same data and seed give the same plan
everywhere. Each statement is tried in a transaction that is rolled back; a statement that the server refuses
is left out, with the server's message.

- `update` changes one column of a sampled row, which no key, CHECK or generated column has.
- `insert` copies a sampled row. The columns that make a unique key unique get new values. Where a column has
  few, they are used again, and the statement is a REPLACE.
- `delete` removes a sampled row that no row refers to, and inserts it again in the same transaction.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Concatenate, NamedTuple, ParamSpec

import msgspec

from flushlab.errors import MeasurementError
from flushlab.generate.schema import (
    Column,
    ForeignKey,
    Key,
    checks_of,
    columns_of,
    foreign_keys_of,
    text_of,
    unique_keys_of,
)
from flushlab.record import (
    ColumnParameter,
    Parameter,
    SequenceParameter,
    SkippedTable,
    TextDraw,
    UuidParameter,
)
from flushlab.server.control import StatementFailed
from flushlab.server.sql import SYSTEM_LIST, quoted
from flushlab.units import counted
from flushlab.workload.data import columns as of
from flushlab.workload.data.columns import Cell, Statement

DATABASE = "flushlab_data"
"""Where the plan is kept, beside the user's data."""

Query = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
P = ParamSpec("P")
_Rows = Sequence[tuple[Cell, ...]]
KINDS = ("update", "insert", "delete")

KEYS = 20_000
"""Sampled keys of a table."""
COPIES, DELETED = 200, 1000
"""Whole rows of a table, at most: those that inserts copy, and those that are deleted."""
LOADS = 64
"""Loads on the same data, each with new values of its own."""
_MOST_ROW_BYTES, _MOST_BYTES = 64 << 10, 1 << 20
"""Of a row, and of all whole rows of a table."""
_LONG = f"every sampled row is longer than {_MOST_ROW_BYTES >> 10} KiB"
_AT_ONCE = 100
_FAR = 100_000
"""New values are tried here too: a partition or a type may end."""
_TRIED = 20
SAMPLED, COPIED, DOOMED = range(3)
"""Sets of rows. The first has keys alone, the others whole rows behind their keys."""
_STRICT = "SET SESSION sql_mode = 'TRADITIONAL'"
"""Statements that the strictest application's server takes, every server takes."""


class TablePlan(msgspec.Struct, frozen=True, kw_only=True):
    """`sets`: of rows, by columns; `room`: new values of its inserts, 0 if they come again."""

    schema: str
    name: str
    rows: int
    column: str = ""
    statements: Mapping[str, tuple[Statement, ...]]
    sets: tuple[tuple[tuple[Cell, ...], ...], ...]
    room: int = 0
    without: Mapping[str, str] = {}


class DataPlan(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    tables: tuple[TablePlan, ...]
    skipped: tuple[SkippedTable, ...] = ()
    smaller: int = 0


class _Table(NamedTuple):
    schema: str
    name: str
    rows: int
    columns: Sequence[Column]
    keys: Sequence[Key]
    checks: str
    foreign: Sequence[ForeignKey]
    referring: Sequence[tuple[str, str, ForeignKey]]

    @property
    def quoted(self) -> str:
        return quoted(self.schema, self.name)

    @property
    def primary(self) -> list[Column]:
        by_name = {column.name: column for column in self.columns}
        names = next(key.columns for key in self.keys if key.name == "PRIMARY")
        return [by_name[name] for name in names]

    @property
    def stored(self) -> list[Column]:
        return [column for column in self.columns if not column.generated]


class _Skipped(Exception):
    """The table, or a kind of statement, is left out; the text says why."""


def plan_of(query: Query, *, databases: Sequence[str], most: int, seed: int) -> DataPlan:
    (mode,) = query("SELECT @@SESSION.sql_mode", ())[0]
    query(_STRICT, ())
    try:
        return _planned(query, databases, most, seed)
    finally:
        query("SET SESSION sql_mode = %s", (mode,))


def _planned(query: Query, databases: Sequence[str], most: int, seed: int) -> DataPlan:
    found, skipped, views = _tables(query, databases)
    tables: list[TablePlan] = []
    while found and len(tables) < most:
        table = found.pop(0)
        try:
            tables.append(_Planning(query, table, seed).plan())
        except _Skipped as reason:
            skipped.append(SkippedTable(f"{table.schema}.{table.name}", str(reason)))
    if not tables:
        has = [f"{one.name} ({one.why})" for one in skipped[:5]]
        has += [counted(len(skipped) - 5, "more table")] if len(skipped) > 5 else []
        has += [counted(views, "view")] if views else []
        but = f": {', '.join(has)}" if has else ""
        raise MeasurementError(
            f"the data has no table that --workload data can write to{but}",
            hint="it takes InnoDB tables with rows and a primary key; write your own load: txn:FILE, sql:FILE"
            " or 'command: …'",
        )
    return DataPlan(seed=seed, tables=tuple(tables), skipped=tuple(skipped), smaller=len(found))


def _tables(query: Query, databases: Sequence[str]) -> tuple[list[_Table], list[SkippedTable], int]:
    listed = query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA NOT IN {SYSTEM_LIST} AND TABLE_SCHEMA <> %s ORDER BY 1, 2",
        (DATABASE,),
    )
    schemas = dict.fromkeys(str(row[0]) for row in listed)
    foreign = {schema: foreign_keys_of(query, schema) for schema in schemas}
    referring: defaultdict[tuple[str, str], list[tuple[str, str, ForeignKey]]] = defaultdict(list)
    for schema, by_table in foreign.items():
        for name, keys in by_table.items():
            for key in keys:
                referring[key.schema, key.table].append((schema, name, key))
    found: list[_Table] = []
    skipped: list[SkippedTable] = []
    views = 0
    triggers = query(
        f"SELECT EVENT_OBJECT_TABLE, ACTION_STATEMENT FROM information_schema.TRIGGERS"
        f" WHERE TRIGGER_SCHEMA NOT IN {SYSTEM_LIST}",
        (),
    )
    for schema in databases or schemas:
        columns, checks = columns_of(query, schema), checks_of(query, schema)
        unique = unique_keys_of(query, schema)
        for _, name, kind, engine in (row for row in listed if row[0] == schema):
            if kind not in ("BASE TABLE", "SYSTEM VERSIONED"):
                views += kind == "VIEW"
                continue
            whole = [
                Key(name=key, columns=tuple(map(str, names)), prefixes=prefixes)
                for key, parts in unique[name].items()
                for names, prefixes in [tuple(zip(*parts, strict=True))]
                if None not in names
            ]
            why = "" if str(engine).upper() == "INNODB" else f"{engine}, not InnoDB"
            if not why and "PRIMARY" not in unique[name]:
                why = "no primary key"
            of_triggers = (one for one, body in triggers if one != name and _names(text_of(body), name))
            if not why and (other := next(of_triggers, None)) is not None:
                why = f"a trigger of {other} uses it"
            rows = 0 if why else int(query(f"SELECT COUNT(*) FROM {quoted(schema, name)}", ())[0][0])
            if not (why or rows):
                why = "no rows"
            if why:
                skipped.append(SkippedTable(f"{schema}.{name}", why))
                continue
            own = foreign[schema][name]
            texts = "\n".join((*checks[name], *(one.expression for one in columns[name])))
            referred = referring[schema, name]
            found.append(_Table(schema, name, rows, columns[name], whole, texts, own, referred))
    found.sort(key=lambda one: (-one.rows, one.schema, one.name))
    return found, skipped, views


class _Planning:
    def __init__(self, query: Query, table: _Table, seed: int) -> None:
        self._query, self.table = query, table
        self._random = Random(f"{seed}/{table.schema}/{table.name}")
        self.room = 0
        self.rows: list[list[tuple[Cell, ...]]] = [[], [], []]
        self.without: dict[str, str] = {}
        self.undeletable = f"it has {counted(table.rows, 'row')}"
        self.column = ""
        self.statements: dict[str, tuple[Statement, ...]] = {}

    def plan(self) -> TablePlan:
        table = self.table
        for column in table.primary:
            if of.compared(column) is None:
                raise _Skipped(f"its primary key has the type {column.type.name}")
        keys, referring = self._sample(), dict.fromkeys(f"{one[0]}.{one[1]}" for one in table.referring)
        # Apart from the rest: an update that waits for a deleted row would deadlock with the row's insert.
        deleted = min(DELETED, len(keys) // 4)
        self.rows[SAMPLED] = keys[deleted:]
        self._read_rows(keys[: max(deleted, 1)], deleted)
        if not self.rows[COPIED]:
            self.undeletable = _LONG
        elif referring:
            self.undeletable = f"rows of {', '.join(referring)} refer to every sampled row"
        makers = {"update": self._update, "insert": self._insert, "delete": self._delete}
        for kind in KINDS:
            try:
                self.statements[kind] = makers[kind]()
            except _Skipped as reason:
                self.without[kind] = str(reason)
        if not self.statements:
            raise _Skipped("; ".join(dict.fromkeys(self.without.values())))
        parts = (part for some in self.statements.values() for one in some for part in one.parts)
        used = {part.rows for part in parts if isinstance(part, ColumnParameter)}
        return TablePlan(
            schema=table.schema,
            name=table.name,
            rows=table.rows,
            column=self.column,
            statements=self.statements,
            sets=tuple(
                tuple(zip(*rows, strict=True)) if number in used else ()
                for number, rows in enumerate(self.rows)
            ),
            room=self.room,
            without=self.without,
        )

    # -- rows

    def _sample(self) -> list[tuple[Cell, ...]]:
        table = self.table
        names = [quoted(column.name) for column in table.primary]
        share = max(1, table.rows // KEYS)
        hashed = ", '/', ".join(f"CAST({name} AS BINARY)" for name in names)
        where = f" WHERE MOD(CRC32(CONCAT({hashed})), {share}) = {self._random.randrange(share)}"
        read = ", ".join(map(of.read_key, table.primary))
        found = self._ask(f"SELECT {read} FROM {table.quoted}{where if share > 1 else ''}")
        if not found:  # a hash that falls badly
            found = self._ask(f"SELECT {read} FROM {table.quoted} LIMIT {KEYS}")
        found.sort()
        self._random.shuffle(found)
        return found[:KEYS]

    def _read_rows(self, keys: _Rows, deleted: int) -> None:
        table, long = self.table, [column for column in self.table.stored if of.is_long(column)]
        read = [*map(of.read_key, table.primary), *map(of.read_value, table.stored)]
        alone = [
            f"NOT EXISTS (SELECT 1 FROM {quoted(schema, name)} AS flushlab_referring WHERE "
            + " AND ".join(
                f"flushlab_referring.{quoted(its)} = {quoted('flushlab_own', theirs)}"
                for its, theirs in zip(key.columns, key.theirs, strict=True)
            )
            + ")"
            for schema, name, key in table.referring
        ]
        size = " + ".join(f"COALESCE(LENGTH({quoted(column.name)}), 0)" for column in long)
        limit = f" AND {size} <= {_MOST_ROW_BYTES}" if long else ""
        left = _MOST_BYTES
        for some in _chunks(keys):
            sql = (
                f"SELECT {' AND '.join(alone) or '1'}, {', '.join(read)} FROM {table.quoted} AS flushlab_own"
                f" WHERE ({self._any(some)}){limit}"
            )
            for deletable, *row in sorted(self._ask(sql), key=repr):
                left -= sum(len(cell) // 2 for cell in row if isinstance(cell, str))
                if left < 0:
                    return
                if len(self.rows[COPIED]) < COPIES:
                    self.rows[COPIED].append(tuple(row))
                if deletable and deleted:
                    self.rows[DOOMED].append(tuple(row))

    def _any(self, keys: Iterable[tuple[Cell, ...]]) -> str:
        return " OR ".join(f"({self._is(map(of.literal, key))})" for key in keys)

    def _is(self, values: Iterable[str]) -> str:
        around = [of.compared(column) or ("", "") for column in self.table.primary]
        return " AND ".join(
            f"{quoted(column.name)} = {before}{value}{after}"
            for column, (before, after), value in zip(self.table.primary, around, values, strict=True)
        )

    # -- statements

    def _update(self) -> tuple[Statement, ...]:
        table = self.table
        busy = {name for key in table.keys for name in key.columns}
        busy |= {name for key in table.foreign for name in key.columns}
        busy |= {name for _, _, key in table.referring for name in key.theirs}
        free = [
            column
            for column in table.stored
            if column.name not in busy
            and not column.auto_increment
            and not _names(table.checks, column.name)  # a CHECK or a generated column
        ]
        rows = self._query(
            "SELECT DISTINCT COLUMN_NAME FROM information_schema.STATISTICS"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND COLUMN_NAME IS NOT NULL",
            (table.schema, table.name),
        )
        indexed = {str(name) for (name,) in rows}
        refusal = "no column that an update may change: all belong to keys, checks or generated columns"
        for column in sorted(free, key=lambda column: of.changed_first(column, indexed)):
            if (change := of.change(column)) is None:
                continue
            changed = [change.before, *([change.parameter] if change.parameter else []), change.after]
            head = f"UPDATE {table.quoted} SET {quoted(column.name)} = "
            update = Statement("UPDATE", (head, *changed, " WHERE ", *self._key(SAMPLED)))
            if not (refused := self._refused(self._try_update, update, column)):
                self.column = column.name
                return (update,)
            refusal = refused
        raise _Skipped(refusal)

    def _insert(self) -> tuple[Statement, ...]:
        if not self.rows[COPIED]:
            raise _Skipped(_LONG)
        made = self._made_new()
        columns = [column for column in self.table.stored if made.get(column.name) != ()]
        insert = self._inserting(columns, COPIED, made, "INSERT" if self.room else "REPLACE")
        self.rows[COPIED] = self._taken(self.rows[COPIED], self._try_insert, insert)
        if changed := self._refused(self._try_new, insert, made):
            raise _Skipped(changed)
        return (insert,)

    def _delete(self) -> tuple[Statement, ...]:
        if not self.rows[DOOMED]:
            raise _Skipped(self.undeletable)
        delete = Statement("DELETE", (f"DELETE FROM {self.table.quoted} WHERE ", *self._key(DOOMED)))
        insert = self._inserting(self.table.stored, DOOMED, {})
        self.rows[DOOMED] = self._taken(self.rows[DOOMED], self._try_delete, delete, insert)
        return delete, insert

    def _taken(
        self, rows: _Rows, tried: Callable[Concatenate[_Rows, P], None], *args: P.args, **named: P.kwargs
    ) -> list[tuple[Cell, ...]]:
        found: list[tuple[Cell, ...]] = []
        refusal = ""
        for some in _chunks(rows):
            if not self._refused(tried, some, *args, **named):
                found += some
                continue
            alone: list[tuple[Cell, ...]] = []
            for row in some:
                if refused := self._refused(tried, [row], *args, **named):
                    refusal = refusal or refused
                else:
                    alone.append(row)
            # What is taken one by one may not be taken together: a trigger gives all of them one value.
            if alone and (refused := self._refused(tried, alone, *args, **named)):
                refusal = refusal or refused
            else:
                found += alone
        if not found:
            raise _Skipped(refusal)
        return found

    def _made_new(self) -> dict[str, tuple[of.Part, ...]]:
        table, by_name = self.table, {column.name: column for column in self.table.columns}
        made: dict[str, tuple[of.Part, ...]] = {
            column.name: ()
            for column in table.columns
            if column.auto_increment
            and (new := self._new(column, None)) is not None
            and new.room >= of.PLENTY
        }
        fixed, least = {name for key in table.foreign for name in key.columns}, of.PLENTY
        for key in sorted(table.keys, key=lambda key: len(key.columns)):
            columns = [by_name[name] for name in key.columns]
            if made.keys() & set(key.columns) or any(column.generated for column in columns):
                continue
            fresh = {
                column.name: new
                for column, prefix in zip(columns, key.prefixes, strict=True)
                if column.name not in fixed and (new := self._new(column, prefix)) is not None
            }
            if fresh:
                name, new = min(fresh.items(), key=lambda item: (-item[1].room, item[0]))
                assert new.parameter is not None, "of each row another one"
                made[name] = (new.before, new.parameter, new.after)
                least = min(least, new.room)
            elif null := next((column for column in columns if column.nullable), None):
                made[null.name] = ("NULL",)
            else:
                raise _Skipped(
                    f"no column of the unique key {key.name} can get new values: they are foreign keys, or"
                    " have too few values"
                )
        self.room = least if least >= of.PLENTY else 0
        return made

    def _new(self, column: Column, prefix: int | None) -> of.Expression | None:
        name = quoted(column.name)
        ends = ", ".join(f"HEX(CAST({end}({name}) AS CHAR))" for end in ("MAX", "MIN"))
        (row,) = self._ask(f"SELECT {ends} FROM {self.table.quoted}")
        greatest, least = (bytes.fromhex(one or "").decode(errors="replace") for one in row)
        if marked := of.marked(column, prefix):
            ((text,),) = self._ask(f"SELECT MAX({name}) FROM {self.table.quoted} WHERE {marked}")
            marked = text_of(text or "")
        return of.new(column, prefix, greatest or "0", least, marked)

    def _inserting(
        self,
        columns: Sequence[Column],
        rows: int,
        made: Mapping[str, tuple[of.Part, ...]],
        verb: str = "INSERT",
    ) -> Statement:
        names = ", ".join(quoted(column.name) for column in columns)
        parts: list[of.Part] = [f"{verb} INTO {self.table.quoted} ({names}) VALUES ("]
        keys, stored = len(self.table.primary), self.table.stored
        for number, column in enumerate(columns):
            before, after = of.written(column)
            at = keys + stored.index(column)
            own = made.get(column.name)
            value = own if own is not None else (before, ColumnParameter(rows=rows, column=at), after)
            parts += [", " if number else "", *value]
        return Statement(verb, (*parts, ")"))

    def _key(self, rows: int) -> Iterator[of.Part]:
        for number, column in enumerate(self.table.primary):
            before, after = of.compared(column) or ("", "")
            yield f"{' AND ' if number else ''}{quoted(column.name)} = {before}"
            yield ColumnParameter(rows=rows, column=number)
            yield after

    # -- tries

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self._query(sql, ())

    def _bound(self, statement: Statement, row: tuple[Cell, ...], at: int = 0) -> str:
        def value(parameter: Parameter) -> str:
            match parameter:
                case ColumnParameter(column=column):
                    return of.literal(row[column])
                case SequenceParameter(start=start):
                    return str(start + at)
                case TextDraw(low=low):
                    return "'" + "".join(self._random.choices("abcdefgh", k=low)) + "'"
                case UuidParameter(binary=binary):
                    bits = f"{self._random.getrandbits(128):032x}"
                    text = f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"
                    return of.literal(bits) if binary else f"'{text}'"
            raise AssertionError("a parameter of another kind")

        return "".join(part if isinstance(part, str) else value(part) for part in statement.parts)

    def _refused(self, tried: Callable[P, None], *args: P.args, **named: P.kwargs) -> str:
        """Why the server refuses what is tried; empty if it does not. Whatever it did is rolled back."""
        self._ask("BEGIN")
        try:
            tried(*args, **named)
        except StatementFailed as error:
            return f"the server refuses it: {error.text} (error {error.errno})"
        except _Skipped as reason:
            return str(reason)
        finally:
            self._ask("ROLLBACK")
        return ""

    def _run(self, sqls: Iterable[str]) -> None:
        for sql in sqls:
            self._ask(sql)

    def _try_update(self, update: Statement, column: Column) -> None:
        keys = self.rows[SAMPLED][:_TRIED]
        read = f"SELECT {of.read_value(column)} FROM {self.table.quoted} WHERE "
        for key in keys:
            where = self._is(map(of.literal, key))
            before = self._ask(read + where)
            self._run([self._bound(update, key)])
            if len(before) != 1 or before == self._ask(read + where):
                raise _Skipped(f"an update of {column.name} by primary key changes nothing")
            self._run([self._bound(update, key)])

    def _try_insert(self, rows: _Rows, insert: Statement) -> None:
        for number, row in enumerate(rows):
            self._run([self._bound(insert, row, at) for at in (number, number + _FAR)])

    def _try_new(self, insert: Statement, made: Mapping[str, tuple[of.Part, ...]]) -> None:
        row = self.rows[COPIED][0]
        self._run([self._bound(insert, row)])
        for name, parts in made.items():
            if any(isinstance(part, SequenceParameter) for part in parts):
                value = self._bound(Statement("", parts), row)
                if not self._ask(f"SELECT 1 FROM {self.table.quoted} WHERE {quoted(name)} = {value} LIMIT 1"):
                    raise _Skipped(f"a trigger changes {name}, which makes a copied row unique")

    def _try_delete(self, rows: _Rows, delete: Statement, insert: Statement) -> None:
        keys = len(self.table.primary)
        count = f"SELECT COUNT(*) FROM {self.table.quoted} WHERE {self._any(row[:keys] for row in rows)}"
        for expected, statement in ((0, delete), (len(rows), insert)):
            self._run(self._bound(statement, row) for row in rows)
            if self._ask(count)[0][0] != expected:
                raise _Skipped("a row that is inserted again gets another key")


def _names(sql: str, name: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE))


def _chunks(rows: _Rows) -> Iterator[_Rows]:
    for first in range(0, len(rows), _AT_ONCE):
        yield rows[first : first + _AT_ONCE]
