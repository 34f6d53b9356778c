"""Draws: how files spell ranges, alphabets, choices and moments, for parameters of loads and for columns.

Sits in `plan`; pure. A struct for each kind declares its keys, and makes the JSON that `flushlab._core`
reads; keys that contradict each other are refused there, each at its place.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from flushlab import _core
from flushlab.plan.toml import Node, Table
from flushlab.record import RandSpec

EPOCH = date(1970, 1, 1).toordinal()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ALPHABETS = {
    "letters": LETTERS,
    "digits": "0123456789",
    "alphanumeric": f"{LETTERS}{LETTERS.upper()}0123456789",
    "hex": "0123456789abcdef",
}
DISTRIBUTIONS: dict[str, dict[str, float]] = {
    "uniform": {},
    "normal": {"mean": 0.0, "sd": 1.0},
    "zipf": {"exponent": 1.0},
    "pareto": {"h": 0.2},
    "special": {},
    "gaussian": {},
    "ascending": {},
}
"""How numbers of a range are drawn, with the keys of each and their defaults; `normal` needs both of its."""
_PATTERN = r"write pattern = '[A-Z]{3}-\d{4}', with classes in brackets and numbers of repetitions in braces"

Json = dict[str, Any]
Moment = Annotated[Any, Meta(title="a date")]


class Draw(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source of values. `at` has the places of its keys; contradictions are a UsageError."""

    def row(self, at: Table) -> Json:
        """Keys that `crates/generate` reads, but for its kind."""
        return msgspec.structs.asdict(self)

    def parameter(self, at: Table) -> Json:
        """Keys that `crates/load` reads, but for its kind."""
        return self.row(at)


class Drawn(Draw, frozen=True, kw_only=True):
    distribution: Literal["uniform", "normal", "zipf", "pareto", "special", "gaussian", "ascending"] = (
        "uniform"
    )
    mean: float | None = None
    sd: Annotated[float, Meta(gt=0)] | None = None
    exponent: Annotated[float, Meta(ge=0, le=30)] | None = None
    h: Annotated[float, Meta(gt=0, lt=1)] | None = None

    def drawn(self, at: Table, scale: int | None = 1) -> Json:
        """`scale` is of its keys in values; None: the values are no numbers."""
        taken = DISTRIBUTIONS[self.distribution]
        for key in ("mean", "sd", "exponent", "h"):
            if key in at and key not in taken:
                what = f"{key} is not a key of the distribution {self.distribution}"
                raise at.misplaced(key, what, f"it takes {', '.join(taken)}" if taken else "remove it")
        if self.distribution == "normal":
            if scale is None:
                what = "a normal distribution needs numbers: a mean and a deviation"
                raise at.wrong("distribution", what, "gaussian is a bell around the middle")
            at.need("mean", "sd")
        given = {key: getattr(self, key) if key in at else default for key, default in taken.items()}
        if self.distribution == "normal":
            given = {key: value * (scale or 1) for key, value in given.items()}
        return {"distribution": {"name": self.distribution, **given}}

    def rand(self, at: Table) -> Json:
        """The distribution under sysbench's names, which are the load engine's."""
        if self.distribution not in _RAND:
            hint = f"it takes {' or '.join(_RAND)}"
            raise at.wrong("distribution", f"unknown distribution {self.distribution!r}", hint)
        drawn = self.drawn(at)["distribution"]
        named = {sysbench: drawn[key] for key, sysbench in _RAND_KEYS.items() if key in drawn}
        return {
            "rand_type": _RAND[self.distribution],
            "rand": msgspec.structs.asdict(RandSpec(**named)),
        }


_RAND = {
    "uniform": "uniform",
    "zipf": "zipfian",
    "pareto": "pareto",
    "special": "special",
    "gaussian": "gaussian",
}
_RAND_KEYS = {"exponent": "zipfian_exp", "h": "pareto_h"}


def ordered(at: Table, low: int, high: int) -> Json:
    if low > high:
        raise at.wrong("high", "high is below low", "put the smaller one first")
    return {"low": low, "high": high}


class Integer(Drawn, frozen=True, kw_only=True):
    low: int
    high: int | Literal["rows"]

    def row(self, at: Table) -> Json:
        if isinstance(self.high, str):
            return {"low": self.low, "high": None, **self.drawn(at)}
        return {**ordered(at, self.low, self.high), **self.drawn(at)}

    def parameter(self, at: Table) -> Json:
        if isinstance(self.high, str):
            raise at.wrong_type(at.entries["high"].node, "high", "a whole number")
        return {**ordered(at, self.low, self.high), **self.rand(at)}


