"""Draws: how files spell ranges, alphabets, choices and moments, for parameters of loads and for columns.

Sits in `plan`; pure. Every mistake is a UsageError with its place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from flushlab.plan.toml import Node, Table
from flushlab.record import ChoiceDraw, TextDraw
from flushlab.record.fill import Distribution

INT64 = (-(2**63), 2**63 - 1)
EPOCH = date(1970, 1, 1).toordinal()
MOST_DIGITS = 18
"""Behind the point of a decimal."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
ALPHABETS = {
    "letters": _LETTERS,
    "digits": "0123456789",
    "alphanumeric": f"{_LETTERS}{_LETTERS.upper()}0123456789",
    "hex": "0123456789abcdef",
}
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "uniform": (),
    "normal": ("mean", "sd"),
    "zipf": ("exponent",),
    "pareto": ("h",),
    "special": (),
    "gaussian": (),
    "ascending": (),
}
"""How numbers of a range are drawn, with the keys of each."""
DRAWN = ("distribution", *(key for keys in DISTRIBUTIONS.values() for key in keys))

_LONGEST_TEXT = 1 << 20
_MOST_WEIGHT = 1_000_000


def check_order(table: Table, low: int, high: int) -> None:
    """Holds the bounds `low` and `high` against each other.

    Raises:
        UsageError: they are the wrong way round.
    """
    if low > high:
        raise table.wrong("high", "high is below low", "put the smaller one first")


def scaled(table: Table, key: str, digits: int) -> int:
    """A number that must be there, counted in units of the last of its digits after the decimal point.

    Raises:
        UsageError: it needs more digits, or more than 64 bits.
    """
    node = table.entries[key].node
    text = repr(table.number(key, 0.0)) if node.kind not in ("string", "integer") else str(node.value)
    try:
        number = Decimal(text).scaleb(digits)
    except InvalidOperation:
        raise table.wrong(key, f"{key} is {text}, which is not a number", "write 12.34") from None
    if number != int(number) or not INT64[0] < number < INT64[1]:
        what = f"{key} is {text}, which needs more than {digits} decimal digits"
        raise table.wrong(key, what, "give it more digits, or another bound")
    return int(number)


def distribution(
    table: Table, digits: int = 0, *, numbers: bool = True, names: Collection[str] = DISTRIBUTIONS
) -> Distribution:
    """The distribution that a table names, one of `names`; `digits` scale what is given in values.

    Raises:
        UsageError: another one, or keys that it does not have.
    """
    name = table.word("distribution", tuple(names), "uniform")
    taken = DISTRIBUTIONS[name]
    for key in DRAWN[1:]:
        if key in table and key not in taken:
            hint = f"it takes {', '.join(taken)}" if taken else "remove it"
            raise table.file.error(table.entries[key], f"{key} is not a key of the distribution {name}", hint)
    if name == "zipf":
        return Distribution(name=name, exponent=table.number("exponent", 1.0, 0, 30))
    if name == "pareto":
        h = table.number("h", 0.2)
        if not 0 < h < 1:
            what = f"h is {h:g}, which is not between 0 and 1"
            raise table.wrong("h", what, "0.2: the first 20 % of the values get 80 % of the rows")
        return Distribution(name=name, h=h)
    if name == "normal":
        if not numbers:
            what = "a normal distribution needs numbers: a mean and a deviation"
            raise table.wrong("distribution", what, "gaussian is a bell around the middle")
        table.need("mean", "sd")
        mean, sd = table.number("mean", 0.0), table.number("sd", 1.0)
        if sd <= 0:
            raise table.wrong("sd", f"sd is {sd:g}", "a standard deviation is above 0")
        return Distribution(name=name, mean=mean * 10**digits, sd=sd * 10**digits)
    return Distribution(name=name)


def lengths(table: Table, longest: int) -> tuple[int, int]:
    """The bounds of `length`: a number, or a list of two.

    Raises:
        UsageError: they are no range, or there is none.
    """
    table.need("length")
    if table.entries["length"].node.kind == "array":
        bounds = table.items("length", ("integer",), "a length or a list of two", "write length = [5, 20]")
        if len(bounds) != 2:
            raise table.wrong("length", f"length has {len(bounds)} bounds", "write length = [5, 20]")
        low, high = map(integer, bounds)
    else:
        low = high = table.whole("length", 0, 0, longest)
    if not 0 <= low <= high <= longest:
        what = f"length is {low} to {high}, which is not a range"
        raise table.wrong("length", what, f"it takes 0 to {longest}")
    return low, high


def text(table: Table, longest: int = _LONGEST_TEXT) -> TextDraw:
    """Texts of `length` characters of `alphabet` or `characters`.

    Raises:
        UsageError: the characters are unknown, none, or not ASCII.
    """
    low, high = lengths(table, longest)
    alphabet = ALPHABETS[table.word("alphabet", ALPHABETS, "letters")]
    if "characters" in table:
        alphabet = table.text("characters")
        if not alphabet or not alphabet.isascii() or "alphabet" in table:
            what = "characters takes ASCII characters, and cannot be combined with alphabet"
            raise table.wrong("characters", what, 'write characters = "abc"')
    return TextDraw(low=low, high=high, alphabet=alphabet)


def choice(table: Table) -> ChoiceDraw:
    """One of `values`, by as many `weights`.

    Raises:
        UsageError: there are no values, or not a weight for each.
    """
    table.need("values")
    values = table.items(
        "values", ("string", "integer"), "a list of strings or whole numbers", 'write ["a", "b"]'
    )
    if not values:
        raise table.wrong("values", "values is empty", 'write values = ["a", "b"]')
    weights = table.items("weights", ("integer",), "a list of whole numbers", "write weights = [3, 1]")
    if weights and len(weights) != len(values):
        what = f"there are {len(values)} values and {len(weights)} weights"
        raise table.wrong("weights", what, "give every value a weight, or none")
    for weight in weights:
        if not 0 <= integer(weight) <= _MOST_WEIGHT:
            what = f"a weight is {weight.value}, which is out of range"
            raise table.file.error(weight, what, f"it takes 0 to {_MOST_WEIGHT}")
    if weights and not any(map(integer, weights)):
        raise table.wrong("weights", "no value has a weight above 0", "give one a weight")
    return ChoiceDraw(
        values=tuple(node.value for node in values if isinstance(node.value, int | str)),
        weights=tuple(map(integer, weights)) or (1,) * len(values),
    )


def ascends(table: Table) -> bool:
    """Whether the `version` of UUIDs is 7, not 4.

    Raises:
        UsageError: another one.
    """
    version = table.whole("version", 4, 4, 7)
    if version not in (4, 7):
        raise table.wrong("version", f"version is {version}", "4 is random, 7 ascends with time")
    return version == 7


def moment(table: Table, key: str, default: str | None = None) -> datetime:
    """A date, perhaps with a time, in UTC; TOML's own or a text.

    Raises:
        UsageError: it is none; or there is none, and no default.
    """
    if default is None:
        table.need(key)
    node = table.get(key)
    if node is not None and node.kind not in ("datetime", "string"):
        raise table.file.wrong_type(node, key, "a date", "write 2024-01-31, or 2024-01-31T12:00:00")
    given = str(node.value) if node is not None else str(default)
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        what = f"{key} is {given}, which is not a date"
        raise table.wrong(key, what, "write 2024-01-31, or 2024-01-31T12:00:00") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def integer(node: Node) -> int:
    """The value of a node that is an integer."""
    assert isinstance(node.value, int)
    return node.value
