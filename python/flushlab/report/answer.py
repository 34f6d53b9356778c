"""The answer of a campaign: headline, further sentences, and the few facts below them. Pure.

A campaign without facts (it runs, or it was killed) has no ratio: nothing is claimed.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from flushlab.campaign.facts import EXTERNAL, STEADY_MINUTES, ArmResult, CampaignFacts, PlanFacts, TuningFacts
from flushlab.campaign.loop import blame
from flushlab.campaign.recommended import IF_LOST, allowed_below, best_arms, by_workload, recommendable
from flushlab.experiment.protocol import LATENCIES, Objective, gain_words
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import BASE, Trial
from flushlab.report.stored import floor_of
from flushlab.report.subject import Subject
from flushlab.report.words import (
    AA_CONTROL,
    changes,
    count_answers,
    demand_words,
    interval,
    rounded,
    the_base,
)
from flushlab.settings.durability import FLOOR
from flushlab.spec.parts import as_told
from flushlab.store import CampaignRow
from flushlab.units import counted, format_latency, format_seconds, format_spread

TOO_COARSE = 1.0
"""A comparison that would only have seen gains above this says nothing."""


def headline(subject: Subject) -> tuple[str, str, tuple[str, ...]]:
    """The first sentence, the interval of its ratio, and the further sentences."""
    facts, row = subject.facts, subject.row
    if facts is None:
        return _without_facts(subject.trials), "", (f"{_status(row)}; {_shown(subject.trials)}.",)
    first, *lead = answer(facts)
    if facts.blocks and (demand := demand_words(facts)):
        lead.append(demand)
    text, bracket, rest = first.rpartition(" [")
    bounds = f"[{rest}" if bracket and rest.endswith("]") else ""
    if facts.kind == "compare":
        lead = [line if line.endswith(".") else f"{line}." for line in lead]
    elif facts.plan is not None and not facts.never_ran:
        lead += _of_plan(facts, facts.plan)
    if row is not None and row.result is None:
        lead.append(f"{_status(row)}: these are the results so far.")
    return (text if bounds else first), bounds, tuple(lead)


def answer(facts: CampaignFacts) -> list[str]:
    if facts.tuning is not None:
        return [*_of_tuning(facts, facts.tuning)]
    if facts.never_ran:
        return ["Nothing was measured: it was stopped before the first window."]
    return [*(_of_comparison(facts) if facts.kind == "compare" else _of_series(facts))]


def _blaming(facts: CampaignFacts, words: str) -> Iterator[str]:
    busy = blame(facts.trials, facts.disturbed, facts.others)
    for warning in facts.warnings:
        if warning.slug == "busy-machine":
            busy = warning.text[0].upper() + warning.text[1:]
    if busy:
        yield f"{busy}."
    yield words
    if busy:
        yield "--wait-for-quiet waits until the machine is quiet."


def _two_are_needed(facts: CampaignFacts) -> Iterator[str]:
    done = f"{facts.blocks} of {counted(facts.plan.blocks if facts.plan else 0, 'block')}"
    yield from _blaming(facts, f"Nothing is proven: {done} done; two are needed.")


def _nothing_better(objective: Objective, base: str) -> str:
    if objective == "throughput":
        return f"Nothing proved faster than {base}"
    return f"No lower {LATENCIES[objective]} than that of {base} was proven"


def _on_slowest(arm: ArmResult) -> str:
    if arm.machines is None:
        return ""
    least = arm.machines.slowest
    return f"; on the slowest machine ({least.machine}) {least.ratio.estimate:.2f}"


# -- tune ------------------------------------------------------------------------------------------------


def _of_tuning(facts: CampaignFacts, tuning: TuningFacts) -> Iterator[str]:
    if tuning.raised:
        below, cost = f"Your settings do not meet {facts.raised_to}", tuning.cost
        if cost is None:
            yield f"{below}; the cost of meeting it was not measured."
        else:
            told = "meeting it costs" if cost.high < 1 else "no cost of meeting it was found"
            yield f"{below}; {told}: {gain_words(cost, facts.objective, '')}"
        if tuning.yours and (own := tuning.yours.guarantees.get(FLOOR)) is not None:
            yield f"They meet {own}."
    yield from _improvement(facts, tuning)


def _improvement(facts: CampaignFacts, tuning: TuningFacts) -> Iterator[str]:
    if tuning.winner is not None:
        yield from _winning(facts, tuning, tuning.winner)
        return
    keep = "Keep your settings."
    if tuning.raised:
        raise_them = f"Raise your settings to {facts.raised_to}, and change nothing else."
        keep = raise_them if facts.handed_over else "Nothing is handed over."
    if not tuning.frontier and facts.ending == "done" and not tuning.tried:
        yield from _nothing_tried(facts, tuning, keep)
        return
    if not tuning.frontier:
        stopped = "You stopped it" if facts.ending == "interrupted" else "Time ran out"
        yield from _blaming(facts, f"{stopped} before any result could be confirmed.")
        return
    faster = {arm.name for arm in facts.arms if arm.is_faster and not facts.below_floor(arm, facts.base)}
    at = f" at floor {facts.floor}" if tuning.offers else ""
    if faster & {one.arm for one in tuning.rejected}:
        yield f"Every faster configuration{at} was rejected, for the reasons below. {keep}"
        yield from _offers(facts, tuning)
        return
    if not tuning.tried:
        yield from _nothing_tried(facts, tuning, keep)
        return
    seen = ""
    if tuning.detectable is not None:
        seen = f" (a gain of {tuning.detectable:.1%} or more would probably have been detected)"
    found = "No further improvement found" if tuning.raised else "No improvement found"
    if tuning.offers:
        yield f"{found}{at}{seen}. {keep}"
        yield from _offers(facts, tuning)
    else:
        yield from _blaming(facts, f"{found}{seen}. {keep}")


def _offers(facts: CampaignFacts, tuning: TuningFacts) -> Iterator[str]:
    for point in tuning.offers:
        gain = gain_words(point.ratio, facts.objective, the_base(facts))
        own = changes(tuning.changes(point))
        yield f"If you can lose {IF_LOST[point.floor]}: {gain} with {own or 'your settings as they are'}."


def _winning(facts: CampaignFacts, tuning: TuningFacts, winner: FrontierPoint) -> Iterator[str]:
    floor, arm = winner.floor.value, facts.arm(winner.arm)
    gain = gain_words(winner.ratio, facts.objective, f"{the_base(facts)} at floor {floor}")
    yield f"{gain}{_on_slowest(arm)}"
    if winner.versus_yours is not None:
        yield f"Against your settings as they are: {gain_words(winner.versus_yours, facts.objective, '')}"
    if (own := arm.guarantees.get(FLOOR)) is not None:
        yield f"Its floor is {own}."
    free = winner.free_ratio
    if free is None:
        yield "The part of the gain without durability loss could not be measured."
    elif free == winner.ratio:
        yield "No durability loss: no guarantee is weakened."
    elif free.low > 1:
        bought = winner.ratio.estimate / free.estimate
        yield f"{free.estimate:.2f}× is without durability loss, the other {bought:.2f}× weakens durability."
    else:
        yield "No gain was proven without weakening durability."
    lower = [point for point in tuning.frontier if not point.floor.at_least(winner.floor)]
    if lower and not tuning.offers:
        yield f"Floor {lower[-1].floor.value} has no further proven gain: stay at {floor}."
    yield from _offers(facts, tuning)


def _nothing_tried(facts: CampaignFacts, tuning: TuningFacts, keep: str) -> Iterator[str]:
    slugs, out = {warning.slug for warning in facts.warnings}, len(tuning.excluded)
    is_short = not out and "not-tried" not in slugs and "short-measurement" in slugs and EXTERNAL not in slugs
    why = f" at floor {facts.floor}"
    if out:
        of = "the only change" if out == 1 else f"all {out} changes"
        why = f": {of} dropped out, for the reason{'s' if out > 1 else ''} below"
    elif "not-tried" in slugs:
        why += ": every change is left out, for the reasons below"
    elif is_short:
        why += " in a short window"
    yield f"Nothing is left to try{why}. {keep}"
    if is_short:
        minutes = f"--minutes {STEADY_MINUTES:.0f}"
        yield f"{minutes} or more also tries redo size, buffer pool, flushing and doublewrite."


# -- series ----------------------------------------------------------------------------------------------


def _of_series(facts: CampaignFacts) -> Iterator[str]:
    measured = [arm for arm in facts.arms if arm.outcome == "measured"]
    compared = [arm for arm in measured if arm.comparison is not None]
    if not measured:
        reasons = {arm.reason for arm in facts.arms if arm.name != "best"}
        why = f": {reasons.pop()}" if len(reasons) == 1 else "; see the reason of each arm"
        yield f"Nothing was measured{why}."
    elif not compared:
        yield from _two_are_needed(facts)
    elif best := next((arm for arm in compared if arm.composed_of), None):
        yield from _together(facts, best)
    elif faster := [arm for arm in compared if arm.is_faster]:
        yield from _faster(facts, faster)
    else:
        nothing = _nothing_better(facts.objective, "the base")
        yield from _blaming(facts, f"{nothing} ({_detectable(compared, 'a gain')}).")


def _detectable(compared: Iterable[ArmResult], what: str) -> str:
    seen = max(arm.comparison.detectable for arm in compared if arm.comparison)
    return (
        f"{what} of {seen:.1%} or more would probably have been detected"
        if seen < TOO_COARSE
        else "too few blocks to tell"
    )


def _together(facts: CampaignFacts, best: ArmResult) -> Iterator[str]:
    assert best.comparison is not None
    yield f"{gain_words(best.comparison.ratio, facts.objective, 'the base')}{_on_slowest(best)}"
    yield f"Together: {' + '.join(best.composed_of)}."
    if not best.is_faster:
        latency = LATENCIES.get(facts.objective)
        yield f"Together, they are not proven {f'to lower {latency}' if latency else 'to be faster'}."
    if best.floor and best.floor != facts.base.floor:
        yield f"Its floor is {best.verdict}. That of the base is {facts.base.verdict}."
    yield from _below(facts)


def _what(facts: CampaignFacts) -> str:
    latency = LATENCIES.get(facts.objective)
    return f"Lower {latency}" if latency else "Faster"


def _faster(facts: CampaignFacts, faster: Sequence[ArmResult]) -> Iterator[str]:
    lower = [*_below(facts)]
    at = f" at the floor {facts.floor or facts.base.floor}" if lower else ""
    names = [arm.name for arm in faster if not facts.below_floor(arm, facts.base)]
    if names:
        yield f"{_what(facts)} than the base{at}: {', '.join(names)}."
    else:
        yield f"{_nothing_better(facts.objective, 'the base')}{at}."
    yield from lower


def _below(facts: CampaignFacts) -> Iterator[str]:
    names = [arm.name for arm in facts.arms if arm.is_faster and facts.below_floor(arm, facts.base)]
    if names:
        yield f"{_what(facts)}, but below the floor and not recommended: {', '.join(names)}."


def _of_plan(facts: CampaignFacts, plan: PlanFacts) -> Iterator[str]:
    best = next(filter(None, best_arms(facts)), None)
    if best is not None and best.comparison is not None:
        if not best.composed_of:
            latency = LATENCIES.get(facts.objective)
            what = f"The lowest {latency} has" if latency else "The fastest is"
            yield f"{what} {best.name}: {gain_words(best.comparison.ratio, facts.objective)}."
        if best.floor and best.floor == facts.base.floor:
            yield f"The floor is still {best.verdict}."
        elif best.floor and not best.composed_of:
            yield f"Its floor is {best.verdict}. That of the base is {facts.base.verdict}."
        if best.fixed:
            yield f"It changes the service itself: {', '.join(best.fixed)}."
        if best.workload_changes:
            yield f"It also changes the workload: {changes(as_told(best.workload_changes))}."
    if plan.claims:
        yield f"Claims: {count_answers(plan.claims)}."
    if facts.ending != "done":
        yield f"{facts.blocks} of {plan.blocks} blocks were completed."


# -- compare ---------------------------------------------------------------------------------------------


def _of_comparison(facts: CampaignFacts) -> Iterator[str]:
    if not any(arm.outcome == "measured" for arm in facts.arms):
        yield "Nothing was compared; see the reason of each configuration."
        return
    compared = [arm for arm in facts.arms if arm.comparison is not None]
    if not compared:
        yield from _two_are_needed(facts)
    elif all(arm.comparison and arm.comparison.verdict == "no difference found" for arm in compared):
        yield from _blaming(facts, f"No difference was proven ({_detectable(compared, 'one')}).")
    else:
        servers = [(base, arms) for base, arms in facts.by_server if arms]
        servers.sort(key=lambda one: not recommendable(facts, *one))  # what is recommended is the headline
        for base, arms in servers:
            yield from _on_server(facts, base, arms)
        for base, _ in facts.by_server[1:]:
            if base.comparison is not None:
                yield _between(facts, base)


def _on_server(facts: CampaignFacts, base: ArmResult, arms: tuple[ArmResult, ...]) -> Iterator[str]:
    lower = list(allowed_below(facts, base, arms))
    fastest = [*recommendable(facts, base, arms)[:1], *by_workload(facts, base, arms)[:1]]
    for arm in fastest:
        yield _gain(arm, base, facts)
        if arm.floor != base.floor:
            yield f"Its floor is {arm.verdict}. That of {base.name} is {base.verdict}."
        elif arm.verdict != arm.floor:
            yield f"Its floor is {arm.verdict}."
    others = [arm for arm in arms if arm.unit and arm.comparison is not None]
    if not fastest and len(others) < len(arms):
        at = f" at the floor {facts.floor or base.floor}" if lower else ""
        yield f"{_nothing_better(facts.objective, base.name)}{at}."
    for arm in others:
        assert arm.comparison is not None
        ratio = arm.comparison.ratio
        times = f"{ratio.estimate:.2f} times the result of {base.name} [{ratio.low:.2f}, {ratio.high:.2f}]"
        yield f"{arm.name} has {times}, but counts other work: see the warning."
    for arm in lower:
        below = f"its floor is {arm.verdict}: not recommended. --floor {arm.floor} allows it."
        yield f"{_gain(arm, base, facts)}; {below}"


def _between(facts: CampaignFacts, other: ArmResult) -> str:
    assert other.comparison is not None
    if other.comparison.verdict == "no difference found":
        return f"No difference was proven between {other.name} and {facts.base.name}."
    return _gain(other, facts.base, facts)


def _gain(arm: ArmResult, base: ArmResult, facts: CampaignFacts) -> str:
    assert arm.comparison is not None
    verb = "is" if facts.objective == "throughput" else "has"
    gain = gain_words(arm.comparison.ratio, facts.objective, base.name)
    return f"{arm.name} {verb} {gain}{_on_slowest(arm)}"


# -- without facts ---------------------------------------------------------------------------------------


def _without_facts(trials: Sequence[Trial]) -> str:
    base = [trial for trial in trials if trial.arm.name == BASE]
    failed = next((trial for trial in base if trial.outcome == "failed" and trial.reason.strip()), None)
    if failed is not None and not any(trial.result for trial in base):
        return f"The base failed: {failed.reason.strip().splitlines()[0]}"
    return "Nothing is proven yet"


def _shown(trials: Sequence[Trial]) -> str:
    stages = Counter(trial.stage for trial in trials)
    told = ", ".join(f"{count} of the stage {stage}" for stage, count in stages.items())
    return f"its trials ({told}) are shown below, but not compared" if trials else "no trial has ended"


def _status(row: CampaignRow | None) -> str:
    return {
        "running": "It is still running",
        "interrupted": "It was interrupted or killed",
        "failed": "It stopped with an error",
    }.get(row.state if row is not None else "", "It ended")


# -- keys ------------------------------------------------------------------------------------------------


def keys(subject: Subject) -> Iterator[tuple[str, str]]:
    facts, trials = subject.facts, subject.trials
    if facts is None:
        results = [trial.result for trial in trials if trial.arm.name == BASE and trial.result]
        if subject.servers and (floor := floor_of(subject.request)):
            yield "floor", floor
        if results:
            yield "base", f"{rounded(statistics.geometric_mean(results))} {subject.unit}"
        if trials:
            yield "trials", f"{len(trials):,}"
        return
    floors = [
        _floor(facts, base, best) for (base, _), best in zip(facts.by_server, best_arms(facts), strict=True)
    ]
    if facts.floor and len(floors) > 1 and set(floors) != {facts.floor}:
        yield "--floor", facts.floor
    if len(set(floors)) == 1 and floors[0]:
        yield "floor", floors[0]
    for one, (base, _), floor in zip(subject.servers, facts.by_server, floors, strict=True):
        if len(set(floors)) > 1:
            yield f"floor of {one.name}", floor
        if base.result is not None:
            yield one.name, f"{rounded(base.result)} {facts.unit}"
        if base.observed is not None and base.observed.write_us is not None:
            yield "write latency", format_latency(base.observed.write_us)
        if base.p99_us is not None:
            yield f"{one.name}'s p99", format_latency(base.p99_us)
    if facts.blocks:
        found = best_arms(facts) if facts.tuning is not None else facts.arms
        is_proven = any(arm is not None and arm.is_faster for arm in found)
        yield "proven in" if is_proven else "measured in", _blocks(facts)
    elif trials:
        yield "trials", f"{len(trials):,}"
    if facts.control is not None and facts.control.comparison is not None:
        name = f"{AA_CONTROL} of {subject.servers[0].name}" if len(subject.servers) > 1 else AA_CONTROL
        yield name, interval(facts.control.comparison.ratio)


def _floor(facts: CampaignFacts, base: ArmResult, best: ArmResult | None) -> str:
    if facts.plan is None:
        return (best or base).verdict or facts.floor
    return base.verdict if len(facts.by_server) > 1 else facts.floor or base.verdict


def _blocks(facts: CampaignFacts) -> str:
    if (tuning := facts.tuning) is not None:
        way = "on fresh servers"
        if facts.interleaved:
            way = "in alternating slices on your server" if facts.is_remote else "side by side"
        looks = counted(tuning.interim_analyses, "interim analysis")
        return f"{counted(facts.blocks, 'block')} {way}, {looks}"
    if (plan := facts.plan) is None:
        return counted(facts.blocks, "block")
    windows = "" if facts.unit == "s" else f", windows of {format_seconds(plan.window_s)}"
    if plan.rounds and plan.slice_s:
        windows = f", {counted(plan.rounds, 'round')} of {format_spread(*plan.slice_s)} each"
    return f"{facts.blocks}{f' of {plan.blocks}' if facts.blocks < plan.blocks else ''} blocks{windows}"