class Decimal(Drawn, frozen=True, kw_only=True):
    low: Annotated[int | float | str, Meta(title="a number")]
    high: Annotated[int | float | str, Meta(title="a number")]
    digits: Annotated[int, Meta(ge=0, le=18)] = 2

    def row(self, at: Table) -> Json:
        return {**self._bounds(at), **self.drawn(at, 10**self.digits)}

    def parameter(self, at: Table) -> Json:
        return {**self._bounds(at), **self.rand(at)}

    def _bounds(self, at: Table) -> Json:
        """Counted in units of the last digit behind the point."""
        low, high = self._scaled(at, "low", self.low), self._scaled(at, "high", self.high)
        return {**ordered(at, low, high), "digits": self.digits}

    def _scaled(self, at: Table, key: str, given: float | str) -> int:
        try:
            number = Number(str(given)).scaleb(self.digits)
        except InvalidOperation:
            raise at.wrong(key, f"{key} is {given}, which is not a number", "write 12.34") from None
        if number != int(number) or abs(number) >= 2**63:
            what = f"{key} is {given}, which needs more than {self.digits} decimal digits"
            raise at.wrong(key, what, "give it more digits, or another bound")
        return int(number)


class Choice(Draw, frozen=True, kw_only=True):
    values: Annotated[
        tuple[Annotated[int | str, Meta(title="strings or whole numbers")], ...],
        Meta(
            min_length=1, title="a list of strings or whole numbers", description='write values = ["a", "b"]'
        ),
    ]
    weights: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=1_000_000)], ...],
        Meta(title="a list of whole numbers", description="write weights = [3, 1]"),
    ] = ()

    def row(self, at: Table) -> Json:
        if self.weights and len(self.weights) != len(self.values):
            what = f"there are {len(self.values)} values and {len(self.weights)} weights"
            raise at.wrong("weights", what, "give every value a weight, or none")
        if self.weights and not any(self.weights):
            raise at.wrong("weights", "no value has a weight above 0", "give one a weight")
        return {"values": self.values, "weights": self.weights or (1,) * len(self.values)}


class Bytes(Draw, frozen=True, kw_only=True):
    length: Annotated[
        int | tuple[int, ...], Meta(title="a length or a list of two", description="write length = [5, 20]")
    ]

    def row(self, at: Table) -> Json:
        return self._bounds(at, 1 << 24)

    def _bounds(self, at: Table, longest: int) -> Json:
        given = self.length if isinstance(self.length, tuple) else (self.length, self.length)
        if len(given) != 2:
            raise at.wrong("length", f"length has {len(given)} bounds", "write length = [5, 20]")
        low, high = given
        if not 0 <= low <= high <= longest:
            what = f"length is {low} to {high}, which is not a range"
            raise at.wrong("length", what, f"it takes 0 to {longest}")
        return {"low": low, "high": high}


class Text(Bytes, frozen=True, kw_only=True):
    alphabet: Literal["letters", "digits", "alphanumeric", "hex"] = "letters"
    characters: str | None = None

    def row(self, at: Table) -> Json:
        return {**super().row(at), "alphabet": self._characters(at)}

    def parameter(self, at: Table) -> Json:
        return {**self._bounds(at, 1 << 20), "alphabet": self._characters(at)}

    def _characters(self, at: Table) -> str:
        if (given := self.characters) is None:
            return ALPHABETS[self.alphabet]
        if not given or not given.isascii() or "alphabet" in at:
            what = "characters takes ASCII characters, and cannot be combined with alphabet"
            raise at.wrong("characters", what, 'write characters = "abc"')
        return given


class Pattern(Draw, frozen=True, kw_only=True):
    pattern: str

    def parameter(self, at: Table) -> Json:
        if not self.pattern:
            raise at.wrong("pattern", "the pattern is empty", _PATTERN)
        try:
            _core.check_pattern(self.pattern)
        except ValueError as error:
            raise at.wrong("pattern", str(error), _PATTERN) from None
        return self.row(at)


class RowText(Draw, frozen=True, kw_only=True):
    groups: Annotated[int, Meta(ge=1, le=100)] = 10


def moment(at: Table, key: str, given: Any) -> datetime:
    """A date, perhaps with a time, in UTC; TOML's own or a text."""
    hint = "write 2024-01-31, or 2024-01-31T12:00:00"
    if not isinstance(given, str | Node):
        raise at.wrong_type(at.entries[key].node, key, "a date", hint)
    text = given if isinstance(given, str) else str(given.value)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise at.wrong(key, f"{key} is {text}, which is not a date", hint) from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
