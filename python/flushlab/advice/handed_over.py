"""What a campaign hands over for each server: option file, statements, the way back, a check. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from flushlab.advice.statements import (
    persisted_comments,
    rollback_file,
    rollback_statements,
    statements_file,
    verification,
)
from flushlab.campaign.facts import CampaignFacts, TuningFacts
from flushlab.campaign.recommended import Recommended, cost_lines, kept_lines, recommended
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.crashed.measured import WHAT, measured
from flushlab.experiment.protocol import LATENCIES
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import BASE, Ratio, ServerIdentity, Trial, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.durability import FLOOR, guarantees, keeps
from flushlab.settings.floor import Floor
from flushlab.settings.optionfile import render


class Advice(NamedTuple):
    recommended: Recommended
    files: Mapping[str, str] = {}


def advised(
    facts: CampaignFacts | None, request: TuneRequest | SeriesRequest | None, trials: Sequence[Trial]
) -> tuple[Advice, ...]:
    found = recommended(facts) if facts is not None else ()
    return tuple(Advice(one, _files(one, facts, request, trials)) for one in found if facts is not None)


def _files(
    one: Recommended,
    facts: CampaignFacts,
    request: TuneRequest | SeriesRequest | None,
    trials: Sequence[Trial],
) -> dict[str, str]:
    if not one.has_files:
        return {}
    own, before = own_settings(request, one.base_arm), before_change(trials, one.base_arm)
    is_seen = request is not None and any(source.kind == "option file" for source in request.sources)
    header = one.comments
    reasons: Mapping[str, str] = {}
    if isinstance(request, TuneRequest) and facts.handed_over is not None and facts.tuning is not None:
        header = tuple(
            _header(one, facts, facts.tuning, facts.handed_over, no_replicas=request.spec.no_replicas)
        )
        reasons = _reasons(facts, facts.tuning, facts.handed_over, request, trials)
    if request is not None and request.spec.remote.place:
        own, header = before, (*header, *persisted_comments(one.settings, request.persisted, one.server))
    elif not is_seen:
        own = {**before, **own}
    back = (one.settings, own, before, one.server)
    origin = one.comments[0]
    return {
        "my.cnf": option_file(one.settings, one.server, header, reasons),
        "settings.sql": "".join(f"-- {line}\n" for line in one.comments)
        + statements_file(one.settings, one.server),
        "verify.sql": verification(one.settings, one.server),
        "rollback.cnf": rollback_file(*back, is_seen=is_seen, comments=(origin,)),
        "rollback.sql": "\n".join([f"-- {origin}: back to what was there", *rollback_statements(*back)])
        + "\n",
    }


def own_settings(request: TuneRequest | SeriesRequest | None, base: str = BASE) -> Mapping[str, Value]:
    if isinstance(request, TuneRequest):
        return request.original
    if request is None:
        return {}
    return next((arm.settings for arm in request.arms if arm.name == base), request.base.settings)


def before_change(trials: Iterable[Trial], base: str = BASE) -> Mapping[str, Value]:
    return next((trial.settings for trial in trials if trial.arm.name == base and trial.settings), {})


def option_file(
    settings: Mapping[str, Value], server: ServerIdentity, header: Sequence[str], reasons: Mapping[str, str]
) -> str:
    catalog = load_catalog()
    above = {
        name: [
            *([catalog.setting(name).effect] if name in catalog else []),
            *([reasons[name]] if name in reasons else []),
        ]
        for name in settings
    }
    return render(settings, server, header=header, comments=above)


def _reasons(
    facts: CampaignFacts,
    tuning: TuningFacts,
    chosen: FrontierPoint,
    request: TuneRequest,
    trials: Sequence[Trial],
) -> dict[str, str]:
    raised = dict.fromkeys(tuning.raised, f"Raises your settings to the floor {facts.raised_to}.")
    ratio, free = chosen.ratio, chosen.free_ratio
    if len(chosen.settings) == 1:
        alone = f"Alone it gives {ratio.estimate:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})."
        return raised | dict.fromkeys(chosen.settings, alone)
    ran = next((trial for trial in trials if trial.storage and trial.launch), None)
    if ran is None or ran.storage is None or ran.launch is None or free is None:
        return raised
    where = facts.server, ran.storage, ran.launch
    reference = guarantees(request.base, *where)
    bought = [
        name
        for name, value in chosen.settings.items()
        if not keeps(guarantees({**request.base, name: value}, *where), reference)
    ]
    if not bought:
        return raised
    what = "it" if len(bought) == 1 else " and ".join(bought)
    left = f"{free.estimate:.2f}x ({free.low:.2f} to {free.high:.2f})"
    others = f"Weakens no guarantee; such changes alone give {left}."
    reasons = dict.fromkeys(bought, f"Without {what}: {left} instead of {ratio.estimate:.2f}x.")
    return raised | {name: reasons.get(name, others) for name in chosen.settings}


def _header(
    one: Recommended, facts: CampaignFacts, tuning: TuningFacts, chosen: FrontierPoint, *, no_replicas: bool
) -> Iterator[str]:
    yield f"flushlab tune, campaign {facts.campaign_id}: {facts.workload}"
    if tuning.raised:
        met = chosen.floor.at_least(Floor(facts.raised_to))
        do = "these lines do" if met else f"these lines meet {chosen.floor}"
        yield f"Your settings do not meet {facts.raised_to}; {do}."
        if chosen.versus_yours is None:
            yield "What meeting it costs was not measured."
        else:
            yield _gain(facts, chosen, chosen.versus_yours, "your settings as they are") + "."
    if chosen.settings:
        free = f"{chosen.free_ratio.estimate:.2f}x" if chosen.free_ratio else "not measured"
        against = f"your settings raised to {facts.raised_to}" if tuning.raised else "the base"
        yield f"{_gain(facts, chosen, chosen.ratio, against)}; without durability loss: {free}."
    yield from cost_lines(one.costs)
    if facts.control is not None and facts.control.comparison is not None:
        again = facts.control.comparison.ratio
        yield f"A/A control (the base again): {again.low:.2f} to {again.high:.2f}."
    for arm in facts.crash.arms if facts.crash is not None else ():
        if facts.crash is not None and arm.name == chosen.arm:
            times = f"Crashed {len(arm.crashes)} times, {WHAT[facts.crash.failure]}"
            yield f"{times}: {'; '.join(measured(arm))}."
    for dropped in tuning.dropped:
        if dropped.floor is chosen.floor:
            change = ", ".join(f"{name} = {value}" for name, value in dropped.settings.items())
            cost = f"{dropped.cost:.1%}, standard error {dropped.error:.1%}"
            yield f"Left out, because it gains too little ({cost}): {change}."
    yield from one.not_shown
    meets = one.guarantees.get(FLOOR, one.floor)
    yield f"Server: {one.server.name}. Durability floor that this meets: {meets}."
    skipped = "replication" if no_replicas else ""
    yield from kept_lines({name: text for name, text in one.guarantees.items() if name != skipped})


def _gain(facts: CampaignFacts, chosen: FrontierPoint, ratio: Ratio, against: str) -> str:
    count = chosen.comparison.blocks if chosen.comparison is not None else facts.blocks
    gain, latency = f"{ratio.estimate:.2f}x", LATENCIES.get(facts.objective)
    what = f"{gain} lower {latency} than {against}" if latency else f"{gain} {against}"
    return f"Measured: {what}, interval {ratio.low:.2f} to {ratio.high:.2f}, {count} blocks"
