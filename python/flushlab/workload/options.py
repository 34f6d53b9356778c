"""What shapes a workload: every option declared once, whoever asks (flags, a plan's TOML, a stored request).

Pure. A workload lists the options that it takes; `settle` checks what was asked for against that list
and fills in the rest.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from flushlab.errors import UsageError
from flushlab.record import Value

Spelling = Callable[[str], str]
"""How the place that was asked spells an option: `table_size` in a plan, `--table-size` as a flag."""


class OptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An option of workloads.

    Attributes:
        name: as a plan spells it.
        kind: what its value is.
        default: where nobody says otherwise.
        help: one sentence.
        low, high: bounds of a number, inclusive.
        words: all values of a word.
    """

    name: str
    kind: Literal["integer", "number", "word", "text"]
    default: Value
    help: str
    low: float = 0
    high: float = 0
    words: tuple[str, ...] = ()

    def check(self, value: object, spelling: Spelling = str) -> Value:
        """The value, if the option takes it.

        Raises:
            UsageError: wrong type, out of range, or none of the words.
        """
        name = spelling(self.name)
        if self.kind in ("word", "text"):
            if not isinstance(value, str):
                raise UsageError(f"{name} is {value!r}; it takes a text", hint=self.help)
            if self.kind == "word" and value not in self.words:
                raise UsageError(f"{name} {value!r} is not known", hint=f"it takes {' or '.join(self.words)}")
            return value
        right = (int,) if self.kind == "integer" else (int, float)
        if not isinstance(value, right) or isinstance(value, bool):
            what = "a whole number" if self.kind == "integer" else "a number"
            raise UsageError(f"{name} is {value!r}; it takes {what}", hint=self.help)
        if not self.low <= value <= self.high:
            raise UsageError(
                f"{name} {value} is out of range", hint=f"it takes {self.low:.12g} to {self.high:.12g}"
            )
        return value


THREADS = OptionInfo(
    name="threads", kind="integer", default=16, low=1, high=4096, help="Connections, one thread each."
)
TABLES = OptionInfo(name="tables", kind="integer", default=8, low=1, high=10_000, help="Number of tables.")
TABLE_SIZE = OptionInfo(
    name="table_size", kind="integer", default=10_000, low=1, high=1_000_000_000, help="Rows per table."
)
TRANSPORT = OptionInfo(
    name="transport", kind="word", default="socket", words=("socket", "tcp"), help="How the load connects."
)
RAND_TYPE = OptionInfo(
    name="rand_type",
    kind="word",
    default="special",
    words=("special", "uniform"),
    help="Which rows are hit: special (sysbench 1.0's default) or uniform.",
)
RATE = OptionInfo(
    name="rate",
    kind="number",
    default=0.0,
    low=0,
    high=10_000_000,
    help="Intended figure per second at constant intervals (open loop); 0 is as fast as possible.",
)


def settle(
    workload: str,
    declared: Iterable[OptionInfo],
    asked: Mapping[str, Value],
    spelling: Spelling = str,
) -> dict[str, Value]:
    """Every declared option with its value: the one asked for, or its default.

    Args:
        workload: its name, for messages.
        declared: the options that it takes.
        asked: what was asked for.
        spelling: of the place that was asked.

    Raises:
        UsageError: an option that the workload does not take, or a value that the option does not.
    """
    known = {option.name: option for option in declared}
    for name in asked:
        if name not in known:
            raise UsageError(
                f"the workload {workload} takes no {spelling(name)}", hint=_nearest(name, known, spelling)
            )
    return {
        name: option.check(asked[name], spelling) if name in asked else option.default
        for name, option in known.items()
    }


def _nearest(name: str, known: Mapping[str, OptionInfo], spelling: Spelling) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {spelling(near[0])}?"
    return f"it takes {', '.join(map(spelling, known))}" if known else "it takes no options"
