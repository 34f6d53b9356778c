"""The result of `series` for people and as `flushlab.series/1`. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from flushlab.campaign.facts import ArmFacts, ClaimFacts, SeriesFacts, resuming
from flushlab.campaign.recommended import Recommended, is_faster, of_series
from flushlab.experiment.objective import Objective, gain_words, latency_words, verdict_words
from flushlab.plan.plan import crossed
from flushlab.record import Comparison, FactorEffect, Ratio, Value
from flushlab.report.carry_over import carry_over, on_own_server, render_carry_over, render_what_now, steps
from flushlab.report.identity import server_document
from flushlab.report.tune import base_words, blaming, headline, legend, never_ran, spell, way
from flushlab.settings.configuration import NO_BINLOG
from flushlab.units import counted, format_latency, format_seconds, format_size, format_spread

SCHEMA = "flushlab.series/1"

_NAME_WIDTH = 24
TOO_COARSE = 1.0
"""A comparison that would only have seen gains above this says nothing."""
NEVER_RAN = "Nothing was measured: it was stopped before the first window."
OUTCOMES = {"measured": "too few blocks", "not_in_version": "not in this version"}
"""What stands for the verdict of an arm that has none, where the word itself would not do."""
STYLES = {
    **dict.fromkeys(("faster", "lower p99", "confirmed"), "green"),
    **dict.fromkeys(("slower", "higher p99", "refuted"), "red"),
}


def document(facts: SeriesFacts) -> dict[str, Any]:
    """The JSON document."""
    return {
        "schema": SCHEMA,
        "campaign": facts.campaign_id,
        "ending": facts.ending,
        "plan": facts.plan,
        "title": facts.title,
        "server": server_document(facts.server),
        "workload": facts.workload,
        "sources": list(facts.sources),
        "objective": facts.objective,
        "unit": facts.unit,
        "higher_is_better": facts.higher_is_better,
        "base": {
            "settings": dict(facts.base),
            "text": facts.base_text,
            "figure": facts.base_figure,
            "p99_us": facts.base_p99_us,
            "floor": facts.base_floor,
            "guarantees": dict(facts.base_guarantees),
        },
        "floor": facts.floor or facts.base_floor,
        "arms": [_arm(arm) for arm in facts.arms],
        "recommended": [recommended_document(one) for one in of_series(facts)],
        "control": _compared(facts.control, facts.control_p99) if facts.control is not None else None,
        "claims": list(facts.claims),
        "factors": list(facts.factors),
        "effects": [_effect_document(effect) for effect in facts.effects],
        "carry_over": list(carry_over(facts)),
        "blocks": facts.blocks,
        "planned_blocks": facts.planned_blocks,
        "trials": {"run": facts.trials, "disturbed": facts.disturbed},
        "others": facts.others,
        "seconds": facts.seconds,
        "scale": facts.scale,
        "alternate": facts.alternate,
        "interleaved": facts.interleaved,
        "why_fresh": facts.why_fresh,
        "bytes": {"data": facts.data_bytes, "pool": facts.pool_bytes, "redo": facts.redo_bytes},
        "machine": facts.machine,
        "warnings": list(facts.warnings),
        "files": list(facts.files),
    }


def _arm(arm: ArmFacts) -> dict[str, Any]:
    return {
        "name": arm.name,
        "text": arm.text,
        "outcome": arm.outcome,
        "reason": arm.reason,
        "why_fresh": arm.why_fresh,
        "settings": dict(arm.settings),
        "workload": dict(arm.workload),
        "data_root": arm.data_root,
        "disk_iops": arm.disk_iops,
        "disk": arm.disk,
        "contract": list(arm.contract),
        "no_effect": list(arm.no_effect),
        "floor": arm.floor,
        "guarantees": dict(arm.guarantees),
        "figure": arm.figure,
        "p99_us": arm.p99_us,
        "composed_of": list(arm.composed_of),
        **_compared(arm.comparison, arm.p99),
    }


def recommended_document(one: Recommended) -> dict[str, Any]:
    """What a campaign recommends for one server."""
    return {
        "server": server_document(one.server),
        "arm": one.arm,
        "base": one.base,
        "settings": dict(one.settings),
        "ratio": one.ratio,
        "blocks": one.blocks,
        "floor": one.floor,
        "not_shown": list(one.not_shown),
        "next_steps": list(steps(one)),
    }


def _effect_document(effect: FactorEffect) -> dict[str, Any]:
    return {
        "factors": list(effect.factors),
        "ratio": effect.ratio,
        "verdict": effect.verdict,
        "blocks": effect.blocks,
        "detectable": effect.detectable,
    }


def _compared(comparison: Comparison | None, p99: Comparison | None) -> dict[str, Any]:
    return {
        "ratio": comparison.ratio if comparison else None,
        "verdict": comparison.verdict if comparison else None,
        "p99_ratio": p99.ratio if p99 else None,
        "blocks": comparison.blocks if comparison else 0,
        "detectable": comparison.detectable if comparison else None,
    }


def render(facts: SeriesFacts) -> RenderableType:
    """What a person reads: the answer first. Fits 80 columns."""
    parts: list[RenderableType] = [
        Text(f"{facts.server.title} · {facts.workload}", style="dim"),
        Text(facts.title, style="dim"),
        answer(facts),
        "",
        *([] if never_ran(facts) else [*_table(facts), ""]),
    ]
    if facts.factors and not never_ran(facts):
        parts += [*_effects(facts), ""]
    if facts.claims and not never_ran(facts):
        parts += [Text("claims", style="dim")]
        parts += [line for claim in facts.claims for line in _claim(claim)]
        parts += [""]
    parts += notes(facts)
    if any(is_faster(arm) for arm in facts.arms):
        parts += ["", *render_carry_over(facts), *render_what_now(facts, of_series(facts))]
    return Group(*parts, *page(facts))


def answer(facts: SeriesFacts) -> Text:
    """One or two sentences: what the series concludes."""
    measured = [arm for arm in facts.arms if arm.outcome == "measured"]
    if never_ran(facts):
        return Text(NEVER_RAN, style="bold")
    if not measured:
        reasons = {arm.reason for arm in facts.arms if arm.name != "best"}
        why = f": {reasons.pop()}" if len(reasons) == 1 else "; see the reason of each arm"
        return Text(f"Nothing was measured{why}.", style="bold")
    compared = [arm for arm in measured if arm.comparison is not None]
    if not compared:
        done = f"{facts.blocks} of {counted(facts.planned_blocks, 'block')}"
        return blaming(facts, f"Nothing is proven: {done} done; two are needed.")
    best = next((arm for arm in compared if arm.composed_of), None)
    if best is not None and best.comparison is not None:
        text = headline(gain_words(best.comparison.ratio, facts.objective))
        text.append(f"\nTogether: {' + '.join(best.composed_of)}.", style="not bold")
        if best.comparison.verdict != "faster":
            proven = "to be faster" if facts.objective == "throughput" else "to lower p99 latency"
            text.append(f"\nTogether, they are not proven {proven}.", style="not bold")
        if best.floor and best.floor != facts.base_floor:
            words = f"\nIts floor is {best.verdict}. That of the base is {facts.base_arm.verdict}."
            text.append(words, style="not bold")
        return text.append(_below(facts), style="not bold")
    faster = [arm for arm in compared if is_faster(arm)]
    if faster:
        return _faster(facts, faster)
    seen = max(arm.comparison.detectable for arm in compared if arm.comparison)
    words = (
        f"a gain of {seen:.1%} or more would probably have been detected"
        if seen < TOO_COARSE
        else "too few blocks to tell"
    )
    return blaming(facts, f"{nothing_better(facts.objective, 'the base')} ({words}).")


def nothing_better(objective: Objective, base: str) -> str:
    """That no arm proved better than the base, in the words of what was compared."""
    if objective == "throughput":
        return f"Nothing proved faster than {base}"
    return f"No lower p99 latency than that of {base} was proven"


def _faster(facts: SeriesFacts, faster: Sequence[ArmFacts]) -> Text:
    """Those at the floor, then those below it."""
    lower = _below(facts)
    at = f" at the floor {facts.floor or facts.base_floor}" if lower else ""
    names = [arm.name for arm in faster if not facts.below_floor(arm, facts.base_arm)]
    what = "Faster" if facts.objective == "throughput" else "Lower p99 latency"
    words = f"{what} than the base{at}: {', '.join(names)}."
    if not names:
        words = f"{nothing_better(facts.objective, 'the base')}{at}."
    return Text(words, style="bold").append(lower, style="not bold")


def _below(facts: SeriesFacts) -> str:
    """A line on arms that proved faster below the floor; empty without them."""
    names = [arm.name for arm in facts.arms if is_faster(arm) and facts.below_floor(arm, facts.base_arm)]
    what = "Faster" if facts.objective == "throughput" else "Lower p99 latency"
    return f"\n{what}, but below the floor and not recommended: {', '.join(names)}." if names else ""


def _table(facts: SeriesFacts) -> Iterator[RenderableType]:
    names = ["control", *(arm.name for arm in facts.arms)]
    width = min(max(map(len, names)), _NAME_WIDTH)
    yield Text(f"{'arm':<{width}}  {'ratio':>5}  {'interval':<13}  {'verdict':<19}  floor", style="dim")
    base_ratio = "1.00" if facts.base_figure is not None else ""
    yield _row("base", base_ratio, "", "", facts.base_floor, width)
    if facts.base_text:
        yield below(facts.base_text)
    if facts.base_arm.verdict != facts.base_floor:
        yield below(f"floor {facts.base_arm.verdict}")
    if figures := absolute(facts.base_figure, facts.base_p99_us, facts.unit):
        yield below(figures)
    for arm in facts.arms:
        lowered = facts.below_floor(arm, facts.base_arm)
        yield _arm_row(arm, facts.objective, width, lowered=lowered)
        if what := _what(arm):
            yield below(what)
        if figures := absolute(arm.figure, arm.p99_us, facts.unit):
            yield below(figures)
        yield from latency(arm.p99, facts.objective)
        if arm.verdict not in (arm.floor, facts.base_arm.verdict):
            yield below(f"floor {arm.verdict}")
        if arm.reason:
            yield below(arm.reason.strip().splitlines()[0], style="yellow")
        yield from remarks(arm)
    if facts.control is not None:
        yield _row("control", *figures_of(facts.control, facts.objective), "", width, style="dim")
        yield from latency(facts.control_p99, facts.objective)
        yield below("the base again: should be about 1")
    yield from legend(facts.objective, "the base")


def remarks(arm: ArmFacts) -> Iterator[RenderableType]:
    """What an arm's settings do beside what is measured, and which of them do nothing."""
    if arm.contract:
        yield below(f"changes the service: {', '.join(arm.contract)}", style="yellow")
    if arm.no_effect:
        yield below(f"{NO_BINLOG}: {', '.join(arm.no_effect)}", style="yellow")


