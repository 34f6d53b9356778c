"""Parts of a page: cells, tables and sections, and how figures are spelled in them. Pure values.

Sits in `report`, below the sections; the template gives them their looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flushlab.campaign.series_request import SeriesRequest
from flushlab.plan.plan import BASE, CONTROL
from flushlab.record import Comparison, Ratio, Trial
from flushlab.report.page.found import Found
from flushlab.report.plots import Verdict
from flushlab.report.stored import Facts, Request
from flushlab.store import CampaignRow

MAX_PANELS = 8
"""Most arms that one section shows in plots."""

_LONG_NAME = 26
_LONG_TEXT = 80


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: shown.
        kind: classes of its style: `name`, `num`, `code`, `good`, `bad`, `mute`, `changed`.
        small: a second line.
    """

    text: str
    kind: str = ""
    small: str = ""


class Table(NamedTuple):
    """A table; the caption stands above it.

    A row of one cell belongs to the row before it and takes the whole width.
    """

    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""

    @property
    def names_above(self) -> bool:
        """Whether names, or what stands below them, are so long that they take lines of their own."""
        names = [row[0] for row in self.rows if row[0].kind == "name"]
        return any(len(one.text) > _LONG_NAME or len(one.small) > _LONG_TEXT for one in names)


class Section(NamedTuple):
    """A part of the page.

    Attributes:
        key: its anchor.
        title: its heading.
        lead: what it shows and how to read it.
        plots: SVG elements.
        legend: classes of files, where the plots colour them.
        tables: beside the plots where there is room.
        code: blocks of text, each with a summary to open it by; empty summary: open.
        notes: sentences below.
    """

    key: str
    title: str
    lead: str = ""
    plots: tuple[str, ...] = ()
    legend: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


class Subject(NamedTuple):
    """What sections are made from.

    Attributes:
        row, request, facts: as stored.
        found: the facts in the page's words.
        trials: all of them.
        arms: those that count, by arm.
    """

    row: CampaignRow
    request: Request | None
    facts: Facts | None
    found: Found
    trials: Sequence[Trial]
    arms: Mapping[str, list[Trial]]

    def named(self, arm: str) -> str:
        """What people call an arm."""
        base = self.request.base_name if isinstance(self.request, SeriesRequest) else BASE
        return base if arm == BASE else arm


def shown_arms(subject: Subject) -> list[str]:
    """The base, the arm of the answer, then what was compared; all that ran as long as nothing was."""
    arms = subject.found.arms or [arm for arm in subject.arms if arm != CONTROL]
    return [arm for arm in dict.fromkeys((BASE, *arms)) if arm in subject.arms]


def verdict_kind(comparison: Comparison) -> Verdict:
    """The colour of a verdict."""
    if comparison.verdict == "faster":
        return "good"
    return "bad" if comparison.verdict == "slower" else "mute"


P99_LEAD = " p99 ratio: how many times lower p99 latency (the 99th percentile) is than the base's."


def p99_cell(comparison: Comparison | None) -> Cell:
    """A ratio of p99 latencies with its interval; empty where there is none."""
    if comparison is None:
        return Cell("", "num")
    ratio = comparison.ratio
    return Cell(times(ratio.estimate), f"num {verdict_kind(comparison)}", interval(ratio))


def times(value: float) -> str:
    """A ratio: `1.62×`."""
    return f"{value:.2f}×" if value < 100 else f"{value:.0f}×"


def interval(ratio: Ratio) -> str:
    """`1.55 – 1.70`."""
    return f"{ratio.low:.2f} – {ratio.high:.2f}"


def figure(value: float) -> str:
    """A figure of a workload: `12,346`, `1.23`, `0`."""
    return f"{value:,.{2 if 0 < value < 100 else 0}f}"


def small(value: float) -> str:
    """A count per transaction: `0.773`, `12.5`, `340`, `<0.001`."""
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def when(row: CampaignRow) -> str:
    """When a campaign was started: `2026-11-21 10:42 UTC`."""
    return f"{row.created_at[:16].replace('T', ' ')} UTC"
