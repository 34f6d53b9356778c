"""What a campaign found, in the words and the shape that the page shows, whatever its kind. Pure.

    TuneFacts, SeriesFacts or only trials  ->  Found  ->  sections of the page

Sits in `report`. A campaign without facts (it runs, or it was killed) has no ratio here: its trials are
shown, and nothing is claimed.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from flushlab.campaign.facts import ANSWERS, ArmFacts, ClaimFacts, Figures, SeriesFacts, TuneFacts
from flushlab.campaign.recommended import proven, recommendable
from flushlab.campaign.series_request import SeriesRequest
from flushlab.experiment.blocks import YOURS
from flushlab.experiment.objective import Objective, gain_words
from flushlab.plan.plan import BASE, CONTROL
from flushlab.record import Comparison, Machine, OtherLoad, ServerIdentity, Trial, Value, Warning
from flushlab.report import compare, series, tune
from flushlab.report.carry_over import on_own_server
from flushlab.report.guarantees import changed
from flushlab.report.stored import Facts, Request, floor_of, workload_of
from flushlab.settings.configuration import NO_BINLOG
from flushlab.settings.durability import FLOOR
from flushlab.store import CampaignRow
from flushlab.units import counted


class Compared(NamedTuple):
    """An arm that was compared with the base.

    Attributes:
        arm: its name.
        text: what it is, for people.
        comparison: with the base.
        notes: what one should know of it, short.
        figures: what it yielded by itself.
        base: of a further server, which it is compared with; empty: the base.
        is_server: it is the base of a further server, compared with the first server's.
        p99: its p99 latency compared with the base's, or None.
    """

    arm: str
    text: str
    comparison: Comparison
    notes: tuple[str, ...] = ()
    figures: Figures = Figures()
    base: str = ""
    is_server: bool = False
    p99: Comparison | None = None


class OnServer(NamedTuple):
    """A server that was measured.

    Attributes:
        server: which it is.
        base: its base, as trials have it.
        name: what people call its base.
        given: settings of the base.
        floor: that the answer keeps on this server, with the condition on the disk that it has.
        figures: of the base.
        chosen: the arm to show beside the base, or None.
    """

    server: ServerIdentity
    base: str = BASE
    name: str = "base"
    given: Mapping[str, Value] = {}
    floor: str = ""
    figures: Figures = Figures()
    chosen: str | None = None


class LeftOut(NamedTuple):
    """A change or an arm that is not among the results.

    Attributes:
        how: `refused`, `failed`, `skipped`, `not in this version`, `rejected`, `excluded`, `dropped`.
        what: the arm or the change.
        reason: why.
    """

    how: str
    what: str
    reason: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """See the module's docstring; what is unknown is empty or None.

    Attributes:
        title: the question that a plan asks.
        headline: the answer, a sentence.
        interval: of the figure in the headline, or empty.
        lead: further sentences of the answer.
        objective: what the ratios compare.
        against: what the arms are compared with, for people.
        ways: how it was measured, and which arms otherwise.
        each: the servers that were measured.
        servers: the same in words; empty: nothing was.
        arms: to show beside the base, the chosen one first.
        guarantees: per column (`base`, `winner`, …) plain words per failure.
        weaker: per arm of a series, what it keeps otherwise than the base.
    """

    title: str = ""
    headline: str
    interval: str = ""
    lead: tuple[str, ...] = ()
    each: tuple[OnServer, ...] = ()
    servers: str = ""
    workload: str = ""
    unit: str = ""
    higher_is_better: bool = True
    objective: Objective = "throughput"
    against: str = "the base"
    ways: tuple[str, ...] = ()
    blocks: str = ""
    arms: tuple[str, ...] = ()
    compared: tuple[Compared, ...] = ()
    control: Comparison | None = None
    control_figures: Figures = Figures()
    control_p99: Comparison | None = None
    guarantees: Mapping[str, Mapping[str, str]] = {}
    weaker: Mapping[str, Mapping[str, str]] = {}
    claims: tuple[ClaimFacts, ...] = ()
    warnings: tuple[Warning, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    machine: Machine | None = None
    data_bytes: int | None = None
    pool_bytes: int | None = None
    redo_bytes: int | None = None
    recovery_s: Mapping[str, float] = {}
    others: OtherLoad | None = None


def found(row: CampaignRow, request: Request | None, facts: Facts | None, trials: Sequence[Trial]) -> Found:
    """What the campaign found."""
    if isinstance(facts, TuneFacts):
        known = _tuned(facts)
    elif isinstance(facts, SeriesFacts):
        known = _serial(facts)
    else:
        return _so_far(row, request, trials)
    if row.result is None:
        lead = (*known.lead, f"{_standing(row)}: these are the results so far.")
        return msgspec.structs.replace(known, lead=lead)
    return known


# -- tune ------------------------------------------------------------------------------------------------


def _tuned(facts: TuneFacts) -> Found:
    result = facts.result
    headline, *lead = tune.answer(facts).plain.split("\n")
    headline, interval = _split_interval(headline)
    winner = result.winner
    shown = [winner.arm] if winner else []
    shown += [point.arm for point in reversed(result.frontier) if point.arm not in (BASE, *shown)]
    shown += [one.arm for one in result.confirmed if one.arm not in (CONTROL, *shown)]
    rejected = {one.arm: one.reason for one in result.rejected}
    compared = [
        Compared(
            one.arm,
            "",
            one,
            tuple(
                note
                for note in (
                    "winner" if winner and one.arm == winner.arm else "",
                    "rejected" if one.arm in rejected else "",
                )
                if note
            ),
            facts.figures.get(one.arm, Figures()),
            p99=result.p99.get(one.arm),
        )
        for one in result.confirmed
        if one.arm != CONTROL
    ]
    guarantees = {"your base": facts.guarantees.get(BASE, {})}
    if facts.raised:
        raised = {f"raised to {facts.floor}": facts.guarantees.get(BASE, {})}
        guarantees = {"your settings": facts.guarantees.get(YOURS, {}), **raised}
    if winner is not None:
        guarantees["winner"] = facts.guarantees.get(winner.arm, {})
    against = f"your settings raised to {facts.floor}" if facts.raised else "the base"
    floor = winner.floor.value if winner else facts.floor
    floor = facts.guarantees.get(winner.arm if winner else BASE, {}).get(FLOOR, floor)
    name = "raised" if facts.raised else "base"
    way = "on fresh servers"
    if facts.interleaved:
        way = "in turns on your server" if on_own_server(facts) else "side by side"
    blocks = f"{counted(result.blocks, 'block')} {way}, {counted(result.looks, 'look')}"
    return Found(
        headline=headline,
        interval=interval,
        lead=tuple(lead),
        each=(
            OnServer(
                facts.server,
                name=name,
                given=facts.base,
                floor=floor,
                figures=Figures(figure=facts.base_figure, p99_us=facts.base_p99_us),
                chosen=winner.arm if winner else None,
            ),
        ),
        servers=facts.server.title,
        workload=facts.workload,
        unit=facts.unit,
        higher_is_better=facts.unit != "s",
        objective=facts.objective,
        against=against,
        blocks=blocks if result.blocks else "",
        arms=tuple(shown),
        compared=tuple(compared),
        control=result.control,
        control_figures=facts.figures.get(CONTROL, Figures()),
        control_p99=result.p99.get(CONTROL),
        guarantees=guarantees,
        warnings=facts.warnings,
        left_out=tuple(_left_out_of_tune(facts)),
        machine=facts.machine,
        others=facts.others,
        data_bytes=facts.data_bytes,
        pool_bytes=facts.pool_bytes,
        redo_bytes=facts.redo_bytes,
        recovery_s=facts.recovery_s,
    )


def _left_out_of_tune(facts: TuneFacts) -> Iterable[LeftOut]:
    result = facts.result
    for rejected in result.rejected:
        yield LeftOut("rejected", rejected.arm, rejected.reason)
    for one in result.excluded:
        became, reason = one.told
        yield LeftOut(became, changes(one.settings), reason)
    for dropped in result.dropped:
        cost = f"dropping it costs {dropped.cost:.1%} ± {dropped.error:.1%} at floor {dropped.floor.value}"
        yield LeftOut("dropped", changes(dropped.settings), cost)
    for lifted in facts.lifted:
        yield LeftOut("raised to the floor", lifted, "your settings were below the floor")


# -- series ----------------------------------------------------------------------------------------------

_OUTCOMES = {
    "refused": "refused",
    "failed": "failed",
    "skipped": "skipped",
    "not_in_version": "not in this version",
}


def _serial(facts: SeriesFacts) -> Found:
    best_of = recommendable if facts.kind == "compare" else proven
    chosen = [best_of(facts, base, arms)[:1] for base, arms in facts.by_server]
    best = next((first[0] for first in chosen if first), None)
    headline, interval, lead = _series_answer(facts, best)
    guarantees = {facts.base_name: facts.base_guarantees}
    for (base, _), first in zip(facts.by_server, chosen, strict=True):
        guarantees |= {arm.name: arm.guarantees for arm in (base, *first)}
    lower = {
        arm.name: facts.floor or base.floor
        for base, arms in facts.by_server
        for arm in arms
        if facts.below_floor(arm, base)
    }
    measured = [arm for arm in facts.arms if arm.comparison is not None]
    by_effect = sorted(measured, key=_strength, reverse=True)
    shown = [best.name] if best else []
    shown += [arm.name for arm in by_effect if arm.name not in shown]
    planned = f" of {facts.planned_blocks}" if facts.blocks < facts.planned_blocks else ""
    return Found(
        title=facts.title,
        headline=headline,
        interval=interval,
        lead=tuple(lead),
        each=tuple(
            OnServer(
                base.server or facts.server,
                base=base.name if base.server else BASE,
                name=base.name,
                given={**facts.base, **base.settings},
                floor=facts.floor or base.verdict,
                figures=Figures(figure=base.figure, p99_us=base.p99_us),
                chosen=first[0].name if first else None,
            )
            for (base, _), first in zip(facts.by_server, chosen, strict=True)
        ),
        servers=", ".join(compare.servers(facts)),
        workload=facts.workload,
        unit=facts.unit,
        higher_is_better=facts.higher_is_better,
        objective=facts.objective,
        ways=tuple(f"{words[0].upper()}{words[1:]}." for words in tune.ways(facts)),
        blocks=f"{facts.blocks}{planned} blocks" if facts.blocks else "",
        arms=tuple(shown),
        compared=tuple(
            Compared(
                arm.name,
                _what(arm),
                arm.comparison,
                _notes(arm, lower.get(arm.name, "")),
                Figures(figure=arm.figure, p99_us=arm.p99_us),
                arm.against,
                arm.is_base,
                p99=arm.p99,
            )
            for arm in measured
            if arm.comparison is not None
        ),
        control=facts.control,
        control_p99=facts.control_p99,
        guarantees=guarantees,
        weaker={
            arm.name: otherwise
            for base, arms in facts.by_server
            for arm in arms
            if (otherwise := changed(arm.guarantees, base.guarantees))
        },
        claims=facts.claims,
        warnings=facts.warnings,
        left_out=tuple(
            LeftOut(
                _OUTCOMES.get(arm.outcome, "no ratio"),
                arm.name,
                arm.reason or "too few blocks for an interval",
            )
            for arm in facts.arms
            if arm.comparison is None
        ),
        machine=facts.machine,
        others=facts.others,
        data_bytes=facts.data_bytes,
        pool_bytes=facts.pool_bytes,
        redo_bytes=facts.redo_bytes,
    )


def _series_answer(facts: SeriesFacts, best: ArmFacts | None) -> tuple[str, str, list[str]]:
    headline, *lead = (compare if facts.kind == "compare" else series).answer(facts).plain.split("\n")
    headline, interval = _split_interval(headline)
    if facts.kind == "compare":
        return headline, interval, [line if line.endswith(".") else f"{line}." for line in lead]
    if best is not None and best.comparison is not None and not best.composed_of:
        what = "The fastest is" if facts.objective == "throughput" else "The lowest p99 latency has"
        lead.append(f"{what} {best.name}: {gain_words(best.comparison.ratio, facts.objective)}.")
    if best is not None and best.floor and best.floor == facts.base_floor:
        lead.append(f"The floor is still {best.verdict}.")
    elif best is not None and best.floor and not best.composed_of:
        lead.append(f"Its floor is {best.verdict}. That of the base is {facts.base_arm.verdict}.")
    if best is not None and best.contract:
        lead.append(f"It changes the service itself: {', '.join(best.contract)}.")
    if best is not None and best.workload:
        lead.append(f"It also changes the workload: {changes(best.workload)}.")
    if facts.claims:
        lead.append(f"Claims: {count_answers(facts.claims)}.")
    if facts.ending != "done":
        lead.append(f"{facts.blocks} of {facts.planned_blocks} blocks were completed.")
    return headline, interval, lead


def count_answers(claims: Sequence[ClaimFacts]) -> str:
    """`3 confirmed, 2 refuted`."""
    counted: Counter[str] = Counter(claim.answer for claim in claims)
    return ", ".join(f"{counted[answer]} {answer}" for answer in ANSWERS if counted[answer])


def _strength(arm: ArmFacts) -> float:
    assert arm.comparison is not None
    ratio = arm.comparison.ratio.estimate
    return max(ratio, 1 / ratio)


def _what(arm: ArmFacts) -> str:
    text = arm.text or changes({**arm.settings, **arm.workload})
    return "" if text.replace(",", "") == arm.name else text


def _notes(arm: ArmFacts, floor: str) -> tuple[str, ...]:
    """What one should know of an arm; `floor` is the one that it is below, if it is."""
    notes = [changes({**arm.settings, **arm.workload})] if arm.text else []
    if arm.data_root:
        notes.append(f"data in {arm.data_root}")
    if arm.disk_iops:
        notes.append(f"disk of {arm.disk_iops} writes/s")
    if arm.disk:
        notes.append(f"emulated disk: {arm.disk}")
    if arm.floor:
        lower = f", below {floor}: not recommended" if floor else ""
        notes.append(f"floor {arm.verdict}{lower}")
    if arm.contract:
        notes.append(f"changes the service: {', '.join(arm.contract)}")
    if arm.no_effect:
        notes.append(f"{NO_BINLOG}: {', '.join(arm.no_effect)}")
    return tuple(note for note in notes if note)


# -- nothing but trials ----------------------------------------------------------------------------------


def _so_far(row: CampaignRow, request: Request | None, trials: Sequence[Trial]) -> Found:
    server = next((trial.server for trial in reversed(trials) if trial.server is not None), None)
    counted = [trial for trial in trials if trial.figure is not None]
    base = [trial.figure for trial in counted if trial.arm.name == BASE and trial.figure]
    stages = Counter(trial.stage for trial in trials)
    mean = statistics.geometric_mean(base) if base else None
    told = ", ".join(f"{count} of the stage {stage}" for stage, count in stages.items())
    shown = f"its trials ({told}) are shown below, but not compared" if trials else "no trial has ended"
    out = {trial.arm.name: trial for trial in trials if trial.outcome in ("refused", "failed", "invalid")}
    failed = next((trial for trial in trials if trial.arm.name == BASE and trial.outcome == "failed"), None)
    headline = "Nothing is proven yet"
    if failed is not None and not base and failed.reason.strip():
        headline = f"The base failed: {failed.reason.strip().splitlines()[0]}"
    return Found(
        title=request.title if isinstance(request, SeriesRequest) else "",
        headline=headline,
        lead=(f"{_standing(row)}; {shown}.",),
        each=(OnServer(server, floor=floor_of(request), figures=Figures(figure=mean)),) if server else (),
        servers=server.title if server else "",
        workload=workload_of(request),
        unit=counted[-1].unit if counted else "",
        higher_is_better=counted[-1].higher_is_better if counted else True,
        arms=tuple(dict.fromkeys(trial.arm.name for trial in counted if trial.arm.name != BASE)),
        left_out=tuple(LeftOut(trial.outcome, name, trial.reason) for name, trial in out.items()),
    )


def _standing(row: CampaignRow) -> str:
    return {
        "running": "It is still running",
        "interrupted": "It was interrupted or killed",
        "failed": "It stopped with an error",
    }.get(row.state, "It ended")


# -- words -----------------------------------------------------------------------------------------------


def changes(settings: Mapping[str, Value]) -> str:
    """Settings as people read them: `sync_binlog=1, innodb_log_buffer_size=64M`."""
    return ", ".join(
        f"{name} = the default" if value is None else f"{name}={tune.spell(value)}"
        for name, value in settings.items()
    )


def _split_interval(headline: str) -> tuple[str, str]:
    text, bracket, rest = headline.rpartition(" [")
    return (text, bracket.strip() + rest) if bracket and rest.endswith("]") else (headline, "")
