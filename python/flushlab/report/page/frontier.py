"""Section: what each floor buys. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import CampaignFacts, TuningFacts
from flushlab.experiment.frontier import FrontierPoint
from flushlab.report import plots
from flushlab.report.page.parts import P99_LEAD, Cell, Section, Subject, Table, p99_cell
from flushlab.report.words import changes, interval, spell, the_base, times

_TITLES = {"throughput": "Speed against safety", "p99": "p99 latency against safety"}


def section(subject: Subject) -> Iterator[Section]:
    """What each floor buys, for a tuning."""
    facts = subject.facts
    tuning = facts.tuning if facts is not None else None
    if facts is None or tuning is None or not tuning.frontier:
        return
    steps = [
        plots.Step(point.floor.value, point.ratio, point.free_ratio, point == tuning.winner)
        for point in tuning.frontier
    ]
    drawn = []
    if len(steps) > 1 and any(point.settings for point in tuning.frontier):
        title = "Best proven ratio at each floor, from the safest on the left"
        drawn.append(plots.frontier(steps, name="frontier", title=title))
    latency = facts.objective != "p99" and any(facts.arm(point.arm).p99 for point in tuning.frontier)
    rows = [row for point in tuning.frontier for row in _floor_rows(facts, tuning, point, latency=latency)]
    p99 = (Cell("p99 ratio", "num"),) if latency else ()
    head = (Cell("floor"), Cell("ratio", "num"), Cell("interval", "num"), Cell("free", "num"), *p99)
    lead = (
        "What each durability floor gains, from the safest, and what it changes in your settings. “Free” is "
        "the part of the gain that weakens no guarantee (a hollow diamond if it is less than the whole)."
    )
    if latency:
        lead += P99_LEAD
    if tuning.raised:
        lead += f" Ratios are against {the_base(facts)}: {changes(tuning.raised)}."
    table = Table(head, tuple(rows))
    yield Section("frontier", _TITLES[facts.objective], lead, tuple(drawn), tables=(table,))


def _floor_rows(
    facts: CampaignFacts, tuning: TuningFacts, point: FrontierPoint, *, latency: bool
) -> Iterator[tuple[Cell, ...]]:
    lines = "\n".join(f"{name} = {spell(value)}" for name, value in tuning.changes(point).items())
    note = "the winner" if point == tuning.winner else "" if lines else "keep your settings"
    if point.versus_yours is not None:
        against = f"against your settings as they are: {times(point.versus_yours.estimate)}"
        note = "; ".join(filter(None, (note, f"{against} {interval(point.versus_yours)}")))
    yield (
        Cell(point.floor.value, "name", note),
        Cell(times(point.ratio.estimate), f"num {'good' if point.ratio.low > 1 else 'mute'}"),
        Cell(interval(point.ratio) if point.settings else "", "num"),
        Cell(times(point.free_ratio.estimate) if point.free_ratio else "?", "num"),
        *([p99_cell(facts.arm(point.arm).p99)] if latency else []),
    )
    if lines:
        yield (Cell(lines, "code"),)
