"""The result of `tune` for people and as `flushlab.tune/1`. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flushlab.campaign.facts import EXTERNAL, FIRST_LOOK_MINUTES, Figures, SeriesFacts, TuneFacts, resuming
from flushlab.campaign.quiet import blame
from flushlab.campaign.recommended import of_tune
from flushlab.experiment.blocks import YOURS
from flushlab.experiment.frontier import FrontierPoint
from flushlab.experiment.objective import Objective, gain_words, latency_words
from flushlab.plan.plan import BASE, CONTROL
from flushlab.record import Ratio, Value
from flushlab.report import crash
from flushlab.report.carry_over import (
    Step,
    carry_over,
    on_own_server,
    render_carry_over,
    render_what_now,
    steps,
)
from flushlab.report.guarantees import FAILURES
from flushlab.report.identity import server_document
from flushlab.settings.durability import FLOOR
from flushlab.units import counted, format_latency, format_size, option_size

SCHEMA = "flushlab.tune/1"


def document(facts: TuneFacts) -> dict[str, Any]:
    """The JSON document."""
    result = facts.result
    return {
        "schema": SCHEMA,
        "campaign": facts.campaign_id,
        "ending": facts.ending,
        "server": server_document(facts.server),
        "workload": facts.workload,
        "sources": list(facts.sources),
        "unit": facts.unit,
        "objective": facts.objective,
        "floor": facts.floor,
        "base": {
            "settings": dict(facts.base),
            "lifted": list(facts.lifted),
            "raised": dict(facts.raised),
            "figure": facts.base_figure,
            "p99_us": facts.base_p99_us,
            "guarantees": facts.guarantees[BASE],
        },
        "yours": _yours(facts) if facts.raised else None,
        "frontier": [_point(facts, point) for point in result.frontier],
        "winner": _point(facts, result.winner) if result.winner else None,
        "handed_over": _point(facts, facts.handed_over) if facts.handed_over else None,
        "control": result.control.ratio if result.control else None,
        "control_p99_ratio": result.p99[CONTROL].ratio if CONTROL in result.p99 else None,
        "tried": result.tried,
        "detectable": result.detectable,
        "figures": dict(facts.figures),
        "carry_over": list(carry_over(facts)),
        "next_steps": list(next_steps(facts)),
        "blocks": result.blocks,
        "trials": {"run": facts.trials, "disturbed": facts.disturbed},
        "others": facts.others,
        "looks": result.looks,
        "interleaved": facts.interleaved,
        "why_fresh": facts.why_fresh,
        "confirmed": list(result.confirmed),
        "confirmed_p99": list(result.p99.values()),
        "dropped": list(result.dropped),
        "rejected": list(result.rejected),
        "excluded": list(result.excluded),
        "recovery_s": dict(facts.recovery_s),
        "crash": crash.document(facts.crash) if facts.crash else None,
        "bytes": {"data": facts.data_bytes, "pool": facts.pool_bytes, "redo": facts.redo_bytes},
        "machine": facts.machine,
        "warnings": list(facts.warnings),
        "files": list(facts.files),
    }


def _yours(facts: TuneFacts) -> dict[str, Any]:
    """The user's settings, where they are below the floor."""
    return {
        "floor": facts.yours,
        "ratio": facts.result.yours.ratio if facts.result.yours else None,
        "figure": facts.figures.get(YOURS, Figures()).figure,
        "p99_us": facts.figures.get(YOURS, Figures()).p99_us,
        "guarantees": facts.guarantees.get(YOURS, {}),
    }


def _point(facts: TuneFacts, point: FrontierPoint) -> dict[str, Any]:
    return {
        "floor": point.floor.value,
        "arm": point.arm,
        "settings": dict(point.settings),
        "changes": facts.changes(point),
        "ratio": point.ratio,
        "versus_yours": point.versus_yours,
        "free_ratio": point.free_ratio,
        "figure": facts.figures.get(point.arm, Figures()).figure,
        "p99_us": facts.figures.get(point.arm, Figures()).p99_us,
        "p99_ratio": facts.result.p99[point.arm].ratio if point.arm in facts.result.p99 else None,
        "guarantees": facts.guarantees.get(point.arm, {}),
    }


def render(facts: TuneFacts) -> RenderableType:
    """What a person reads: the answer first. Fits 80 columns."""
    parts: list[RenderableType] = [
        Text(f"{facts.server.title} · {facts.workload}", style="dim"),
        answer(facts),
        "",
    ]
    if facts.result.frontier:
        parts += [*_frontier(facts), *_legend(facts), ""]
        parts += [_guarantees(facts), ""]
    if facts.crash:
        parts += [crash.guarantees(facts.crash), ""]
    elif not facts.result.tried and facts.ending == "done":
        parts += [_guarantees(facts), ""]
    parts += [_notes(facts), *_what_now(facts)]
    return Group(*parts)


