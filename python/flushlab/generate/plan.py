"""Plan: tables and what their rows are made of; found, read and checked before anything is loaded.

Sits in `generate`; apart from reading that one file it is pure. Built-in plans lie in `builtin/`.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import msgspec

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.generate.types import misfit, parse_type
from flushlab.near import nearest
from flushlab.plan import draws
from flushlab.plan.toml import Entry, File, Node, Readers, Table, read_kind, read_text, read_toml, suggestion
from flushlab.record import RowTextDraw
from flushlab.record.fill import (
    BcryptGenerator,
    BytesGenerator,
    ConstantGenerator,
    DateGenerator,
    DatetimeGenerator,
    DecimalGenerator,
    ForeignKeyGenerator,
    GeneratedColumn,
    GeneratedTable,
    Generator,
    GeneratorSpec,
    GeometryGenerator,
    IntegerGenerator,
    JsonField,
    JsonGenerator,
    PatternGenerator,
    PersonGenerator,
    PythonGenerator,
    SequenceGenerator,
    TimeGenerator,
    UuidGenerator,
)
from flushlab.server.sql import quoted

_INTEGERS = (-(2**63), 2**64 - 1)
_LONGEST = 1 << 24
_MOST_GROUPS = 1000
_TIME_HOURS = 839
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SHAPES = (
    *("point", "linestring", "polygon", "multipoint"),
    *("multilinestring", "multipolygon", "geometrycollection"),
)

PERSON = (*("first_name", "last_name", "name", "email", "street", "city", "postcode", "address", "phone"),)
"""Generators of what somebody is called, and where one lives."""

LOCALES = ("en_US", "de_DE", "fr_FR", "es_ES", "ja_JP")


def _sequence(table: Table) -> Generator:
    start, step = table.whole("start", 1, *_INTEGERS), table.whole("step", 1, *draws.INT64)
    return SequenceGenerator(start=start, step=step)


def _integer(table: Table) -> Generator:
    table.need("low", "high")
    low = table.whole("low", 0, *_INTEGERS)
    if table.entries["high"].node.value == "rows":
        return IntegerGenerator(low=low, high=None, distribution=draws.distribution(table))
    high = table.whole("high", 0, *_INTEGERS)
    draws.check_order(table, low, high)
    if high - low > 2**64 - 1:
        raise table.wrong("high", "the range has more than 2^64 numbers", "make it narrower")
    return IntegerGenerator(low=low, high=high, distribution=draws.distribution(table))


def _decimal(table: Table) -> Generator:
    table.need("low", "high")
    digits = table.whole("digits", 2, 0, draws.MOST_DIGITS)
    low, high = draws.scaled(table, "low", digits), draws.scaled(table, "high", digits)
    draws.check_order(table, low, high)
    return DecimalGenerator(low=low, high=high, digits=digits, distribution=draws.distribution(table, digits))


def _date(table: Table) -> Generator:
    low = draws.moment(table, "low", "2020-01-01").toordinal() - draws.EPOCH
    high = draws.moment(table, "high", "2024-12-31").toordinal() - draws.EPOCH
    draws.check_order(table, low, high)
    return DateGenerator(low=low, high=high, distribution=draws.distribution(table, numbers=False))


def _datetime(table: Table) -> Generator:
    digits = table.whole("digits", 0, 0, 6)
    unit = timedelta(microseconds=10 ** (6 - digits))
    low = (draws.moment(table, "low", "2020-01-01") - _EPOCH) // unit
    high = (draws.moment(table, "high", "2024-12-31T23:59:59") - _EPOCH) // unit
    draws.check_order(table, low, high)
    distribution = draws.distribution(table, numbers=False)
    return DatetimeGenerator(low=low, high=high, digits=digits, distribution=distribution)


def _time(table: Table) -> Generator:
    digits = table.whole("digits", 0, 0, 6)
    low, high = _clock(table, "low", "00:00:00", digits), _clock(table, "high", "23:59:59", digits)
    draws.check_order(table, low, high)
    distribution = draws.distribution(table, numbers=False)
    return TimeGenerator(low=low, high=high, digits=digits, distribution=distribution)


def _clock(table: Table, key: str, default: str, digits: int) -> int:
    """`-HHH:MM:SS` in units of the last digit behind the point."""
    node = table.get(key)
    text = default if node is None else str(node.value)
    parts = text.removeprefix("-").split(":")
    whole = len(parts) == 3 and all(part.isdigit() for part in parts)
    hours, minutes, seconds = map(int, parts) if whole else (_TIME_HOURS, 0, 0)
    if hours >= _TIME_HOURS or minutes > 59 or seconds > 59:
        raise table.wrong(key, f"{key} is {text}, which is not a time", 'write "12:00:00"')
    total = (hours * 3600 + minutes * 60 + seconds) * int(10**digits)
    return -total if text.startswith("-") else total


def _pattern(table: Table) -> Generator:
    table.need("pattern")
    return PatternGenerator(pattern=table.text("pattern"))


def _foreign_key(table: Table) -> Generator:
    table.need("table", "column")
    return ForeignKeyGenerator(
        table=table.text("table"),
        column=table.text("column"),
        distribution=draws.distribution(table, numbers=False),
    )


def _constant(table: Table) -> Generator:
    table.need("value")
    node = table.entries["value"].node
    if node.kind not in ("string", "integer") or not isinstance(node.value, str | int):
        raise table.file.wrong_type(node, "value", "a string or a whole number")
    return ConstantGenerator(value=node.value)


def _uuid(table: Table) -> Generator:
    ascends = draws.ascends(table)
    if not ascends and "start" in table:
        raise table.file.error(table.entries["start"], "start is for version 7", "remove it")
    start = draws.moment(table, "start", "2024-01-01")
    return UuidGenerator(
        start_ms=(start - _EPOCH) // timedelta(milliseconds=1) if ascends else None,
        binary=table.truth("binary", False),
    )


def _bytes(table: Table) -> Generator:
    low, high = draws.lengths(table, _LONGEST)
    return BytesGenerator(low=low, high=high)


def _bcrypt(table: Table) -> Generator:
    return BcryptGenerator(
        password=table.text("password", "password"),
        cost=table.whole("cost", 10, 4, 31),
        distinct=table.truth("distinct", False),
    )


def _geometry(table: Table) -> Generator:
    bounds = {}
    for key, low, high in (("x", -180.0, 180.0), ("y", -90.0, 90.0)):
        hint = f"write {key} = [{low:g}, {high:g}]"
        items = table.items(key, ("integer", "float"), "a list of two numbers", hint)
        found = [float(item.value) for item in items if isinstance(item.value, int | float)] or [low, high]
        if len(found) != 2 or found[0] > found[1]:
            raise table.wrong(key, f"{key} is no range", hint)
        bounds[f"low_{key}"], bounds[f"high_{key}"] = found
    return GeometryGenerator(
        shape=table.word("shape", SHAPES, "point"), srid=table.whole("srid", 0, 0, 2**32 - 1), **bounds
    )


def _python(table: Table) -> Generator:
    table.need("function")
    given = table.text("function")
    module, _, name = given.partition(":")
    folder = str(Path(table.file.path).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), name, None) if module and name else None
    except ImportError as error:
        hint = "write module:function; the plan's folder is looked through first"
        raise table.wrong("function", f"{given}: {error}", hint) from error
    if not callable(found):
        raise table.wrong("function", f"{given} is no function", "write module:function")
    return PythonGenerator(function=given)


def _person(what: str) -> Callable[[Table], Generator]:
    def read(table: Table) -> Generator:
        return PersonGenerator(what=what, locale=table.word("locale", LOCALES, "en_US"))

    return read


def _json(table: Table) -> Generator:
    table.need("fields")
    node = table.entries["fields"].node
    if node.kind != "table":
        raise table.file.wrong_type(node, "fields", "a table of generators", "write fields = { id = { … } }")
    fields = []
    for entry in node.entries:
        what = f"the field {entry.key}"
        inner = read_generator(table.file, entry.node, what, ("null",))
        fields.append(JsonField(name=entry.key, generator=inner[1], null=share(inner[0])))
    return JsonGenerator(fields=tuple(fields))


GENERATORS: Readers[Generator] = {
    "sequence": (("start", "step"), _sequence),
    "integer": (("low", "high", *draws.DRAWN), _integer),
    "decimal": (("low", "high", "digits", *draws.DRAWN), _decimal),
    "date": (("low", "high", *draws.DRAWN), _date),
    "datetime": (("low", "high", "digits", *draws.DRAWN), _datetime),
    "time": (("low", "high", "digits", *draws.DRAWN), _time),
    "text": (("length", "alphabet", "characters"), lambda table: draws.text(table, _LONGEST)),
    "pattern": (("pattern",), _pattern),
    "choice": (("values", "weights"), draws.choice),
    "constant": (("value",), _constant),
    "foreign_key": (("table", "column", *draws.DRAWN), _foreign_key),
    "uuid": (("version", "start", "binary"), _uuid),
    "bcrypt": (("password", "cost", "distinct"), _bcrypt),
    "bytes": (("length",), _bytes),
    "geometry": (("shape", "x", "y", "srid"), _geometry),
    "json": (("fields",), _json),
    "row_text": (("groups",), lambda table: RowTextDraw(groups=table.whole("groups", 10, 1, _MOST_GROUPS))),
    "python": (("function",), _python),
    **{what: (("locale",), _person(what)) for what in PERSON},
}


def read_generator(file: File, node: Node, what: str, more: tuple[str, ...]) -> tuple[Table, Generator]:
    """The generator that a table with the key `generator` describes; it may have the keys `more`, too.

    Raises:
        UsageError: with the place: an unknown generator, a key that it does not have, a value without sense.
    """
    return read_kind(file, node, what, "generator", GENERATORS, '{ generator = "sequence" }', more)


def share(table: Table, key: str = "null") -> float:
    """A share, 0 to 1."""
    return table.number(key, 0.0, 0, 1)


_BUILTIN = Path(__file__).parent / "builtin"
_SUFFIX = ".toml"
_LARGEST = 8 << 20
_SEED = 2**63 - 1
_MOST_ROWS = 10**15
_COLUMN_KEYS = ("type", "null", "unique", "same_row")
_TABLE_KEYS = ("rows", "at_most", "primary_key", "unique", "index", "options", "create", "column")


class PlanTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a plan.

    Attributes:
        rows: how many it gets.
        columns: of the rows, in their order; others get their default.
        create: CREATE TABLE, without a database and without `;`.
    """

    name: str
    rows: int
    columns: tuple[str, ...]
    create: str


