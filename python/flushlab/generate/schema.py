"""Schema: a plan from the tables of a database, which runs as it is; behind `flushlab fill --from-schema`.

Sits in `generate`. It asks a server's information_schema and SHOW CREATE TABLE, and changes nothing. What a
plan cannot say (a CHECK, a key on an expression) stands in it as a comment.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from flushlab.errors import UsageError
from flushlab.generate.types import BITS, GEOMETRIES, ColumnType, parse_type
from flushlab.server import Sandbox
from flushlab.server.remote.login import addresses_of, from_dsn
from flushlab.server.remote.server import RemoteServer
from flushlab.server.sql import quoted
from flushlab.server.start import SANDBOX
from flushlab.spec.parts import RemoteAccess

Query = Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]


class Column(msgspec.Struct, frozen=True, kw_only=True):
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
    name: str
    columns: tuple[str, ...]
    schema: str
    table: str
    theirs: tuple[str, ...]


class Key(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    columns: tuple[str, ...]
    prefixes: tuple[int | None, ...]


KeyParts = dict[str, list[tuple[str | None, int | None]]]
"""Columns and prefixes of unique keys, by name; None for an expression."""


def columns_of(query: Query, database: str) -> defaultdict[str, list[Column]]:
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
    sql = (
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = %s"
    )
    return {str(name).upper() for (name,) in query(sql, (table,))}


def text_of(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


_ROWS = 1000
"""Of a table that has none."""
_NULLS = 0.1
_UNIQUE_CHARACTERS = 7
"""26^7 are eight thousand million texts."""
_LETTERS = 26
_MANY = 10**9
_SHAPE_OF = {"geometry": "point", "geomcollection": "geometrycollection"}
"""Shapes of types that are no shape's name."""
_FIXED: Mapping[str, tuple[str, int]] = {
    "inet4": (r"10.[1-9].[1-9]\d.[1-9]", 9 * 90 * 9),
    "inet6": ("fd00::[1-9a-f][0-9a-f]{3}", 15 * 16**3),
}
"""Patterns, with how many values each has."""
_DAY_S = 86_400


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    rows: int
    columns: tuple[Column, ...]
    keys: tuple[Key, ...]
    foreign_keys: tuple[ForeignKey, ...]
    create: str
    notes: tuple[str, ...]


def plan_from_schema(
    schema: str,
    *,
    server: str | None = None,
    remote: RemoteAccess | None = None,
) -> str:
    """The TOML of a plan for the tables of a database: of a DSN; or of a name, beside the kept sandbox or the
    running server that has it."""
    named = [one for one in (server, remote and remote.named_by) if one]
    if "://" in schema:
        if named:
            raise UsageError("--from-schema names a server, and so does another flag", hint="name one")
        address = from_dsn(schema)
        schema = address.database
        if not schema:
            raise UsageError("--from-schema names no database", hint="write it behind the server: …/DATABASE")
    elif len(named) != 1:
        hint = "name the server: -h HOST -u USER -p, or --server sandbox:NAME"
        raise UsageError(f"--from-schema {schema} needs one server", hint=hint)
    elif server is not None:
        if not server.startswith(SANDBOX):
            what = f"{server} has no schema yet: it is a build"
            raise UsageError(what, hint="name a kept sandbox (sandbox:NAME), or your own server: -h HOST")
        with Sandbox.attach(server.removeprefix(SANDBOX)) as kept:
            return plan_of(kept.query, schema)
    else:
        assert remote is not None, "it is the one that names a server"
        address = addresses_of(remote)[0]
    with RemoteServer(address) as attached:
        return plan_of(attached.query, schema)


def plan_of(query: Query, database: str) -> str:
    tables = _read(query, database)
    most = _within_parents(tables, {table.name: _at_most(table) for table in tables})
    rows = _within_parents(tables, {table.name: min(table.rows, most[table.name]) for table in tables})
    parts = [f"# The tables of {_comment(database)}.\ntitle = {_toml(database)}\nseed = 1\n"]
    parts += [_table(table, tables, rows[table.name], most[table.name]) for table in tables]
    return "\n".join(parts)


