"""Types: whether a column's type holds the values that its generator gives it.

Sits in `generate`; pure. Limits come from the manuals of both servers ("Numeric Data Types", "Data Type
Storage Requirements"). The server handles types that are unknown here (a user's own type, an inet).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}
_TEXT_BYTES = {"tinytext": 255, "text": 65_535, "mediumtext": (1 << 24) - 1, "longtext": (1 << 32) - 1}
_BLOB_BYTES = {"tinyblob": 255, "blob": 65_535, "mediumblob": (1 << 24) - 1, "longblob": (1 << 32) - 1}
GEOMETRIES = (
    *("geometry", "point", "linestring", "polygon", "multipoint"),
    *("multilinestring", "multipolygon", "geometrycollection", "geomcollection"),
)
_FLOATS = ("float", "double", "real")
_DATES = ("date", "datetime", "timestamp", "time", "year")
_TIMESTAMPS = (1, 2**31 - 1)
_DAY_S = 86_400
_YEAR_1000 = -354_285
"""Days from 1970 to the year 1000, the first that DATE supports."""
_YEAR_10000 = 2_932_897
_DEFINITION = re.compile(
    r"\s*(?P<name>[A-Za-z][A-Za-z0-9]*)\s*(?:\((?P<args>(?:[^()'\"]|'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\\.)*\")*)\))?(?P<rest>.*)",
    re.DOTALL,
)
_QUOTED = re.compile(r"'((?:[^'\\]|''|\\.)*)'")

_ESCAPED = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "Z": "\x1a"}

Extent = Mapping[str, Any]


class ColumnType(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is in small letters, without its arguments; `not_null` holds for a part of the primary key by
    its own definition, too."""

    name: str
    size: int | None = None
    scale: int = 0
    members: tuple[str, ...] = ()
    unsigned: bool = False
    not_null: bool = False

    @property
    def is_text(self) -> bool:
        return self.name in ("char", "varchar", "nchar", "nvarchar", *_TEXT_BYTES, "json")

    @property
    def is_bytes(self) -> bool:
        return self.name in ("binary", "varbinary", *_BLOB_BYTES)


def parse_type(definition: str) -> ColumnType | None:
    found = _DEFINITION.match(definition)
    if found is None:
        return None
    name, args, rest = found["name"].lower(), found["args"] or "", found["rest"].lower()
    members = tuple(_ESCAPED.sub(_unescaped, text) for text in _QUOTED.findall(args))
    numbers = [] if members else [int(part) for part in args.split(",") if part.strip().isdigit()]
    name = {"dec": "decimal", "numeric": "decimal", "fixed": "decimal", "bool": "tinyint"}.get(name, name)
    name = "tinyint" if name == "boolean" else name
    words = re.sub(r"'(?:[^'\\]|''|\\.)*'", "''", rest)
    return ColumnType(
        name=name,
        size=numbers[0] if numbers else None,
        scale=numbers[1] if len(numbers) > 1 else 0,
        members=members,
        unsigned=bool(re.search(r"\b(unsigned|zerofill)\b", words)) or name == "serial",
        not_null="not null" in " ".join(words.split()) or "primary key" in words or name == "serial",
    )


def _unescaped(found: re.Match[str]) -> str:
    letter: str | None = found[1]
    return "'" if letter is None else _ESCAPES.get(letter, letter)


def misfit(column: ColumnType, extent: Extent) -> str | None:
    """Why a type does not hold values up to an extent, in words that follow the type's name; None if it
    does."""
    kind = extent["kind"]
    if kind == "given":
        return None
    if column.name in BITS or column.name in ("bit", "serial", "year"):
        return _integer_misfit(column, extent)
    if column.name == "decimal":
        return _decimal_misfit(column, extent)
    if column.name in _FLOATS:
        numeric = kind in ("integer", "decimal") or (kind == "choice" and _integers(extent["values"]))
        return None if numeric else f"holds numbers, not {_WORDS[kind]}"
    if column.name in ("enum", "set"):
        return _member_misfit(column, extent)
    if column.name in _DATES:
        return _date_misfit(column, extent)
    if column.name in GEOMETRIES:
        return None if kind == "geometry" else f"holds geometries, not {_WORDS[kind]}"
    if column.name == "json":
        json = kind == "json" or (kind == "choice" and all(map(_is_json, extent["values"])))
        return None if json or kind in ("integer", "decimal") else f"holds JSON, not {_WORDS[kind]}"
    if column.is_text or column.is_bytes:
        return _length_misfit(column, extent)
    return None


_WORDS = {
    "integer": "whole numbers",
    "decimal": "decimals",
    "date": "dates",
    "datetime": "dates with a time",
    "time": "times",
    "choice": "these values",
    "text": "texts",
    "json": "JSON",
    "bytes": "bytes",
    "geometry": "geometries",
}


