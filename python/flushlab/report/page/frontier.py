"""Section: what each floor buys. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import TuneFacts
from flushlab.experiment.frontier import FrontierPoint
from flushlab.report import plots
from flushlab.report.page.found import changes
from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
    interval,
    times,
)
from flushlab.report.tune import spell


def section(subject: Subject) -> Iterator[Section]:
    """What each floor buys, for a tuning."""
    if not isinstance(subject.facts, TuneFacts) or not subject.facts.result.frontier:
        return
    result = subject.facts.result
    steps = [
        plots.Step(point.floor.value, point.ratio, point.free_ratio, point == result.winner)
        for point in result.frontier
    ]
    drawn = []
    if len(steps) > 1 and any(point.settings for point in result.frontier):
        title = "Best proven ratio at each floor, from the safest on the left"
        drawn.append(plots.frontier(steps, name="frontier", title=title))
    rows = [row for point in result.frontier for row in _floor_rows(subject.facts, point)]
    head = (Cell("floor"), Cell("ratio", "num"), Cell("interval", "num"), Cell("free", "num"))
    lead = (
        "What each durability floor gains, from the safest, and what it changes in your settings. “Free” is "
        "the part of the gain that weakens no guarantee (a hollow diamond if it is less than the whole)."
    )
    if raised := subject.facts.raised:
        lead += f" Ratios are against your settings raised to {subject.facts.floor}: {changes(raised)}."
    table = Table(head, tuple(rows))
    yield Section("frontier", "Speed against safety", lead, tuple(drawn), tables=(table,))


def _floor_rows(facts: TuneFacts, point: FrontierPoint) -> Iterator[tuple[Cell, ...]]:
    lines = "\n".join(f"{name} = {spell(value)}" for name, value in facts.changes(point).items())
    note = "the winner" if point == facts.result.winner else "" if lines else "keep your settings"
    if point.versus_yours is not None:
        against = f"against your settings as they are: {times(point.versus_yours.estimate)}"
        note = "; ".join(filter(None, (note, f"{against} {interval(point.versus_yours)}")))
    yield (
        Cell(point.floor.value, "name", note),
        Cell(times(point.ratio.estimate), f"num {'good' if point.ratio.low > 1 else 'mute'}"),
        Cell(interval(point.ratio) if point.settings else "", "num"),
        Cell(times(point.free_ratio.estimate) if point.free_ratio else "?", "num"),
    )
    if lines:
        yield (Cell(lines, "code"),)
