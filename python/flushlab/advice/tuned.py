"""The files that a tuning hands over: the changes as an option file and statements, the way back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flushlab.advice.option_file import option_file
from flushlab.advice.rollback import persisted_comments, rollback_file, rollback_statements
from flushlab.advice.set_statements import statements_file
from flushlab.advice.verification import verification
from flushlab.campaign.facts import TuneFacts
from flushlab.campaign.request import TuneRequest
from flushlab.crashed.measured import WHAT, measured
from flushlab.experiment.frontier import FrontierPoint
from flushlab.record import Launch, Ratio, Storage, Value
from flushlab.settings.durability import guarantees, keeps, verdict


class TunedFiles(NamedTuple):
    """Texts of `my.cnf`, `settings.sql`, `verify.sql`, `rollback.cnf` and `rollback.sql`."""

    option_file: str
    statements: str
    verification: str
    rollback_file: str
    rollback_statements: str


def tuned_files(
    facts: TuneFacts, request: TuneRequest, before: Mapping[str, Value], storage: Storage, launch: Launch
) -> TunedFiles:
    """The files of what is handed over.

    Args:
        facts: that hand something over.
        request: that led to them.
        before: what a server with the base reported.
        storage, launch: what the guarantees were judged by.
    """
    chosen = facts.handed_over
    assert chosen is not None
    changes = facts.changes(chosen)
    settings = {**request.base, **chosen.settings}
    persisted = persisted_comments(changes, request.persisted, facts.server) if request.external else []
    text = option_file(
        changes,
        request.original,
        facts.server,
        guarantees(settings, facts.server, storage, launch),
        verdict(settings, facts.server, storage, launch),
        reasons=dict.fromkeys(facts.raised, f"Raises your settings to the floor {facts.floor}.")
        | _reasons(chosen, request, facts, storage, launch),
        comments=[*_comments(facts, chosen), *persisted],
        standalone=request.spec.standalone,
    )
    campaign = f"flushlab tune, campaign {facts.campaign_id}"
    own = before if request.external else request.original
    back = rollback_statements(changes, own, before, facts.server)
    return TunedFiles(
        option_file=text,
        statements=statements_file(changes, facts.server),
        verification=verification(changes, facts.server),
        rollback_file=rollback_file(changes, own, before, facts.server, comments=[campaign]),
        rollback_statements=_lines([f"-- {campaign}: back to what was there", *back]),
    )


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _reasons(
    chosen: FrontierPoint, request: TuneRequest, facts: TuneFacts, storage: Storage, launch: Launch
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


def _comments(facts: TuneFacts, chosen: FrontierPoint) -> list[str]:
    control = facts.result.control
    lines = [f"flushlab tune, campaign {facts.campaign_id}: {facts.workload}"]
    if facts.raised:
        lines.append(f"Your settings do not meet {facts.floor}; these lines do.")
        if chosen.versus_yours is None:
            lines.append("What meeting it costs was not measured.")
        else:
            lines.append(_measured(facts, chosen.versus_yours, "your settings as they are") + ".")
    if chosen.settings:
        free = f"{chosen.free_ratio.estimate:.2f}x" if chosen.free_ratio else "not measured"
        against = f"your settings raised to {facts.floor}" if facts.raised else "the base"
        lines.append(f"{_measured(facts, chosen.ratio, against)}; free part {free}.")
    if control is not None:
        lines.append(f"Control (the base again): {control.ratio.low:.2f} to {control.ratio.high:.2f}.")
    crashed = [] if facts.crash is None else [arm for arm in facts.crash.arms if arm.name == chosen.arm]
    lines += [
        f"Crashed {len(arm.images)} times, {WHAT[facts.crash.fail]}: {'; '.join(measured(arm))}."
        for arm in crashed
        if facts.crash is not None
    ]
    for dropped in facts.result.dropped:
        if dropped.floor is chosen.floor:
            change = ", ".join(f"{name} = {value}" for name, value in dropped.settings.items())
            cost = f"{dropped.cost:.1%}, standard error {dropped.error:.1%}"
            lines.append(f"Left out, because it gains too little ({cost}): {change}.")
    lines += [f"Doubt: {warning.text.removesuffix('.')}." for warning in facts.warnings]
    return lines


def _measured(facts: TuneFacts, ratio: Ratio, against: str) -> str:
    gain, blocks = f"{ratio.estimate:.2f}x", f"{facts.result.blocks} blocks"
    what = f"{gain} lower p99 latency than {against}" if facts.objective == "p99" else f"{gain} {against}"
    return f"Measured: {what}, interval {ratio.low:.2f} to {ratio.high:.2f}, {blocks}"
