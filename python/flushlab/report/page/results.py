"""Sections of results: ratios, effects, floors, claims and guarantees, and what is not among them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flushlab.campaign.facts import ArmResult, CampaignFacts, ClaimFacts, TuningFacts
from flushlab.campaign.recommended import best_arms
from flushlab.experiment.protocol import verdict_words
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import BASE, Comparison, Ratio
from flushlab.report import plots
from flushlab.report.page.parts import (
    P99_LEAD,
    Cell,
    Section,
    Subject,
    Table,
    numbers,
    p99_cell,
    verdict_kind,
)
from flushlab.report.plots import Verdict
from flushlab.report.tables import effect_words, no_effects
from flushlab.report.words import (
    AA_CONTROL,
    FAILURES,
    changed,
    changes,
    durability_words,
    grouped,
    interval,
    places,
    rounded,
    small,
    spell,
    the_base,
    times,
    ways,
)
from flushlab.settings.configuration import NO_BINLOG
from flushlab.units import format_latency, format_seconds

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


def ratios(subject: Subject) -> Iterator[Section]:
    """Every arm and the A/A control against its base, then servers against each other."""
    facts = subject.facts
    if facts is None:
        return
    yours = facts.tuning.yours if facts.tuning is not None else None
    every = [
        arm for arm in (*facts.arms, yours, facts.control) if arm is not None and arm.comparison is not None
    ]
    lead = (
        f"{_COMPARES[facts.objective]} {the_base(facts)}, each with its interval. All intervals hold "
        "together with 95 % probability. Filled: the interval excludes 1. The A/A control is "
    )
    if len(facts.by_server) > 1:
        lead += "the first server's base once more; other servers have none."
        lead += " Each server's configurations are compared with its own base."
    else:
        lead += "the base once more."
    if arms := [arm for arm in every if not arm.is_base]:
        notes = tuple(f"{words[0].upper()}{words[1:]}." for words in ways(facts))
        yield _section(Section("ratios", "Against the base", lead, notes=notes), arms, facts)
    if servers := [arm for arm in every if arm.is_base]:
        lead = f"{_BETWEEN[facts.objective]}. No setting gains this."
        yield _section(Section("servers", "Between servers", lead), servers, facts)


def _section(blank: Section, arms: Sequence[ArmResult], facts: CampaignFacts) -> Section:
    rows = [(arm, arm.comparison) for arm in arms if arm.comparison is not None]
    plotted = [*rows[: MAX_PLOTTED - 1], *rows[-1:]] if len(rows) > MAX_PLOTTED else rows
    plot = plots.forest(
        [
            plots.Row(
                _shown(arm, facts), compared.ratio, _kind(arm, compared), times(compared.ratio.estimate)
            )
            for arm, compared in plotted
        ],
        name=blank.key,
        title="Ratio of each row with its interval; the table gives the same numbers",
    )
    latency = facts.objective == "throughput" and any(arm.p99 is not None for arm in arms)
    besides = any(arm.throughput is not None for arm in arms)
    absolute = any(arm.result is not None for arm in arms)
    head = [Cell("arm"), *numbers("ratio", "interval"), Cell("verdict")]
    head += numbers(*(["p99 ratio"] if latency else []), *([f"{facts.unit} ratio"] if besides else []))
    head += numbers(*([facts.unit] if absolute else []))
    left = (f"{len(rows) - len(plotted)} more are in the table only.",) if len(rows) > len(plotted) else ()
    cells = tuple(
        (
            *_ratio_row(arm, compared, facts),
            *((p99_cell(arm.p99),) if latency else ()),
            *((p99_cell(arm.throughput),) if besides else ()),
            *((_absolute(arm),) if absolute else ()),
        )
        for arm, compared in rows
    )
    return blank._replace(
        lead=blank.lead + (P99_LEAD if latency else ""),
        plots=(plot,),
        tables=(Table(tuple(head), cells),),
        notes=(*left, *blank.notes),
    )


def _kind(arm: ArmResult, compared: Comparison) -> Verdict:
    """The colour of a row: another server, or other work, is no gain."""
    return "mute" if arm.is_base or arm.unit else verdict_kind(compared)


def _ratio_row(arm: ArmResult, compared: Comparison, facts: CampaignFacts) -> tuple[Cell, ...]:
    kind = _kind(arm, compared)
    words = "" if arm.is_base else verdict_words(compared.verdict, facts.objective)
    return (
        Cell(_shown(arm, facts), "name", " · ".join(filter(None, _about(arm, facts)))),
        Cell(times(compared.ratio.estimate), f"num {kind}"),
        *numbers(interval(compared.ratio)),
        Cell(words, kind, f"{compared.blocks} blocks"),
    )


def _shown(arm: ArmResult, facts: CampaignFacts) -> str:
    return AA_CONTROL if arm is facts.control else arm.name


def _about(arm: ArmResult, facts: CampaignFacts) -> Iterator[str]:
    """What an arm is, and what one should know of it, short."""
    if arm is facts.control:
        yield "the base once more: should be about 1"
        return
    if (tuning := facts.tuning) is not None:
        yield "winner" if tuning.winner is not None and arm.name == tuning.winner.arm else ""
        yield "rejected" if any(arm.name == one.arm for one in tuning.rejected) else ""
    else:
        yield from _changed(arm)
    yield from places(arm)
    if arm.floor:
        base, lower = facts.base, ""
        if arm.against:
            base = facts.arm(arm.against)
        if not arm.is_base and facts.below_floor(arm, base):
            lower = f", below {facts.floor or base.floor}: not recommended"
        yield f"floor {arm.verdict}{lower}"
    if arm.fixed:
        yield f"changes the service: {', '.join(arm.fixed)}"
    if arm.no_effect:
        yield f"{NO_BINLOG}: {', '.join(arm.no_effect)}"
    if arm.against:
        yield f"against {arm.against}"


def _changed(arm: ArmResult) -> Iterator[str]:
    """Its text, then what it changes where its name does not say so."""
    own = changes(arm.differences)
    text = arm.text or own
    yield "" if text.replace(",", "") == arm.name else text
    yield own if arm.text else ""


def _absolute(arm: ArmResult) -> Cell:
    latency = "" if arm.p99_us is None else f"p99 {format_latency(arm.p99_us)}"
    if arm.observed is not None and arm.observed.write_us is not None:
        latency = format_latency(arm.observed.write_us)
    unit = f" {arm.unit}" if arm.unit else ""
    return Cell("" if arm.result is None else f"{rounded(arm.result)}{unit}", "num", latency)


_EFFECT_KINDS: dict[str, plots.Verdict] = {
    "faster": "good",
    "more together": "good",
    "slower": "bad",
    "less together": "bad",
}

_EFFECTS = {
    "throughput": "how many times as fast it makes the server",
    "p99": "how many times lower it makes p99 latency",
    "latency": "how many times lower it makes write latency",
}


def effects(subject: Subject) -> Iterator[Section]:
    """Main effects and interactions."""
    facts = subject.facts
    plan = facts.plan if facts is not None else None
    if facts is None or plan is None or not plan.factors:
        return
    if not plan.effects:
        yield Section("effects", "Effects of the factors", f"{no_effects(facts, plan).capitalize()}.")
        return
    rows = tuple(
        (
            Cell(effect.name, "name", effect_words(effect, plan.factors)),
            *numbers(times(effect.ratio.estimate), interval(effect.ratio)),
            Cell(verdict_words(effect.verdict, facts.objective), _EFFECT_KINDS.get(effect.verdict, "mute")),
        )
        for effect in plan.effects
    )
    plot = plots.forest(
        [
            plots.Row(one.name, one.ratio, _EFFECT_KINDS.get(one.verdict, "mute"), times(one.ratio.estimate))
            for one in plan.effects
        ],
        name="effects",
        title="Effect of each factor and of factors together; the table gives the same numbers",
    )
    head = (Cell("factor"), *numbers("ratio", "interval"), Cell("verdict"))
    lead = (
        f"Every combination of {' and '.join(plan.factors)} was measured in the same "
        f"{plan.effects[0].blocks} blocks. A factor's effect is {_EFFECTS[facts.objective]}, "
        "over all combinations of the others alike. All intervals of this table hold together."
    )
    yield Section("effects", "Effects of the factors", lead, (plot,), tables=(Table(head, rows),))


_TITLES = {
    "throughput": "Speed against safety",
    "p99": "p99 latency against safety",
    "latency": "Write latency against safety",
}


def frontier(subject: Subject) -> Iterator[Section]:
    """What each floor buys, for a tuning."""
    facts = subject.facts
    tuning = facts.tuning if facts is not None else None
    if facts is None or tuning is None or not tuning.frontier:
        return
    latency = facts.objective != "p99" and any(facts.arm(point.arm).p99 for point in tuning.frontier)
    rows = [row for point in tuning.frontier for row in _floor_rows(facts, tuning, point, latency=latency)]
    head = (Cell("floor"), *numbers("ratio", "interval", *(["p99 ratio"] if latency else [])))
    lead = (
        "The gain of each durability floor, from the safest, its settings, and the part of the gain without "
        "durability loss."
    )
    if tuning.offers:
        lead += f" The result keeps the floor {facts.floor}; the offers do not."
    if latency:
        lead += P99_LEAD
    if tuning.raised:
        lead += f" Ratios are against {the_base(facts)}: {changes(tuning.raised)}."
    table = Table(head, tuple(rows))
    yield Section("frontier", _TITLES[facts.objective], lead, tables=(table,))


def _floor_rows(
    facts: CampaignFacts, tuning: TuningFacts, point: FrontierPoint, *, latency: bool
) -> Iterator[tuple[Cell, ...]]:
    lines = "\n".join(f"{name} = {spell(value)}" for name, value in tuning.changes(point).items())
    note = "the winner" if point == tuning.winner else "" if lines else "keep your settings"
    note = "an offer, below the floor" if point in tuning.offers else note
    if point.settings:
        note = "; ".join(filter(None, (note, durability_words(point))))
    if point.versus_yours is not None:
        against = f"against your settings as they are: {times(point.versus_yours.estimate)}"
        note = "; ".join(filter(None, (note, f"{against} {interval(point.versus_yours)}")))
    yield (
        Cell(point.floor.value, "name", note),
        Cell(times(point.ratio.estimate), f"num {'good' if point.ratio.low > 1 else 'mute'}"),
        *numbers(interval(point.ratio) if point.settings else ""),
        *([p99_cell(facts.arm(point.arm).p99)] if latency else []),
    )
    if lines:
        yield (Cell(lines, "code"),)


_ANSWERS = {"confirmed": "good", "refuted": "bad"}


def _measured(claim: ClaimFacts, ratio: Ratio) -> str:
    counts = f" · {small(claim.counts[0])} against {small(claim.counts[1])}" if claim.counts else ""
    return interval(ratio) + counts


def claims(subject: Subject) -> Iterator[Section]:
    """What a plan claims, answered."""
    plan = subject.facts.plan if subject.facts is not None else None
    rows = tuple(
        (
            Cell(
                claim.text,
                "",
                (f"{claim.quantity}: " if claim.quantity else "")
                + f"{claim.arm} against {'the base' if claim.against == BASE else claim.against}"
                + (f" · {claim.source}" if claim.source else ""),
            ),
            Cell(claim.wanted, "num"),
            Cell(times(claim.ratio.estimate), "num", _measured(claim, claim.ratio))
            if claim.ratio
            else Cell("", "num"),
            Cell(claim.answer, _ANSWERS.get(claim.answer, "mute")),
        )
        for claim in (plan.claims if plan is not None else ())
    )
    if rows:
        head = (Cell("claim"), *numbers("claimed", "measured"), Cell("answer"))
        lead = (
            "What was claimed of these changes, and what was measured on this server and disk. Refuted: the "
            "interval excludes the claim. No difference: neither faster nor slower by more than 2.5 %. "
            "Undecided: the interval is too wide to tell."
        )
        yield Section("claims", "Claims", lead, tables=(Table(head, rows),))


def guarantees(subject: Subject) -> Iterator[Section]:
    """What each failure costs, before and after."""
    facts = subject.facts
    columns = {name: texts for name, texts in _columns(facts).items() if texts} if facts is not None else {}
    if facts is None or not columns:
        return
    before = next(iter(columns.values()))
    rows = []
    for failure, words in FAILURES.items():
        texts = [own.get(failure, "") for own in columns.values()]
        cells = (Cell(text, "" if text == before.get(failure, "") else "changed") for text in texts)
        if any(texts):
            rows.append((Cell(words, "name"), *cells))
    tables = [Table((Cell("when"), *map(Cell, columns)), tuple(rows))]
    otherwise = tuple(_otherwise(facts))
    if otherwise:
        head = (Cell("arm"), Cell("when"), Cell("what is kept"))
        tables.append(Table(head, otherwise, "Arms whose guarantees differ from the base's"))
    recovery = tuple(
        f"Recovery after SIGKILL under load, {arm.name}: {format_seconds(arm.recovery_s)}."
        for arm in (facts.base, *facts.arms)
        if arm.recovery_s is not None
    )
    lead = "What happens to acknowledged commits in each failure, by the rules for this version and disk."
    yield Section("guarantees", "What a failure costs", lead, tables=tuple(tables), notes=recovery)


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


def _otherwise(facts: CampaignFacts) -> Iterator[tuple[Cell, ...]]:
    """A row per arm and text that is not the base's; failures that cost the same stand together."""
    for base, arms in facts.by_server:
        for arm in arms:
            for failures, text in grouped(changed(arm.guarantees, base.guarantees)).items():
                yield Cell(arm.name, "name"), Cell(failures), Cell(text)


