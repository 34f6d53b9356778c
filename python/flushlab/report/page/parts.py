"""Parts of a page: its head, cells, tables and sections. Pure values.

Sits in `report`, below the sections; the template gives them their looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import best_arms
from flushlab.campaign.request import SeriesRequest
from flushlab.record import BASE, CONTROL, Comparison, ServerIdentity, Trial, Value
from flushlab.report.plots import Verdict
from flushlab.report.stored import Request
from flushlab.report.words import base_name, interval, times
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


def numbers(*texts: str) -> tuple[Cell, ...]:
    """Cells of figures."""
    return tuple(Cell(text, "num") for text in texts)


class Table(NamedTuple):
    """A table; the caption stands above it.

    A row of one cell belongs to the row before it and takes the whole width. If `stacks`, a narrow window
    shows the cells of a row below each other.
    """

    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    stacks: bool = False

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
        legend: names of what the plots colour, each with the CSS variable of its colour, `class-redo`.
        tables: beside the plots where there is room.
        code: blocks of text, each with a summary to open it by; empty summary: open.
        notes: sentences below.
    """

    key: str
    title: str
    lead: str = ""
    plots: tuple[str, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


class Head(NamedTuple):
    """What the head of a page says.

    Attributes:
        headline: the answer, a sentence.
        lead: further sentences of it.
        workload: in words.
        title: the question.
        servers: what was measured, in words; empty: nothing was, or the headline says it.
        interval: of the result in the headline, or empty.
    """

    headline: str
    lead: tuple[str, ...]
    workload: str
    title: str
    servers: str = ""
    interval: str = ""


class OnServer(NamedTuple):
    """A server that was measured.

    Attributes:
        server: which it is.
        base: its base, as trials have it.
        name: what people call its base.
        given: settings of the base.
        chosen: the arm to show beside the base, or None.
    """

    server: ServerIdentity
    base: str = BASE
    name: str = BASE
    given: Mapping[str, Value] = {}
    chosen: str | None = None


class Subject(NamedTuple):
    """What sections are made from.

    Attributes:
        row, request, facts: as stored; without facts nothing is proven.
        trials: all of them.
        arms: those that count, by arm.
    """

    row: CampaignRow
    request: Request | None
    facts: CampaignFacts | None
    trials: Sequence[Trial]
    arms: Mapping[str, list[Trial]]

    def named(self, arm: str) -> str:
        """What people call an arm."""
        base = self.request.base_name if isinstance(self.request, SeriesRequest) else BASE
        return base if arm == BASE else arm

    @property
    def servers(self) -> tuple[OnServer, ...]:
        """The servers that were measured."""
        facts = self.facts
        if facts is None:
            server = next((trial.server for trial in reversed(self.trials) if trial.server is not None), None)
            return (OnServer(server),) if server is not None else ()
        return tuple(
            OnServer(
                base.server or facts.server,
                base=base.name if base.server else BASE,
                name=base.name if base.server else base_name(facts),
                given={**facts.base.settings, **base.settings},
                chosen=best.name if best is not None else None,
            )
            for (base, _), best in zip(facts.by_server, best_arms(facts), strict=True)
        )

    @property
    def unit(self) -> str:
        """Of the figures."""
        if self.facts is not None:
            return self.facts.unit
        return next((trial.unit for trial in reversed(self.trials) if trial.result is not None), "")

    @property
    def units(self) -> str:
        """The same, with the units of arms that count other work: `transactions/s (new: rows/s)`."""
        arms = self.facts.arms if self.facts is not None else ()
        others = [f"{arm.name}: {arm.unit}" for arm in arms if arm.unit not in ("", self.unit)]
        return f"{self.unit} ({', '.join(others)})" if others else self.unit


def shown_arms(subject: Subject) -> list[str]:
    """The base, the arms of the answer, then what was compared, the largest effects first; all that ran as
    long as nothing was."""
    facts, ran = subject.facts, [arm for arm in subject.arms if arm != CONTROL]
    if facts is not None:
        yours = facts.tuning.yours if facts.tuning is not None else None
        compared = [arm for arm in (*facts.arms, *filter(None, (yours,))) if arm.comparison is not None]
        by_effect = sorted(compared, key=lambda arm: max(arm.strength, 1 / arm.strength), reverse=True)
        best = [arm for arm in best_arms(facts)[:1] if arm is not None]
        ran = [arm.name for arm in (*best, *by_effect)] or ran
    return [arm for arm in dict.fromkeys((BASE, *ran)) if arm in subject.arms]


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


def when(row: CampaignRow) -> str:
    """When a campaign was started: `2026-11-21 10:42 UTC`."""
    return f"{row.created_at[:16].replace('T', ' ')} UTC"
