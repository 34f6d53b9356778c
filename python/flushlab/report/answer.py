"""The answer of a campaign, in a few sentences. Pure; the terminal and the page begin with it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from flushlab.campaign.facts import EXTERNAL, STEADY_MINUTES, ArmResult, CampaignFacts, TuningFacts
from flushlab.campaign.loop import blame
from flushlab.campaign.recommended import IF_LOST, allowed_below, by_workload, recommendable
from flushlab.experiment.protocol import LATENCIES, Objective, gain_words
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import Ratio
from flushlab.report.machines import on_slowest
from flushlab.report.words import changes, the_base
from flushlab.settings.durability import FLOOR
from flushlab.units import counted

TOO_COARSE = 1.0
"""A comparison that would only have seen gains above this says nothing."""


def answer(facts: CampaignFacts) -> Text:
    """What the campaign concludes."""
    if facts.tuning is not None:
        return _of_tuning(facts, facts.tuning)
    if facts.never_ran:
        return Text("Nothing was measured: it was stopped before the first window.", style="bold")
    return _of_comparison(facts) if facts.kind == "compare" else _of_series(facts)


def _blaming(facts: CampaignFacts, words: str) -> Text:
    """Why there is no result: the machine comes first where it was the reason."""
    busy = blame(facts.trials, facts.disturbed, facts.others)
    for warning in facts.warnings:
        if warning.slug == "busy-machine":
            busy = warning.text[0].upper() + warning.text[1:]
    if not busy:
        return Text(words, style="bold")
    wait = "\n--wait-for-quiet waits until the machine is quiet."
    return Text(f"{busy}.\n{words}", style="bold").append(wait, style="not bold")


def _two_are_needed(facts: CampaignFacts) -> Text:
    done = f"{facts.blocks} of {counted(facts.plan.blocks if facts.plan else 0, 'block')}"
    return _blaming(facts, f"Nothing is proven: {done} done; two are needed.")


def _nothing_better(objective: Objective, base: str) -> str:
    """That no arm proved better than the base, in the words of what was compared."""
    if objective == "throughput":
        return f"Nothing proved faster than {base}"
    return f"No lower {LATENCIES[objective]} than that of {base} was proven"


# -- tune ------------------------------------------------------------------------------------------------


def _of_tuning(facts: CampaignFacts, tuning: TuningFacts) -> Text:
    if not tuning.raised:
        return _improvement(facts, tuning)
    text, cost = Text(f"Your settings do not meet {facts.raised_to}", style="bold"), tuning.cost
    if cost is None:
        text.append("; the cost of meeting it was not measured.")
    elif cost.high < 1:
        text.append_text(_said("; meeting it costs: ", cost, facts.objective))
    else:
        text.append_text(_said("; no cost of meeting it was found: ", cost, facts.objective))
    own = tuning.yours.guarantees.get(FLOOR) if tuning.yours else None
    if own is not None:
        text.append(f"\nThey meet {own}.", style="not bold")
    return text.append("\n").append_text(_improvement(facts, tuning))


def _said(before: str, ratio: Ratio, objective: Objective, than: str = "", *, style: str = "bold") -> Text:
    """A ratio in words, its interval set off."""
    text, bracket, interval = f"{before}{gain_words(ratio, objective, than)}".rpartition(" [")
    return Text(text, style=style).append(f"{bracket}{interval}", style="not bold")


def _improvement(facts: CampaignFacts, tuning: TuningFacts) -> Text:
    if tuning.winner is not None:
        return _winning(facts, tuning, tuning.winner)
    keep = "Keep your settings."
    if tuning.raised:
        raise_them = f"Raise your settings to {facts.raised_to}, and change nothing else."
        keep = raise_them if facts.handed_over else "Nothing is handed over."
    if not tuning.frontier and facts.ending == "done" and not tuning.tried:
        return _nothing_tried(facts, tuning, keep)
    if not tuning.frontier:
        stopped = "You stopped it" if facts.ending == "interrupted" else "Time ran out"
        return _blaming(facts, f"{stopped} before any result could be confirmed.")
    faster = {arm.name for arm in facts.arms if arm.is_faster and not facts.below_floor(arm, facts.base)}
    at = f" at floor {facts.floor}" if tuning.offers else ""
    if faster & {one.arm for one in tuning.rejected}:
        words = f"Every faster configuration{at} was rejected, for the reasons below. {keep}"
        return Text(words, style="bold").append_text(_offers(facts, tuning))
    if not tuning.tried:
        return _nothing_tried(facts, tuning, keep)
    seen = ""
    if tuning.detectable is not None:
        seen = f" (a gain of {tuning.detectable:.1%} or more would probably have been detected)"
    found = "No further improvement found" if tuning.raised else "No improvement found"
    if tuning.offers:
        return Text(f"{found}{at}{seen}. {keep}", style="bold").append_text(_offers(facts, tuning))
    return _blaming(facts, f"{found}{seen}. {keep}")


def _offers(facts: CampaignFacts, tuning: TuningFacts) -> Text:
    """A line for each gain below the floor."""
    text = Text()
    for point in tuning.offers:
        before = f"\nIf you can lose {IF_LOST[point.floor]}: "
        text.append_text(_said(before, point.ratio, facts.objective, the_base(facts), style="not bold"))
        own = changes(tuning.changes(point))
        text.append(f" with {own}." if own else " with your settings as they are.", style="not bold")
    return text


def _winning(facts: CampaignFacts, tuning: TuningFacts, winner: FrontierPoint) -> Text:
    text = _said("", winner.ratio, facts.objective, f"{the_base(facts)} at floor {winner.floor.value}")
    text.append(on_slowest(facts.arm(winner.arm)), style="not bold")
    if winner.versus_yours is not None:
        beside = "\nAgainst your settings as they are: "
        text.append_text(_said(beside, winner.versus_yours, facts.objective, style="not bold"))
    if (floor := facts.arm(winner.arm).guarantees.get(FLOOR)) is not None:
        text.append(f"\nIts floor is {floor}.", style="not bold")
    free = winner.free_ratio
    if free is None:
        words = "The part of the gain without durability loss could not be measured."
    elif free == winner.ratio:
        words = "No durability loss: no guarantee is weakened."
    elif free.low > 1:
        bought = winner.ratio.estimate / free.estimate
        words = (
            f"{free.estimate:.2f}× is without durability loss, the other {bought:.2f}× weakens durability."
        )
    else:
        words = "No gain was proven without weakening durability."
    text.append(f"\n{words}", style="not bold")
    lower = [point for point in tuning.frontier if not point.floor.at_least(winner.floor)]
    if lower and not tuning.offers:
        stay = f"has no further proven gain: stay at {winner.floor.value}."
        text.append(f"\nFloor {lower[-1].floor.value} {stay}", style="not bold")
    return text.append_text(_offers(facts, tuning))


def _nothing_tried(facts: CampaignFacts, tuning: TuningFacts, keep: str) -> Text:
    slugs, more = {warning.slug for warning in facts.warnings}, ""
    if out := len(tuning.excluded):
        of = "the only change" if out == 1 else f"all {out} changes"
        why = f": {of} dropped out, for the reason{'s' if out > 1 else ''} below"
    else:
        why = f" at floor {facts.floor}"
        if "not-tried" in slugs:
            why += ": every change is left out, for the reasons below"
        elif "short-measurement" in slugs and EXTERNAL not in slugs:
            why += " in a short window"
            more = (
                f"\n--minutes {STEADY_MINUTES:.0f} or more also tries redo size, buffer pool, flushing"
                " and doublewrite."
            )
    return Text(f"Nothing is left to try{why}. {keep}", style="bold").append(more, style="not bold")


# -- series ----------------------------------------------------------------------------------------------


def _of_series(facts: CampaignFacts) -> Text:
    measured = [arm for arm in facts.arms if arm.outcome == "measured"]
    if not measured:
        reasons = {arm.reason for arm in facts.arms if arm.name != "best"}
        why = f": {reasons.pop()}" if len(reasons) == 1 else "; see the reason of each arm"
        return Text(f"Nothing was measured{why}.", style="bold")
    compared = [arm for arm in measured if arm.comparison is not None]
    if not compared:
        return _two_are_needed(facts)
    best = next((arm for arm in compared if arm.composed_of), None)
    if best is not None and best.comparison is not None:
        return _together(facts, best, best.comparison.ratio)
    if faster := [arm for arm in compared if arm.is_faster]:
        return _faster(facts, faster)
    seen = max(arm.comparison.detectable for arm in compared if arm.comparison)
    words = "too few blocks to tell"
    if seen < TOO_COARSE:
        words = f"a gain of {seen:.1%} or more would probably have been detected"
    return _blaming(facts, f"{_nothing_better(facts.objective, 'the base')} ({words}).")


def _together(facts: CampaignFacts, best: ArmResult, ratio: Ratio) -> Text:
    text = _said("", ratio, facts.objective, "the base")
    text.append(on_slowest(best), style="not bold")
    text.append(f"\nTogether: {' + '.join(best.composed_of)}.", style="not bold")
    if not best.is_faster:
        latency = LATENCIES.get(facts.objective)
        proven = f"to lower {latency}" if latency else "to be faster"
        text.append(f"\nTogether, they are not proven {proven}.", style="not bold")
    if best.floor and best.floor != facts.base.floor:
        words = f"\nIts floor is {best.verdict}. That of the base is {facts.base.verdict}."
        text.append(words, style="not bold")
    return text.append(_below(facts), style="not bold")


def _faster(facts: CampaignFacts, faster: Sequence[ArmResult]) -> Text:
    lower = _below(facts)
    at = f" at the floor {facts.floor or facts.base.floor}" if lower else ""
    names = [arm.name for arm in faster if not facts.below_floor(arm, facts.base)]
    latency = LATENCIES.get(facts.objective)
    what = f"Lower {latency}" if latency else "Faster"
    words = f"{what} than the base{at}: {', '.join(names)}."
    if not names:
        words = f"{_nothing_better(facts.objective, 'the base')}{at}."
    return Text(words, style="bold").append(lower, style="not bold")


def _below(facts: CampaignFacts) -> str:
    """A line on arms that proved faster below the floor; empty without them."""
    names = [arm.name for arm in facts.arms if arm.is_faster and facts.below_floor(arm, facts.base)]
    latency = LATENCIES.get(facts.objective)
    what = f"Lower {latency}" if latency else "Faster"
    return f"\n{what}, but below the floor and not recommended: {', '.join(names)}." if names else ""


# -- compare ---------------------------------------------------------------------------------------------


def _of_comparison(facts: CampaignFacts) -> Text:
    if not any(arm.outcome == "measured" for arm in facts.arms):
        return Text("Nothing was compared; see the reason of each configuration.", style="bold")
    compared = [arm.comparison for arm in facts.arms if arm.comparison is not None]
    if not compared:
        return _two_are_needed(facts)
    if all(one.verdict == "no difference found" for one in compared):
        seen = max(one.detectable for one in compared)
        words = f"one of {seen:.1%} or more would probably have been detected"
        return _blaming(
            facts, f"No difference was proven ({words if seen < TOO_COARSE else 'too few blocks to tell'})."
        )
    found = [(base, arms) for base, arms in facts.by_server if arms]
    found.sort(key=lambda one: not recommendable(facts, *one))  # what is recommended is the headline
    lines = [_on_server(facts, base, arms) for base, arms in found]
    lines += [_between(facts, base) for base, _ in facts.by_server[1:] if base.comparison is not None]
    return Text("\n").join(lines)


def _on_server(facts: CampaignFacts, base: ArmResult, arms: tuple[ArmResult, ...]) -> Text:
    text, lower = Text(), list(allowed_below(facts, base, arms))
    for fastest in [*recommendable(facts, base, arms)[:1], *by_workload(facts, base, arms)[:1]]:
        _gain(text.append("\n" if text else ""), fastest, base, facts)
        if fastest.floor != base.floor:
            text.append(f"\nIts floor is {fastest.verdict}. That of {base.name} is {base.verdict}.")
        elif fastest.verdict != fastest.floor:
            text.append(f"\nIts floor is {fastest.verdict}.")
    others = [arm for arm in arms if arm.unit and arm.comparison is not None]
    if not text and len(others) < len(arms):
        at = f" at the floor {facts.floor or base.floor}" if lower else ""
        text.append(f"{_nothing_better(facts.objective, base.name)}{at}.", style="bold")
    for arm in others:
        assert arm.comparison is not None
        times = f"{arm.comparison.ratio.estimate:.2f} times the result of {base.name}"
        bounds = f"[{arm.comparison.ratio.low:.2f}, {arm.comparison.ratio.high:.2f}]"
        text.append("\n" if text else "")
        text.append(f"{arm.name} has {times} {bounds}, but counts other work: see the warning.")
    for arm in lower:
        _gain(text.append("\n"), arm, base, facts, style="")
        text.append(f"; its floor is {arm.verdict}: not recommended. --floor {arm.floor} allows it.")
    return text


def _between(facts: CampaignFacts, other: ArmResult) -> Text:
    """One server against another: no change of settings, so no gain."""
    text, first = Text(), facts.base
    assert other.comparison is not None
    if other.comparison.verdict == "no difference found":
        return text.append(f"No difference was proven between {other.name} and {first.name}.")
    return _gain(text, other, first, facts)


def _gain(text: Text, arm: ArmResult, base: ArmResult, facts: CampaignFacts, style: str = "bold") -> Text:
    assert arm.comparison is not None
    verb = "is" if facts.objective == "throughput" else "has"
    ratio, before = arm.comparison.ratio, f"{arm.name} {verb} "
    text.append_text(_said(before, ratio, facts.objective, base.name, style=style))
    return text.append(on_slowest(arm), style="not bold")
