"""Section: what each floor buys. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import TuneFacts
from flushlab.experiment.frontier import FrontierPoint
from flushlab.report import plots
from flushlab.report.page.found import changes
from flushlab.report.page.parts import (
    P99_LEAD,
    Cell,
    Section,
    Subject,
    Table,
    interval,
    p99_cell,
    times,
)
from flushlab.report.tune import spell

_TITLES = {"throughput": "Speed against safety", "p99": "p99 latency against safety"}


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
    latency = subject.facts.objective != "p99" and any(point.arm in result.p99 for point in result.frontier)
    rows = [row for point in result.frontier for row in _floor_rows(subject.facts, point, latency=latency)]
    p99 = (Cell("p99 ratio", "num"),) if latency else ()
    head = (Cell("floor"), Cell("ratio", "num"), Cell("interval", "num"), Cell("free", "num"), *p99)
    lead = (
        "What each durability floor gains, from the safest, and what it changes in your settings. “Free” is "
        "the part of the gain that weakens no guarantee (a hollow diamond if it is less than the whole)."
    )
    if latency:
        lead += P99_LEAD
    if raised := subject.facts.raised:
        lead += f" Ratios are against your settings raised to {subject.facts.floor}: {changes(raised)}."
    table = Table(head, tuple(rows))
    yield Section("frontier", _TITLES[subject.facts.objective], lead, tuple(drawn), tables=(table,))


def _floor_rows(facts: TuneFacts, point: FrontierPoint, *, latency: bool) -> Iterator[tuple[Cell, ...]]:
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
        *([p99_cell(facts.result.p99.get(point.arm))] if latency else []),
    )
    if lines:
        yield (Cell(lines, "code"),)
