"""Document: a report of whatever kind, built once from its facts; three renderers show it. Pure values.

`terminal`, `html` and `markdown` know nothing of campaigns, probes or crashes; whoever builds a document
knows nothing of columns, HTML or colours. JSON is made from the facts, not from the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from flushlab.record import Warning
from flushlab.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        kind: `name`, `num`, `code`, `good`, `bad`, `mute`, `changed`, or several of them.
        small: a second line.
        alone: text for a terminal that has no room for the column; by default the head and the text.
    """

    text: str
    kind: str = ""
    small: str = ""
    alone: str = ""


def numbers(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text, "num") for text in texts)


Row = tuple[Cell, ...]


def named(name: str, *figures: str, small: str = "") -> Row:
    return Cell(name, "name", small), *numbers(*figures)


class Table(NamedTuple):
    """A table with its caption. A row of one cell belongs to the row before it and takes the whole width.

    Attributes:
        head: names of the columns; empty: the rows are labels and values.
        stacks: a narrow window shows the cells of a row below each other.
    """

    head: Sequence[str]
    rows: Sequence[Row]
    caption: str = ""
    stacks: bool = False

    def has_numbers(self, at: int) -> bool:
        return any("num" in row[at].kind for row in self.rows if at < len(row))


def facts_table(rows: Iterable[tuple[str, str]]) -> Table:
    return Table((), [(Cell(name, "mute"), Cell(text)) for name, text in rows if text])


class Plot(NamedTuple):
    """A plot, drawn when a page is made: until then, matplotlib is not loaded."""

    name: str
    title: str
    height: float
    draw: Callable[[Figure], None]


class Line(NamedTuple):
    text: str
    code: str = ""


class Code(NamedTuple):
    """`shown`: `always`, or not in a terminal: `page`, or `folded` there, too."""

    text: str
    title: str = ""
    shown: Literal["always", "page", "folded"] = "folded"


class Section(NamedTuple):
    """A part of a document, in this order.

    Attributes:
        about: how to read it; not in a terminal.
        legend: names of what the plots colour, each with the CSS variable of its colour, `class-redo`.
        short: lines that stand for the section in a terminal; None: the section itself.
    """

    key: str
    title: str
    about: str = ""
    texts: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    plots: tuple[Plot, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    code: tuple[Code, ...] = ()
    notes: tuple[str, ...] = ()
    short: tuple[str, ...] | None = None


class Document(NamedTuple):
    """A report.

    Attributes:
        interval: of the ratio in the headline.
        todo: what to do now. The page begins with it, a terminal ends with it.
        hint: last line in a terminal.
    """

    kind: str
    headline: str
    interval: str = ""
    lead: tuple[str, ...] = ()
    servers: str = ""
    workload: str = ""
    title: str = ""
    keys: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    todo: tuple[Section, ...] = ()
    id: str = ""
    when: str = ""
    state: str = ""
    flushlab: str = __version__
    hint: str = ""


def warnings_section(warnings: Iterable[Warning | str]) -> tuple[Section, ...]:
    texts = tuple(warning if isinstance(warning, str) else warning.text for warning in warnings)
    short = tuple(f"warning: {text}" for text in texts)
    return (Section("warnings", "Warnings", notes=texts, short=short),) if texts else ()
