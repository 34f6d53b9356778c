"""The files that a tuning hands over: its winner as an option file and as statements. Pure."""

from __future__ import annotations

from typing import NamedTuple

from flushlab.advice.option_file import option_file
from flushlab.advice.set_statements import set_statements
from flushlab.campaign.facts import TuneFacts
from flushlab.campaign.request import TuneRequest
from flushlab.experiment.frontier import FrontierPoint
from flushlab.record import Launch, Storage
from flushlab.settings.durability import guarantees


class TunedFiles(NamedTuple):
    """Texts of `my.cnf` and `settings.sql`."""

    option_file: str
    statements: str


def tuned_files(facts: TuneFacts, request: TuneRequest, storage: Storage, launch: Launch) -> TunedFiles:
    """The winner's files.

    Args:
        facts: with a winner.
        request: that led to them.
        storage, launch: what the guarantees were judged by.
    """
    winner = facts.result.winner
    assert winner is not None
    changes = {**_lifted(request), **winner.settings}
    settings = {**request.base, **winner.settings}
    text = option_file(
        changes,
        request.original,
        facts.server,
        guarantees(settings, facts.server, storage, launch),
        reasons={},
        comments=_comments(facts, winner),
        standalone=request.standalone,
    )
    return TunedFiles(text, "\n".join(set_statements(changes, facts.server)) + "\n")


def _lifted(request: TuneRequest) -> dict[str, int | float | str]:
    return {name: value for name, value in request.base.items() if request.original.get(name) != value}


def _comments(facts: TuneFacts, winner: FrontierPoint) -> list[str]:
    ratio, control = winner.ratio, facts.result.control
    lines = [
        f"flushlab tune, campaign {facts.campaign_id}: {facts.workload}",
        f"Measured: {ratio.estimate:.2f}x the base, interval {ratio.low:.2f} to {ratio.high:.2f},"
        f" {facts.result.blocks} blocks; free part {winner.free_ratio.estimate:.2f}x.",
    ]
    if control is not None:
        lines.append(f"Control (the base again): {control.ratio.low:.2f} to {control.ratio.high:.2f}.")
    lines += [f"Doubt: {warning.text}." for warning in facts.warnings]
    return lines
