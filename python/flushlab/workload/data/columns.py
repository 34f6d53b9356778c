"""Columns: how a value of each type is read, compared, written, changed and made new. Pure.

A value travels as a whole number, or as bytes in hexadecimal: as the column holds them for texts and bytes,
ASCII for the rest. So no character set is converted on the way. Sources: the manuals of both servers ("Data
Types", "Type Conversion in Expression Evaluation").
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

import msgspec

from flushlab.generate.schema import Column
from flushlab.record import Parameter, SequenceParameter, TextDraw, UuidParameter
from flushlab.server.sql import quoted

Cell = int | str | None
"""A value: a whole number, bytes in hexadecimal, or NULL."""
Part = str | Parameter
"""Of a statement: SQL, or a parameter in its place."""

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_TIMES = {"date": "DATE", "datetime": "DATETIME(6)", "timestamp": "DATETIME(6)", "time": "TIME(6)"}
"""What keys are compared as."""
_RAW = (
    *_TEXTS,
    *_BYTES,
    *("geometry", "point", "linestring", "polygon", "vector"),
    *("multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection"),
)
"""Types of which HEX() gives the bytes that the column takes back."""
_LONG = re.compile(r"text|blob|json|geom|point|linestring|polygon|vector|xml")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CHANGED = 8
"""Characters that an update puts in front of a text."""
_MARK = "flushlab-"
_DIGITS = 10
_LEAST_NEW = 100
"""A column is made new only if it has room for so many values."""
PLENTY = 10**9
"""No load uses up so many; fewer are used again, and replace the row that had the value before."""
_MOST = 2**63 - 1
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Expression(NamedTuple):
    before: str
    parameter: Parameter | None = None
    after: str = ""
    room: int = 0


def is_long(column: Column) -> bool:
    return bool(_LONG.search(column.type.name))


def _is_number(column: Column) -> bool:
    kind = column.type
    return (kind.name in _BITS and not (kind.name == "bigint" and kind.unsigned)) or kind.name == "year"


def read_key(column: Column) -> str:
    return quoted(column.name) if _is_number(column) else read_value(column)


def read_value(column: Column) -> str:
    name = quoted(column.name)
    if column.type.name in _RAW:
        return f"HEX({name})"
    return f"HEX(CAST({f'{name} + 0' if column.type.name == 'bit' else name} AS CHAR))"


def compared(column: Column) -> tuple[str, str] | None:
    kind = column.type
    if _is_number(column) or kind.name in _BYTES:
        return "", ""
    if kind.name in ("bigint", "bit"):
        return _as("UNSIGNED")
    if kind.name == "decimal":
        return _as(f"DECIMAL({kind.size or 10}, {kind.scale})")
    if kind.name in _TIMES:
        return _as(_TIMES[kind.name])
    if kind.name in _TEXTS:
        return "CONVERT(", f" USING {column.charset}) COLLATE {column.collation}"
    return _TEXT if kind.name in ("uuid", "inet4", "inet6") else None


def written(column: Column) -> tuple[str, str]:
    if column.type.name == "bit":
        return _as("UNSIGNED")
    return ("", "") if column.type.name in _RAW else _TEXT


_TEXT = "CONVERT(", " USING utf8mb4)"
"""MySQL since 8.0.22 takes the type of a parameter from its place. Bytes that are to be a TIME or a large
number get lost. In here the parameter is a string."""


def _as(kind: str) -> tuple[str, str]:
    return f"CAST({_TEXT[0]}", f"{_TEXT[1]} AS {kind})"


def change(column: Column) -> Expression | None:
    kind, name = column.type, quoted(column.name)
    if kind.name in _BITS or kind.name == "decimal":
        step = f"{10**-kind.scale:.{kind.scale}f}"
        return Expression(f"IF({name} > 0, {name} - {step}, COALESCE({name}, 0) + {step})")
    if kind.name in ("float", "double"):
        return Expression(f"IF(ABS({name}) > 1, {name} / 2, COALESCE({name}, 0) + 1)")
    if kind.name in _TIMES:
        one, other = _TWO_TIMES[kind.name]
        return Expression(f"IF({name} = '{one}', '{other}', '{one}')")
    if kind.name == "bit":
        return Expression(f"IF({name} = 0, 1, 0)")
    if kind.name == "enum" and len(kind.members) > 1:
        return Expression(f"IF({name} + 0 = 1, 2, 1)")
    if kind.name == "set":
        return Expression(f"IF({name} + 0 = 1, 0, 1)")
    if kind.name in _TEXTS or kind.name in _BYTES:
        width = min(_CHANGED, _CHANGED if kind.size is None else kind.size)
        if width and kind.name != "enum":
            rest = f", SUBSTRING(COALESCE({name}, ''), {width + 1}))"
            return Expression("CONCAT(", TextDraw(low=width, high=width, alphabet=_LETTERS), rest)
    return None


_TWO_TIMES = {
    "date": ("2021-01-05", "2021-01-06"),
    "datetime": ("2021-01-05 12:00:00", "2021-01-06 12:00:00"),
    "timestamp": ("2021-01-05 12:00:00", "2021-01-06 12:00:00"),
    "time": ("12:00:00", "13:00:00"),
}
"""In no night in which clocks change."""

_CHANGED_FIRST = (
    *(*_BITS, "decimal"),
    *("datetime", "timestamp", "date", "time"),
    *("varchar", "char", "double", "float", "varbinary", "binary", "enum", "set", "bit"),
)
"""What updates of applications change, the usual first; long texts last."""


def changed_first(column: Column, indexed: Collection[str]) -> tuple[bool, int]:
    name = column.type.name
    rank = _CHANGED_FIRST.index(name) if name in _CHANGED_FIRST else len(_CHANGED_FIRST)
    return column.name in indexed, rank


def new(
    column: Column, prefix: int | None, greatest: str, sample: str, marked: str = ""
) -> Expression | None:
    kind = column.type
    found: Expression | None = None
    if kind.name in _BITS or kind.name == "decimal":
        digits = (10 if kind.size is None else kind.size) - kind.scale
        bits = _BITS.get(kind.name, 0)
        limit = 10**digits - 1 if not bits else 2 ** (bits - (0 if kind.unsigned else 1)) - 1
        start = max(int(float(greatest) if kind.name == "decimal" else int(greatest)), 0) + 1
        found = _counted("", start, min(limit, _MOST) - start, "")
    elif kind.name == "uuid" or (kind.name in _TEXTS and prefix is None and _UUID.fullmatch(sample)):
        found = Expression("", UuidParameter(), "", _MOST)
    elif kind.name == "binary" and kind.size == 16 and prefix is None:
        found = Expression("", UuidParameter(binary=True), "", _MOST)
    elif kind.name in _TEXTS[:-2] or kind.name in _BYTES:
        mark, digits = _marking(column, prefix)
        first = 10 ** max(digits - 1, 0)
        earlier = re.fullmatch(rf"{mark}(\d{{{digits}}})", marked)
        start = int(earlier[1]) + 1 if earlier and digits > 0 else first
        found = _counted(f"CONCAT('{mark}', ", start, 10 * first - start, ")")
    elif kind.name in _LAST:
        found = _later(kind.name, greatest)
    return found if found is not None and found.room >= _LEAST_NEW else None


def _marking(column: Column, prefix: int | None) -> tuple[str, int]:
    size = min(one for one in (column.type.size, prefix, 255) if one is not None)
    mark = _MARK if size >= len(_MARK) + _DIGITS else _MARK[0]
    return mark, min(size - len(mark), _DIGITS)


def marked(column: Column, prefix: int | None) -> str:
    if column.type.name not in _TEXTS[:-2] and column.type.name not in _BYTES:
        return ""
    mark, digits = _marking(column, prefix)
    return f"{quoted(column.name)} LIKE '{mark}{'_' * digits}'"


def _counted(before: str, start: int, room: int, after: str) -> Expression:
    if room >= PLENTY:
        return Expression(before, SequenceParameter(start=start), after, room)
    return Expression(f"{before}{start} + MOD(", SequenceParameter(start=0), f", {room}){after}", room)


_LAST = {"date": datetime.max, "datetime": datetime.max, "timestamp": datetime(2038, 1, 1)}


def _later(kind: str, greatest: str) -> Expression | None:
    try:
        left = _LAST[kind] - datetime.fromisoformat(greatest)
    except ValueError:  # 0000-00-00
        return None
    days = kind == "date"
    room = left.days - 1 if days else int(left.total_seconds()) - 1
    return _counted(f"'{greatest}' + INTERVAL ", 1, room, " DAY" if days else " SECOND")


def literal(cell: Cell) -> str:
    """A value in SQL, as the engine binds it: X'31' would be the number 49 in a column of numbers."""
    if cell is None:
        return "NULL"
    return str(cell) if isinstance(cell, int) else f"UNHEX('{cell}')"


class Statement(msgspec.Struct, frozen=True):
    verb: str
    parts: tuple[Part, ...]
