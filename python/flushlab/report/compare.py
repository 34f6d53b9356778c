"""The result of `compare` for people and as `flushlab.compare/1`. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from flushlab.campaign.facts import ArmFacts, SeriesFacts
from flushlab.campaign.recommended import allowed_below, is_faster, of_series, recommendable
from flushlab.experiment.objective import gain_words
from flushlab.report.carry_over import carry_over, render_carry_over, render_what_now
from flushlab.report.guarantees import changed, grouped
from flushlab.report.identity import server_document
from flushlab.report.series import (
    NEVER_RAN,
    OUTCOMES,
    STYLES,
    TOO_COARSE,
    absolute,
    below,
    figures_of,
    interval,
    latency,
    notes,
    nothing_better,
    page,
    recommended_document,
    remarks,
)
from flushlab.report.tune import blaming, legend, never_ran, spell
from flushlab.settings.durability import FLOOR
from flushlab.units import counted

SCHEMA = "flushlab.compare/1"
WIDTH = 80

_FIGURES = len("  99.99  99.99 – 99.99  no difference found")
"""Columns of what stands beside a name."""


def document(facts: SeriesFacts) -> dict[str, Any]:
    """The JSON document."""
    return {
        "schema": SCHEMA,
        "campaign": facts.campaign_id,
        "ending": facts.ending,
        "workload": facts.workload,
        "sources": list(facts.sources),
        "objective": facts.objective,
        "unit": facts.unit,
        "higher_is_better": facts.higher_is_better,
        "base": {
            "name": facts.base_name,
            "server": server_document(facts.server),
            "settings": dict(facts.base),
            "figure": facts.base_figure,
            "p99_us": facts.base_p99_us,
            "floor": facts.base_floor,
            "guarantees": dict(facts.base_guarantees),
        },
        "floor": facts.floor or facts.base_floor,
        "arms": [_arm(arm, facts) for arm in facts.arms],
        "recommended": [recommended_document(one) for one in of_series(facts)],
        "control": facts.control.ratio if facts.control is not None else None,
        "control_p99_ratio": facts.control_p99.ratio if facts.control_p99 is not None else None,
        "interleaved": facts.interleaved,
        "why_fresh": facts.why_fresh,
        "rounds": facts.rounds,
        "slice_s": facts.slice_s,
        "blocks": facts.blocks,
        "planned_blocks": facts.planned_blocks,
        "run_s": facts.seconds,
        "trials": {"run": facts.trials, "disturbed": facts.disturbed},
        "others": facts.others,
        "bytes": {"data": facts.data_bytes, "pool": facts.pool_bytes, "redo": facts.redo_bytes},
        "carry_over": list(carry_over(facts)),
        "machine": facts.machine,
        "warnings": list(facts.warnings),
        "files": list(facts.files),
    }


def _arm(arm: ArmFacts, facts: SeriesFacts) -> dict[str, Any]:
    comparison = arm.comparison
    return {
        "name": arm.name,
        "server": server_document(arm.server or facts.server),
        "against": arm.against or facts.base_name,
        "settings": dict(arm.settings),
        "outcome": arm.outcome,
        "reason": arm.reason,
        "why_fresh": arm.why_fresh,
        "figure": arm.figure,
        "p99_us": arm.p99_us,
        "ratio": comparison.ratio if comparison else None,
        "verdict": comparison.verdict if comparison else None,
        "p99_ratio": arm.p99.ratio if arm.p99 else None,
        "blocks": comparison.blocks if comparison else 0,
        "detectable": comparison.detectable if comparison else None,
        "contract": list(arm.contract),
        "no_effect": list(arm.no_effect),
        "floor": arm.floor,
        "guarantees": dict(arm.guarantees),
    }


def servers(facts: SeriesFacts) -> dict[str, None]:
    """Names of all servers, each once."""
    return dict.fromkeys(one.title for one in (facts.server, *(arm.server for arm in facts.arms)) if one)


def render(facts: SeriesFacts) -> RenderableType:
    """What a person reads: the answer first. Fits 80 columns."""
    parts: list[RenderableType] = [
        Text(f"{', '.join(servers(facts))} · {facts.workload}", style="dim"),
        answer(facts),
        "",
        *([] if never_ran(facts) else [*_table(facts), ""]),
    ]
    carried: list[RenderableType] = []
    if any(is_faster(arm) and not arm.is_base for arm in facts.arms):
        carried = ["", *render_carry_over(facts)]
    return Group(*parts, *notes(facts), *carried, *render_what_now(facts, of_series(facts)), *page(facts))


def answer(facts: SeriesFacts) -> Text:
    """What differs, a server a line, then the servers themselves."""
    if never_ran(facts):
        return Text(NEVER_RAN, style="bold")
    if not any(arm.outcome == "measured" for arm in facts.arms):
        return Text("Nothing was compared; see the reason of each configuration.", style="bold")
    compared = [arm.comparison for arm in facts.arms if arm.comparison is not None]
    if not compared:
        done = f"{facts.blocks} of {counted(facts.planned_blocks, 'block')}"
        return blaming(facts, f"Nothing is proven: {done} done; two are needed.")
    if all(one.verdict == "no difference found" for one in compared):
        seen = max(one.detectable for one in compared)
        words = f"one of {seen:.1%} or more would probably have been detected"
        return blaming(
            facts, f"No difference was proven ({words if seen < TOO_COARSE else 'too few blocks to tell'})."
        )
    found = [(base, arms) for base, arms in facts.by_server if arms]
    found.sort(key=lambda one: not recommendable(facts, *one))  # what is recommended is the headline
    lines = [_answer_of(facts, base, arms) for base, arms in found]
    lines += [_between(facts, base) for base, _ in facts.by_server[1:] if base.comparison is not None]
    return Text("\n").join(lines)


def _answer_of(facts: SeriesFacts, base: ArmFacts, arms: tuple[ArmFacts, ...]) -> Text:
    """The one that is recommended, and what lower floors would recommend."""
    text, lower = Text(), list(allowed_below(facts, base, arms))
    for fastest in recommendable(facts, base, arms)[:1]:
        _gain(text, fastest, base, facts)
        if fastest.floor != base.floor:
            text.append(f"\nIts floor is {fastest.verdict}. That of {base.name} is {base.verdict}.")
        elif fastest.verdict != fastest.floor:
            text.append(f"\nIts floor is {fastest.verdict}.")
    if not text:
        at = f" at the floor {facts.floor or base.floor}" if lower else ""
        text.append(f"{nothing_better(facts.objective, base.name)}{at}.", style="bold")
    for arm in lower:
        _gain(text.append("\n"), arm, base, facts, style="")
        text.append(f"; its floor is {arm.verdict}: not recommended. --floor {arm.floor} allows it.")
    return text


def _between(facts: SeriesFacts, other: ArmFacts) -> Text:
    """One server against another: no change of settings, so no gain."""
    text, first = Text(), facts.base_arm
    assert other.comparison is not None
    if other.comparison.verdict == "no difference found":
        return text.append(f"No difference was proven between {other.name} and {first.name}.")
    return _gain(text, other, first, facts)


def _gain(text: Text, arm: ArmFacts, base: ArmFacts, facts: SeriesFacts, style: str = "bold") -> Text:
    assert arm.comparison is not None
    verb = "has" if facts.objective == "p99" else "is"
    words = gain_words(arm.comparison.ratio, facts.objective, base.name)
    gain, bracket, interval = words.rpartition(" [")
    return text.append(f"{arm.name} {verb} {gain}", style=style).append(f"{bracket}{interval}")


def _table(facts: SeriesFacts) -> Iterator[RenderableType]:
    names = [facts.base_name, "control", *(arm.name for arm in facts.arms)]
    room = WIDTH - _FIGURES
    width = max([len(name) for name in names if len(name) <= room], default=room)
    servers = facts.by_server
    for number, (base, arms) in enumerate(servers):
        if number:
            yield ""
        yield Text(f"{'':<{width}}  {'ratio':>5}  {'interval':<13}  verdict", style="dim")
        yield from _row(base.name, width, "" if base.figure is None else "1.00")
        if number and (what := _what(base)):
            yield below(what)
        yield from _about(absolute(base.figure, base.p99_us, facts.unit), base.verdict, base.guarantees)
        yield from _why_not(base)
        for arm in arms:
            yield from _arm_rows(arm, base, facts, width)
        if not number and facts.control is not None:
            yield from _row("control", width, *figures_of(facts.control, facts.objective), style="dim")
            yield from latency(facts.control_p99, facts.objective)
            yield below(f"{facts.base_name} again: should be about 1")
    if others := [base for base, _ in servers[1:] if base.comparison is not None]:
        yield ""
        yield Text(f"servers, against {facts.base_name}", style="dim")
        for base in others:
            assert base.comparison is not None
            ratio = base.comparison.ratio
            yield from _row(base.name, width, f"{ratio.estimate:.2f}", interval(ratio))
            yield from latency(base.p99, facts.objective)
    whose = facts.base_name if len(servers) == 1 else "the base"
    yield from legend(facts.objective, whose)


def _arm_rows(arm: ArmFacts, base: ArmFacts, facts: SeriesFacts, width: int) -> Iterator[RenderableType]:
    if arm.comparison is not None:
        yield from _row(arm.name, width, *figures_of(arm.comparison, facts.objective))
    else:
        yield from _row(arm.name, width, "", "", OUTCOMES.get(arm.outcome, arm.outcome))
    if what := _what(arm):
        yield below(what)
    figures = absolute(arm.figure, arm.p99_us, facts.unit)
    lower = f" (below {facts.floor or base.floor})" if facts.below_floor(arm, base) else ""
    words, p99 = changed(arm.guarantees, base.guarantees), latency(arm.p99, facts.objective)
    yield from _about(figures, f"{arm.verdict}{lower}", words, p99)
    yield from _why_not(arm)


def _why_not(arm: ArmFacts) -> Iterator[RenderableType]:
    if arm.reason:
        yield below(arm.reason.strip().splitlines()[0], style="yellow")
    yield from remarks(arm)


def _row(
    name: str, width: int, ratio: str, interval: str = "", verdict: str = "", style: str = ""
) -> Iterator[Text]:
    if len(name) > width:
        yield Text(name, style="bold")
        name = ""
    text = Text(style=style)
    text.append(f"{name:<{width}}  ", style="bold")
    text.append(f"{ratio:>5}  {interval:<13}  ")
    text.append(verdict, style=STYLES.get(verdict, ""))
    text.rstrip()
    yield text


def _about(
    figures: str, floor: str, guarantees: Mapping[str, str], p99: Iterable[RenderableType] = ()
) -> Iterator[RenderableType]:
    """What stands below a row: its figures, its floor, its latency and what each failure costs."""
    if words := "; ".join(filter(None, (figures, f"floor {floor}" if floor else ""))):
        yield below(words)
    yield from p99
    failures_only = {name: text for name, text in guarantees.items() if name != FLOOR}
    for failures, text in grouped(failures_only).items():
        yield below(f"{failures}: {text}")


def _what(arm: ArmFacts) -> str:
    """What the configuration changes, where its name does not say so."""
    changes = [f"{name}={spell(value)}" for name, value in arm.settings.items()]
    told = "" if arm.name.endswith(" ".join(changes)) else ", ".join(changes)
    return "; ".join(filter(None, (told, arm.text)))