def _integer_range(column: ColumnType) -> tuple[int, int]:
    if column.name == "year":
        return 1901, 2155
    if column.name == "bit":
        return 0, 2 ** (column.size or 1) - 1
    bits = BITS.get(column.name, 64)
    return (0, 2**bits - 1) if column.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _integer_misfit(column: ColumnType, extent: Extent) -> str | None:
    least, most = _integer_range(column)
    kind = extent["kind"]
    if kind == "choice" and _integers(extent["values"]):
        numbers = [int(value) for value in extent["values"]]
        low, high = min(numbers), max(numbers)
    elif kind == "integer":
        low, high = extent["low"], extent["high"]
    else:
        return f"holds whole numbers, not {_WORDS[kind]}"
    if column.name == "year" and low == high == 0:
        return None
    if low < least or high > most:
        return f"holds {least} to {most}, and the values are {low} to {high}"
    return None


def _decimal_misfit(column: ColumnType, extent: Extent) -> str | None:
    kind = extent["kind"]
    if kind == "choice" and _integers(extent["values"]):
        bounds, digits = [int(value) for value in extent["values"]], 0
    elif kind in ("integer", "decimal"):
        bounds, digits = [extent["low"], extent["high"]], extent.get("digits", 0)
    else:
        return f"holds numbers, not {_WORDS[kind]}"
    precision = 10 if column.size is None else column.size
    if digits > column.scale:
        return f"has {column.scale} digits after the decimal point, and the values {digits}"
    if column.unsigned and min(bounds) < 0:
        return "holds no negative numbers"
    whole = max(len(str(abs(bound) // 10**digits)) if abs(bound) >= 10**digits else 0 for bound in bounds)
    if whole > precision - column.scale:
        return f"has {precision - column.scale} digits before the decimal point, and the values {whole}"
    return None


def _member_misfit(column: ColumnType, extent: Extent) -> str | None:
    if extent["kind"] != "choice":
        return f"holds its members, not {_WORDS[extent['kind']]}"
    members = {member.casefold().rstrip(" ") for member in column.members}
    for value in extent["values"]:
        parts = value.split(",") if column.name == "set" and value else [value]
        parts = [] if column.name == "set" and not value else parts
        for part in parts:
            if part.casefold().rstrip(" ") not in members:
                return f"has no member {part!r}"
    return None


def _date_misfit(column: ColumnType, extent: Extent) -> str | None:
    kind, name = extent["kind"], column.name
    if kind == "choice":
        return None  # the server knows what texts it takes
    if name == "time":
        if kind != "time":
            return f"holds times, not {_WORDS[kind]}"
        return None if extent["digits"] <= (column.size or 0) else _fraction(column, extent)
    if kind not in ("date", "datetime"):
        return f"holds dates, not {_WORDS[kind]}"
    unit = _DAY_S if kind == "date" else 1
    scale = 10 ** extent.get("digits", 0)
    low, high = extent["low"] * unit // scale, extent["high"] * unit // scale
    if name == "date" and kind == "datetime":
        return "holds dates without a time"
    if low < _YEAR_1000 * _DAY_S or high >= _YEAR_10000 * _DAY_S:
        return "holds the years 1000 to 9999"
    if name == "timestamp" and (low < _TIMESTAMPS[0] or high > _TIMESTAMPS[1]):
        bounds = " to ".join(_moment(bound) for bound in _TIMESTAMPS)
        return f"holds {bounds}, and the values are {_moment(low)} to {_moment(high)}"
    if extent.get("digits", 0) > (column.size or 0):
        return _fraction(column, extent)
    return None


def _fraction(column: ColumnType, extent: Extent) -> str:
    return f"has {column.size or 0} digits of a second, and the values {extent['digits']}"


def _moment(seconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def _length_misfit(column: ColumnType, extent: Extent) -> str | None:
    kind = extent["kind"]
    if kind == "geometry" or (kind == "bytes" and column.is_text):
        return f"holds texts, not {_WORDS[kind]}"
    characters, octets = _length(extent)
    if column.name in _TEXT_BYTES or column.name in _BLOB_BYTES:
        most = {**_TEXT_BYTES, **_BLOB_BYTES}[column.name]
        return None if octets <= most else f"holds {most} bytes, and the values have up to {octets}"
    most = 1 if column.size is None else column.size
    length, what = (octets, "bytes") if column.is_bytes else (characters, "characters")
    return None if length <= most else f"holds {most} {what}, and the values have up to {length}"


def _length(extent: Extent) -> tuple[int, int]:
    kind = extent["kind"]
    if kind == "text":
        return extent["characters"], extent["bytes"]
    if kind in ("json", "bytes"):
        return extent["bytes"], extent["bytes"]
    if kind == "choice":
        values = extent["values"]
        return max(map(len, values)), max(len(value.encode()) for value in values)
    if kind in ("integer", "decimal"):
        longest = max(len(str(extent["low"])), len(str(extent["high"])), extent.get("digits", 0) + 2)
        longest += "digits" in extent
    else:
        digits = extent.get("digits", 0)
        longest = {"date": 10, "datetime": 19, "time": 10}[kind] + (digits + 1 if digits else 0)
    return longest, longest


def _integers(values: list[str]) -> bool:
    return all(re.fullmatch(r"-?[0-9]+", value) for value in values)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return False
    return True