def answer(facts: TuneFacts) -> Text:
    """A few sentences: what the tuning concludes."""
    if not facts.raised:
        return _found(facts)
    text = Text(f"Your settings do not meet {facts.floor}", style="bold")
    cost = facts.cost
    if cost is None:
        text.append("; the cost of meeting it was not measured.")
    elif cost.high < 1:
        text.append_text(_said("; meeting it costs: ", cost, facts.objective))
    else:
        text.append_text(_said("; no cost of meeting it was found: ", cost, facts.objective))
    if (own := facts.guarantees.get(YOURS, {}).get(FLOOR)) is not None:
        text.append(f"\nThey meet {own}.", style="not bold")
    return text.append("\n").append_text(_found(facts))


def _said(before: str, ratio: Ratio, objective: Objective, than: str = "", *, style: str = "bold") -> Text:
    """A ratio in words, its interval set off."""
    text = headline(f"{before}{gain_words(ratio, objective, than)}")
    text.style = style
    return text


def _found(facts: TuneFacts) -> Text:
    """What is faster than the base."""
    winner, result = facts.result.winner, facts.result
    keep = "Keep your settings."
    if facts.raised:
        raise_them = f"Raise your settings to {facts.floor}, and change nothing else."
        keep = raise_them if facts.handed_over else "Nothing is handed over."
    if not result.frontier and facts.ending == "done" and not result.tried:
        return _nothing_tried(facts, keep)
    if not result.frontier:
        stopped = "You stopped it" if facts.ending == "interrupted" else "Time ran out"
        return blaming(facts, f"{stopped} before any result could be confirmed.")
    faster = {one.arm for one in result.confirmed if one.verdict == "faster"}
    if winner is None and faster & {one.arm for one in result.rejected}:
        return Text(f"Every faster arm was rejected, for the reasons below. {keep}", style="bold")
    if winner is None and not result.tried:
        return _nothing_tried(facts, keep)
    if winner is None:
        seen = (
            f" (a gain of {result.detectable:.1%} or more would probably have been detected)"
            if result.detectable is not None
            else ""
        )
        found = "No further improvement found" if facts.raised else "No improvement found"
        return blaming(facts, f"{found}{seen}. {keep}")
    base = f"your settings raised to {facts.floor}" if facts.raised else "the base"
    text = _said("", winner.ratio, facts.objective, f"{base} at floor {winner.floor.value}")
    if winner.versus_yours is not None:
        beside = "\nAgainst your settings as they are: "
        text.append_text(_said(beside, winner.versus_yours, facts.objective, style="not bold"))
    if (floor := facts.guarantees.get(winner.arm, {}).get(FLOOR)) is not None:
        text.append(f"\nIts floor is {floor}.", style="not bold")
    free = winner.free_ratio
    if free is None:
        words = "How much of it is free could not be measured."
    elif free == winner.ratio:
        words = "All of it is free: no guarantee is weakened."
    elif free.low > 1:
        bought = winner.ratio.estimate / free.estimate
        words = f"{free.estimate:.2f}× is free; the other {bought:.2f}× costs durability."
    else:
        words = "No gain was proven without weakening durability."
    text.append(f"\n{words}", style="not bold")
    lower = [point for point in result.frontier if not point.floor.at_least(winner.floor)]
    if lower:
        text.append(
            f"\nFloor {lower[-1].floor.value} has no further proven gain: stay at {winner.floor.value}.",
            style="not bold",
        )
    return text


def _nothing_tried(facts: TuneFacts, keep: str) -> Text:
    """Why there was no change to measure."""
    slugs, more = {warning.slug for warning in facts.warnings}, ""
    if out := len(facts.result.excluded):
        of = "the only change" if out == 1 else f"all {out} changes"
        why = f": {of} dropped out, for the reason{'s' if out > 1 else ''} below"
    else:
        why = f" at floor {facts.floor}"
        if "not-tried" in slugs:
            why += ": every change is left out, for the reasons below"
        elif "first-look" in slugs and EXTERNAL not in slugs:
            why += " in a short window"
            more = (
                f"\n--minutes {FIRST_LOOK_MINUTES:.0f} or more also tries redo size, buffer pool, flushing"
                " and doublewrite."
            )
    return Text(f"Nothing is left to try{why}. {keep}", style="bold").append(more, style="not bold")