class FillPlan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A plan that is ready to run.

    Attributes:
        name: of the built-in plan, or the file's without its suffix.
        spec: of the rows, for `flushlab._core`.
        tables: referenced tables first.
    """

    name: str
    spec: GeneratorSpec
    tables: tuple[PlanTable, ...]

    @cached_property
    def json(self) -> bytes:
        """The specification as `flushlab._core` reads it."""
        return msgspec.json.encode(self.spec)

    @property
    def digest(self) -> str:
        """Equal for equal rows."""
        return hashlib.sha256(self.json).hexdigest()

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)


def builtin_names() -> tuple[str, ...]:
    """Names of the plans that come with flushlab."""
    return tuple(sorted(file.stem for file in _BUILTIN.glob(f"*{_SUFFIX}")))


def plan_text(name: str) -> tuple[str, str]:
    """The text of a plan and its path; a file that is there comes before a built-in plan.

    Raises:
        UsageError: there is none of that name, or it is no text.
        StorageError: it cannot be read.
    """
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
    """A built-in plan or that of a file, checked.

    Args:
        name: a file, or the name of a built-in plan.
        rows: of its largest table; the others keep their ratio to it.
        seed: instead of the plan's.

    Raises:
        UsageError: there is none of that name, or it has a mistake: `PATH:LINE:COL: …`.
        StorageError: it cannot be read.
    """
    text, path = plan_text(name)
    return parse_plan(text, path=path, rows=rows, seed=seed)


def parse_plan(text: str, *, path: str, rows: int | None = None, seed: int | None = None) -> FillPlan:
    """The plan of a TOML text, named after its path; see `read_plan`."""
    return _Parser(read_toml(text, path=path), path).plan(rows, seed)


class _Column(msgspec.Struct, frozen=True):
    """A column as it stands in the file."""

    table: Table
    definition: str
    made: GeneratedColumn


class _Table(msgspec.Struct, frozen=True):
    """A table as it stands in the file."""

    table: Table
    made: GeneratedTable
    columns: Mapping[str, _Column]
    primary_key: tuple[str, ...]
    create: str


class _Parser:
    def __init__(self, document: Node, path: str) -> None:
        self._file = File(path)
        self._root = Table(self._file, document, "a plan", ("title", "text", "seed", "table"))
        self._root.need("table")

    def plan(self, rows: int | None, seed: int | None) -> FillPlan:
        node = self._root.entries["table"].node
        if node.kind != "table" or any(entry.node.kind != "table" for entry in node.entries):
            raise self._file.wrong_type(node, "table", "a table of each name", "write [table.NAME]")
        tables = [self._table(entry) for entry in node.entries]
        tables = self._parents_first(_scaled(tables, rows))
        own_seed = self._root.whole("seed", 1, 0, _SEED)
        spec = GeneratorSpec(
            seed=own_seed if seed is None else seed, tables=tuple(table.made for table in tables)
        )
        self._check(spec, tables)
        return FillPlan(
            name=Path(self._file.path).stem,
            spec=spec,
            tables=tuple(
                PlanTable(
                    name=table.made.name,
                    rows=table.made.rows,
                    columns=tuple(table.columns),
                    create=table.create,
                )
                for table in tables
            ),
        )

    def _table(self, entry: Entry) -> _Table:
        table = Table(self._file, entry.node, f"the table {entry.key}", _TABLE_KEYS)
        table.need("column")
        node = table.entries["column"].node
        if node.kind != "table" or not node.entries:
            raise self._file.wrong_type(
                node, "column", "a table of columns", 'write [table.NAME.column] and id = { generator = "…" }'
            )
        columns = {one.key: self._column(one, "create" in table) for one in node.entries}
        key = table.get("primary_key")
        primary = self._names(table, "primary_key", key, columns) if key is not None else ()
        if "create" in table and "options" in table:
            what = "options go into CREATE TABLE, and the plan has one of its own"
            raise self._file.error(table.entries["options"], what, "write them there")
        uniques = self._keys(table, "unique", columns)
        made = GeneratedTable(
            name=entry.key,
            rows=table.whole("rows", 1000, 0, _MOST_ROWS),
            columns=self._unique(table, columns, ([primary] if primary else []) + uniques),
        )
        lines = [f"{quoted(name)} {column.definition}" for name, column in columns.items()]
        lines += [f"PRIMARY KEY {_listed(primary)}"] if primary else []
        for words, keys in (("UNIQUE KEY", uniques), ("KEY", self._keys(table, "index", columns))):
            lines += [f"{words} {quoted('_'.join(key)[:64])} {_listed(key)}" for key in keys]
        body = ",\n  ".join([*lines, *_foreign_keys(made.columns, entry.key)])
        options = table.text("options") or "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
        create = table.text("create").strip().rstrip(";")
        create = create or f"CREATE TABLE {quoted(entry.key)} (\n  {body}\n) {options}"
        return _Table(table, made, columns, primary, create)

    def _column(self, entry: Entry, created: bool) -> _Column:
        table, generator = read_generator(self._file, entry.node, f"the column {entry.key}", _COLUMN_KEYS)
        if not created:
            table.need("type")
        kind = parse_type(table.text("type"))
        return _Column(
            table,
            table.text("type"),
            GeneratedColumn(
                name=entry.key,
                generator=generator,
                null=share(table),
                unique=table.truth("unique", False),
                same_row=table.text("same_row") or None,
                bits=kind is not None and kind.name == "bit",
            ),
        )

    def _keys(self, table: Table, key: str, columns: Mapping[str, _Column]) -> list[tuple[str, ...]]:
        hint = f'write {key} = ["a", ["b", "c"]]: one key of a, and one of b and c'
        items = table.items(key, ("string", "array"), "a list of columns", hint)
        return [self._names(table, key, item, columns) for item in items]

    def _names(self, table: Table, key: str, node: Node, columns: Mapping[str, _Column]) -> tuple[str, ...]:
        items = node.items if node.kind == "array" else (node,)
        for item in items:
            if item.kind != "string":
                raise self._file.wrong_type(item, key, "names of columns", f'write {key} = ["id"]')
            if str(item.value) not in columns:
                what = f"{key} has {str(item.value)!r}, which is no column of {table.what}"
                raise self._file.error(item, what, suggestion(str(item.value), columns))
        return tuple(str(item.value) for item in items)

    def _unique(
        self, table: Table, columns: Mapping[str, _Column], keys: Iterable[tuple[str, ...]]
    ) -> tuple[GeneratedColumn, ...]:
        """The columns, with what makes their keys unique."""
        made = {name: column.made for name, column in columns.items()}
        keys = sorted(keys, key=len)
        for key in keys:
            if len(key) == 1:
                made[key[0]] = msgspec.structs.replace(made[key[0]], unique=True)
        for number, key in enumerate(keys, start=1):
            if len(key) == 1 or any(
                made[name].unique or isinstance(made[name].generator, SequenceGenerator | UuidGenerator)
                for name in key
            ):
                continue
            taken = {made[name].together for name in key if made[name].together}
            if any(all(made[other].together != one or other in key for other in made) for one in taken):
                continue  # some of its columns are unique together already
            if taken:
                what = f"the key of {', '.join(key)} shares a column with another unique key"
                raise self._file.error(table.node, what, "make one of its columns unique by itself")
            for name in key:
                made[name] = msgspec.structs.replace(made[name], together=f"key {number}")
        return tuple(made.values())

    def _parents_first(self, tables: list[_Table]) -> list[_Table]:
        """In an order in which no table comes before those that it refers to, if there is one."""
        left, ordered = list(tables), list[_Table]()
        while left:
            names = {table.made.name for table in left}
            free = [table for table in left if not (_parents(table) & names - {table.made.name})]
            ordered += free or left[:1]
            left = [table for table in left if table not in ordered]
        return ordered

    def _check(self, spec: GeneratorSpec, tables: list[_Table]) -> None:
        """Holds the columns' types against their values."""
        described = msgspec.json.decode(_core.describe_rows(msgspec.json.encode(spec)))
        by_name = {table.made.name: table for table in tables}
        if problem := described.get("problem"):
            raise self._problem(problem, by_name)
        for table, extents in zip(tables, described["tables"], strict=True):
            for column, (extent, can_be_null) in zip(table.columns.values(), extents, strict=True):
                self._check_column(table, column, extent, can_be_null)

    def _problem(self, problem: Mapping[str, str | None], tables: Mapping[str, _Table]) -> UsageError:
        message = str(problem["message"])
        table = tables.get(str(problem["table"]))
        column = table.columns.get(str(problem["column"])) if table is not None else None
        if column is None:
            return UsageError(f"{self._file.path}: {message}", hint="see docs/reference/fill-plan.md")
        what = f"the column {column.made.name}: {message}"
        hint: str | None = "see docs/reference/fill-plan.md"
        if message.startswith("there is no table") and isinstance(column.made.generator, ForeignKeyGenerator):
            hint = suggestion(column.made.generator.table, tables) or f"there are {', '.join(tables)}"
        return self._file.error(column.table.node, what, hint)

    def _check_column(
        self, table: _Table, column: _Column, extent: Mapping[str, object], can_be_null: bool
    ) -> None:
        if not column.definition:
            return
        where = column.table.entries["type"].node
        kind = parse_type(column.definition)
        if kind is None:
            what = f"type is {column.definition!r}, which is no column's definition"
            raise self._file.error(where, what, 'write "VARCHAR(40) NOT NULL"')
        name = column.made.name
        shown = kind.name.upper() + (f"({kind.size})" if kind.size is not None else "")
        why = misfit(kind, extent)
        if why is not None:
            raise self._file.error(
                where, f"{name} does not fit: {shown} {why}", "change the type or the generator"
            )
        if can_be_null and (kind.not_null or name in table.primary_key):
            raise self._file.error(
                where, f"{name} is NOT NULL, and some of its values are NULL", "remove null"
            )