def _read(query: Query, database: str) -> list[_Table]:
    names = [
        (str(name), int(rows or 0))
        for name, rows in query(
            "SELECT TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = %s AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
            " ORDER BY TABLE_NAME",
            (database,),
        )
    ]
    if not names:
        if not list(query("SHOW DATABASES WHERE `Database` = %s", (database,))):
            raise UsageError(f"there is no database {database!r} on the server", hint="name one that it has")
        raise UsageError(f"the database {database!r} has no tables", hint="create them first")
    columns, keys = columns_of(query, database), unique_keys_of(query, database)
    foreign, checks = foreign_keys_of(query, database), checks_of(query, database)
    return [
        _described(query, database, name, rows, columns[name], keys[name], foreign[name], checks[name])
        for name, rows in names
    ]


def _described(
    query: Query,
    database: str,
    name: str,
    rows: int,
    columns: list[Column],
    keys: KeyParts,
    foreign_keys: list[ForeignKey],
    checks: list[str],
) -> _Table:
    ((_, create, *_),) = query(f"SHOW CREATE TABLE {quoted(database, name)}", ())
    text = text_of(create)
    for theirs in (one for key in foreign_keys for one in (*key.columns, *key.theirs, key.table)):
        if "`" in theirs:  # MariaDB 11.8 does not double the backticks of a foreign key's names
            text = text.replace(f"`{theirs}`", quoted(theirs))
    json = {column.name for column in columns if f"json_valid({quoted(column.name)})" in " ".join(checks)}
    notes = [f"CHECK ({check}): keep to it by hand" for check in checks if not check.startswith("json_valid")]
    whole: list[Key] = []
    for key, parts in keys.items():
        named = tuple(column for column, _ in parts if column is not None)
        if len(named) < len(parts):
            notes.append(f"the unique key {key} is on an expression: keep to it by hand")
        else:
            whole.append(Key(name=key, columns=named, prefixes=tuple(length for _, length in parts)))
    notes += [
        f"{column.name}: values with a ? are left out, for it may stand for an emoji"
        for column in columns
        if any(_LOST in member for member in column.type.members)
    ]
    generated = {column.name for column in columns if column.generated}
    for one in whole:
        if generated.intersection(one.columns):
            notes.append(f"the unique key {one.name} has a generated column: keep to it by hand")
    return _Table(
        name=name,
        rows=rows or _ROWS,
        columns=tuple(
            msgspec.structs.replace(column, type=ColumnType(name="json", not_null=column.type.not_null))
            if column.name in json
            else column
            for column in columns
        ),
        keys=tuple(key for key in whole if not generated.intersection(key.columns)),
        foreign_keys=tuple(foreign_keys),
        create=re.sub(r"(\n\).*?) AUTO_INCREMENT=\d+", r"\1", text),
        notes=tuple(notes),
    )


# -- what becomes of them ------------------------------------------------------------------------------------


def _within_parents(tables: list[_Table], rows: dict[str, int]) -> dict[str, int]:
    """No more rows than the parent has, where each of its rows can be referred to once."""
    for _ in tables:  # a parent's limit may be found after its child's
        for table in tables:
            keys = [set(key.columns) for key in table.keys]
            for foreign in table.foreign_keys:
                if any(one <= set(foreign.columns) for one in keys):
                    rows[table.name] = min(rows[table.name], rows.get(foreign.table, rows[table.name]))
    return rows


def _at_most(table: _Table) -> int:
    columns = {column.name: column for column in table.columns}
    referring = {name for key in table.foreign_keys for name in key.columns}
    least = _MANY
    for key in table.keys:
        combinations = 1
        for name, prefix in zip(key.columns, key.prefixes, strict=True):
            combinations *= _MANY if name in referring else _values(columns[name], prefix)
        least = min(least, combinations)
    return least


def _values(column: Column, prefix: int | None) -> int:
    column, count = msgspec.structs.replace(column, auto_increment=False), _MANY
    match _generator(column, prefix, unique=True, alone=False):
        case {"generator": "integer", "low": low, "high": high}:
            count = high - low + 1
        case {"generator": "decimal", "high": high}:
            count = int(str(high).replace(".", "")) + 1
        case {"generator": "date", "low": low, "high": high}:
            count = (high - low).days + 1
        case {"generator": "time"}:
            count = int(_DAY_S * 10 ** (column.type.size or 0))
        case {"generator": "choice", "values": values}:
            count = len(values)
        case {"generator": "text", "length": [shortest, _]}:
            count = int(_LETTERS ** int(shortest))
        case {"generator": "pattern"}:
            count = _FIXED[column.type.name][1]
    return min(_MANY, count)