def _arm_row(arm: ArmFacts, objective: Objective, width: int, *, lowered: bool) -> Text:
    if arm.comparison is not None:
        figures = figures_of(arm.comparison, objective)
        return _row(arm.name, *figures, arm.floor, width, lowered=lowered)
    return _row(arm.name, "", "", OUTCOMES.get(arm.outcome, arm.outcome), arm.floor, width, lowered=lowered)


def _row(
    name: str,
    ratio: str,
    interval: str,
    verdict: str,
    floor: str,
    width: int,
    *,
    lowered: bool = False,
    style: str = "",
) -> Text:
    text = Text(style=style)
    shown = name if len(name) <= width else f"{name}\n{'':<{width}}"
    text.append(f"{shown:<{width}}  ", style="bold")
    text.append(f"{ratio:>5}  {interval:<13}  ")
    text.append(f"{verdict:<19}  ", style=STYLES.get(verdict, ""))
    text.append(floor, style="yellow" if lowered else "")
    text.rstrip()
    return text


def figures_of(comparison: Comparison, objective: Objective) -> tuple[str, str, str]:
    """What a row shows: ratio, interval, verdict."""
    ratio = comparison.ratio
    return f"{ratio.estimate:.2f}", interval(ratio), verdict_words(comparison.verdict, objective)


