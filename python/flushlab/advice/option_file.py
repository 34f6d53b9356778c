"""Option files that hand over a change: only what differs from the base, each line with its reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.advice.statements import persisted_comments
from flushlab.campaign.facts import CampaignFacts, TuningFacts
from flushlab.campaign.recommended import cost_lines, costs, kept_lines
from flushlab.campaign.request import TuneRequest
from flushlab.crashed.measured import WHAT, measured
from flushlab.experiment.protocol import LATENCIES
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import Launch, Ratio, ServerIdentity, Storage, Value
from flushlab.settings.catalog import Catalog, load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import Guarantees, Verdict, describe, guarantees, keeps, verdict
from flushlab.settings.floor import Floor
from flushlab.settings.optionfile import render


def option_file(
    settings: Mapping[str, Value],
    base: Mapping[str, Value],
    identity: ServerIdentity,
    guarantees: Guarantees,
    meets: Verdict,
    *,
    reasons: Mapping[str, str] | None = None,
    comments: Sequence[str] = (),
    no_replicas: bool = False,
) -> str:
    """The option file that turns the base into these settings.

    Args:
        settings: the whole configuration, or only its changes.
        base: what the server runs with now; equal values are left out.
        meets: the floor that it meets, and on which disk.
        reasons: for a setting: why, or what dropping it was measured to cost; shown above its line.
        comments: lines for the top (for example the source of the numbers).
        no_replicas: there are no replicas: says nothing about them.

    Raises:
        UnknownSetting, ValueOutOfRange: a setting that this server would not take.
    """
    catalog = load_catalog()
    changed = _changed(settings, base, identity)
    words = describe(guarantees)
    if no_replicas or guarantees.replication.level not in ("may_diverge", "unknown"):
        del words["replication"]
    header = [
        *comments,
        f"Server: {identity.name}. Durability floor that this meets: {meets}.",
        *kept_lines(words),
    ]
    above = {name: _comment(name, catalog, (reasons or {}).get(name)) for name in changed}
    return render(changed, identity, catalog, header=header, comments=above)


def _changed(
    settings: Mapping[str, Value], base: Mapping[str, Value], identity: ServerIdentity
) -> dict[str, Value]:
    same = Configuration(base, identity).same
    return {
        name: value
        for name, value in settings.items()
        if name not in base or not same(name, value, base[name])
    }


def _comment(name: str, catalog: Catalog, reason: str | None) -> list[str]:
    effect = [catalog.setting(name).effect] if name in catalog else []
    return [*effect, *([reason] if reason else [])]


def tuned_option_file(facts: CampaignFacts, request: TuneRequest, storage: Storage, launch: Launch) -> str:
    """`my.cnf` with what a tuning hands over: each line with its reason and what it was measured to give.

    Args:
        storage, launch: what the guarantees were judged by.
    """
    chosen, tuning = facts.handed_over, facts.tuning
    assert chosen is not None and tuning is not None
    settings = {**request.base, **chosen.settings}
    changes = tuning.changes(chosen)
    remote = bool(request.spec.remote.place)
    persisted = persisted_comments(changes, request.persisted, facts.server) if remote else []
    return option_file(
        changes,
        request.original,
        facts.server,
        guarantees(settings, facts.server, storage, launch),
        verdict(settings, facts.server, storage, launch),
        reasons=dict.fromkeys(tuning.raised, f"Raises your settings to the floor {facts.raised_to}.")
        | _reasons(chosen, request, facts, storage, launch),
        comments=[*_comments(facts, tuning, chosen), *persisted],
        no_replicas=request.spec.no_replicas,
    )


def _reasons(
    chosen: FrontierPoint, request: TuneRequest, facts: CampaignFacts, storage: Storage, launch: Launch
) -> dict[str, str]:
    """What each change was measured to give, where the confirmation tells it apart from the others."""
    ratio, free = chosen.ratio, chosen.free_ratio
    if len(chosen.settings) == 1:
        (name,) = chosen.settings
        return {name: f"Alone it gives {ratio.estimate:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})."}
    reference = guarantees(request.base, facts.server, storage, launch)
    bought = [
        name
        for name, value in chosen.settings.items()
        if not keeps(guarantees({**request.base, name: value}, facts.server, storage, launch), reference)
    ]
    if not bought or free is None:
        return {}
    what = "it" if len(bought) == 1 else f"{' and '.join(bought)}"
    left = f"{free.estimate:.2f}x ({free.low:.2f} to {free.high:.2f})"
    reasons = dict.fromkeys(bought, f"Without {what}: {left} instead of {ratio.estimate:.2f}x.")
    others = f"Weakens no guarantee; such changes alone give {left}."
    return reasons | {name: others for name in chosen.settings if name not in bought}


def _comments(facts: CampaignFacts, tuning: TuningFacts, chosen: FrontierPoint) -> list[str]:
    lines = [f"flushlab tune, campaign {facts.campaign_id}: {facts.workload}"]
    if tuning.raised:
        met = chosen.floor.at_least(Floor(facts.raised_to))
        do = "these lines do" if met else f"these lines meet {chosen.floor}"
        lines.append(f"Your settings do not meet {facts.raised_to}; {do}.")
        if chosen.versus_yours is None:
            lines.append("What meeting it costs was not measured.")
        else:
            lines.append(_measured(facts, chosen, chosen.versus_yours, "your settings as they are") + ".")
    if chosen.settings:
        free = f"{chosen.free_ratio.estimate:.2f}x" if chosen.free_ratio else "not measured"
        against = f"your settings raised to {facts.raised_to}" if tuning.raised else "the base"
        lines.append(f"{_measured(facts, chosen, chosen.ratio, against)}; without durability loss: {free}.")
    lines += cost_lines(costs(facts.arm(chosen.arm).guarantees, facts.base.guarantees))
    if facts.control is not None and facts.control.comparison is not None:
        again = facts.control.comparison.ratio
        lines.append(f"A/A control (the base again): {again.low:.2f} to {again.high:.2f}.")
    crashed = [] if facts.crash is None else [arm for arm in facts.crash.arms if arm.name == chosen.arm]
    lines += [
        f"Crashed {len(arm.crashes)} times, {WHAT[facts.crash.failure]}: {'; '.join(measured(arm))}."
        for arm in crashed
        if facts.crash is not None
    ]
    for dropped in tuning.dropped:
        if dropped.floor is chosen.floor:
            change = ", ".join(f"{name} = {value}" for name, value in dropped.settings.items())
            cost = f"{dropped.cost:.1%}, standard error {dropped.error:.1%}"
            lines.append(f"Left out, because it gains too little ({cost}): {change}.")
    lines += [f"Caveat: {warning.text.removesuffix('.')}." for warning in facts.warnings]
    return lines


def _measured(facts: CampaignFacts, chosen: FrontierPoint, ratio: Ratio, against: str) -> str:
    count = chosen.comparison.blocks if chosen.comparison is not None else facts.blocks
    gain, blocks = f"{ratio.estimate:.2f}x", f"{count} blocks"
    latency = LATENCIES.get(facts.objective)
    what = f"{gain} lower {latency} than {against}" if latency else f"{gain} {against}"
    return f"Measured: {what}, interval {ratio.low:.2f} to {ratio.high:.2f}, {blocks}"