def _table(table: _Table, tables: list[_Table], rows: int, most: int) -> str:
    generated = [_toml(column.name) for column in table.columns if column.generated]
    notes = [*table.notes, *([f"generated columns: {', '.join(generated)}"] if generated else [])]
    lines = [f"# {_comment(note)}" for note in notes]
    lines += [f"[table.{_toml(table.name)}]", f"rows = {rows}"]
    if most < _MANY:
        lines.append(f"at_most = {most}")
    lines.append(f"create = {_multiline(table.create)}")
    lines += [f"primary_key = {_toml(key.columns)}" for key in table.keys if key.name == "PRIMARY"]
    if unique := [key.columns for key in table.keys if key.name != "PRIMARY"]:
        lines.append(f"unique = {_toml(unique)}")
    lines += ["", f"[table.{_toml(table.name)}.column]"]
    made = _generators(table, {one.name for one in tables})
    lines += [
        f"{_toml(column.name)} = {_toml({'type': column.definition, **made[column.name]})}"
        for column in table.columns
        if column.name in made
    ]
    return "\n".join(lines) + "\n"


_Options = dict[str, Any]
_ABSENT: _Options = {"generator": "constant", "value": 0, "null": 1.0}
_SEQUENCE: _Options = {"generator": "sequence"}


def _generators(table: _Table, tables: set[str]) -> dict[str, _Options]:
    prefixes: dict[str, int | None] = {}
    for key in table.keys:
        for name, prefix in zip(key.columns, key.prefixes, strict=True):
            prefixes[name] = min(filter(None, (prefixes.get(name), prefix)), default=None)
    alone = {key.columns[0] for key in table.keys if len(key.columns) == 1}
    primary = {name for key in table.keys if key.name == "PRIMARY" for name in key.columns}
    made = _references(table, tables, primary)
    referring = set(made)
    for column in table.columns:
        if column.generated or column.name in made:
            continue
        unique = column.name in prefixes
        options = _generator(column, prefixes.get(column.name), unique, column.name in alone)
        if options is not None:
            null = {"null": _NULLS} if column.nullable and column.name not in primary else {}
            made[column.name] = {**options, **null}
        elif column.nullable:
            made[column.name] = {**_ABSENT}
        elif not column.has_default:
            raise UsageError(
                f"{table.name}.{column.name} is {column.definition}: there is no generator for it",
                hint="give it a default, or let it be NULL",
            )
    _separate(table, made, referring)
    return made


def _references(table: _Table, tables: set[str], primary: set[str]) -> dict[str, _Options]:
    """The keys of columns with a foreign key; of two that overlap, the first is filled."""
    made: dict[str, _Options] = {}
    for foreign in table.foreign_keys:
        if made.keys() & set(foreign.columns):
            continue
        nullable = all(column.nullable for column in table.columns if column.name in foreign.columns)
        for name, theirs in zip(foreign.columns, foreign.theirs, strict=True):
            if foreign.table not in tables and nullable:
                made[name] = {**_ABSENT}
                continue
            made[name] = {"generator": "foreign_key", "table": foreign.table, "column": theirs}
            if len(foreign.columns) > 1:
                made[name]["same_row"] = foreign.name
            if nullable and not primary.intersection(foreign.columns):
                made[name]["null"] = _NULLS
    return made


def _separate(table: _Table, made: dict[str, _Options], referring: set[str]) -> None:
    columns = {column.name: column for column in table.columns}

    def made_unique(keys: list[set[str]]) -> bool:
        free = [
            sorted(name for name in own - referring if _values(columns[name], None) >= _MANY) for own in keys
        ]
        for names in free if all(free) else ():
            made[names[0]]["unique"] = True
        return all(free)

    taken: list[set[str]] = []
    for key in sorted(table.keys, key=lambda key: len(key.columns)):
        own = set(key.columns)
        is_unique = any(
            made[name]["generator"] in ("sequence", "uuid") or "unique" in made[name] for name in own
        )
        if len(own) == 1 or is_unique or any(one <= own for one in taken):
            continue
        overlapping = [one for one in taken if one & own]
        if overlapping and made_unique([own]):
            continue
        if overlapping and made_unique(overlapping):
            taken = [one for one in taken if one not in overlapping]
        taken.append(own)