_LEFT_OUT = {"measured": "no ratio", "not_in_version": "not in this version"}


def left_out(subject: Subject) -> Iterator[Section]:
    """Arms and changes that are not among the results."""
    found = _of_facts(subject.facts) if subject.facts is not None else _of_trials(subject)
    rows = tuple((Cell(what, "name"), Cell(how), Cell(why)) for what, how, why in found)
    if rows:
        head = (Cell("arm or change"), Cell("outcome"), Cell("why"))
        yield Section("left-out", "Not among the results", tables=(Table(head, rows),))


def _of_facts(facts: CampaignFacts) -> Iterator[tuple[str, str, str]]:
    for arm in facts.arms:
        if arm.comparison is None:
            why = arm.reason or "too few blocks for an interval"
            yield arm.name, _LEFT_OUT.get(arm.outcome, arm.outcome), why
    if facts.tuning is not None:
        yield from _out_of_tuning(facts.tuning)


def _out_of_tuning(tuning: TuningFacts) -> Iterator[tuple[str, str, str]]:
    for rejected in tuning.rejected:
        yield rejected.arm, "rejected", rejected.reason
    for one in tuning.excluded:
        yield changes(one.settings), *one.told
    for dropped in tuning.dropped:
        cost = f"dropping it costs {dropped.cost:.1%} ± {dropped.error:.1%} at floor {dropped.floor.value}"
        yield changes(dropped.settings), "dropped", cost
    for words in tuning.raised_why:
        yield words, "raised to the floor", "your settings were below the floor"


def _of_trials(subject: Subject) -> Iterator[tuple[str, str, str]]:
    out = {
        trial.arm.name: trial for trial in subject.trials if trial.outcome in ("refused", "failed", "invalid")
    }
    return ((name, trial.outcome, trial.reason) for name, trial in out.items())