def _what(arm: ArmFacts) -> str:
    """What the arm stands for: its text, or what it changes; then its place."""
    changes = [*_spelled(arm.settings), *_spelled(arm.workload)]
    if arm.data_root is not None:
        changes.append(f"in {arm.data_root}")
    if arm.disk_iops is not None:
        changes.append(f"on a disk of {arm.disk_iops} writes/s")
    if arm.disk is not None:
        changes.append(f"on an emulated disk: {arm.disk}")
    if arm.composed_of:
        return f"{' + '.join(arm.composed_of)}, in blocks of its own"
    nothing = "the same as the base" if arm.outcome == "measured" else ""
    return arm.text or ", ".join(changes) or nothing


def absolute(figure: float | None, p99_us: float | None, unit: str) -> str:
    """`12,346 transactions/s, p99 1.9 ms`."""
    if figure is None:
        return ""
    latency = "" if p99_us is None else f", p99 {format_latency(p99_us)}"
    return f"{figure:,.{2 if figure < 100 else 0}f} {unit}{latency}"


def latency(p99: Comparison | None, objective: Objective) -> Iterator[RenderableType]:
    """What stands below a row of throughput ratios of the latency."""
    if p99 is not None and objective != "p99":
        yield below(latency_words(p99))


def _spelled(settings: Mapping[str, Value]) -> list[str]:
    return [f"{name}={spell(value)}" for name, value in settings.items()]


def below(text: str, style: str = "dim") -> Padding:
    """A line that belongs to the row above it."""
    return Padding(Text(text, style=style), (0, 0, 0, 2), expand=False)