def blaming(facts: TuneFacts | SeriesFacts, words: str) -> Text:
    """Why there is no result: the machine comes first where it was the reason."""
    busy = blame(facts.trials, facts.disturbed, facts.others)
    for warning in facts.warnings:
        if warning.slug == "busy-machine":
            busy = warning.text[0].upper() + warning.text[1:]
    text = Text(f"{busy}.\n{words}" if busy else words, style="bold")
    return (
        text.append("\n--wait-for-quiet waits until the machine is quiet.", style="not bold")
        if busy
        else text
    )


def _frontier(facts: TuneFacts) -> Iterator[RenderableType]:
    """A row per floor, its changes below it."""
    unit = facts.unit or "figure"
    shows_p99 = any(figures.p99_us is not None for figures in facts.figures.values())
    width = max(len(unit), 9)
    shows_yours = facts.cost is not None

    def row(
        name: str, ratio: str, interval: str, free: str, arm: str, style: str = "", of_yours: str = ""
    ) -> Text:
        own = facts.figures.get(arm, Figures())
        absolute = "" if own.figure is None else f"{own.figure:,.{2 if own.figure < 100 else 0}f}"
        beside = f"  {of_yours:>8}" if shows_yours else ""
        text = f"{name:<8} {ratio:>6}  {interval:<13}  {free:>4}{beside}  {absolute:>{width}}"
        if shows_p99:
            text += f"  {'' if own.p99_us is None else format_latency(own.p99_us):>10}"
        return Text(text.rstrip(), style=style)

    def latency(arm: str) -> Iterator[Text]:
        if facts.objective != "p99" and arm in facts.result.p99:
            yield Text(f"  {latency_words(facts.result.p99[arm])}", style="dim")

    beside = "  of yours" if shows_yours else ""
    header = f"{'floor':<8} {'ratio':>6}  {'interval':<13}  {'free':>4}{beside}"
    header += f"  {unit if facts.figures else '':>{width}}"
    yield Text((header + (f"  {'p99':>10}" if shows_p99 else "")).rstrip(), style="dim")
    if (yours := facts.result.yours) is not None:
        yield row("yours", f"{yours.ratio.estimate:.2f}", _interval(yours.ratio), "", YOURS, "", "1.00")
        yield from latency(YOURS)
        own = facts.guarantees.get(YOURS, {}).get(FLOOR, facts.yours)
        yield Text(f"  below {facts.floor}: they meet {own}", style="yellow")
    if facts.figures:
        yield row("raised" if facts.raised else "base", "", "", "", BASE)
    for point in facts.result.frontier:
        of_yours = f"{point.versus_yours.estimate:.2f}" if point.versus_yours else ""
        if not point.settings:
            yield row(point.floor.value, "1.00", "", "1.00", "", of_yours=of_yours)
        else:
            free = f"{point.free_ratio.estimate:.2f}" if point.free_ratio else "?"
            ratio = f"{point.ratio.estimate:.2f}"
            yield row(point.floor.value, ratio, _interval(point.ratio), free, point.arm, of_yours=of_yours)
            yield from latency(point.arm)
        for name, value in facts.changes(point).items():
            yield Text(f"  {name}={spell(value)}", style="bold")
        if not facts.changes(point):
            yield Text("  keep your settings", style="dim")
    if facts.result.control is not None:
        again = facts.result.control.ratio
        yield row("control", f"{again.estimate:.2f}", _interval(again), "", CONTROL, "dim")
        yield from latency(CONTROL)
        yield Text("  the base again: should be about 1", style="dim")


def _legend(facts: TuneFacts) -> Iterator[RenderableType]:
    if facts.raised:
        yield from legend(facts.objective, f"your settings raised to {facts.floor}")
        beside = "; of yours: against those as they are" if facts.cost else ""
        yield Text(f"ratio: against your settings raised to {facts.floor}{beside}", style="dim")
    else:
        yield from legend(facts.objective, "the base")
    if any(point.settings for point in facts.result.frontier):
        yield Text("free: the part of the ratio that weakens no guarantee", style="dim")


def _guarantees(facts: TuneFacts) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("when")
    table.add_column("before", overflow="fold", ratio=1)
    shown = facts.handed_over.arm if facts.handed_over else BASE
    if facts.result.frontier and not facts.handed_over:
        shown = facts.result.frontier[-1].arm
    before = facts.guarantees[YOURS if facts.raised else BASE]
    after = facts.guarantees.get(shown, {})
    changed = any(before.get(failure) != after.get(failure) for failure in FAILURES)
    if changed:
        table.add_column("after", overflow="fold", ratio=1)
    for failure, words in FAILURES.items():
        if failure not in before and failure not in after:
            continue
        row = [words, before.get(failure, "")]
        table.add_row(*row, *([after.get(failure, "")] if changed else []))
    return table


