"""Section: what each floor buys. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import TuneFacts
from flushlab.experiment.frontier import FrontierPoint
from flushlab.report import plots
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
    rows = [row for point in result.frontier for row in _floor_rows(point, is_winner=point == result.winner)]
    head = (Cell("floor"), Cell("ratio", "num"), Cell("interval", "num"), Cell("free", "num"))
    lead = (
        "What each durability floor gains, from the safest, and what it changes in the base. “Free” is "
        "the part of the gain that weakens no guarantee (a hollow diamond if it is less than the whole)."
    )
    table = Table(head, tuple(rows))
    yield Section("frontier", "Speed against safety", lead, tuple(drawn), tables=(table,))


def _floor_rows(point: FrontierPoint, *, is_winner: bool) -> Iterator[tuple[Cell, ...]]:
    lines = "\n".join(f"{name} = {spell(value)}" for name, value in point.settings.items())
    note = "the winner" if is_winner else "" if lines else "keep your settings"
    yield (
        Cell(point.floor.value, "name", note),
        Cell(times(point.ratio.estimate), f"num {'good' if point.ratio.low > 1 else 'mute'}"),
        Cell(interval(point.ratio) if lines else "", "num"),
        Cell(times(point.free_ratio.estimate) if point.free_ratio else "?", "num"),
    )
    if lines:
        yield (Cell(lines, "code"),)