def _foreign_keys(columns: Iterable[GeneratedColumn], own: str) -> list[str]:
    """Foreign keys as CREATE TABLE spells them; those within the table itself are left out."""
    keys: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for column in columns:
        generator = column.generator
        if isinstance(generator, ForeignKeyGenerator) and generator.table != own:
            key = (column.same_row or column.name, generator.table)
            keys.setdefault(key, []).append((column.name, generator.column))
    return [
        f"FOREIGN KEY {_listed(mine for mine, _ in pairs)} REFERENCES {quoted(parent)}"
        f" {_listed(theirs for _, theirs in pairs)}"
        for (_, parent), pairs in keys.items()
    ]


def _listed(columns: Iterable[str]) -> str:
    return f"({', '.join(map(quoted, columns))})"


def _parents(table: _Table) -> set[str]:
    generators = (column.generator for column in table.made.columns)
    return {generator.table for generator in generators if isinstance(generator, ForeignKeyGenerator)}


def _scaled(tables: list[_Table], rows: int | None) -> list[_Table]:
    largest = max(table.made.rows for table in tables)
    if rows is None or not largest:
        return tables

    def scaled(table: _Table) -> _Table:
        most = table.table.whole("at_most", _MOST_ROWS, 1, _MOST_ROWS)
        count = min(max(1, table.made.rows * rows // largest), most) if table.made.rows else 0
        return msgspec.structs.replace(table, made=msgspec.structs.replace(table.made, rows=count))

    return [scaled(table) for table in tables]