def _notes(facts: TuneFacts) -> Group:
    result = facts.result
    lines: list[RenderableType] = []
    if facts.base_figure is not None:
        looks = f"{counted(result.blocks, 'block')}, {counted(result.looks, 'look')}"
        name = "raised" if facts.raised else "base"
        lines.append(Text(f"{name}: {base_words(facts)} ({looks})", style="dim"))
        lines += way(facts)
    sizes = [("data", facts.data_bytes), ("pool", facts.pool_bytes), ("redo", facts.redo_bytes)]
    known = " : ".join(f"{name} {format_size(size)}" for name, size in sizes if size is not None)
    if known:
        lines.append(Text(known, style="dim"))
    for arm, seconds in facts.recovery_s.items():
        lines.append(Text(f"recovery after SIGKILL, {arm}: {seconds:.1f} s", style="dim"))
    for lifted in facts.lifted:
        lines.append(Text(f"raised to the floor: {lifted}", style="yellow"))
    for rejected in result.rejected:
        lines.append(Text(f"rejected {rejected.arm}: {rejected.reason}", style="yellow"))
    for excluded in result.excluded:
        became, reason = excluded.told
        if became != "excluded" or not result.tried:
            changes = ", ".join(f"{name}={spell(value)}" for name, value in excluded.settings.items())
            lines.append(Text(f"{became} {changes}: {reason}", style="yellow"))
    for warning in facts.warnings:
        lines.append(Text(f"warning: {warning.text}", style="yellow"))
    if facts.ending == "interrupted":
        again = resuming("tune", facts.campaign_id, own=on_own_server(facts))
        lines.append(Text(f"interrupted; resume with: {again}"))
    return Group(*(Padding(line, 0) for line in lines))


def headline(words: str) -> Text:
    """An answer, its interval set off."""
    text, bracket, interval = words.rpartition(" [")
    return Text(text, style="bold").append(f"{bracket}{interval}", style="not bold")


def base_words(facts: SeriesFacts | TuneFacts) -> str:
    """The base's own figure: `12,346 transactions/s`, `p99 1.90 ms at 500 transactions/s`."""
    figure = facts.base_figure or 0.0
    words = f"{figure:,.{2 if figure < 100 else 0}f} {facts.unit}"
    if facts.objective == "throughput" or facts.base_p99_us is None:
        return words
    return f"p99 {format_latency(facts.base_p99_us)} at {words}"


def legend(objective: Objective, base: str) -> Iterator[RenderableType]:
    """What a ratio is, where it is not of speed."""
    if objective == "p99":
        yield Text(f"ratio: how many times lower p99 latency is than that of {base}", style="dim")


_IN_TURNS = "measured side by side, in turns, on servers that stood throughout"
_ON_YOURS = "measured in turns on your server, switched by SET GLOBAL"
_ON_CLUSTERS = "measured in turns on clusters that stood throughout, switched by SET GLOBAL"


def never_ran(facts: SeriesFacts) -> bool:
    """Whether it was stopped before any arm was measured."""
    never = ("skipped", "not_in_version")
    return facts.ending == "interrupted" and all(arm.outcome in never for arm in facts.arms)


def way(facts: SeriesFacts | TuneFacts) -> Iterator[RenderableType]:
    """How it was measured."""
    for words in ways(facts):
        yield Text(words, style="dim")


def ways(facts: SeriesFacts | TuneFacts) -> Iterator[str]:
    """How it was measured, in words."""
    if isinstance(facts, SeriesFacts) and never_ran(facts):
        return
    if facts.interleaved:
        if on_own_server(facts):
            yield _ON_YOURS
        else:
            yield _IN_TURNS if facts.server.nodes == 1 else _ON_CLUSTERS
        fresh = [arm for arm in facts.arms if arm.why_fresh] if isinstance(facts, SeriesFacts) else []
        for why in dict.fromkeys(arm.why_fresh for arm in fresh):
            names = ", ".join(arm.name for arm in fresh if arm.why_fresh == why)
            yield f"{names}: on a fresh server for each window, as {why}"
    elif facts.why_fresh and facts.unit != "s":
        yield f"measured on a fresh server for each window: {facts.why_fresh}"


def next_steps(facts: TuneFacts) -> tuple[Step, ...]:
    """What to do on the real server; nothing where nothing is to be changed."""
    return tuple(step for one in of_tune(facts) for step in steps(one))


def _what_now(facts: TuneFacts) -> Iterator[RenderableType]:
    if found := of_tune(facts):
        yield from ("", *render_carry_over(facts), *render_what_now(facts, found))


def _interval(ratio: Ratio) -> str:
    return f"{ratio.low:.2f} – {ratio.high:.2f}"


def spell(value: Value) -> str:
    """A value as an option file spells it; large round sizes with a suffix."""
    return (
        option_size(value)
        if isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0
        else str(value)
    )
