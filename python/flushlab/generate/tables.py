"""Tables: columns, unique keys, foreign keys and checks of a database's tables, from its information_schema.

Sits in `generate`; only asks. Every function answers for all tables of a database, by their names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from flushlab.generate.types import ColumnType, parse_type

Query = Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column; `expression` is that of a generated one."""

    name: str
    type: ColumnType
    definition: str
    nullable: bool
    auto_increment: bool
    generated: bool
    has_default: bool
    srid: int
    expression: str = ""
    charset: str = ""
    collation: str = ""


class ForeignKey(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign key, with the table and the columns that it refers to."""

    name: str
    columns: tuple[str, ...]
    schema: str
    table: str
    theirs: tuple[str, ...]


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A unique key on columns, each whole or by a prefix."""

    name: str
    columns: tuple[str, ...]
    prefixes: tuple[int | None, ...]


KeyParts = dict[str, list[tuple[str | None, int | None]]]
"""Columns and prefixes of unique keys, by name; None for an expression."""


def columns_of(query: Query, database: str) -> defaultdict[str, list[Column]]:
    """The columns, in their order."""
    srid = "SRS_ID" if "SRS_ID" in _columns_of_schema(query, "COLUMNS") else "0"
    found: defaultdict[str, list[Column]] = defaultdict(list)
    for table, name, kind, nullable, extra, expression, default, charset, collation, srs in query(
        "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, EXTRA, GENERATION_EXPRESSION,"
        f" COLUMN_DEFAULT, CHARACTER_SET_NAME, COLLATION_NAME, {srid} FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s ORDER BY TABLE_NAME, ORDINAL_POSITION",
        (database,),
    ):
        text = text_of(kind)
        definition = text if nullable == "YES" else f"{text} NOT NULL"
        words = str(extra).upper()
        column_type = parse_type(definition)
        assert column_type is not None, definition
        found[str(table)].append(
            Column(
                name=str(name),
                type=column_type,
                definition=definition,
                nullable=nullable == "YES",
                auto_increment="AUTO_INCREMENT" in words,
                generated=bool(expression) or "GENERATED" in words.replace("DEFAULT_GENERATED", ""),
                has_default=default is not None,
                srid=int(srs or 0),
                expression=text_of(expression or ""),
                charset=str(charset or ""),
                collation=str(collation or ""),
            )
        )
    return found


def unique_keys_of(query: Query, database: str) -> defaultdict[str, KeyParts]:
    """The unique keys, the primary key among them."""
    found: defaultdict[str, KeyParts] = defaultdict(dict)
    for table, key, column, prefix in query(
        "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = %s AND NON_UNIQUE = 0 ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
        (database,),
    ):
        length = None if prefix is None else int(prefix)
        part = (None if column is None else str(column), length)
        found[str(table)].setdefault(str(key), []).append(part)
    return found


def foreign_keys_of(query: Query, database: str) -> defaultdict[str, list[ForeignKey]]:
    """The foreign keys of the tables that refer."""
    parts: dict[tuple[str, str], list[tuple[str, str, str, str]]] = {}
    for table, name, column, schema, parent, theirs in query(
        "SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME,"
        " REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE"
        " WHERE TABLE_SCHEMA = %s AND REFERENCED_TABLE_NAME IS NOT NULL"
        " ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION",
        (database,),
    ):
        row = (str(column), str(schema), str(parent), str(theirs))
        parts.setdefault((str(table), str(name)), []).append(row)
    found: defaultdict[str, list[ForeignKey]] = defaultdict(list)
    for (table, name), rows in parts.items():
        found[table].append(
            ForeignKey(
                name=name,
                columns=tuple(column for column, _, _, _ in rows),
                schema=rows[0][1],
                table=rows[0][2],
                theirs=tuple(theirs for _, _, _, theirs in rows),
            )
        )
    return found


def checks_of(query: Query, database: str) -> defaultdict[str, list[str]]:
    """CHECK constraints by table: MariaDB names it beside them, MySQL has them from 8.0.16."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    known = _columns_of_schema(query, "CHECK_CONSTRAINTS")
    if not known:
        return found
    if "TABLE_NAME" in known:
        sql = (
            "SELECT TABLE_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS"
            " WHERE CONSTRAINT_SCHEMA = %s"
        )
    else:
        sql = (
            "SELECT t.TABLE_NAME, c.CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS c"
            " JOIN information_schema.TABLE_CONSTRAINTS t"
            " USING (CONSTRAINT_SCHEMA, CONSTRAINT_NAME) WHERE c.CONSTRAINT_SCHEMA = %s"
        )
    for table, clause in query(sql, (database,)):
        found[str(table)].append(text_of(clause))
    return found


def _columns_of_schema(query: Query, table: str) -> set[str]:
    """Columns of a table of information_schema; none if there is no such table."""
    sql = (
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = %s"
    )
    return {str(name).upper() for (name,) in query(sql, (table,))}


def text_of(value: object) -> str:
    """A text that some servers give as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
