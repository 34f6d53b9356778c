"""Parameters of `txn:FILE`: from a table of the file to what draws the values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from flushlab.errors import UsageError
from flushlab.plan import draws
from flushlab.plan.table import File, Table, choice
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

_MOST_GROUPS = 100
_RAND = ("rand_type", *(option.name for option in RAND))


def _integer(table: Table) -> Parameter:
    table.need("low", "high")
    low, high = table.whole("low", 0, *draws.INT64), table.whole("high", 0, *draws.INT64)
    draws.check_order(table, low, high)
    rand_type, rand = _distribution(table)
    return IntegerParameter(low=low, high=high, rand_type=rand_type, rand=rand)


def _decimal(table: Table) -> Parameter:
    table.need("low", "high")
    digits = table.whole("digits", 2, 0, draws.MOST_DIGITS)
    low, high = draws.scaled(table, "low", digits), draws.scaled(table, "high", digits)
    draws.check_order(table, low, high)
    rand_type, rand = _distribution(table)
    return DecimalParameter(low=low, high=high, digits=digits, rand_type=rand_type, rand=rand)


def _choice(table: Table) -> Parameter:
    values, weights = draws.choices(table)
    return ChoiceParameter(values=values, weights=weights)


def _sequence(table: Table) -> Parameter:
    start, step = table.whole("start", 1, *draws.INT64), table.whole("step", 1, *draws.INT64)
    if not step:
        raise draws.wrong(table, "step", "step is 0: the sequence would not advance", "1 is the default")
    return SequenceParameter(
        start=start, step=step, shared=draws.word(table, "scope", ("all", "connection")) == "all"
    )


def _text(table: Table) -> Parameter:
    low, high = draws.lengths(table)
    return TextParameter(low=low, high=high, alphabet=draws.alphabet(table))


def _pattern(table: Table) -> Parameter:
    table.need("pattern")
    pattern = table.text("pattern")
    if not pattern:
        raise draws.wrong(table, "pattern", "the pattern is empty", 'write pattern = "##-@@@"')
    return PatternParameter(pattern=pattern)


def _uuid(table: Table) -> Parameter:
    version = table.whole("version", 4, 4, 7)
    if version not in (4, 7):
        raise draws.wrong(table, "version", f"version is {version}", "4 is random, 7 ascends with time")
    return UuidParameter(ascending=version == 7, binary=table.truth("binary", False))


def _datetime(table: Table) -> Parameter:
    low, high = (int(draws.moment(table, key).timestamp()) for key in ("low", "high"))
    draws.check_order(table, low, high)
    return DatetimeParameter(low=low, high=high)


def _date(table: Table) -> Parameter:
    low, high = (draws.moment(table, key).toordinal() - draws.EPOCH for key in ("low", "high"))
    draws.check_order(table, low, high)
    return DateParameter(low=low, high=high)


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
    kind = choice(file, node, what, "type", _KINDS, '{ type = "integer", low = 1, high = 10 }')
    keys, read = _KINDS[kind]
    return read(Table(file, node, f"parameter.{name}.", f"{what}, of type {kind}", ("type", *keys)))


def _distribution(table: Table) -> tuple[str, RandSpec]:
    rand_type = draws.word(table, "rand_type", RAND_TYPE.words, "uniform")
    values = {}
    for option in RAND:
        node = table.get(option.name)
        if node is not None:
            try:
                values[option.name.removeprefix("rand_")] = option.check(node.value)
            except UsageError as error:
                raise table.file.error(node, error.message, error.hint) from None
    return rand_type, msgspec.convert(values, RandSpec)
