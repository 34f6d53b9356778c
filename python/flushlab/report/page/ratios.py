"""Section: every arm and the control against the base. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flushlab.campaign.facts import ArmFacts, CampaignFacts
from flushlab.experiment.objective import verdict_words
from flushlab.record import Comparison
from flushlab.report import plots
from flushlab.report.page.parts import P99_LEAD, Cell, Section, Subject, Table, p99_cell, verdict_kind
from flushlab.report.plots import Verdict
from flushlab.report.words import changes, figure, interval, places, the_base, times, ways
from flushlab.settings.configuration import NO_BINLOG
from flushlab.units import format_latency

MAX_PLOTTED = 40
"""Most rows of the forest plot; the table has them all."""

_COMPARES = {
    "throughput": "How many times as fast as",
    "p99": "How many times lower p99 latency (the 99th percentile) is than that of",
}
_BETWEEN = {
    "throughput": "How many times as fast each server's base is as the first server's",
    "p99": "How many times lower the p99 latency of each server's base is than that of the first server's",
}


def section(subject: Subject) -> Iterator[Section]:
    """Every arm and the control against its base, then servers against each other."""
    facts = subject.facts
    if facts is None:
        return
    yours = facts.tuning.yours if facts.tuning is not None else None
    every = [
        arm for arm in (*facts.arms, yours, facts.control) if arm is not None and arm.comparison is not None
    ]
    lead = (
        f"{_COMPARES[facts.objective]} {the_base(facts)}, each with its interval. All intervals hold "
        "together with 95 % probability. Filled: the interval excludes 1. The control is the base once more."
    )
    if any(arm.against for arm in every):
        lead += " Each server's configurations are compared with its own base."
    if arms := [arm for arm in every if not arm.is_base]:
        notes = tuple(f"{words[0].upper()}{words[1:]}." for words in ways(facts))
        yield _section(Section("ratios", "Against the base", lead, notes=notes), arms, facts)
    if servers := [arm for arm in every if arm.is_base]:
        lead = f"{_BETWEEN[facts.objective]}. No setting gains this."
        yield _section(Section("servers", "Between servers", lead), servers, facts)


def _section(blank: Section, arms: Sequence[ArmFacts], facts: CampaignFacts) -> Section:
    """The section with its plot and its table."""
    rows = [(arm, arm.comparison) for arm in arms if arm.comparison is not None]
    plotted = [*rows[: MAX_PLOTTED - 1], *rows[-1:]] if len(rows) > MAX_PLOTTED else rows
    plot = plots.forest(
        [
            plots.Row(arm.name, compared.ratio, _kind(arm, compared), times(compared.ratio.estimate))
            for arm, compared in plotted
        ],
        name=blank.key,
        title="Ratio of each row with its interval; the table gives the same figures",
    )
    latency = facts.objective != "p99" and any(arm.p99 is not None for arm in arms)
    absolute = any(arm.figure is not None for arm in arms)
    head = [Cell("arm"), Cell("ratio", "num"), Cell("interval", "num"), Cell("verdict")]
    head += [Cell("p99 ratio", "num")] if latency else []
    head += [Cell(facts.unit, "num")] if absolute else []
    left = (f"{len(rows) - len(plotted)} more are in the table only.",) if len(rows) > len(plotted) else ()
    cells = tuple(
        (
            *_ratio_row(arm, compared, facts),
            *((p99_cell(arm.p99),) if latency else ()),
            *((_absolute(arm),) if absolute else ()),
        )
        for arm, compared in rows
    )
    return blank._replace(
        lead=blank.lead + (P99_LEAD if latency else ""),
        plots=(plot,),
        tables=(Table(tuple(head), cells),),
        notes=(*left, *blank.notes),
    )


def _kind(arm: ArmFacts, compared: Comparison) -> Verdict:
    """The colour of a row: another server, or other work, is no gain."""
    return "mute" if arm.is_base or arm.unit else verdict_kind(compared)


def _ratio_row(arm: ArmFacts, compared: Comparison, facts: CampaignFacts) -> tuple[Cell, ...]:
    kind = _kind(arm, compared)
    words = "" if arm.is_base else verdict_words(compared.verdict, facts.objective)
    return (
        Cell(arm.name, "name", " · ".join(filter(None, _about(arm, facts)))),
        Cell(times(compared.ratio.estimate), f"num {kind}"),
        Cell(interval(compared.ratio), "num"),
        Cell(words, kind, f"{compared.blocks} blocks"),
    )


def _about(arm: ArmFacts, facts: CampaignFacts) -> Iterator[str]:
    """What an arm is, and what one should know of it, short."""
    if arm is facts.control:
        yield "the base once more: should be about 1"
        return
    if (tuning := facts.tuning) is not None:
        yield "winner" if tuning.winner is not None and arm.name == tuning.winner.arm else ""
        yield "rejected" if any(arm.name == one.arm for one in tuning.rejected) else ""
    else:
        yield from _changed(arm)
    yield from places(arm)
    if arm.floor:
        base, lower = facts.base, ""
        if arm.against:
            base = facts.arm(arm.against)
        if not arm.is_base and facts.below_floor(arm, base):
            lower = f", below {facts.floor or base.floor}: not recommended"
        yield f"floor {arm.verdict}{lower}"
    if arm.contract:
        yield f"changes the service: {', '.join(arm.contract)}"
    if arm.no_effect:
        yield f"{NO_BINLOG}: {', '.join(arm.no_effect)}"
    if arm.against:
        yield f"against {arm.against}"


def _changed(arm: ArmFacts) -> Iterator[str]:
    """Its text, then what it changes where its name does not say so."""
    own = changes(arm.changes)
    text = arm.text or own
    yield "" if text.replace(",", "") == arm.name else text
    yield own if arm.text else ""


def _absolute(arm: ArmFacts) -> Cell:
    """What the arm yielded by itself."""
    latency = "" if arm.p99_us is None else f"p99 {format_latency(arm.p99_us)}"
    unit = f" {arm.unit}" if arm.unit else ""
    return Cell("" if arm.figure is None else f"{figure(arm.figure)}{unit}", "num", latency)
