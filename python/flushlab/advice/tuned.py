"""The files that a tuning hands over: its winner as an option file and statements, and the way back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flushlab.advice.option_file import option_file
from flushlab.advice.rollback import rollback_file, rollback_statements
from flushlab.advice.set_statements import statements_file
from flushlab.advice.verification import verification
from flushlab.campaign.facts import TuneFacts
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.running_server import HONEST
from flushlab.crashed.measured import WHAT, measured
from flushlab.experiment.frontier import FrontierPoint
from flushlab.record import Launch, Storage, Value
from flushlab.settings.durability import guarantees, keeps


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
    """The winner's files.

    Args:
        facts: with a winner.
        request: that led to them.
        before: what a server with the base reported.
        storage, launch: what the guarantees were judged by.
    """
    winner = facts.result.winner
    assert winner is not None
    storage = HONEST if request.external else storage
    changes = {**_lifted(request), **winner.settings}
    settings = {**request.base, **winner.settings}
    text = option_file(
        changes,
        request.original,
        facts.server,
        guarantees(settings, facts.server, storage, launch),
        reasons=_reasons(winner, request, facts, storage, launch),
        comments=_comments(facts, winner),
        standalone=request.standalone,
    )
    campaign = f"flushlab tune, campaign {facts.campaign_id}"
    back = rollback_statements(changes, request.original, before, facts.server)
    return TunedFiles(
        option_file=text,
        statements=statements_file(changes, facts.server),
        verification=verification(changes, facts.server),
        rollback_file=rollback_file(changes, request.original, before, facts.server, comments=[campaign]),
        rollback_statements=_lines([f"-- {campaign}: back to what was there", *back]),
    )


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _lifted(request: TuneRequest) -> dict[str, int | float | str]:
    """What brings the user's settings up to the floor; what was only scaled to this machine stays."""
    scaled = {one.name for one in request.scaled}
    return {
        name: value
        for name, value in request.base.items()
        if name not in scaled and request.original.get(name) != value
    }


def _reasons(
    winner: FrontierPoint, request: TuneRequest, facts: TuneFacts, storage: Storage, launch: Launch
) -> dict[str, str]:
    """What each change was measured to give, where the confirmation tells it apart from the others."""
    ratio, free = winner.ratio, winner.free_ratio
    if len(winner.settings) == 1:
        (name,) = winner.settings
        return {name: f"Alone it gives {ratio.estimate:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})."}
    reference = guarantees(request.base, facts.server, storage, launch)
    bought = [
        name
        for name, value in winner.settings.items()
        if not keeps(guarantees({**request.base, name: value}, facts.server, storage, launch), reference)
    ]
    if not bought or free is None:
        return {}
    what = "it" if len(bought) == 1 else f"{' and '.join(bought)}"
    left = f"{free.estimate:.2f}x ({free.low:.2f} to {free.high:.2f})"
    reasons = dict.fromkeys(bought, f"Without {what}: {left} instead of {ratio.estimate:.2f}x.")
    others = f"Weakens no guarantee; such changes alone give {left}."
    return reasons | {name: others for name in winner.settings if name not in bought}


def _comments(facts: TuneFacts, winner: FrontierPoint) -> list[str]:
    ratio, control = winner.ratio, facts.result.control
    gain = f"{ratio.estimate:.2f}x"
    what = f"p99 {gain} lower than the base's" if facts.objective == "p99" else f"{gain} the base"
    free = f"{winner.free_ratio.estimate:.2f}x" if winner.free_ratio else "not measured"
    lines = [
        f"flushlab tune, campaign {facts.campaign_id}: {facts.workload}",
        f"Measured: {what}, interval {ratio.low:.2f} to {ratio.high:.2f},"
        f" {facts.result.blocks} blocks; free part {free}.",
    ]
    if control is not None:
        lines.append(f"Control (the base again): {control.ratio.low:.2f} to {control.ratio.high:.2f}.")
    if facts.crash is not None:
        arm = next(one for one in facts.crash.arms if one.name == winner.arm)
        lines.append(
            f"Crashed {len(arm.images)} times, {WHAT[facts.crash.fail]}: {'; '.join(measured(arm))}."
        )
    for dropped in facts.result.dropped:
        if dropped.floor is winner.floor:
            change = ", ".join(f"{name} = {value}" for name, value in dropped.settings.items())
            cost = f"{dropped.cost:.1%}, standard error {dropped.error:.1%}"
            lines.append(f"Left out, because it gains too little ({cost}): {change}.")
    lines += [f"Doubt: {warning.text.removesuffix('.')}." for warning in facts.warnings]
    return lines
