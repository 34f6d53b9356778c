"""Parameters of `txn:FILE`: from a table of the file to what draws the values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime

import msgspec

from flushlab.errors import UsageError
from flushlab.plan.table import File, Table, nearest
from flushlab.plan.toml import Node
from flushlab.record import (
    ChoiceParameter,
    ConnectionParameter,
    DateParameter,
    DatetimeParameter,
    DecimalParameter,
    IntegerParameter,
    NowParameter,
    Parameter,
    PatternParameter,
    RandSpec,
    RowTextParameter,
    SequenceParameter,
    TextParameter,
    UuidParameter,
)
from flushlab.workload.options import RAND, RAND_TYPE

_INT64 = (-(2**63), 2**63 - 1)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ALPHABETS = {
    "letters": _LETTERS,
    "digits": "0123456789",
    "alphanumeric": f"{_LETTERS}{_LETTERS.upper()}0123456789",
    "hex": "0123456789abcdef",
}
_LONGEST_TEXT = 1 << 20
_MOST_DIGITS = 18
_MOST_GROUPS = 100
_MOST_WEIGHT = 1_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_RAND = ("rand_type", *(option.name for option in RAND))


def _integer(table: Table) -> Parameter:
    table.need("low", "high")
    low, high = table.whole("low", 0, *_INT64), table.whole("high", 0, *_INT64)
    _check_order(table, low, high)
    rand_type, rand = _distribution(table)
    return IntegerParameter(low=low, high=high, rand_type=rand_type, rand=rand)


def _decimal(table: Table) -> Parameter:
    table.need("low", "high")
    digits = table.whole("digits", 2, 0, _MOST_DIGITS)
    low, high = _scaled(table, "low", digits), _scaled(table, "high", digits)
    _check_order(table, low, high)
    rand_type, rand = _distribution(table)
    return DecimalParameter(low=low, high=high, digits=digits, rand_type=rand_type, rand=rand)


def _scaled(table: Table, key: str, digits: int) -> int:
    number = table.number(key, 0.0)
    scaled = round(number * 10.0**digits)
    if abs(number * 10**digits - scaled) > 1e-6 * max(1.0, abs(scaled)) or not _INT64[0] < scaled < _INT64[1]:
        what = f"{key} is {number:g}, which needs more than {digits} decimal digits"
        raise wrong(table, key, what, "give it more digits, or another bound")
    return scaled


def _choice(table: Table) -> Parameter:
    table.need("values")
    values = table.items(
        "values", ("string", "integer"), "a list of strings or whole numbers", 'write ["a", "b"]'
    )
    if not values:
        raise wrong(table, "values", "values is empty", 'write values = ["a", "b"]')
    weights = table.items("weights", ("integer",), "a list of whole numbers", "write weights = [3, 1]")
    if weights and len(weights) != len(values):
        what = f"there are {len(values)} values and {len(weights)} weights"
        raise wrong(table, "weights", what, "give every value a weight, or none")
    for weight in weights:
        if not 0 <= _int(weight) <= _MOST_WEIGHT:
            what = f"a weight is {weight.value}, which is out of range"
            raise table.file.error(weight, what, f"it takes 0 to {_MOST_WEIGHT}")
    if weights and not any(map(_int, weights)):
        raise wrong(table, "weights", "no value has a weight above 0", "give one a weight")
    return ChoiceParameter(
        values=tuple(node.value for node in values if isinstance(node.value, int | str)),
        weights=tuple(map(_int, weights)) or (1,) * len(values),
    )


def _sequence(table: Table) -> Parameter:
    start, step = table.whole("start", 1, *_INT64), table.whole("step", 1, *_INT64)
    if not step:
        raise wrong(table, "step", "step is 0: the sequence would not advance", "1 is the default")
    return SequenceParameter(
        start=start, step=step, shared=_word(table, "scope", ("all", "connection")) == "all"
    )


def _text(table: Table) -> Parameter:
    table.need("length")
    node = table.entries["length"].node
    if node.kind == "array":
        bounds = table.items("length", ("integer",), "a length or a list of two", "write length = [5, 20]")
        if len(bounds) != 2:
            raise wrong(table, "length", f"length has {len(bounds)} bounds", "write length = [5, 20]")
        low, high = map(_int, bounds)
    else:
        low = high = table.whole("length", 0, 0, _LONGEST_TEXT)
    if not 0 <= low <= high <= _LONGEST_TEXT:
        what = f"length is {low} to {high}, which is not a range"
        raise wrong(table, "length", what, f"it takes 0 to {_LONGEST_TEXT}")
    alphabet = _ALPHABETS[_word(table, "alphabet", tuple(_ALPHABETS))]
    if "characters" in table:
        alphabet = table.text("characters")
        if not alphabet or not alphabet.isascii() or "alphabet" in table:
            what = "characters takes ASCII characters, and cannot be combined with alphabet"
            raise wrong(table, "characters", what, 'write characters = "abc"')
    return TextParameter(low=low, high=high, alphabet=alphabet)


def _pattern(table: Table) -> Parameter:
    table.need("pattern")
    pattern = table.text("pattern")
    if not pattern:
        raise wrong(table, "pattern", "the pattern is empty", 'write pattern = "##-@@@"')
    return PatternParameter(pattern=pattern)


def _uuid(table: Table) -> Parameter:
    version = table.whole("version", 4, 4, 7)
    if version not in (4, 7):
        raise wrong(table, "version", f"version is {version}", "4 is random, 7 ascends with time")
    return UuidParameter(ascending=version == 7, binary=table.truth("binary", False))


def _datetime(table: Table) -> Parameter:
    low, high = (int(_moment(table, key).timestamp()) for key in ("low", "high"))
    _check_order(table, low, high)
    return DatetimeParameter(low=low, high=high)


def _date(table: Table) -> Parameter:
    low, high = (_moment(table, key).toordinal() - _EPOCH for key in ("low", "high"))
    _check_order(table, low, high)
    return DateParameter(low=low, high=high)


def _moment(table: Table, key: str) -> datetime:
    """A date, perhaps with a time, in UTC; TOML's own or a text."""
    table.need(key)
    node = table.entries[key].node
    if node.kind not in ("datetime", "string"):
        raise table.file.wrong_type(node, key, "a date", "write 2024-01-31, or 2024-01-31T12:00:00")
    try:
        moment = datetime.fromisoformat(str(node.value))
    except ValueError:
        what = f"{key} is {node.value}, which is not a date"
        raise wrong(table, key, what, "write 2024-01-31, or 2024-01-31T12:00:00") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Table], Parameter]]] = {
    "integer": (("low", "high", *_RAND), _integer),
    "decimal": (("low", "high", "digits", *_RAND), _decimal),
    "choice": (("values", "weights"), _choice),
    "sequence": (("start", "step", "scope"), _sequence),
    "connection": ((), lambda _: ConnectionParameter()),
    "text": (("length", "alphabet", "characters"), _text),
    "pattern": (("pattern",), _pattern),
    "row_text": (
        ("groups",),
        lambda table: RowTextParameter(groups=table.whole("groups", 10, 1, _MOST_GROUPS)),
    ),
    "uuid": (("version", "binary"), _uuid),
    "datetime": (("low", "high"), _datetime),
    "date": (("low", "high"), _date),
    "now": ((), lambda _: NowParameter()),
}
KINDS = {kind: keys for kind, (keys, _) in _KINDS.items()}
"""Every type of parameter with its keys."""


