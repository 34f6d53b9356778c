"""Sections of results: ratios, machines, effects, floors, claims, guarantees, and what carries over. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from flushlab.campaign.analysis import LEAST_MACHINES
from flushlab.campaign.facts import ArmResult, CampaignFacts, ClaimFacts, PlanFacts, TuningFacts
from flushlab.campaign.recommended import best_arms, recommended
from flushlab.experiment.protocol import LATENCIES, latency_words, throughput_words, verdict_words
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.plan.plan import crossed
from flushlab.record import BASE, Comparison, FactorEffect, OverMachines, Ratio
from flushlab.report import plots
from flushlab.report.document import Cell, Row, Section, Table, numbers
from flushlab.report.plots import Verdict
from flushlab.report.subject import Subject
from flushlab.report.words import (
    AA_CONTROL,
    FAILURES,
    OUTCOMES,
    absolute,
    base_name,
    changes,
    durability_words,
    grouped,
    interval,
    observed_lines,
    places,
    rounded,
    sizes,
    small,
    source_words,
    spell,
    the_base,
    times,
    ways,
)
from flushlab.settings.configuration import NO_BINLOG
from flushlab.settings.fit import SCALED
from flushlab.units import counted, format_latency, format_seconds, format_size

MAX_PLOTTED = 40
"""Most rows of the forest plot; the table has them all."""

_COMPARES = {
    "throughput": "How many times as fast as",
    "p99": "How many times lower p99 latency (the 99th percentile) is than that of",
    "latency": "How many times less time a transaction spends in write statements and commit than with",
}
_BETWEEN = {
    "throughput": "How many times as fast each server's base is as the first server's",
    "p99": "How many times lower the p99 latency of each server's base is than that of the first server's",
    "latency": "How many times lower the write latency of each server's base is than that of the first",
}
_VERDICTS: dict[str, Verdict] = {
    "faster": "good",
    "more together": "good",
    "slower": "bad",
    "less together": "bad",
}
_P99 = " p99 ratio: how many times lower p99 latency (the 99th percentile) is than the base's."


def ratios(subject: Subject) -> Iterator[Section]:
    facts = subject.facts
    if facts is None or facts.never_ran:
        return
    about = (
        f"{_COMPARES[facts.objective]} {the_base(facts)}, each with its interval. All intervals hold "
        "together with 95 % probability. Filled: the interval excludes 1. The A/A control is "
    )
    if len(facts.by_server) > 1:
        about += "the first server's base once more; other servers have none."
        about += " Each server's configurations are compared with its own base."
    else:
        about += "the base once more."
    yours = facts.tuning.yours if facts.tuning is not None else None
    arms: list[ArmResult] = []
    for base, own in facts.by_server:
        arms += (base, *own)
        if base is facts.base:
            arms += filter(None, (yours, facts.control))
    notes = tuple(f"{words[0].upper()}{words[1:]}." for words in _how(facts))
    shown = Section("ratios", "Against the base", about, notes=notes, short=notes if facts.tuning else None)
    if any(arm.comparison is not None or arm.reason or facts.plan for arm in arms[1:]):
        yield _compared(shown, arms, facts)
    elif notes:
        yield shown._replace(about="")
    if others := [base for base, _ in facts.by_server[1:] if base.comparison is not None]:
        about = f"{_BETWEEN[facts.objective]}. No setting gains this."
        yield _compared(Section("servers", "Between servers", about), others, facts, between=True)


def _how(facts: CampaignFacts) -> Iterator[str]:
    yield from ways(facts)
    if facts.base.observed is not None:
        yield source_words(facts.base.observed)


def _compared(
    blank: Section, arms: Sequence[ArmResult], facts: CampaignFacts, *, between: bool = False
) -> Section:
    """A section with a plot and a table of arms; a base has its own row unless servers are compared."""
    drawn = [arm for arm in arms if arm.comparison is not None and (between or not arm.is_base)]
    plotted = [*drawn[: MAX_PLOTTED - 1], *drawn[-1:]] if len(drawn) > MAX_PLOTTED else drawn
    title = "Ratio of each row with its interval; the table gives the same numbers"
    points = [
        plots.Row(_shown(arm, facts), arm.comparison.ratio, _kind(arm), times(arm.comparison.ratio.estimate))
        for arm in plotted
        if arm.comparison is not None
    ]
    has_p99 = facts.objective != "p99" and any(arm.p99 is not None for arm in drawn)
    has_throughput = any(arm.throughput is not None for arm in drawn)
    has_result = any(arm.result is not None for arm in arms)
    head = [Cell("arm"), *numbers("ratio", "interval"), Cell("verdict")]
    head += numbers(*(["p99 ratio"] if has_p99 else []))
    head += numbers(*([f"{facts.unit} ratio"] if has_throughput else []))
    head += numbers(*([facts.unit] if has_result else []))
    rows: list[Row] = []
    for arm in arms:
        rows.append(
            (
                *_ratio_cells(arm, facts, between=between),
                *([_p99_cell(arm.p99)] if has_p99 else []),
                *([_throughput_cell(arm, facts)] if has_throughput else []),
                *([_result_cell(arm, facts)] if has_result else []),
            )
        )
        rows += ((Cell(line, "mute"),) for line in _below(arm) if not between)
    left = (f"{len(drawn) - len(plotted)} more are in the table only.",) if len(drawn) > len(plotted) else ()
    legend = LATENCIES.get(facts.objective)
    return blank._replace(
        about=blank.about + (_P99 if has_p99 else ""),
        plots=(plots.forest(points, name=blank.key, title=title),) if points else (),
        tables=(Table(tuple(head), tuple(rows)),),
        notes=(
            *([f"Ratio: how many times lower {legend} is than that of {the_base(facts)}."] if legend else []),
            *left,
            *blank.notes,
        ),
    )


def _kind(arm: ArmResult) -> Verdict:
    """The colour of a row: another server, or other work, is no gain."""
    return (
        "mute"
        if arm.is_base or arm.unit or arm.comparison is None
        else _VERDICTS.get(arm.comparison.verdict, "mute")
    )


def _ratio_cells(arm: ArmResult, facts: CampaignFacts, *, between: bool) -> Row:
    name = Cell(_shown(arm, facts), "name", " · ".join(filter(None, _about(arm, facts))))
    kind, compared = _kind(arm), arm.comparison
    if arm is facts.base or (arm.is_base and not between):
        return name, *numbers("" if arm.result is None else "1.00×", ""), Cell("")
    if compared is None:
        return name, *numbers("", ""), Cell(OUTCOMES.get(arm.outcome, arm.outcome), "mute")
    blocks = f"{compared.blocks} blocks" if compared.blocks != facts.blocks else ""
    return (
        name,
        Cell(times(compared.ratio.estimate), f"num {kind}"),
        *numbers(interval(compared.ratio)),
        Cell("" if between else verdict_words(compared.verdict, facts.objective), kind, blocks),
    )


def _shown(arm: ArmResult, facts: CampaignFacts) -> str:
    return AA_CONTROL if arm is facts.control else base_name(facts) if arm is facts.base else arm.name


def _about(arm: ArmResult, facts: CampaignFacts) -> Iterator[str]:
    if arm is facts.control:
        yield "the base once more: should be about 1"
        return
    if (tuning := facts.tuning) is not None:
        yield "winner" if tuning.winner is not None and arm.name == tuning.winner.arm else ""
        yield "rejected" if any(arm.name == one.arm for one in tuning.rejected) else ""
    elif arm is facts.base:
        yield arm.text
    else:
        yield from _what(arm)
    yield from places(arm)
    if arm.floor:
        base, lower = facts.arm(arm.against) if arm.against else facts.base, ""
        if not arm.is_base and facts.below_floor(arm, base):
            lower = f", below {facts.floor or base.floor}: not recommended"
        yield f"floor {arm.verdict}{lower}"
    if arm.fixed:
        yield f"changes the service: {', '.join(arm.fixed)}"
    if arm.no_effect:
        yield f"{NO_BINLOG}: {', '.join(arm.no_effect)}"
    if arm.against:
        yield f"against {arm.against}"
    if (over := arm.machines) is not None:
        least = over.slowest
        bounds = f"{least.ratio.estimate:.2f} [{least.ratio.low:.2f}, {least.ratio.high:.2f}]"
        worse = f", worse on {len(over.worse_on)}" if over.worse_on else ""
        count = counted(len(over.ratios), "machine")
        yield f"on the slowest machine ({least.machine}) {bounds}"
        yield f"better on {len(over.better_on)} of {count}{worse}; {_between_machines(over)}"


def _what(arm: ArmResult) -> Iterator[str]:
    if arm.composed_of:
        yield f"{' + '.join(arm.composed_of)}, in blocks of its own"
        return
    own = changes(arm.changes if arm.is_base else arm.differences)
    is_named = arm.name.endswith(" ".join(own.split(", "))) or not own
    yield arm.text if arm.text.replace(",", "") != arm.name else ""
    yield "" if is_named else own
    if not (own or arm.text or arm.is_base or arm.is_place) and arm.outcome == "measured":
        yield "the same as the base"


def _below(arm: ArmResult) -> Iterator[str]:
    if arm.observed is not None:
        yield from observed_lines(arm.observed)
    if arm.reason:
        yield arm.reason.strip().splitlines()[0]


def _p99_cell(comparison: Comparison | None) -> Cell:
    if comparison is None:
        return Cell("", "num")
    ratio, kind = comparison.ratio, _VERDICTS.get(comparison.verdict, "mute")
    return Cell(times(ratio.estimate), f"num {kind}", interval(ratio), latency_words(comparison))


def _throughput_cell(arm: ArmResult, facts: CampaignFacts) -> Cell:
    if arm.throughput is None:
        return Cell("", "num")
    words = throughput_words(arm.throughput, facts.unit)
    return _p99_cell(arm.throughput)._replace(alone=words)


def _result_cell(arm: ArmResult, facts: CampaignFacts) -> Cell:
    latency = "" if arm.p99_us is None else f"p99 {format_latency(arm.p99_us)}"
    if arm.observed is not None and arm.observed.write_us is not None:
        latency = format_latency(arm.observed.write_us)
    text = "" if arm.result is None else rounded(arm.result)
    unit = f" {arm.unit}" if arm.unit else ""
    return Cell(f"{text}{unit}", "num", latency, absolute(arm, arm.unit or facts.unit))


# -- machines of a fleet ---------------------------------------------------------------------------------

COLUMNS = 6
"""Machines beside each other in one table."""


def _between_machines(over: OverMachines) -> str:
    return f"{over.between_share:.0%} of the variance is between machines"


def who_ran(facts: CampaignFacts) -> str:
    """`4 machines ran the blocks`; empty unless so many did that intervals are about machines like them."""
    count = sum(one.compared for one in facts.machines)
    did = "confirmed" if facts.tuning is not None else "ran the blocks"
    return f"{counted(count, 'machine')} {did}" if count >= LEAST_MACHINES else ""


def machines(subject: Subject, *, per_machine: bool = False) -> Iterator[Section]:
    facts = subject.facts
    if facts is None:
        return
    ran = who_ran(facts)
    short = None if per_machine else (f"{ran}; intervals are about all machines like them",) if ran else ()
    arms = [(arm.name, arm.machines) for arm in facts.arms]
    arms += [(AA_CONTROL, facts.control.machines)] if facts.control is not None else []
    rows = [(name, over) for name, over in arms if over is not None]
    if not rows:
        few = "Two machines or more have to run two blocks of an arm."
        if per_machine or ran:
            yield Section("machines", "On each machine", texts=(few,) if per_machine else (), short=short)
        return
    names = [one.name for one in facts.machines if one.compared]
    tables = [
        _on_machines(facts, rows, names[first : first + COLUMNS]) for first in range(0, len(names), COLUMNS)
    ]
    head = (Cell("arm"), Cell("least gain on"), *numbers("ratio", "variance between machines"))
    variance = tuple(
        (
            Cell(name, "name", "depends on the machine" if over.unstable else ""),
            Cell(over.slowest.machine),
            *numbers(times(over.slowest.ratio.estimate), f"{over.between_share:.0%}"),
        )
        for name, over in rows
    )
    unstable = [name for name, over in rows if over.unstable]
    yield Section(
        "machines",
        "On each machine",
        f"{ran or 'Several machines ran the blocks'}. A block runs on one machine, so no ratio compares"
        " machines. These intervals are each machine's own and hold together with 95 % probability.",
        tables=(*tables, Table(head, variance)),
        notes=(f"The ratio depends on the machine: {', '.join(unstable)}.",) if unstable else (),
        short=short,
    )


def _on_machines(
    facts: CampaignFacts, rows: Sequence[tuple[str, OverMachines]], names: Sequence[str]
) -> Table:
    results = {one.name: one for one in facts.machines}
    body = []
    for name, over in rows:
        found = {one.machine: one.ratio for one in over.ratios}
        cells = [
            Cell(times(ratio.estimate), f"num {_VERDICTS.get(ratio.verdict, 'mute')}", interval(ratio))
            if (ratio := found.get(machine)) is not None
            else Cell("", "num")
            for machine in names
        ]
        body.append((Cell(name, "name"), *cells))
    base = [
        Cell(rounded(results[name].result), "num mute", counted(results[name].blocks, "block"))
        for name in names
    ]
    head = (Cell("arm"), *numbers(*names))
    return Table(head, (*body, (Cell(facts.base.name, "name", facts.unit), *base)))


# -- effects and claims ----------------------------------------------------------------------------------

_EFFECTS = {
    "throughput": "how many times as fast it makes the server",
    "p99": "how many times lower it makes p99 latency",
    "latency": "how many times lower it makes write latency",
}


def effects(subject: Subject) -> Iterator[Section]:
    facts = subject.facts
    plan = facts.plan if facts is not None else None
    if facts is None or plan is None or not plan.factors or facts.never_ran:
        return
    if not plan.effects:
        yield Section("effects", "Effects of the factors", texts=(f"{_no_effects(facts, plan)}.",))
        return
    kinds = [_VERDICTS.get(effect.verdict, "mute") for effect in plan.effects]
    rows = tuple(
        (
            Cell(effect.name, "name", _effect_words(effect, plan.factors)),
            *numbers(times(effect.ratio.estimate), interval(effect.ratio)),
            Cell(verdict_words(effect.verdict, facts.objective), kind),
        )
        for effect, kind in zip(plan.effects, kinds, strict=True)
    )
    plot = plots.forest(
        [
            plots.Row(effect.name, effect.ratio, kind, times(effect.ratio.estimate))
            for effect, kind in zip(plan.effects, kinds, strict=True)
        ],
        name="effects",
        title="Effect of each factor and of factors together; the table gives the same numbers",
    )
    yield Section(
        "effects",
        "Effects of the factors",
        f"Every combination of {' and '.join(plan.factors)} was measured in the same "
        f"{plan.effects[0].blocks} blocks. A factor's effect is {_EFFECTS[facts.objective]}, "
        "over all combinations of the others alike. All intervals of this table hold together.",
        plots=(plot,),
        tables=(Table((Cell("factor"), *numbers("ratio", "interval"), Cell("verdict")), rows),),
    )


def _effect_words(effect: FactorEffect, factors: Sequence[str]) -> str:
    if len(effect.factors) == 1:
        others = [name for name in factors if name not in effect.factors]
        if len(others) == 1:
            return f"average of its effect without {others[0]} and its effect with it"
        return f"average of its effects with each combination of {', '.join(others)}"
    return "1: together, their gains multiply; above 1: together they gain more than that"


def _no_effects(facts: CampaignFacts, plan: PlanFacts) -> str:
    every = crossed(plan.factors).values()
    absent = [arm.name for arm in facts.arms if arm.name in every and arm.outcome != "measured"]
    if absent:
        return f"Not known: {', '.join(absent)} was not measured"
    return "Not known: fewer than two blocks have every combination of the factors"


_ANSWERS = {"confirmed": "good", "refuted": "bad"}


def claims(subject: Subject) -> Iterator[Section]:
    plan = subject.facts.plan if subject.facts is not None and not subject.facts.never_ran else None
    rows = tuple(row for claim in (plan.claims if plan is not None else ()) for row in _claim(claim))
    if rows:
        head = (Cell("claim"), *numbers("claimed", "measured"), Cell("answer"))
        yield Section(
            "claims",
            "Claims",
            "What was claimed of these changes, and what was measured on this server and disk. Refuted: the "
            "interval excludes the claim. No difference: neither faster nor slower by more than 2.5 %. "
            "Undecided: the interval is too wide to tell.",
            tables=(Table(head, rows),),
        )


def _claim(claim: ClaimFacts) -> Iterator[Row]:
    measured, ratio = Cell("", "num"), claim.ratio
    if ratio is not None:
        digits = small if claim.counts else times
        bounds = f"{small(ratio.low)} – {small(ratio.high)}" if claim.counts else interval(ratio)
        measured = Cell(digits(ratio.estimate), "num", bounds)
    against = "the base" if claim.against == BASE else claim.against
    what = f"{claim.quantity}: " if claim.quantity else ""
    counts = f" · {small(claim.counts[0])} against {small(claim.counts[1])}" if claim.counts else ""
    source = f" · {claim.source}" if claim.source else ""
    yield (
        Cell(claim.text, "", f"{what}{claim.arm} against {against}{counts}{source}"),
        Cell(claim.wanted, "num"),
        measured,
        Cell(claim.answer, _ANSWERS.get(claim.answer, "mute")),
    )


# -- floors ----------------------------------------------------------------------------------------------

_TITLES = {
    "throughput": "Speed against safety",
    "p99": "p99 latency against safety",
    "latency": "Write latency against safety",
}


def frontier(subject: Subject) -> Iterator[Section]:
    facts = subject.facts
    tuning = facts.tuning if facts is not None else None
    if facts is None or tuning is None or not tuning.frontier:
        return
    every = [arm for arm in (facts.base, *facts.arms, facts.control, tuning.yours) if arm is not None]
    columns = {
        "of yours": tuning.cost is not None,
        facts.unit or "result": any(arm.result is not None for arm in every),
        "p99": any(arm.p99_us is not None for arm in every),
        "p99 ratio": facts.objective != "p99" and any(arm.p99 is not None for arm in every),
    }

    def cells(arm: ArmResult | None, of_yours: Ratio | None = None) -> Row:
        result = arm.result if arm is not None else None
        p99_us = arm.p99_us if arm is not None else None
        found = (
            Cell("" if of_yours is None else times(of_yours.estimate), "num"),
            Cell("" if result is None else rounded(result), "num"),
            Cell("" if p99_us is None else format_latency(p99_us), "num"),
            _p99_cell(arm.p99 if arm is not None else None),
        )
        return tuple(cell for cell, is_shown in zip(found, columns.values(), strict=True) if is_shown)

    rows: list[Row] = []
    if (yours := tuning.yours) is not None and yours.comparison is not None:
        one = Ratio(estimate=1.0, low=1.0, high=1.0)
        below = f"below {facts.raised_to}: they meet {yours.verdict}"
        rows.append((*_gain("yours", below, yours.comparison.ratio), *cells(yours, one)))
    if any(columns.values()):
        rows.append((Cell(base_name(facts), "name"), *numbers("", ""), *cells(facts.base)))
    for point in tuning.frontier:
        rows += _floor(facts, tuning, point, cells(_arm_of(facts, point), point.versus_yours))
    if (again := facts.control) is not None and again.comparison is not None:
        about = "the base once more: should be about 1"
        rows.append((*_gain(AA_CONTROL, about, again.comparison.ratio), *cells(again)))
    about = (
        "The gain of each durability floor, from the safest, its settings, and the part of the gain without "
        "durability loss."
    )
    if tuning.offers:
        about += f" The result keeps the floor {facts.floor}; the offers do not."
    notes = []
    if (latency := LATENCIES.get(facts.objective)) is not None:
        notes.append(f"Ratio: how many times lower {latency} is than that of {the_base(facts)}.")
    if tuning.raised:
        beside = "; of yours: against those as they are" if tuning.cost else ""
        notes.append(f"Ratio: against {the_base(facts)}: {changes(tuning.raised)}{beside}.")
    head = (
        Cell("floor"),
        *numbers("ratio", "interval", *(name for name, is_shown in columns.items() if is_shown)),
    )
    yield Section(
        "frontier",
        _TITLES[facts.objective],
        about + (_P99 if columns["p99 ratio"] else ""),
        tables=(Table(head, tuple(rows)),),
        notes=tuple(notes),
    )


def _arm_of(facts: CampaignFacts, point: FrontierPoint) -> ArmResult | None:
    return facts.arm(point.arm) if point.settings else None


def _gain(name: str, about: str, ratio: Ratio) -> Row:
    """A ratio without an interval is exactly what it says."""
    bounds = "" if ratio.low == ratio.high else interval(ratio)
    kind = "good" if ratio.low > 1 else "mute"
    return Cell(name, "name", about), Cell(times(ratio.estimate), f"num {kind}"), Cell(bounds, "num")


def _floor(facts: CampaignFacts, tuning: TuningFacts, point: FrontierPoint, beside: Row) -> Iterator[Row]:
    settings = [f"{name}={spell(value)}" for name, value in tuning.changes(point).items()]
    about = [
        "the winner" if point == tuning.winner else "" if settings else "keep your settings",
        "an offer, below the floor" if point in tuning.offers else "",
        durability_words(point) if point.settings else "",
    ]
    yield (*_gain(point.floor.value, "; ".join(filter(None, about)), point.ratio), *beside)
    if settings:
        yield (Cell("\n".join(settings), "code"),)


# -- guarantees ------------------------------------------------------------------------------------------


def guarantees(subject: Subject) -> Iterator[Section]:
    facts = subject.facts
    if facts is None or facts.never_ran:
        return
    columns = {name: texts for name, texts in _columns(facts).items() if texts}
    shown = {*columns, *(arm.name for arm in best_arms(facts) if arm is not None)}
    recovery = tuple(
        f"Recovery after SIGKILL under load, {arm.name}: {format_seconds(arm.recovery_s)}."
        for arm in (facts.base, *facts.arms)
        if arm.recovery_s is not None
    )
    if not columns:
        return
    before = next(iter(columns.values()))
    if all(texts == before for texts in columns.values()):
        columns = {" and ".join(columns): before}
    rows = []
    for failure, words in FAILURES.items():
        texts = [own.get(failure, "") for own in columns.values()]
        cells = (Cell(text, "" if text == before.get(failure, "") else "changed") for text in texts)
        if any(texts):
            rows.append((Cell(words), *cells))
    tables = [Table((Cell("when"), *map(Cell, columns)), tuple(rows))]
    if otherwise := tuple(_otherwise(facts, shown)):
        head = (Cell("arm"), Cell("when"), Cell("what is kept"))
        tables.append(Table(head, otherwise, "Arms whose guarantees differ from the base's"))
    is_short = facts.tuning is not None and not facts.tuning.frontier and bool(facts.tuning.tried)
    yield Section(
        "guarantees",
        "What a failure costs",
        "What happens to acknowledged commits in each failure, by the rules for this version and disk.",
        tables=tuple(tables),
        notes=recovery,
        short=() if is_short or (facts.ending != "done" and not facts.blocks) else None,
    )


def _columns(facts: CampaignFacts) -> dict[str, Mapping[str, str]]:
    """Of each server its base and the arm of the answer."""
    best = best_arms(facts)
    if (tuning := facts.tuning) is None:
        shown = [arm for (base, _), one in zip(facts.by_server, best, strict=True) for arm in (base, one)]
        return {arm.name: arm.guarantees for arm in shown if arm is not None}
    columns: dict[str, Mapping[str, str]] = {"before: your base": facts.base.guarantees}
    if tuning.yours is not None:
        raised = f"raised to {facts.raised_to}"
        columns = {"your settings": tuning.yours.guarantees, raised: facts.base.guarantees}
    return columns if best[0] is None else columns | {"after: the winner": best[0].guarantees}


def _otherwise(facts: CampaignFacts, shown: Collection[str]) -> Iterator[Row]:
    """A row per arm that has no column, and text that is not the base's; failures that cost the same stand
    together."""
    for base, arms in facts.by_server:
        for arm in arms:
            name = "" if arm.name in shown else arm.name
            differs = {
                failure: text
                for failure, text in arm.guarantees.items()
                if name and base.guarantees.get(failure) != text
            }
            for failures, text in grouped(differs).items():
                yield Cell(name, "name"), Cell(failures), Cell(text)
                name = ""


# -- what is no result, and what holds elsewhere ---------------------------------------------------------


def left_out(subject: Subject) -> Iterator[Section]:
    facts = subject.facts
    if facts is None:
        found = [*_failed(subject)]
    else:
        found = [*_out_of_tuning(facts.tuning)] if facts.tuning is not None else []
    rows = tuple((Cell(what, "name"), Cell(outcome), Cell(why)) for what, outcome, why in found)
    if rows:
        head = (Cell("arm or change"), Cell("outcome"), Cell("why"))
        short = tuple(_left_out_words(facts)) if facts is not None else ()
        yield Section("left-out", "Not among the results", tables=(Table(head, rows),), short=short)


def _left_out_words(facts: CampaignFacts) -> Iterator[str]:
    if (tuning := facts.tuning) is not None:
        yield from (f"raised to the floor: {words}" for words in tuning.raised_why)
        yield from (f"rejected {one.arm}: {one.reason}" for one in tuning.rejected)
        for one in tuning.excluded:
            became, reason = one.told
            if became != "excluded" or not tuning.tried:
                yield f"{became} {changes(one.settings)}: {reason}"


def _failed(subject: Subject) -> Iterator[tuple[str, str, str]]:
    out = ("refused", "failed", "invalid")
    trials = {trial.arm.name: trial for trial in subject.trials if trial.outcome in out}
    return ((name, trial.outcome, trial.reason) for name, trial in trials.items())


def _out_of_tuning(tuning: TuningFacts) -> Iterator[tuple[str, str, str]]:
    for words in tuning.raised_why:
        yield words, "raised to the floor", "your settings were below the floor"
    for rejected in tuning.rejected:
        yield rejected.arm, "rejected", rejected.reason
    for one in tuning.excluded:
        yield changes(one.settings), *one.told
    for dropped in tuning.dropped:
        cost = f"dropping it costs {dropped.cost:.1%} ± {dropped.error:.1%} at floor {dropped.floor.value}"
        yield changes(dropped.settings), "dropped", cost


class CarryOver(msgspec.Struct, frozen=True, kw_only=True):
    """One result, or kind of result.

    Attributes:
        what: the result.
        carries: `yes`, `roughly` or `no`.
        why: the condition, or the reason.
    """

    what: str
    carries: Literal["yes", "roughly", "no"]
    why: str


def carry_over(facts: CampaignFacts) -> Iterator[CarryOver]:
    names = ", ".join(dict.fromkeys(server.name for server in facts.servers))
    why = f"they follow from the settings and the version ({names})"
    yield CarryOver(what="guarantees", carries="yes", why=why)
    if facts.base.observed is not None:
        why = "it is your server and its own load; at another hour, that load may be another one"
        yield CarryOver(what="ratios", carries="roughly", why=why)
        yield CarryOver(what="results", carries="roughly", why="they are of that hour")
        return
    if facts.is_remote:
        why = "it is your server, but this workload: your statements may gain more, or less"
        yield CarryOver(what="ratios", carries="roughly", why=why)
        why = "they are of this workload, beside whatever else the server did"
        yield CarryOver(what="results", carries="no", why=why)
        return
    known = sizes(facts)
    like = f" and {' : '.join(known)} is about {' : '.join(known.values())}" if known else ""
    disk = "syncs about as fast as this one"
    if (slow := facts.machine.slow_disk) is not None:
        disk = f"takes about {format_latency(slow.measured_sync_us_p50)} for a sync"
    if facts.server.nodes > 1:
        alone = f"{facts.server.nodes} nodes shared this machine's processors and disk; theirs have their own"
        yield CarryOver(what="ratios", carries="no", why=alone)
    else:
        yield CarryOver(what="ratios", carries="roughly", why=f"if the disk there {disk}{like}")
    for warning in facts.warnings:
        if warning.slug == SCALED:
            yield CarryOver(what=warning.setting, carries="no", why=warning.text)
    absolute = "seconds are" if facts.unit == "s" else f"{facts.unit or 'throughput'} and latency are"
    machine = facts.machine
    here = f"{machine.cpu_count} CPUs, {format_size(machine.memory_bytes)}, {machine.filesystem}"
    whose = f"this machine's ({here})"
    if facts.machines:
        whose = f"those of the fleet's {counted(len(facts.machines), 'machine')}"
    yield CarryOver(what="results", carries="no", why=f"{absolute} {whose}")
    if any(arm.recovery_s is not None for arm in (facts.base, *facts.arms)):
        yield CarryOver(what="recovery", carries="no", why="it depends on the redo log and the disk there")


def carries(subject: Subject) -> Iterator[Section]:
    facts = subject.facts
    if facts is None or facts.never_ran:
        return
    faster = facts.plan and any(arm.is_faster and not arm.is_base for arm in facts.arms)
    if recommended(facts) or faster:
        there = "the load that your server has" if facts.is_remote else "your server"
        rows = tuple(
            (Cell(line.what, "name"), Cell(line.carries), Cell(line.why)) for line in carry_over(facts)
        )
        head = (Cell("result"), Cell("carries over"), Cell("why"))
        yield Section("carry-over", f"What carries over to {there}", tables=(Table(head, rows),))
