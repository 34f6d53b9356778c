"""What rows to generate: the plan that goes down to `flushlab._core` as JSON (crates/generate).

Dates are numbers of days since 1970-01-01 in UTC. Times are counted from there too, in units of the last of
`digits` places behind the decimal point of the second. Decimals are counted in units of their last digit.
"""

from __future__ import annotations

import msgspec

from flushlab.record.load import ChoiceDraw, RowTextDraw, TextDraw


class Distribution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How numbers are drawn: the name of a distribution with its parameters."""

    name: str
    mean: float | None = None
    sd: float | None = None
    exponent: float | None = None
    h: float | None = None


UNIFORM = Distribution(name="uniform")


class SequenceGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="sequence", tag_field="kind"):
    """`start + row * step`."""

    start: int = 1
    step: int = 1


class IntegerGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="integer", tag_field="kind"):
    """A whole number of a range, which ends with the number of the table's rows if there is no `high`."""

    low: int
    high: int | None
    distribution: Distribution = UNIFORM


class DecimalGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="decimal", tag_field="kind"):
    """A number with digits after the decimal point."""

    low: int
    high: int
    digits: int
    distribution: Distribution = UNIFORM


class DateGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="date", tag_field="kind"):
    """A day."""

    low: int
    high: int
    distribution: Distribution = UNIFORM


class DatetimeGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="datetime", tag_field="kind"):
    """A moment."""

    low: int
    high: int
    digits: int = 0
    distribution: Distribution = UNIFORM


class TimeGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="time", tag_field="kind"):
    """A time of day, or a span of hours; it may be negative."""

    low: int
    high: int
    digits: int = 0
    distribution: Distribution = UNIFORM


class PatternGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="pattern", tag_field="kind"):
    r"""A template: `user{n}@email.com`, `[A-Z]{3}-\\d{4}`, `{another_column}`."""

    pattern: str


class ForeignKeyGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="foreign_key", tag_field="kind"):
    """The value that a column has in some row of a table of the plan."""

    table: str
    column: str
    distribution: Distribution = UNIFORM


class ConstantGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="constant", tag_field="kind"):
    """Always the same."""

    value: int | str


class UuidGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="uuid", tag_field="kind"):
    """A UUID: random, or of version 7 from that millisecond on, one a row; as text or as 16 bytes."""

    start_ms: int | None = None
    binary: bool = False


class BytesGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="bytes", tag_field="kind"):
    """`low` to `high` random bytes."""

    low: int
    high: int


class GeometryGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="geometry", tag_field="kind"):
    """A geometry at a random place: a point, or a small one of another shape around it."""

    shape: str = "point"
    low_x: float = -180.0
    high_x: float = 180.0
    low_y: float = -90.0
    high_y: float = 90.0
    srid: int = 0


class PersonGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="person", tag_field="kind"):
    """What somebody is called, or where one lives, in a country."""

    what: str
    locale: str


class PythonGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="python", tag_field="kind"):
    """What a function in Python gives: `module:function`, called with a range of a thousand row numbers."""

    function: str


class BcryptGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="bcrypt", tag_field="kind"):
    """A hash of a password: one for all rows, or with a salt of its own in each."""

    password: str
    cost: int
    distinct: bool = False


class JsonField(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a JSON object; `null` is the share of nulls."""

    name: str
    generator: Generator
    null: float = 0.0


class JsonGenerator(msgspec.Struct, frozen=True, kw_only=True, tag="json", tag_field="kind"):
    """A JSON object."""

    fields: tuple[JsonField, ...]


Generator = (
    SequenceGenerator
    | IntegerGenerator
    | DecimalGenerator
    | DateGenerator
    | DatetimeGenerator
    | TimeGenerator
    | TextDraw
    | RowTextDraw
    | ChoiceDraw
    | PatternGenerator
    | ForeignKeyGenerator
    | ConstantGenerator
    | UuidGenerator
    | BytesGenerator
    | BcryptGenerator
    | GeometryGenerator
    | PersonGenerator
    | PythonGenerator
    | JsonGenerator
)


class GeneratedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column.

    Attributes:
        null: share of NULLs, 0 to 1.
        unique: no value comes twice.
        together: the name of a key whose columns are unique together.
        same_row: columns with the same text refer to the same row of their parent.
        bits: the column is a BIT, for which LOAD DATA needs a number in another way.
    """

    name: str
    generator: Generator
    null: float = 0.0
    unique: bool = False
    together: str | None = None
    same_row: str | None = None
    bits: bool = False


class GeneratedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table with its rows and its columns in their order."""

    name: str
    rows: int
    columns: tuple[GeneratedColumn, ...]


class GeneratorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides the bytes of all rows."""

    seed: int
    tables: tuple[GeneratedTable, ...]
