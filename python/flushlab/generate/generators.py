"""Generators: what a `generator` may be, and the keys of each: one entry of `GENERATORS` per generator.

Sits in `generate`; pure, but for functions in Python, which are imported. docs/reference/fill-plan.md lists
them; tests hold it against this registry.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flushlab.plan import draws
from flushlab.plan.toml import File, Node, Readers, Table, read_kind
from flushlab.record import RowTextDraw
from flushlab.record.fill import (
    BcryptGenerator,
    BytesGenerator,
    ConstantGenerator,
    DateGenerator,
    DatetimeGenerator,
    DecimalGenerator,
    ForeignKeyGenerator,
    Generator,
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
