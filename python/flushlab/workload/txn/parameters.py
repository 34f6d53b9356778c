"""Parameters of `txn:FILE`: from a table of the file to what draws the values. Pure."""

from __future__ import annotations

from flushlab import _core
from flushlab.plan import draws
from flushlab.plan.toml import File, Node, Readers, Table, read_kind
from flushlab.record import (
    ConnectionParameter,
    DateParameter,
    DatetimeParameter,
    DecimalParameter,
    IntegerParameter,
    NowParameter,
    Parameter,
    PatternParameter,
    RandSpec,
    RowTextDraw,
    SequenceParameter,
    UuidParameter,
)

_MOST_GROUPS = 100
_PATTERN = r"write pattern = '[A-Z]{3}-\d{4}', with classes in brackets and numbers of repetitions in braces"
_DISTRIBUTIONS = {
    "uniform": "uniform",
    "zipf": "zipfian",
    "pareto": "pareto",
    "special": "special",
    "gaussian": "gaussian",
}
"""Those of a fill plan that the engine draws, with sysbench's names, which are the engine's."""
_RAND = ("distribution", *(key for name in _DISTRIBUTIONS for key in draws.DISTRIBUTIONS[name]))


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


def _sequence(table: Table) -> Parameter:
    start, step = table.whole("start", 1, *draws.INT64), table.whole("step", 1, *draws.INT64)
    if not step:
        raise table.wrong("step", "step is 0: the sequence would not advance", "1 is the default")
    return SequenceParameter(
        start=start, step=step, shared=table.word("scope", ("all", "connection"), "all") == "all"
    )


def _pattern(table: Table) -> Parameter:
    table.need("pattern")
    pattern = table.text("pattern")
    if not pattern:
        raise table.wrong("pattern", "the pattern is empty", _PATTERN)
    try:
        _core.check_pattern(pattern)
    except ValueError as error:
        raise table.wrong("pattern", str(error), _PATTERN) from None
    return PatternParameter(pattern=pattern)


def _uuid(table: Table) -> Parameter:
    return UuidParameter(ascending=draws.ascends(table), binary=table.truth("binary", False))


def _datetime(table: Table) -> Parameter:
    low, high = (int(draws.moment(table, key).timestamp()) for key in ("low", "high"))
    draws.check_order(table, low, high)
    return DatetimeParameter(low=low, high=high)


def _date(table: Table) -> Parameter:
    low, high = (draws.moment(table, key).toordinal() - draws.EPOCH for key in ("low", "high"))
    draws.check_order(table, low, high)
    return DateParameter(low=low, high=high)


KINDS: Readers[Parameter] = {
    "integer": (("low", "high", *_RAND), _integer),
    "decimal": (("low", "high", "digits", *_RAND), _decimal),
    "choice": (("values", "weights"), draws.choice),
    "sequence": (("start", "step", "scope"), _sequence),
    "connection": ((), lambda _: ConnectionParameter()),
    "text": (("length", "alphabet", "characters"), draws.text),
    "pattern": (("pattern",), _pattern),
    "row_text": (("groups",), lambda table: RowTextDraw(groups=table.whole("groups", 10, 1, _MOST_GROUPS))),
    "uuid": (("version", "binary"), _uuid),
    "datetime": (("low", "high"), _datetime),
    "date": (("low", "high"), _date),
    "now": ((), lambda _: NowParameter()),
}
"""Every type of parameter: its keys, and what reads them."""


def read_parameter(file: File, name: str, node: Node) -> Parameter:
    """The parameter that a table describes.

    Raises:
        UsageError: a key that its type does not have, or a value that makes no sense.
    """
    example = '{ type = "integer", low = 1, high = 10 }'
    return read_kind(file, node, f"parameter {name}", "type", KINDS, example)[1]


def _distribution(table: Table) -> tuple[str, RandSpec]:
    """The engine's name of a distribution, and its parameters."""
    drawn = draws.distribution(table, names=_DISTRIBUTIONS)
    rand = RandSpec()
    if drawn.exponent is not None:
        rand = RandSpec(zipfian_exp=drawn.exponent)
    elif drawn.h is not None:
        rand = RandSpec(pareto_h=drawn.h)
    return _DISTRIBUTIONS[drawn.name], rand