def _generator(column: Column, prefix: int | None, unique: bool, alone: bool) -> _Options | None:
    kind, name = column.type, column.type.name
    if column.auto_increment or name == "serial" or (alone and name in BITS):
        return {**_SEQUENCE}
    if name in BITS:
        most = 2 ** (BITS[name] - (0 if kind.unsigned else 1)) - 1
        if name == "tinyint" and kind.size == 1 and not unique:
            most = 1
        return _range("integer", 1 if unique else 0, min(most, 2**63 - 1 if unique else 1_000_000))
    if name == "bit":
        return _range("integer", 0, 2 ** min(kind.size or 1, 62) - 1)
    if name == "decimal":
        digits, scale = _decimal_digits(kind)
        high = str(10**digits - 1)
        high = f"{high[: digits - scale] or '0'}.{high[digits - scale :]}" if scale else high
        return {**_range("decimal", 0, high), "digits": scale}
    if name in ("float", "double", "real"):
        return {**_SEQUENCE} if unique else _range("decimal", 0, 1000)
    if name in ("enum", "set"):
        return {"generator": "choice", "values": _members(kind)}
    if name == "date":
        days = _range("date", date(1950, 1, 1), date(2049, 12, 31))
        return days if unique else {"generator": "date"}
    if name in ("datetime", "timestamp", "time"):
        options: _Options = {"generator": "time" if name == "time" else "datetime"}
        if kind.size:
            options["digits"] = kind.size
        if unique and name != "time":
            options |= {"low": date(1990, 1, 1), "high": date(2029, 12, 31)}
        return options
    if name == "year":
        return _range("integer", 1901, 2155)
    if name == "json":
        fields = {"id": _SEQUENCE, "name": {"generator": "text", "length": [4, 12]}}
        return {"generator": "json", "fields": fields}
    if name == "uuid":
        return {"generator": "uuid"}
    if name in _FIXED:
        return {"generator": "pattern", "pattern": _FIXED[name][0]}
    if name in GEOMETRIES:
        srid = {"srid": column.srid} if column.srid else {}
        return {"generator": "geometry", "shape": _SHAPE_OF.get(name, name), **srid}
    if kind.is_bytes and not unique:
        size = kind.size if kind.size is not None else 100
        return {"generator": "bytes", "length": size if name == "binary" else [0, min(size, 100)]}
    if kind.is_text or kind.is_bytes:
        return {"generator": "text", "length": _length(kind, prefix, unique)}
    return None


def _range(generator: str, low: object, high: object) -> _Options:
    return {"generator": generator, "low": low, "high": high}


def _length(kind: ColumnType, prefix: int | None, unique: bool) -> list[int]:
    size = kind.size if kind.size is not None else 200
    if unique:
        low = min(size, prefix or size, _UNIQUE_CHARACTERS)
        return [low, max(low, min(size, 20))]
    return [min(size, 1), min(size, 24)] if kind.size is not None else [10, size]


def _decimal_digits(kind: ColumnType) -> tuple[int, int]:
    scale = min(kind.scale, 18)
    precision = 10 if kind.size is None else kind.size
    return min(precision - kind.scale + scale, 18), scale


def _members(kind: ColumnType) -> tuple[str, ...]:
    members = tuple(one for one in kind.members if _LOST not in one) or kind.members
    if kind.name == "enum":
        return members
    return tuple(dict.fromkeys((*members, ",".join(members[:2]))))


_LOST = "?"
"""Sign that servers show in a member of ENUM and SET for a character beyond U+FFFF: there it is not known."""


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, date):
        return value.isoformat()
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def _multiline(text: str) -> str:
    plain = "'''" not in text and all(
        (letter >= " " and letter != "\x7f") or letter in "\n\t" for letter in text
    )
    return f"'''\n{text}\n'''" if plain else _toml(text)


def _comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
