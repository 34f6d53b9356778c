"""Tables of a campaign's result for the terminal; they fit 80 columns. Pure; in `report`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flushlab.campaign.facts import ArmResult, CampaignFacts, ClaimFacts, PlanFacts, TuningFacts
from flushlab.experiment.protocol import (
    LATENCIES,
    Objective,
    latency_words,
    throughput_words,
    verdict_words,
)
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.plan.plan import crossed
from flushlab.record import BASE, Comparison, FactorEffect, Ratio
from flushlab.report.machines import spread_words
from flushlab.report.observed import observed_lines
from flushlab.report.words import (
    AA_CONTROL,
    FAILURES,
    OUTCOMES,
    absolute,
    base_name,
    changed,
    changes,
    durability_words,
    grouped,
    interval,
    places,
    rounded,
    spell,
    the_base,
)
from flushlab.settings.configuration import NO_BINLOG
from flushlab.settings.durability import FLOOR
from flushlab.spec.parts import as_told
from flushlab.units import format_latency

WIDTH = 80
_FIGURES = len("  99.99  99.99 – 99.99  no difference found")
"""Columns of what stands beside a name."""
_STYLES = {
    **dict.fromkeys(("faster", "lower p99", "lower latency", "more together", "confirmed"), "green"),
    **dict.fromkeys(("slower", "higher p99", "higher latency", "less together", "refuted"), "red"),
}


def _below(text: str, style: str = "dim") -> Padding:
    """A line that belongs to the row above it."""
    return Padding(Text(text, style=style), (0, 0, 0, 2), expand=False)


def _latency(p99: Comparison | None, objective: Objective) -> Iterator[RenderableType]:
    """What stands below a row of throughput ratios of the latency."""
    if p99 is not None and objective != "p99":
        yield _below(latency_words(p99))


def _throughput(arm: ArmResult, facts: CampaignFacts) -> Iterator[RenderableType]:
    """What stands below a row of latency ratios of the throughput."""
    if arm.throughput is not None:
        yield _below(throughput_words(arm.throughput, facts.unit))


def _legend(facts: CampaignFacts) -> Iterator[RenderableType]:
    """What a ratio is, where it is not of speed."""
    if (latency := LATENCIES.get(facts.objective)) is not None:
        yield Text(f"ratio: how many times lower {latency} is than that of {the_base(facts)}", style="dim")


# -- arms ------------------------------------------------------------------------------------------------


def arms(facts: CampaignFacts) -> Iterator[RenderableType]:
    """Every arm of a series or a comparison against its base, a server after the other."""
    names = [facts.base.name, AA_CONTROL, *(arm.name for arm in facts.arms)]
    room = WIDTH - _FIGURES
    width = max([len(name) for name in names if len(name) <= room], default=room)
    for number, (base, own) in enumerate(facts.by_server):
        if number:
            yield ""
        yield Text(f"{'':<{width}}  {'ratio':>5}  {'interval':<13}  verdict", style="dim")
        yield from _row(base.name, width, ("" if base.result is None else "1.00", "", ""))
        yield from _about(base, base, facts, _what(base, facts) if number else base.text)
        for arm in own:
            yield from _row(arm.name, width, _figures(arm, facts.objective))
            yield from _about(arm, base, facts, _what(arm, facts))
        if not number and facts.control is not None:
            yield from _row(AA_CONTROL, width, _figures(facts.control, facts.objective), style="dim")
            yield from _latency(facts.control.p99, facts.objective)
            yield from _throughput(facts.control, facts)
            name = "the base" if base.name == BASE else base.name
            yield _below(f"{name} again: should be about 1")
    if others := [base for base, _ in facts.by_server[1:] if base.comparison is not None]:
        yield ""
        yield Text(f"servers, against {facts.base.name}", style="dim")
        for base in others:
            yield from _row(base.name, width, (*_figures(base, facts.objective)[:2], ""))
            yield from _latency(base.p99, facts.objective)
    yield from _legend(facts)


def _figures(arm: ArmResult, objective: Objective) -> tuple[str, str, str]:
    if arm.comparison is None:
        return "", "", OUTCOMES.get(arm.outcome, arm.outcome)
    ratio = arm.comparison.ratio
    return f"{ratio.estimate:.2f}", interval(ratio), verdict_words(arm.comparison.verdict, objective)


def _row(name: str, width: int, figures: tuple[str, str, str], style: str = "") -> Iterator[Text]:
    """A name with ratio, interval and verdict; a long name takes a line of its own."""
    ratio, bounds, verdict = figures
    if len(name) > width:
        yield Text(name, style="bold")
        name = ""
    text = Text(style=style)
    text.append(f"{name:<{width}}  ", style="bold")
    text.append(f"{ratio:>5}  {bounds:<13}  ")
    text.append(verdict, style=_STYLES.get(verdict, ""))
    text.rstrip()
    yield text


def _about(arm: ArmResult, base: ArmResult, facts: CampaignFacts, what: str) -> Iterator[RenderableType]:
    """What stands below a row: what it is, its rates, its floor, its latency, what each failure costs
    otherwise than with the base, and why it was not measured."""
    if what:
        yield _below(what)
    lower = f" (below {facts.floor or base.floor})" if facts.below_floor(arm, base) else ""
    floor = f"floor {arm.verdict}{lower}" if arm.verdict else ""
    if words := "; ".join(filter(None, (absolute(arm, arm.unit or facts.unit), floor))):
        yield _below(words)
    if arm.observed is not None:
        for line in observed_lines(arm.observed):
            yield _below(line)
    if arm is not base:
        yield from _latency(arm.p99, facts.objective)
        yield from _throughput(arm, facts)
    if arm.machines is not None:
        yield _below(spread_words(arm.machines))
    own = arm.guarantees if arm is base else changed(arm.guarantees, base.guarantees)
    failures_only = {name: text for name, text in own.items() if name != FLOOR}
    for failures, text in grouped(failures_only).items():
        yield _below(f"{failures}: {text}")
    if arm.reason:
        yield _below(arm.reason.strip().splitlines()[0], style="yellow")
    if arm.fixed:
        yield _below(f"changes the service: {', '.join(arm.fixed)}", style="yellow")
    if arm.no_effect:
        yield _below(f"{NO_BINLOG}: {', '.join(arm.no_effect)}", style="yellow")


def _what(arm: ArmResult, facts: CampaignFacts) -> str:
    """What the arm stands for: its text, or what it changes where its name does not say so."""
    if arm.composed_of:
        return f"{' + '.join(arm.composed_of)}, in blocks of its own"
    settings = [f"{name}={spell(value)}" for name, value in arm.changes.items()]
    shown = [] if arm.name.endswith(" ".join(settings)) else settings
    shown += filter(None, (changes(as_told(arm.workload_changes)), *places(arm)))
    if arm.text and facts.kind == "series":
        return arm.text
    same = arm.outcome == "measured" and not (settings or shown or arm.text or arm.is_base)
    return "the same as the base" if same else "; ".join(filter(None, (", ".join(shown), arm.text)))


# -- effects and claims ----------------------------------------------------------------------------------


def effects(facts: CampaignFacts, plan: PlanFacts) -> Iterator[RenderableType]:
    """What the factors do, each by itself and together."""
    if not plan.effects:
        yield Text("effects", style="dim")
        yield _below(no_effects(facts, plan))
        return
    names = [len(effect.name) for effect in plan.effects]
    width = min(max(len("effects"), *names), WIDTH - _FIGURES)
    yield Text(f"{'effects':<{width}}  {'ratio':>5}  {'interval':<13}  verdict", style="dim")
    for effect in plan.effects:
        verdict = verdict_words(effect.verdict, facts.objective)
        yield from _row(effect.name, width, (f"{effect.ratio.estimate:.2f}", interval(effect.ratio), verdict))
        yield _below(effect_words(effect, plan.factors))


def effect_words(effect: FactorEffect, factors: Sequence[str]) -> str:
    """How to read an effect."""
    if len(effect.factors) == 1:
        others = [name for name in factors if name not in effect.factors]
        if len(others) == 1:
            return f"average of its effect without {others[0]} and its effect with it"
        return f"average of its effects with each combination of {', '.join(others)}"
    return "1: together, their gains multiply; above 1: together they gain more than that"


def no_effects(facts: CampaignFacts, plan: PlanFacts) -> str:
    """Why the factors' effects are not known."""
    every = crossed(plan.factors).values()
    absent = [arm.name for arm in facts.arms if arm.name in every and arm.outcome != "measured"]
    if absent:
        return f"not known: {', '.join(absent)} was not measured"
    return "not known: fewer than two blocks have every combination of the factors"


