"""Head of a page: the answer and the few facts below it. Pure.

A campaign without facts (it runs, or it was killed) has no ratio here: its trials are shown, and nothing is
claimed.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator

from flushlab.campaign.facts import ArmResult, CampaignFacts, PlanFacts
from flushlab.campaign.recommended import best_arms
from flushlab.campaign.request import SeriesRequest
from flushlab.experiment.protocol import LATENCIES, gain_words
from flushlab.record import BASE
from flushlab.report.answer import answer
from flushlab.report.observed import demand_words
from flushlab.report.page.parts import Head, Subject
from flushlab.report.stored import floor_of, workload_of
from flushlab.report.words import AA_CONTROL, changes, count_answers, interval, rounded, servers
from flushlab.spec.parts import as_told
from flushlab.store import CampaignRow
from flushlab.units import counted, format_latency


def head(subject: Subject) -> Head:
    """The answer, in the words of the terminal, and what a page tells beyond it."""
    facts = subject.facts
    if facts is None:
        return _without_facts(subject)
    first, *lead = answer(facts).plain.split("\n")
    if facts.blocks and (demand := demand_words(facts)):
        lead.append(demand)
    text, bracket, rest = first.rpartition(" [")
    headline, bounds = (text, bracket.strip() + rest) if bracket and rest.endswith("]") else (first, "")
    if facts.kind == "compare":
        lead = [line if line.endswith(".") else f"{line}." for line in lead]
    elif facts.plan is not None:
        lead += _of_series(facts, facts.plan)
    if subject.row.result is None:
        lead.append(f"{_status(subject.row)}: these are the results so far.")
    return Head(headline, tuple(lead), facts.workload, facts.title, servers(facts), bounds)


def _of_series(facts: CampaignFacts, plan: PlanFacts) -> Iterator[str]:
    best = next(filter(None, best_arms(facts)), None)
    if best is not None and best.comparison is not None:
        yield from _of_best(facts, best, gain_words(best.comparison.ratio, facts.objective))
    if plan.claims:
        yield f"Claims: {count_answers(plan.claims)}."
    if facts.ending != "done":
        yield f"{facts.blocks} of {plan.blocks} blocks were completed."


def _of_best(facts: CampaignFacts, best: ArmResult, gain: str) -> Iterator[str]:
    if not best.composed_of:
        latency = LATENCIES.get(facts.objective)
        what = f"The lowest {latency} has" if latency else "The fastest is"
        yield f"{what} {best.name}: {gain}."
    if best.floor and best.floor == facts.base.floor:
        yield f"The floor is still {best.verdict}."
    elif best.floor and not best.composed_of:
        yield f"Its floor is {best.verdict}. That of the base is {facts.base.verdict}."
    if best.fixed:
        yield f"It changes the service itself: {', '.join(best.fixed)}."
    if best.workload_changes:
        yield f"It also changes the workload: {changes(as_told(best.workload_changes))}."


def _without_facts(subject: Subject) -> Head:
    trials, request = subject.trials, subject.request
    stages = Counter(trial.stage for trial in trials)
    told = ", ".join(f"{count} of the stage {stage}" for stage, count in stages.items())
    shown = f"its trials ({told}) are shown below, but not compared" if trials else "no trial has ended"
    base = [trial for trial in trials if trial.arm.name == BASE]
    failed = next((trial for trial in base if trial.outcome == "failed" and trial.reason.strip()), None)
    headline = "Nothing is proven yet"
    if failed is not None and not any(trial.result for trial in base):
        headline = f"The base failed: {failed.reason.strip().splitlines()[0]}"
    return Head(
        headline,
        (f"{_status(subject.row)}; {shown}.",),
        workload_of(request),
        request.title if isinstance(request, SeriesRequest) else "",
        ", ".join(one.server.title for one in subject.servers),
    )


def _status(row: CampaignRow) -> str:
    return {
        "running": "It is still running",
        "interrupted": "It was interrupted or killed",
        "failed": "It stopped with an error",
    }.get(row.state, "It ended")


def keys(subject: Subject) -> Iterator[tuple[str, str]]:
    """The few facts that stand below the answer."""
    facts = subject.facts
    if facts is None:
        yield from _keys_without_facts(subject)
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
    elif subject.trials:
        yield "trials", f"{len(subject.trials):,}"
    if facts.control is not None and facts.control.comparison is not None:
        name = f"{AA_CONTROL} of {subject.servers[0].name}" if len(subject.servers) > 1 else AA_CONTROL
        yield name, interval(facts.control.comparison.ratio)


def _keys_without_facts(subject: Subject) -> Iterator[tuple[str, str]]:
    base = [trial.result for trial in subject.trials if trial.arm.name == BASE and trial.result]
    if subject.servers and (floor := floor_of(subject.request)):
        yield "floor", floor
    if base:
        yield "base", f"{rounded(statistics.geometric_mean(base))} {subject.unit}"
    if subject.trials:
        yield "trials", f"{len(subject.trials):,}"


def _floor(facts: CampaignFacts, base: ArmResult, best: ArmResult | None) -> str:
    """The floor that the answer keeps on a server."""
    if facts.plan is None:
        return (best or base).verdict or facts.floor
    return base.verdict if len(facts.by_server) > 1 else facts.floor or base.verdict


def _blocks(facts: CampaignFacts) -> str:
    if (tuning := facts.tuning) is not None:
        way = "on fresh servers"
        if facts.interleaved:
            way = "in alternating slices on your server" if facts.is_remote else "side by side"
        return (
            f"{counted(facts.blocks, 'block')} {way}, {counted(tuning.interim_analyses, 'interim analysis')}"
        )
    planned = facts.plan.blocks if facts.plan is not None else 0
    return f"{facts.blocks}{f' of {planned}' if facts.blocks < planned else ''} blocks"