def _effects(facts: SeriesFacts) -> Iterator[RenderableType]:
    """What the factors do, each by itself and together."""
    if not facts.effects:
        yield Text("effects", style="dim")
        yield below(no_effects(facts))
        return
    width = min(max(len("effects"), *(len(effect.name) for effect in facts.effects)), _NAME_WIDTH)
    yield Text(f"{'effects':<{width}}  {'ratio':>5}  {'interval':<13}  verdict", style="dim")
    for effect in facts.effects:
        verdict = verdict_words(effect.verdict, facts.objective)
        figures = f"{effect.ratio.estimate:.2f}", interval(effect.ratio), verdict
        yield _row(effect.name, *figures, "", width)
        yield below(effect_words(effect, facts.factors))


def effect_words(effect: FactorEffect, factors: Sequence[str]) -> str:
    """How to read an effect."""
    if len(effect.factors) == 1:
        others = [name for name in factors if name not in effect.factors]
        if len(others) == 1:
            return f"average of its effect without {others[0]} and its effect with it"
        return f"average of its effects with each combination of {', '.join(others)}"
    return "1: together, their gains multiply; above 1: together they gain more than that"


def no_effects(facts: SeriesFacts) -> str:
    """Why the factors' effects are not known."""
    arms = crossed(facts.factors).values()
    absent = [arm.name for arm in facts.arms if arm.name in arms and arm.outcome != "measured"]
    if absent:
        return f"not known: {', '.join(absent)} was not measured"
    return "not known: fewer than two blocks have every combination of the factors"


def _claim(claim: ClaimFacts) -> Iterator[RenderableType]:
    text = Text()
    text.append(f"{claim.answer:<13}  ", style=STYLES.get(claim.answer, ""))
    text.append(claim.text)
    yield text
    of = f"{claim.figure}, " if claim.figure else ""
    found = f"{of}{claim.arm} against {claim.against}: claimed {claim.wanted}"
    if claim.ratio is not None and claim.counts is not None:
        low, high = (f"{bound:.2g}" for bound in (claim.ratio.low, claim.ratio.high))
        found += f", found {claim.ratio.estimate:.2g} [{low}, {high}]"
        found += f": {claim.counts[0]:.3g} against {claim.counts[1]:.3g}"
    elif claim.ratio is not None:
        found += f", found {claim.ratio.estimate:.2f} {interval(claim.ratio, brackets=True)}"
    is_address = claim.source.startswith("http")
    yield below(found + (f" ({claim.source})" if claim.source and not is_address else ""))
    if is_address:  # stays whole, so that it can be followed
        yield Text(f"  {claim.source}", style="dim", overflow="ignore", no_wrap=True)


def notes(facts: SeriesFacts) -> Iterator[RenderableType]:
    """What stands below the result: the base's figure, sizes, doubts, how to resume."""
    if not never_ran(facts):
        yield from _about(facts)
    if facts.ending == "interrupted":
        again = resuming(facts.kind, facts.campaign_id, own=on_own_server(facts))
        yield Text(f"interrupted; resume with: {again}")


def _about(facts: SeriesFacts) -> Iterator[RenderableType]:
    if facts.base_figure is not None:
        words = f"{facts.base_name}: {base_words(facts)}"
        windows = "" if facts.unit == "s" else f", windows of {format_seconds(facts.seconds)}"
        if facts.rounds and facts.slice_s:
            windows = f", {counted(facts.rounds, 'round')} of {format_spread(*facts.slice_s)} each"
        yield Text(f"{words} ({counted(facts.blocks, 'block')}{windows})", style="dim")
    yield from way(facts)
    if facts.scale != 1:
        yield Text(f"tables at {facts.scale:g} of the plan's size", style="dim")
    sizes = [("data", facts.data_bytes), ("pool", facts.pool_bytes), ("redo", facts.redo_bytes)]
    known = " : ".join(f"{name} {format_size(size)}" for name, size in sizes if size is not None)
    if known:
        yield Text(known, style="dim")
    for warning in facts.warnings:
        yield Text(f"warning: {warning.text}", style="yellow")


def page(facts: SeriesFacts) -> Iterator[RenderableType]:
    """How to get the page, where it was not written."""
    if facts.ending != "interrupted" and not facts.files:
        if files := any(one.has_files for one in of_series(facts)):
            yield ""
        with_files = ", with these files" if files else ""
        yield Text(f"HTML page{with_files}: flushlab report {facts.campaign_id}", style="dim")


def interval(ratio: Ratio, *, brackets: bool = False) -> str:
    """`1.55 – 1.70`, or `[1.55, 1.70]`."""
    if brackets:
        return f"[{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.low:.2f} – {ratio.high:.2f}"