def claims(plan: PlanFacts) -> Iterator[RenderableType]:
    """What the plan claims, answered."""
    yield Text("claims", style="dim")
    for claim in plan.claims:
        text = Text()
        text.append(f"{claim.answer:<13}  ", style=_STYLES.get(claim.answer, ""))
        text.append(claim.text)
        yield text
        is_address = claim.source.startswith("http")
        source = f" ({claim.source})" if claim.source and not is_address else ""
        yield _below(f"{_claimed(claim)}{source}")
        if is_address:  # stays whole, so that it can be followed
            yield Text(f"  {claim.source}", style="dim", overflow="ignore", no_wrap=True)


def _claimed(claim: ClaimFacts) -> str:
    of, ratio = f"{claim.quantity}, " if claim.quantity else "", claim.ratio
    words = f"{of}{claim.arm} against {claim.against}: claimed {claim.wanted}"
    if ratio is None:
        return words
    if claim.counts is None:
        return f"{words}, found {ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
    counted = f"{claim.counts[0]:.3g} against {claim.counts[1]:.3g}"
    return f"{words}, found {ratio.estimate:.2g} [{ratio.low:.2g}, {ratio.high:.2g}]: {counted}"


# -- frontier --------------------------------------------------------------------------------------------


def frontier(facts: CampaignFacts, tuning: TuningFacts) -> Iterator[RenderableType]:
    """A row per floor of a tuning, its changes below it."""
    every = [one for one in (facts.base, *facts.arms, facts.control, tuning.yours) if one is not None]
    columns = _Columns(
        unit=facts.unit or "result",
        has_results=any(one.result is not None for one in every),
        has_p99=any(one.p99_us is not None for one in every),
        has_yours=tuning.cost is not None,
    )
    yield columns.head()
    if (yours := tuning.yours) is not None and yours.comparison is not None:
        yield columns.row("yours", yours.comparison.ratio, yours, of_yours="1.00")
        yield from _latency(yours.p99, facts.objective)
        yield _below(f"below {facts.raised_to}: they meet {yours.verdict}", style="yellow")
    if columns.has_results:
        yield columns.row(base_name(facts), None, facts.base)
    for point in tuning.frontier:
        yield from _point(point, facts, tuning, columns)
    if (again := facts.control) is not None and again.comparison is not None:
        yield columns.row(AA_CONTROL, again.comparison.ratio, again, style="dim")
        yield from _latency(again.p99, facts.objective)
        yield _below("the base again: should be about 1")
    yield from _legend(facts)
    if tuning.raised:
        beside = "; of yours: against those as they are" if tuning.cost else ""
        yield Text(f"ratio: against {the_base(facts)}{beside}", style="dim")


