"""Undoing: resets of a server, undone by its log; the template's tables to compare with."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pymysql

from flushlab.progress import Progress
from flushlab.record import Endpoint, ServerIdentity
from flushlab.server.sql import SYSTEM_LIST, is_system, quoted
from flushlab.suite.undoing.traces import (
    MEANWHILE,
    CannotUndo,
    Changed,
    Inverse,
    Log,
    RowsNeeded,
    TableName,
    Traces,
    UndoneWrongly,
    UndoSession,
    await_transactions,
    writers,
)
from flushlab.units import counted

_CHEAP_S = 0.002
"""The tables that were undone are compared by checksum each time if that takes no longer."""
_WORTH_S = 0.1
"""Above that, another server is as fast."""
_ONE_IN = 20
"""Undos of which one is followed by a comparison of all tables."""
_FIRST = 3
"""And so are the first."""
_LARGEST = 256 << 20
"""Bytes of data whose checksums are taken at the start, at most."""
_AT_ONCE = 500
_USERS = f"LOWER(table_schema) NOT IN {SYSTEM_LIST}"


class UndoTable(TableName, frozen=True):
    engine: str
    kind: str
    next_number: int | None
    size: int

    @property
    def inner(self) -> str:
        plain = f"{self.schema}{self.name}".replace("_", "a")
        return f"{self.schema}/{self.name}" if plain.isascii() and plain.isalnum() else ""

    @property
    def sql(self) -> str:
        return quoted(self.schema, self.name)

    @property
    def is_invertible(self) -> bool:
        return self.engine == "InnoDB" and self.kind == "BASE TABLE"


class Content:
    def __init__(self, session: UndoSession, *, verify: bool) -> None:
        self._session, self._verify = session, verify
        self._undos, self._chance = 0, random.Random(1)
        is_old = not session.is_mysql or session.identity.version < (8,)
        inner = f"INNODB_{'SYS_' if is_old else ''}TABLESTATS"
        self._numbers_sql = f"SELECT name, autoinc FROM information_schema.{inner}"
        inner = f"INNODB_{'SYS_' if is_old else ''}TABLES"
        self._ids_sql = f"SELECT name, table_id FROM information_schema.{inner}"
        self.tables = self._read_tables()
        self._digests = self._read_digests()
        self._checksums, self._checksum_s = dict[str, object](), float("inf")
        if verify or sum(table.size for table in self.tables.values()) <= _LARGEST:
            self._checksums_of(self.tables)  # opens them
            began = time.monotonic()
            self._checksums = self._checksums_of(self.tables)
            self._checksum_s = time.monotonic() - began
        self.tables = self._read_tables()  # open, they know their next numbers
        self._size = sum(one.size for one in self.tables.values())
        self.remember_tables()
        # By table, those whose rows change with its rows.
        self._parents = self._by_table(
            "SELECT unique_constraint_schema, referenced_table_name,"
            " CONCAT(constraint_schema, '.', table_name)"
            " FROM information_schema.referential_constraints"
            " WHERE delete_rule IN ('CASCADE', 'SET NULL') OR update_rule IN ('CASCADE', 'SET NULL')"
        )
        # Columns that the server computes, from 0: MariaDB 11 leaves them out of deleted rows.
        self._generated = self._by_table(
            "SELECT table_schema, table_name, ordinal_position - 1 FROM information_schema.columns"
            f" WHERE {_USERS} AND (extra LIKE '%STORED GENERATED%' OR extra LIKE '%VIRTUAL GENERATED%')"
        )
        # MySQL 8 tells no next number of a table that never gave any.
        numbered = self._by_table(
            "SELECT table_schema, table_name, column_name FROM information_schema.columns"
            f" WHERE {_USERS} AND extra LIKE '%auto_increment%'"
        )
        self._numbered = [
            msgspec.structs.replace(one, next_number=one.next_number or 1)
            for one in self.tables.values()
            if one.key in numbered
        ]

    def require_invertible(self, changed: Iterable[Changed], emptied: Iterable[TableName]) -> None:
        """Rows must be of tables that are undone, and were logged with all their columns."""
        for one in (*changed, *emptied):
            table = self.tables.get(one.key)
            if is_system(one.schema):
                raise CannotUndo(f"rows of {one.key}")
            if table is None:
                raise CannotUndo(f"rows of a new table {one.name}")
            if not table.is_invertible:
                kind = table.kind if table.engine == "InnoDB" else table.engine
                raise CannotUndo(f"rows of {one.name} ({kind})")
        for row in changed:
            if not self._generated.get(row.key, set()).issuperset(row.missing):
                raise CannotUndo(f"rows of {row.name} that were not logged in full")

    def remember_tables(self) -> None:
        self._ids, self._created = self._read_ids(), self._read_created()
        self._databases = self._read_databases()

    def has_same_tables(self, emptied: Iterable[TableName] = ()) -> bool:
        anew = {self.tables[one.key].inner for one in emptied if one.key in self.tables}
        ids, now = self._read_ids(), self._read_created()
        moved = {name for name, _ in ids.items() ^ self._ids.items()}
        return now == self._created and all(name.partition("#")[0] in anew for name in moved)

    def require_same(self, inverse: Inverse) -> None:
        if (words := inverse.conditional) is None:
            return
        of_tables = words.endswith("TABLE")
        if not self.has_same_tables(inverse.emptied) or not (of_tables or self.has_same_databases()):
            raise CannotUndo(words)

    def has_same_databases(self) -> bool:
        filled = {one.schema for one in self.tables.values()}
        is_filled = filled.issuperset(one[0] for one in self._databases)
        return is_filled and self._read_databases() == self._databases

    def by_cascade(self, keys: Iterable[str]) -> set[str]:
        """InnoDB changes rows of these, without a word in the log, where rows of others are updated or
        deleted."""
        found, new = set[str](), {*keys}
        while new:
            new = {str(child) for key in new for child in self._parents.get(key, ())} - found
            found |= new
        return found

    def restore_numbers(self, touched: Collection[str], did: Progress) -> None:
        """Sets automatic numbers back, since an insert that failed took one, too; `did` hears of each ALTER
        TABLE."""
        # By InnoDB's names of tables; partitions have others: the numbers of each are not the table's.
        now = {str(name): int(number) for name, number in self._session.ask(self._numbers_sql)}
        moved, unknown = [], []
        for table in self._numbered:
            known = now.get(table.inner)
            if known is None or (known == 0 and table.key in touched):
                unknown.append(table)
            elif known not in (0, table.next_number):  # 0: nobody asked for a number since it was opened
                moved.append(table)
        asked = self._numbers_of(unknown)
        for table in [*moved, *(one for one in unknown if asked[one.key] != one.next_number)]:
            self._session.ask(f"ALTER TABLE {table.sql} AUTO_INCREMENT = {table.next_number}")
            did("alter_table")

    def verify(self, touched: set[str], children: set[str], *, unexplained: bool) -> None:
        wanted = self._to_compare(touched, children, unexplained=unexplained)
        if wanted and not self._checksums:
            raise CannotUndo("rows that only a comparison of large data could tell")
        now = self._checksums_of(wanted)
        wrong = sorted(key for key in wanted if now[key] != self._checksums[key])
        self._undos += 1
        if not wrong:
            return
        name = self.tables[wrong[0]].name
        if now[wrong[0]] is None:
            raise CannotUndo(f"{name}, which another session has locked")
        if unexplained or children or not touched.issuperset(wrong):
            raise CannotUndo(f"rows of {name} that changed without a word in the log")
        raise UndoneWrongly(f"{name} is not as it was after its rows were undone")

    def _to_compare(self, touched: set[str], children: set[str], *, unexplained: bool) -> set[str]:
        is_random = self._undos < _FIRST or self._chance.random() * _ONE_IN < 1
        if self._verify or ((unexplained or is_random) and self._checksum_s <= _WORTH_S):
            return set(self.tables)
        if unexplained:
            raise CannotUndo("a rollback, or rows that were not logged, where the data are large")
        others = {key for key, one in self.tables.items() if not one.is_invertible}
        size = sum(self.tables[key].size for key in touched)
        is_cheap = bool(self._checksums) and self._checksum_s * size <= _CHEAP_S * self._size
        return children | others | (touched if is_cheap else set())

    def _read_tables(self) -> dict[str, UndoTable]:
        rows = self._session.ask(
            "SELECT table_schema, table_name, COALESCE(engine, ''), table_type, auto_increment,"
            f" COALESCE(data_length, 0) FROM information_schema.tables WHERE {_USERS}"
            " AND table_type <> 'VIEW'"
        )
        tables = [
            UndoTable(schema, name, engine, kind, number, int(size))
            for schema, name, engine, kind, number, size in rows
        ]
        return {one.key: one for one in tables}

    def _read_ids(self) -> dict[str, int]:
        """InnoDB's number of each table and partition, which is another one after `CREATE TABLE`."""
        names = {str(name): int(number) for name, number in self._session.ask(self._ids_sql)}
        return {name: number for name, number in names.items() if not is_system(name.partition("/")[0])}

    def _read_created(self) -> dict[str, tuple[object, ...]]:
        rows = self._session.ask(
            "SELECT table_schema, table_name, engine, table_type, IF(engine = 'InnoDB', NULL, create_time)"
            f" FROM information_schema.tables WHERE {_USERS} AND table_type <> 'VIEW'"
        )
        return {f"{schema}.{name}": tuple(facts) for schema, name, *facts in rows}

    def _read_databases(self) -> set[tuple[object, ...]]:
        rows = self._session.ask(
            "SELECT schema_name, default_character_set_name, default_collation_name"
            f" FROM information_schema.schemata WHERE {_USERS.replace('table_schema', 'schema_name')}"
        )
        return {*rows}

    def _by_table(self, sql: str) -> dict[str, set[str | int]]:
        found = dict[str, set[str | int]]()
        for schema, name, item in self._session.ask(sql):
            found.setdefault(f"{schema}.{name}", set()).add(item)
        return found

    def _read_digests(self) -> dict[str, str]:
        """By table, a query in place of its checksum: MySQL 5.7 takes the address of a JSON document, not its
        content."""
        if not self._session.is_mysql or self._session.identity.version >= (8,):
            return {}
        rows = self._session.ask(
            "SELECT table_schema, table_name,"
            " GROUP_CONCAT(CONCAT('QUOTE(`', REPLACE(column_name, '`', '``'), '`)'))"
            f" FROM information_schema.columns WHERE {_USERS}"
            " GROUP BY table_schema, table_name HAVING SUM(data_type = 'json')"
        )
        digest = "SUM(CONV(LEFT(MD5(CONCAT_WS(',', {})), 12), 16, 10))"
        return {
            f"{schema}.{name}": f"SELECT COUNT(*), {digest.format(columns)} FROM {quoted(schema, name)}"
            for schema, name, columns in rows
        }

    def _numbers_of(self, tables: Sequence[UndoTable]) -> dict[str, int]:
        found = {one.key: 1 for one in tables}
        for schema in {one.schema for one in tables}:
            names = [one.name for one in tables if one.schema == schema]
            rows = self._session.ask(
                "SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = %s"
                f" AND table_name IN ({', '.join(['%s'] * len(names))})",
                (schema, *names),
            )
            found |= {f"{schema}.{name}": number or 1 for name, number in rows}
        return found

    def _checksums_of(self, keys: Collection[str]) -> dict[str, object]:
        found = dict[str, object]()
        plain = sorted(key for key in keys if key not in self._digests)
        for start in range(0, len(plain), _AT_ONCE):
            some = plain[start : start + _AT_ONCE]
            rows = self._session.ask(f"CHECKSUM TABLE {', '.join(self.tables[key].sql for key in some)}")
            found |= {key: crc for key, (_, crc) in zip(some, rows, strict=True)}
        found |= {key: self._session.ask(sql) for key, sql in self._digests.items() if key in keys}
        return found


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
        """After `CannotUndo`, the data may be half undone."""
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
        """They are deleted and put back; after an error, rows may be missing."""
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