def read_parameter(file: File, name: str, node: Node) -> Parameter:
    """The parameter that a table describes.

    Raises:
        UsageError: a key that its type does not have, or a value that makes no sense.
    """
    what = f"parameter {name}"
    if node.kind != "table":
        raise file.wrong_type(node, what, "a table", 'write { type = "integer", low = 1, high = 10 }')
    given = next((entry.node for entry in node.entries if entry.key == "type"), None)
    if given is None:
        slip = next((entry for entry in node.entries if nearest(entry.key, ["type"])), None)
        if slip is not None:
            raise file.error(slip, f"{slip.key} is not a key of {what}", "did you mean type?")
        raise file.error(node, f"{what} has no type", f"it takes {', '.join(_KINDS)}")
    if given.kind != "string":
        raise file.wrong_type(given, "type", "a string in quotes")
    kind = str(given.value)
    if kind not in _KINDS:
        hint = nearest(kind, _KINDS) or f"it takes {', '.join(_KINDS)}"
        raise file.error(given, f"there is no type {kind!r}", hint)
    keys, read = _KINDS[kind]
    return read(Table(file, node, f"parameter.{name}.", f"{what}, of type {kind}", ("type", *keys)))


def _distribution(table: Table) -> tuple[str, RandSpec]:
    rand_type = _word(table, "rand_type", RAND_TYPE.words, "uniform")
    values = {}
    for option in RAND:
        node = table.get(option.name)
        if node is not None:
            try:
                values[option.name.removeprefix("rand_")] = option.check(node.value)
            except UsageError as error:
                raise table.file.error(node, error.message, error.hint) from None
    return rand_type, msgspec.convert(values, RandSpec)


def _word(table: Table, key: str, words: tuple[str, ...], default: str = "") -> str:
    word = table.text(key, default or words[0])
    if word not in words:
        hint = nearest(word, words) or f"it takes {', '.join(words)}"
        raise wrong(table, key, f"unknown {key} {word!r}", hint)
    return word


def _check_order(table: Table, low: int, high: int) -> None:
    if low > high:
        raise wrong(table, "high", "high is below low", "put the smaller one first")


def _int(node: Node) -> int:
    assert isinstance(node.value, int)
    return node.value


def wrong(table: Table, key: str, what: str, hint: str) -> UsageError:
    """An error at the value of a key, or at its table where the key is left out."""
    return table.file.error(table.entries[key].node if key in table else table.node, what, hint)