class _Columns:
    """The columns of a frontier."""

    def __init__(self, *, unit: str, has_results: bool, has_p99: bool, has_yours: bool) -> None:
        self.has_results, self._has_p99, self._has_yours = has_results, has_p99, has_yours
        self._unit, self._width = unit, max(len(unit), 9)

    def head(self) -> Text:
        """The names of the columns."""
        beside = "  of yours" if self._has_yours else ""
        text = f"{'floor':<11} {'ratio':>6}  {'interval':<13}{beside}"
        text += f"  {self._unit if self.has_results else '':>{self._width}}"
        return Text((text + (f"  {'p99':>10}" if self._has_p99 else "")).rstrip(), style="dim")

    def row(
        self,
        name: str,
        ratio: Ratio | None,
        own: ArmResult | None,
        *,
        of_yours: str = "",
        style: str = "",
    ) -> Text:
        """A row; a ratio without an interval is exactly what it says."""
        shown = "" if ratio is None else f"{ratio.estimate:.2f}"
        bounds = "" if ratio is None or ratio.low == ratio.high else interval(ratio)
        value = "" if own is None or own.result is None else rounded(own.result)
        beside = f"  {of_yours:>8}" if self._has_yours else ""
        text = f"{name:<11} {shown:>6}  {bounds:<13}{beside}  {value:>{self._width}}"
        if self._has_p99:
            text += f"  {'' if own is None or own.p99_us is None else format_latency(own.p99_us):>10}"
        return Text(text.rstrip(), style=style)


def _point(
    point: FrontierPoint, facts: CampaignFacts, tuning: TuningFacts, columns: _Columns
) -> Iterator[RenderableType]:
    own = facts.arm(point.arm) if point.settings else None
    of_yours = f"{point.versus_yours.estimate:.2f}" if point.versus_yours else ""
    yield columns.row(point.floor.value, point.ratio, own, of_yours=of_yours)
    if own is not None:
        yield from _latency(own.p99, facts.objective)
        yield _below(durability_words(point))
    changed_settings = tuning.changes(point)
    for name, value in changed_settings.items():
        yield _below(f"{name}={spell(value)}", style="bold")
    if not changed_settings:
        yield _below("keep your settings")


def guarantees(facts: CampaignFacts, tuning: TuningFacts) -> Table:
    """The guarantees under each failure, before and after the change that is handed over."""
    shown = facts.handed_over
    before = (tuning.yours or facts.base).guarantees
    after = facts.arm(shown.arm if shown is not None else BASE).guarantees
    differs = any(before.get(failure) != after.get(failure) for failure in FAILURES)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("if", no_wrap=True)
    table.add_column("before", overflow="fold", ratio=1)
    if differs:
        table.add_column("after", overflow="fold", ratio=1)
    for failure, words in FAILURES.items():
        if failure in before or failure in after:
            table.add_row(words, before.get(failure, ""), *([after.get(failure, "")] if differs else []))
    return table
