"""Plan: tables and what their rows are made of; found, read and checked before anything is loaded.

Sits in `generate`; apart from reading that one file, and importing functions in Python, it is pure. Built-in
plans lie in `builtin/`. docs/reference/fill-plan.md lists the generators; tests hold it against `GENERATORS`.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from flushlab import _core
from flushlab.errors import UsageError, nearest
from flushlab.generate.types import Extent, misfit, parse_type
from flushlab.plan import draws
from flushlab.plan.draws import Draw, Drawn, Json, Moment, moment, ordered
from flushlab.plan.toml import Node, Table, read_text, read_toml, suggestion
from flushlab.server.sql import quoted
from flushlab.spec.kinds import MOST_ROWS, Seed

_BUILTIN = Path(__file__).parent / "builtin"
_SUFFIX = ".toml"
_LARGEST = 8 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_HOURS = 839

_Keys = Annotated[
    tuple[str | tuple[str, ...], ...],
    Meta(
        title="a list of columns",
        description='for example ["a", ["b", "c"]]: one key of a, and one of b and c',
    ),
]


# -- generators: a struct for each, with its keys ------------------------------------------------------------


class _Sequence(Draw, frozen=True, kw_only=True):
    start: int = 1
    step: int = 1


class _Date(Drawn, frozen=True, kw_only=True):
    low: Moment = "2020-01-01"
    high: Moment = "2024-12-31"

    def row(self, at: Table) -> Json:
        low, high = (moment(at, key, getattr(self, key)).toordinal() - draws.EPOCH for key in ("low", "high"))
        return {**ordered(at, low, high), **self.drawn(at, None)}


class _Datetime(Drawn, frozen=True, kw_only=True):
    low: Moment = "2020-01-01"
    high: Moment = "2024-12-31T23:59:59"
    digits: Annotated[int, Meta(ge=0, le=6)] = 0

    def row(self, at: Table) -> Json:
        unit = timedelta(microseconds=10 ** (6 - self.digits))
        low, high = ((moment(at, key, getattr(self, key)) - _EPOCH) // unit for key in ("low", "high"))
        return {**ordered(at, low, high), "digits": self.digits, **self.drawn(at, None)}


class _Time(Drawn, frozen=True, kw_only=True):
    low: Moment = "00:00:00"
    high: Moment = "23:59:59"
    digits: Annotated[int, Meta(ge=0, le=6)] = 0

    def row(self, at: Table) -> Json:
        low, high = (self._clock(at, key, getattr(self, key)) for key in ("low", "high"))
        return {**ordered(at, low, high), "digits": self.digits, **self.drawn(at, None)}

    def _clock(self, at: Table, key: str, given: Any) -> int:
        """`-HHH:MM:SS` in units of the last digit behind the point."""
        text = str(given.value if isinstance(given, Node) else given)
        parts = text.removeprefix("-").split(":")
        whole = len(parts) == 3 and all(part.isdigit() for part in parts)
        hours, minutes, seconds = map(int, parts) if whole else (_TIME_HOURS, 0, 0)
        if hours >= _TIME_HOURS or minutes > 59 or seconds > 59:
            raise at.wrong(key, f"{key} is {text}, which is not a time", 'write "12:00:00"')
        total = (hours * 3600 + minutes * 60 + seconds) * int(10**self.digits)
        return -total if text.startswith("-") else total


class _Constant(Draw, frozen=True, kw_only=True):
    value: int | str


class _ForeignKey(Drawn, frozen=True, kw_only=True):
    table: str
    column: str

    def row(self, at: Table) -> Json:
        return {"table": self.table, "column": self.column, **self.drawn(at, None)}


class _Uuid(Draw, frozen=True, kw_only=True):
    version: Literal[4, 7] = 4
    start: Moment = "2024-01-01"
    binary: bool = False

    def row(self, at: Table) -> Json:
        if self.version == 4 and "start" in at:
            raise at.misplaced("start", "start is for version 7", "remove it")
        start_ms = (moment(at, "start", self.start) - _EPOCH) // timedelta(milliseconds=1)
        return {"start_ms": start_ms if self.version == 7 else None, "binary": self.binary}


class _Bcrypt(Draw, frozen=True, kw_only=True):
    password: str = "password"
    cost: Annotated[int, Meta(ge=4, le=31)] = 10
    distinct: bool = False


class _Geometry(Draw, frozen=True, kw_only=True):
    shape: Literal[
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
    ] = "point"
    x: Annotated[
        tuple[float, ...], Meta(title="a list of two numbers", description="write x = [-180, 180]")
    ] = (-180.0, 180.0)
    y: Annotated[
        tuple[float, ...], Meta(title="a list of two numbers", description="write y = [-90, 90]")
    ] = (-90.0, 90.0)
    srid: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0

    def row(self, at: Table) -> Json:
        bounds: Json = {}
        for key, ends in (("x", self.x), ("y", self.y)):
            if len(ends) != 2 or ends[0] > ends[1]:
                raise at.wrong(key, f"{key} is no range", f"write {key} = [LOW, HIGH]")
            bounds[f"low_{key}"], bounds[f"high_{key}"] = ends
        return {"shape": self.shape, "srid": self.srid, **bounds}


class _Field(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    null: Annotated[float, Meta(ge=0, le=1)] = 0.0


class _Json(Draw, frozen=True, kw_only=True):
    fields: Annotated[
        dict[str, Any], Meta(title="a table of generators", description="write fields = { id = { … } }")
    ]

    def row(self, at: Table) -> Json:
        fields = []
        for name, table in at.named("fields").items():
            _, made = _generator(table, ("null",))
            null = table.read(_Field, leave_out={*table.entries} - {"null"}).null
            fields.append({"name": name, "generator": made, "null": null})
        return {"fields": fields}


class _Person(Draw, frozen=True, kw_only=True):
    locale: Literal["en_US", "de_DE", "fr_FR", "es_ES", "ja_JP"] = "en_US"


class _Python(Draw, frozen=True, kw_only=True):
    function: str

    def row(self, at: Table) -> Json:
        module, _, name = self.function.partition(":")
        folder = str(Path(at.path).resolve().parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            function = getattr(importlib.import_module(module), name, None) if module and name else None
        except ImportError as error:
            hint = "write module:function; the plan's folder is looked through first"
            raise at.wrong("function", f"{self.function}: {error}", hint) from error
        if not callable(function):
            raise at.wrong("function", f"{self.function} is no function", "write module:function")
        return {"function": self.function}


PERSON = ("first_name", "last_name", "name", "email", "street", "city", "postcode", "address", "phone")
"""Generators of what somebody is called, and where one lives."""
GENERATORS: Mapping[str, type[Draw]] = {
    "sequence": _Sequence,
    "integer": draws.Integer,
    "decimal": draws.Decimal,
    "date": _Date,
    "datetime": _Datetime,
    "time": _Time,
    "text": draws.Text,
    "pattern": draws.Pattern,
    "choice": draws.Choice,
    "constant": _Constant,
    "foreign_key": _ForeignKey,
    "uuid": _Uuid,
    "bcrypt": _Bcrypt,
    "bytes": draws.Bytes,
    "geometry": _Geometry,
    "json": _Json,
    "row_text": draws.RowText,
    "python": _Python,
    **dict.fromkeys(PERSON, _Person),
}
"""Every generator by its name in plans."""


def _generator(at: Table, others: Collection[str]) -> tuple[Draw, Json]:
    kind, draw = at.read_kind("generator", GENERATORS, '{ generator = "sequence" }', others)
    made = draw.row(at)
    if isinstance(draw, _Person):
        return draw, {"kind": "person", "what": kind, **made}
    return draw, {"kind": kind, **made}


# -- plans ---------------------------------------------------------------------------------------------------


class _Column(_Field, frozen=True, kw_only=True):
    type: str = ""
    unique: bool = False
    same_row: str | None = None


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rows: Annotated[int, Meta(ge=0, le=MOST_ROWS)] = 1000
    at_most: Annotated[int, Meta(ge=1, le=MOST_ROWS)] = MOST_ROWS
    primary_key: Annotated[
        str | tuple[str, ...], Meta(title="names of columns", description='write primary_key = ["id"]')
    ] = ()
    unique: _Keys = ()
    index: _Keys = ()
    options: str = ""
    create: str = ""
    column: Annotated[
        dict[str, Any],
        Meta(
            min_length=1,
            title="a table of columns",
            description='write [table.NAME.column] and id = { generator = "…" }',
        ),
    ]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str = ""
    text: str = ""
    seed: Seed = 1
    table: Annotated[dict[str, _Table], Meta(min_length=1)]


class PlanTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a plan. Columns that are not named get their default; `create` has no database and no
    `;`."""

    name: str
    rows: int
    columns: tuple[str, ...]
    create: str


class FillPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that is ready to run: its rows as `crates/generate` reads them, and tables, referenced ones
    first."""

    name: str
    json: bytes
    tables: tuple[PlanTable, ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.json).hexdigest()

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)


def builtin_names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in _BUILTIN.glob(f"*{_SUFFIX}")))


def plan_text(name: str) -> tuple[str, str]:
    """The text of a plan and its path; a file that is there comes before a built-in plan."""
    path = Path(name).expanduser()
    if not path.is_file():
        if name not in builtin_names():
            names = ", ".join(builtin_names())
            near = nearest(path.stem, builtin_names(), most=1)
            advice = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"there is no plan {name}", hint=f"{advice}give a file, or one of {names}")
        path = _BUILTIN / f"{name}{_SUFFIX}"
    return read_text(path, _LARGEST), str(path)


def read_plan(name: str, *, rows: int | None = None, seed: int | None = None) -> FillPlan:
    """`rows` are of its largest table; the others keep their ratio to it."""
    text, path = plan_text(name)
    return parse_plan(text, path=path, rows=rows, seed=seed)


def parse_plan(text: str, *, path: str, rows: int | None = None, seed: int | None = None) -> FillPlan:
    root = Table(path, read_toml(text, path=path), "a plan")
    file = root.read(_File)
    tables = [_read_table(name, at, file.table[name]) for name, at in root.named("table").items()]
    largest = max(table.keys.rows for table in tables)
    for table in tables:
        if rows is not None and table.keys.rows:
            table.json["rows"] = min(max(1, table.keys.rows * rows // largest), table.keys.at_most)
    tables = _parents_first(tables)
    json = msgspec.json.encode(
        {"seed": file.seed if seed is None else seed, "tables": [table.json for table in tables]}
    )
    _check(path, json, tables)
    return FillPlan(
        name=Path(path).stem,
        json=json,
        tables=tuple(
            PlanTable(
                name=table.name, rows=table.json["rows"], columns=tuple(table.columns), create=table.create
            )
            for table in tables
        ),
    )


@dataclass(eq=False)
class _ReadColumn:
    at: Table
    keys: _Column
    draw: Draw
    json: Json


@dataclass(eq=False)
class _ReadTable:
    name: str
    at: Table
    keys: _Table
    columns: dict[str, _ReadColumn]
    primary_key: tuple[str, ...]
    create: str
    json: Json

    @property
    def parents(self) -> set[str]:
        draws = (column.draw for column in self.columns.values())
        return {draw.table for draw in draws if isinstance(draw, _ForeignKey)}


def _read_table(name: str, at: Table, keys: _Table) -> _ReadTable:
    if keys.create and keys.options:
        what = "options go into CREATE TABLE, and the plan has one of its own"
        raise at.misplaced("options", what, "write them there")
    columns = {key: _read_column(key, column, keys.create) for key, column in at.named("column").items()}
    primary = (
        _named(at, "primary_key", at.entries["primary_key"].node, columns) if "primary_key" in at else ()
    )
    uniques = [_named(at, "unique", item, columns) for item in at.items("unique")]
    indexes = [_named(at, "index", item, columns) for item in at.items("index")]
    _make_unique(at, columns, [*([primary] if primary else []), *uniques])
    lines = [f"{quoted(key)} {column.keys.type}" for key, column in columns.items()]
    lines += [f"PRIMARY KEY {_listed(primary)}"] if primary else []
    for words, keys_ in (("UNIQUE KEY", uniques), ("KEY", indexes)):
        lines += [f"{words} {quoted('_'.join(key)[:64])} {_listed(key)}" for key in keys_]
    body = ",\n  ".join([*lines, *_foreign_keys(columns, name)])
    options = keys.options or "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    create = keys.create.strip().rstrip(";") or f"CREATE TABLE {quoted(name)} (\n  {body}\n) {options}"
    json = {"name": name, "rows": keys.rows, "columns": [column.json for column in columns.values()]}
    return _ReadTable(name, at, keys, columns, primary, create, json)


def _read_column(name: str, at: Table, create: str) -> _ReadColumn:
    own = _Column.__struct_fields__
    draw, made = _generator(at, own)
    if not create:
        at.need("type")
    keys = at.read(_Column, leave_out={*at.entries} - {*own})
    kind = parse_type(keys.type)
    json = {
        "name": name,
        "generator": made,
        "null": keys.null,
        "unique": keys.unique,
        "same_row": keys.same_row,
        "bits": kind is not None and kind.name == "bit",
    }
    return _ReadColumn(at, keys, draw, json)


def _named(at: Table, key: str, node: Node, columns: Mapping[str, _ReadColumn]) -> tuple[str, ...]:
    items = node.items if node.kind == "array" else (node,)
    for item in items:
        if item.value not in columns:
            what = f"{key} has {str(item.value)!r}, which is no column of {at.what}"
            raise at.error(item, what, suggestion(str(item.value), columns))
    return tuple(str(item.value) for item in items)


def _make_unique(at: Table, columns: Mapping[str, _ReadColumn], keys: Sequence[tuple[str, ...]]) -> None:
    made = {name: column.json for name, column in columns.items()}
    keys = sorted(keys, key=len)
    for key in keys:
        if len(key) == 1:
            made[key[0]]["unique"] = True
    for number, key in enumerate(keys, start=1):
        if len(key) == 1 or any(
            made[name]["unique"] or isinstance(columns[name].draw, _Sequence | _Uuid) for name in key
        ):
            continue
        taken = {together for name in key if (together := made[name].get("together"))}
        if any(
            all(made[other].get("together") != shared or other in key for other in made) for shared in taken
        ):
            continue  # some of its columns are unique together already
        if taken:
            what = f"the key of {', '.join(key)} shares a column with another unique key"
            raise at.error(at.node, what, "make one of its columns unique by itself")
        for name in key:
            made[name]["together"] = f"key {number}"


def _foreign_keys(columns: Mapping[str, _ReadColumn], own: str) -> list[str]:
    """Foreign keys as CREATE TABLE spells them; those within the table itself are left out."""
    keys: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, column in columns.items():
        if isinstance(draw := column.draw, _ForeignKey) and draw.table != own:
            keys.setdefault((column.keys.same_row or name, draw.table), []).append((name, draw.column))
    return [
        f"FOREIGN KEY {_listed(mine for mine, _ in pairs)} REFERENCES {quoted(parent)}"
        f" {_listed(theirs for _, theirs in pairs)}"
        for (_, parent), pairs in keys.items()
    ]


def _listed(columns: Iterable[str]) -> str:
    return f"({', '.join(map(quoted, columns))})"


def _parents_first(tables: Sequence[_ReadTable]) -> list[_ReadTable]:
    left, ordered = list(tables), list[_ReadTable]()
    while left:
        names = {table.name for table in left}
        ordered += [table for table in left if not table.parents & names - {table.name}] or left[:1]
        left = [table for table in left if table not in ordered]
    return ordered


def _check(path: str, json: bytes, tables: Sequence[_ReadTable]) -> None:
    described = msgspec.json.decode(_core.describe_rows(json))
    if problem := described.get("problem"):
        raise _problem(path, problem, {table.name: table for table in tables})
    for table, extents in zip(tables, described["tables"], strict=True):
        for (name, column), (extent, can_be_null) in zip(table.columns.items(), extents, strict=True):
            if column.keys.type:
                _check_column(name, column, extent, can_be_null and name in table.primary_key, can_be_null)


def _problem(path: str, problem: Mapping[str, Any], tables: Mapping[str, _ReadTable]) -> UsageError:
    message, table = str(problem["message"]), tables.get(str(problem["table"]))
    name, hint = str(problem["column"]), "see docs/reference/fill-plan.md"
    if table is None or name not in table.columns:
        return UsageError(f"{path}: {message}", hint=hint)
    column = table.columns[name]
    if message.startswith("there is no table") and isinstance(column.draw, _ForeignKey):
        hint = suggestion(column.draw.table, tables) or f"there are {', '.join(tables)}"
    return column.at.error(column.at.node, f"the column {name}: {message}", hint)


def _check_column(name: str, column: _ReadColumn, extent: Extent, nulls_in_key: bool, nulls: bool) -> None:
    at, definition = column.at, column.keys.type
    kind = parse_type(definition)
    if kind is None:
        what = f"type is {definition!r}, which is no column's definition"
        raise at.wrong("type", what, 'write "VARCHAR(40) NOT NULL"')
    if why := misfit(kind, extent):
        shown = kind.name.upper() + (f"({kind.size})" if kind.size is not None else "")
        raise at.wrong("type", f"{name} does not fit: {shown} {why}", "change the type or the generator")
    if nulls_in_key or (nulls and kind.not_null):
        raise at.wrong("type", f"{name} is NOT NULL, and some of its values are NULL", "remove null")
