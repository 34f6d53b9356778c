"""The result of `tune`, `series` and `compare` for people, and as `flushlab.campaign/1`. Pure.

docs/reference/campaign-json.md has every field of the latter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from flushlab.campaign.analysis import LEAST_MACHINES
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import Recommended, offered, recommended
from flushlab.report import crash, tables
from flushlab.report.answer import answer
from flushlab.report.carry_over import (
    CarryOver,
    carry_over,
    render_carry_over,
    render_offers,
    render_what_now,
)
from flushlab.report.clients import load_came_from
from flushlab.report.machines import who_ran
from flushlab.report.observed import demand_words, source_words
from flushlab.report.words import base_name, base_words, changes, data_words, servers, sizes, ways
from flushlab.units import counted, format_seconds, format_spread


class CampaignDocument(
    CampaignFacts, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.campaign/1"
):
    """The document: `schema`, the facts, and what follows from them.

    Attributes:
        recommended: the change to make, one for each server that has one.
        offered: gains of a tuning below its floor, the safest first.
        carry_over: what holds on another server.
        crash: as in [crash-json.md](crash-json.md): what crashes left of the winner of a tuning, and of those
            that were rejected for it; null: nothing was crashed.
    """

    recommended: tuple[Recommended, ...]
    offered: tuple[Recommended, ...]
    carry_over: tuple[CarryOver, ...]
    crash: Any = None


def document(facts: CampaignFacts) -> CampaignDocument:
    """The JSON document."""
    known = {name: getattr(facts, name) for name in facts.__struct_fields__}
    known["crash"] = crash.document(facts.crash) if facts.crash else None
    return CampaignDocument(
        **known, recommended=recommended(facts), offered=offered(facts), carry_over=carry_over(facts)
    )


def render(facts: CampaignFacts) -> RenderableType:
    """What a person reads: the answer first. Fits 80 columns."""
    parts: list[RenderableType] = [
        Text(f"{servers(facts)} · {facts.workload}", style="dim"),
        *([Text(facts.title, style="dim")] if facts.kind == "series" else []),
        answer(facts),
        *([Text(words)] if (words := demand_words(facts)) and facts.blocks else []),
        "",
    ]
    if not facts.never_ran:
        parts += _tables(facts)
        parts += _notes(facts)
    if facts.ending == "interrupted":
        parts.append(Text(f"interrupted; resume with: {facts.resume}"))
    found = recommended(facts)
    if found or (facts.plan and any(arm.is_faster and not arm.is_base for arm in facts.arms)):
        parts += ["", *render_carry_over(facts), *render_what_now(facts, found)]
    parts += render_offers(offered(facts))
    if facts.plan and facts.ending != "interrupted" and not facts.files:
        files = ", with these files" if any(one.has_files for one in found) else ""
        hint = Text(f"HTML page{files}: flushlab report {facts.campaign_id}", style="dim")
        parts += [*([""] if files else []), hint]
    return Group(*parts)


def _tables(facts: CampaignFacts) -> Iterator[RenderableType]:
    if (tuning := facts.tuning) is not None and tuning.frontier:
        yield from (*tables.frontier(facts, tuning), "")
    if tuning is not None and (tuning.frontier or (not tuning.tried and facts.ending == "done")):
        yield from (tables.guarantees(facts, tuning), "")
    if facts.crash is not None:
        yield from (crash.guarantees(facts.crash), "")
    if (plan := facts.plan) is not None:
        yield from (*tables.arms(facts), "")
        if plan.factors:
            yield from (*tables.effects(facts, plan), "")
        if plan.claims:
            yield from (*tables.claims(plan), "")


def _notes(facts: CampaignFacts) -> Iterator[RenderableType]:
    if facts.base.result is not None:
        measured = f"{counted(facts.blocks, 'block')}, {_windows(facts)}".removesuffix(", ")
        yield Text(f"{base_name(facts)}: {base_words(facts)} ({measured})", style="dim")
    if facts.base.result is not None or facts.plan is not None:
        yield from (Text(words, style="dim") for words in ways(facts))
    if facts.base.observed is not None:
        yield Text(source_words(facts.base.observed), style="dim")
    if facts.clients:
        yield Text(load_came_from(facts.clients), style="dim")
    if sum(one.compared for one in facts.machines) >= LEAST_MACHINES:
        yield Text(f"{who_ran(facts)}; intervals are about all machines like them", style="dim")
    if facts.plan is not None and facts.plan.scale != 1:
        yield Text(f"tables at {facts.plan.scale:g} of the plan's size", style="dim")
    if facts.data is not None:
        yield Text(f"your data: {data_words(facts.data, facts.tables)}", style="dim")
    if known := " : ".join(f"{name} {size}" for name, size in sizes(facts).items()):
        yield Text(known, style="dim")
    for arm in (facts.base, *facts.arms):
        if arm.recovery_s is not None:
            yield Text(f"recovery after SIGKILL, {arm.name}: {arm.recovery_s:.1f} s", style="dim")
    yield from (Text(words, style="yellow") for words in _left_out(facts))
    yield from (Text(f"warning: {warning.text}", style="yellow") for warning in facts.warnings)


def _windows(facts: CampaignFacts) -> str:
    plan = facts.plan
    if plan is None:
        return counted(facts.tuning.interim_analyses, "interim analysis") if facts.tuning is not None else ""
    if plan.rounds and plan.slice_s:
        return f"{counted(plan.rounds, 'round')} of {format_spread(*plan.slice_s)} each"
    return "" if facts.unit == "s" else f"windows of {format_seconds(plan.window_s)}"


def _left_out(facts: CampaignFacts) -> Iterator[str]:
    """What a tuning changed of the user's settings, and what it left out."""
    if (tuning := facts.tuning) is None:
        return
    yield from (f"raised to the floor: {words}" for words in tuning.raised_why)
    yield from (f"rejected {one.arm}: {one.reason}" for one in tuning.rejected)
    for one in tuning.excluded:
        became, reason = one.told
        if became != "excluded" or not tuning.tried:
            yield f"{became} {changes(one.settings)}: {reason}"
