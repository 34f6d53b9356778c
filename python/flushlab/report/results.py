"""Sections of results: ratios, machines, effects, floors, claims, guarantees, and what carries over. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec

from flushlab.campaign.analysis import LEAST_MACHINES
from flushlab.campaign.facts import ArmResult, CampaignFacts, ClaimFacts, PlanFacts, TuningFacts
from flushlab.campaign.recommended import best_arms, recommended
from flushlab.experiment.protocol import LATENCIES, latency_words, throughput_words, verdict_words
from flushlab.plan.plan import crossed
from flushlab.record import BASE, Comparison, FactorEffect, OverMachines, Ratio, Trial
from flushlab.report import plots
from flushlab.report.document import Cell, Plot, Row, Section, Table, numbers
from flushlab.report.plots import Verdict
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
    the_base,
    times,
    ways,
)
from flushlab.settings.configuration import NO_BINLOG
from flushlab.settings.fit import SCALED
from flushlab.units import counted, format_latency, format_seconds, format_size, value_words

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


def ratios(facts: CampaignFacts) -> Iterator[Section]:
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
        arms += (base, *own, *filter(None, (yours, facts.control) if base is facts.base else ()))
    how = [*ways(facts), *([source_words(facts.base.observed)] if facts.base.observed is not None else [])]
    notes = tuple(f"{words[0].upper()}{words[1:]}." for words in how)
    shown = Section("ratios", "Against the base", about, notes=notes, short=notes if facts.tuning else None)
    if any(arm.comparison is not None or arm.reason or facts.plan for arm in arms[1:]):
        yield _compared(shown, arms, facts)
    elif notes:
        yield shown._replace(about="")
    if others := [base for base, _ in facts.by_server[1:] if base.comparison is not None]:
        about = f"{_BETWEEN[facts.objective]}. No setting gains this."
        yield _compared(Section("servers", "Between servers", about), others, facts, between=True)


def _compared(
    blank: Section, arms: Sequence[ArmResult], facts: CampaignFacts, *, between: bool = False
) -> Section:
    drawn = [arm for arm in arms if arm.comparison is not None and (between or not arm.is_base)]
    plotted = [*drawn[: MAX_PLOTTED - 1], *drawn[-1:]] if len(drawn) > MAX_PLOTTED else drawn
    points = [(_shown(arm, facts), arm.comparison.ratio, _kind(arm)) for arm in plotted if arm.comparison]
    columns = _columns(facts, arms)
    rows: list[Row] = []
    for arm in arms:
        rows.append((*_ratio_cells(arm, facts, between=between), *_beside(arm, facts, columns)))
        if not between and arm.observed is not None:
            rows += ((Cell(line, "mute"),) for line in observed_lines(arm.observed))
        if not between and arm.reason:
            rows.append((Cell(arm.reason.strip().splitlines()[0], "mute"),))
    left = (f"{len(drawn) - len(plotted)} more are in the table only.",) if len(drawn) > len(plotted) else ()
    head = ("arm", "ratio", "interval", "verdict", *columns)
    return blank._replace(
        about=blank.about + (_P99 if "p99 ratio" in columns else ""),
        plots=_forest(points, blank.key),
        tables=(Table(head, rows),),
        notes=(*_legend(facts), *left, *blank.notes),
    )


def _legend(facts: CampaignFacts) -> Iterator[str]:
    if (latency := LATENCIES.get(facts.objective)) is not None:
        yield f"Ratio: how many times lower {latency} is than that of {the_base(facts)}."


def _forest(rows: Iterable[tuple[str, Ratio, Verdict]], name: str) -> tuple[Plot, ...]:
    title = "Ratio of each row with its interval; the table gives the same numbers"
    points = [plots.Row(label, ratio, kind, times(ratio.estimate)) for label, ratio, kind in rows]
    return (plots.forest(points, name=name, title=title),) if points else ()


def _kind(arm: ArmResult) -> Verdict:
    """The colour of a row: another server, or other work, is no gain."""
    verdict = arm.comparison.verdict if arm.comparison is not None and not (arm.is_base or arm.unit) else ""
    return _VERDICTS.get(verdict, "mute")


def _ratio_cells(arm: ArmResult, facts: CampaignFacts, *, between: bool) -> Row:
    name = Cell(_shown(arm, facts), "name", " · ".join(filter(None, _about(arm, facts))))
    kind, compared = _kind(arm), arm.comparison
    if arm is facts.base or (arm.is_base and not between):
        return name, *numbers("" if arm.result is None else "1.00×", ""), Cell("")
    if compared is None:
        return name, *numbers("", ""), Cell(OUTCOMES.get(arm.outcome, arm.outcome), "mute")
    blocks = f"{compared.blocks} blocks" if compared.blocks != facts.blocks else ""
    verdict = "" if between else verdict_words(compared.verdict, facts.objective)
    return name, *_ratio(compared.ratio, kind), Cell(verdict, kind, blocks)


def _ratio(ratio: Ratio, kind: str) -> Row:
    """A ratio and its interval; one without an interval is exactly what it says."""
    bounds = "" if ratio.low == ratio.high else interval(ratio)
    return Cell(times(ratio.estimate), f"num {kind}"), Cell(bounds, "num")


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
        yield f"better on {len(over.better_on)} of {count}{worse}; {_variance(over)}"


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


def _columns(facts: CampaignFacts, arms: Iterable[ArmResult]) -> list[str]:
    arms = list(arms)
    found = {
        facts.unit or "result": any(arm.result is not None for arm in arms),
        "p99 ratio": facts.objective != "p99" and any(arm.p99 is not None for arm in arms),
        f"{facts.unit} ratio": any(arm.throughput is not None for arm in arms),
    }
    return [name for name, is_known in found.items() if is_known]


def _beside(arm: ArmResult | None, facts: CampaignFacts, columns: Sequence[str]) -> Iterator[Cell]:
    for column in columns:
        if arm is None:
            yield Cell("", "num")
        elif column == "p99 ratio":
            yield _of_comparison(arm.p99, latency_words)
        elif column == f"{facts.unit} ratio":
            yield _of_comparison(arm.throughput, partial(throughput_words, unit=facts.unit))
        else:
            latency = "" if arm.p99_us is None else f"p99 {format_latency(arm.p99_us)}"
            if arm.observed is not None and arm.observed.write_us is not None:
                latency = format_latency(arm.observed.write_us)
            text = "" if arm.result is None else f"{rounded(arm.result)} {arm.unit}".strip()
            yield Cell(text, "num", latency, absolute(arm, arm.unit or facts.unit))


def _of_comparison(found: Comparison | None, words: Callable[[Comparison], str]) -> Cell:
    return Cell("", "num") if found is None else _compact(found.ratio, found.verdict, words(found))


def _compact(ratio: Ratio, verdict: str, alone: str = "") -> Cell:
    return Cell(times(ratio.estimate), f"num {_VERDICTS.get(verdict, 'mute')}", interval(ratio), alone)


# -- machines of a fleet ---------------------------------------------------------------------------------

COLUMNS = 6
"""Machines beside each other in one table."""


def _variance(over: OverMachines) -> str:
    return f"{over.between_share:.0%} of the variance is between machines"


def machines(facts: CampaignFacts, *, per_machine: bool = False) -> Iterator[Section]:
    names = [one.name for one in facts.machines if one.compared]
    did = "confirmed" if facts.tuning is not None else "ran the blocks"
    ran = f"{counted(len(names), 'machine')} {did}"
    are_alike = len(names) >= LEAST_MACHINES
    short = (f"{ran}; intervals are about all machines like them",) if are_alike else ()
    arms = [(arm.name, arm.machines) for arm in facts.arms]
    arms += [(AA_CONTROL, facts.control.machines)] if facts.control is not None else []
    rows = [(name, over) for name, over in arms if over is not None]
    if not rows and (per_machine or short):
        few = ("Two machines or more have to run two blocks of an arm.",) if per_machine else ()
        yield Section("machines", "On each machine", texts=few, short=None if per_machine else short)
    if rows:
        unstable = [name for name, over in rows if over.unstable]
        firsts = range(0, len(names), COLUMNS)
        yield Section(
            "machines",
            "On each machine",
            f"{ran}. A block runs on one machine, so no ratio compares machines. These intervals are each"
            " machine's own and hold together with 95 % probability.",
            tables=tuple(_on_machines(facts, rows, names[first : first + COLUMNS]) for first in firsts),
            notes=(f"The ratio depends on the machine: {', '.join(unstable)}.",) if unstable else (),
            short=None if per_machine else short,
        )


def _on_machines(
    facts: CampaignFacts, rows: Sequence[tuple[str, OverMachines]], names: Sequence[str]
) -> Table:
    body: list[Row] = []
    for name, over in rows:
        found = {one.machine: _compact(one.ratio, one.ratio.verdict) for one in over.ratios}
        cells = [found.get(machine, Cell("", "num")) for machine in names]
        unstable = "; depends on the machine" if over.unstable else ""
        body.append((Cell(name, "name", f"{_variance(over)}{unstable}"), *cells))
    results = {one.name: one for one in facts.machines}
    base = [Cell(rounded(results[name].result), "num", f"{results[name].blocks} blocks") for name in names]
    return Table(("arm", *names), (*body, (Cell(facts.base.name, "name", facts.unit), *base)))


# -- effects and claims ----------------------------------------------------------------------------------

_EFFECTS = {
    "throughput": "how many times as fast it makes the server",
    "p99": "how many times lower it makes p99 latency",
    "latency": "how many times lower it makes write latency",
}


def effects(facts: CampaignFacts, plan: PlanFacts) -> Iterator[Section]:
    if not plan.effects:
        yield Section("effects", "Effects of the factors", texts=(f"{_no_effects(facts, plan)}.",))
        return
    kinds = [_VERDICTS.get(effect.verdict, "mute") for effect in plan.effects]
    rows = tuple(
        (
            Cell(effect.name, "name", _effect_words(effect, plan.factors)),
            *_ratio(effect.ratio, kind),
            Cell(verdict_words(effect.verdict, facts.objective), kind),
        )
        for effect, kind in zip(plan.effects, kinds, strict=True)
    )
    points = ((one.name, one.ratio, kind) for one, kind in zip(plan.effects, kinds, strict=True))
    yield Section(
        "effects",
        "Effects of the factors",
        f"Every combination of {' and '.join(plan.factors)} was measured in the same "
        f"{plan.effects[0].blocks} blocks. A factor's effect is {_EFFECTS[facts.objective]}, "
        "over all combinations of the others alike. All intervals of this table hold together.",
        plots=_forest(points, "effects"),
        tables=(Table(("factor", "ratio", "interval", "verdict"), rows),),
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


def claims(plan: PlanFacts) -> Iterator[Section]:
    rows = [*map(_claim, plan.claims)]
    if rows:
        yield Section(
            "claims",
            "Claims",
            "What was claimed of these changes, and what was measured on this server and disk. Refuted: the "
            "interval excludes the claim. No difference: neither faster nor slower by more than 2.5 %. "
            "Undecided: the interval is too wide to tell.",
            tables=(Table(("claim", "claimed", "measured", "answer"), rows),),
        )


def _claim(claim: ClaimFacts) -> Row:
    measured, ratio = Cell("", "num"), claim.ratio
    if ratio is not None:
        digits = small if claim.counts else times
        bounds = f"{small(ratio.low)} – {small(ratio.high)}" if claim.counts else interval(ratio)
        measured = Cell(digits(ratio.estimate), "num", bounds)
    against = "the base" if claim.against == BASE else claim.against
    what = f"{claim.quantity}: " if claim.quantity else ""
    counts = f" · {small(claim.counts[0])} against {small(claim.counts[1])}" if claim.counts else ""
    source = f" · {claim.source}" if claim.source else ""
    return (
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


def frontier(facts: CampaignFacts, tuning: TuningFacts) -> Iterator[Section]:
    if not tuning.frontier:
        return
    every = [arm for arm in (facts.base, *facts.arms, facts.control, tuning.yours) if arm is not None]
    columns = _columns(facts, every)
    has_yours = tuning.cost is not None

    def row(
        name: str, about: str, ratio: Ratio | None, arm: ArmResult | None, of_yours: Ratio | None = None
    ) -> Row:
        gain = numbers("", "") if ratio is None else _ratio(ratio, "good" if ratio.low > 1 else "mute")
        yours = [Cell("" if of_yours is None else times(of_yours.estimate), "num")] if has_yours else []
        return Cell(name, "name", about), *gain, *yours, *_beside(arm, facts, columns)

    rows: list[Row] = []
    if (yours := tuning.yours) is not None and yours.comparison is not None:
        below, one = f"below {facts.raised_to}: they meet {yours.verdict}", Ratio(estimate=1, low=1, high=1)
        rows.append(row("yours", below, yours.comparison.ratio, yours, one))
    if columns:
        rows.append(row(base_name(facts), "", None, facts.base))
    for point in tuning.frontier:
        settings = [f"{name}={value_words(value)}" for name, value in tuning.changes(point).items()]
        about = [
            "the winner" if point == tuning.winner else "" if settings else "keep your settings",
            "an offer, below the floor" if point in tuning.offers else "",
            durability_words(point) if point.settings else "",
        ]
        arm = facts.arm(point.arm) if point.settings else None
        name, words = point.floor.value, "; ".join(filter(None, about))
        rows.append(row(name, words, point.ratio, arm, point.versus_yours))
        rows += [(Cell("\n".join(settings), "code"),)] if settings else []
    if (again := facts.control) is not None and again.comparison is not None:
        rows.append(row(AA_CONTROL, "the base once more: should be about 1", again.comparison.ratio, again))
    kept = f" The result keeps the floor {facts.floor}; the offers do not." if tuning.offers else ""
    beside = "; of yours: against those as they are" if has_yours else ""
    raised = f"Ratio: against {the_base(facts)}: {changes(tuning.raised)}{beside}."
    yield Section(
        "frontier",
        _TITLES[facts.objective],
        "The gain of each durability floor, from the safest, its settings, and the part of the gain without "
        f"durability loss.{kept}{_P99 if 'p99 ratio' in columns else ''}",
        tables=(Table(("floor", "ratio", "interval", *(["of yours"] if has_yours else []), *columns), rows),),
        notes=(*_legend(facts), *([raised] if tuning.raised else [])),
    )


# -- guarantees ------------------------------------------------------------------------------------------


def guarantees(facts: CampaignFacts) -> Iterator[Section]:
    columns = {name: texts for name, texts in _before_and_after(facts).items() if texts}
    if not columns:
        return
    shown = {*columns, *(arm.name for arm in best_arms(facts) if arm is not None)}
    before = next(iter(columns.values()))
    if all(texts == before for texts in columns.values()):
        columns = {" and ".join(columns): before}
    rows = []
    for failure, words in FAILURES.items():
        texts = [own.get(failure, "") for own in columns.values()]
        cells = (Cell(text, "" if text == before.get(failure, "") else "changed") for text in texts)
        rows += [(Cell(words), *cells)] if any(texts) else []
    tables = [Table(("when", *columns), rows)]
    if otherwise := [*_otherwise(facts, shown)]:
        head = ("arm", "when", "what is kept")
        tables.append(Table(head, otherwise, "Arms whose guarantees differ from the base's"))
    is_short = facts.tuning is not None and not facts.tuning.frontier and bool(facts.tuning.tried)
    yield Section(
        "guarantees",
        "What a failure costs",
        "What happens to acknowledged commits in each failure, by the rules for this version and disk.",
        tables=tuple(tables),
        notes=tuple(
            f"Recovery after SIGKILL under load, {arm.name}: {format_seconds(arm.recovery_s)}."
            for arm in (facts.base, *facts.arms)
            if arm.recovery_s is not None
        ),
        short=() if is_short or (facts.ending != "done" and not facts.blocks) else None,
    )


def _before_and_after(facts: CampaignFacts) -> dict[str, Mapping[str, str]]:
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


def left_out(found: Iterable[tuple[str, str, str]], *hidden: str) -> Iterator[Section]:
    out = list(found)
    if out:
        rows = [(Cell(what, "name"), Cell(outcome), Cell(why)) for what, outcome, why in out]
        lines = tuple(f"{outcome} {what}: {why}" for what, outcome, why in out if outcome not in hidden)
        table = Table(("arm or change", "outcome", "why"), rows)
        yield Section("left-out", "Not among the results", tables=(table,), short=lines)


def out_of_trials(trials: Iterable[Trial]) -> Iterator[tuple[str, str, str]]:
    out = ("refused", "failed", "invalid")
    last = {trial.arm.name: trial for trial in trials if trial.outcome in out}
    return ((name, trial.outcome, trial.reason) for name, trial in last.items())


def out_of_tuning(tuning: TuningFacts) -> Iterator[tuple[str, str, str]]:
    for words in tuning.raised_why:
        yield words, "raised to the floor:", "your settings were below the floor"
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


def carries(facts: CampaignFacts) -> Iterator[Section]:
    if recommended(facts) or (facts.plan and any(arm.is_faster and not arm.is_base for arm in facts.arms)):
        there = "the load that your server has" if facts.is_remote else "your server"
        rows = [(Cell(line.what, "name"), Cell(line.carries), Cell(line.why)) for line in carry_over(facts)]
        table = Table(("result", "carries over", "why"), rows)
        yield Section("carry-over", f"What carries over to {there}", tables=(table,))
