"""The stored campaigns as a list: two lines each for people, `flushlab.campaigns/1` for programs. Pure.

Sits in `report`; loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from flushlab.campaign.analysis import too_busy
from flushlab.campaign.facts import CampaignFacts, TuningFacts
from flushlab.errors import StorageError
from flushlab.experiment.protocol import Objective
from flushlab.record import BEST, CrashFacts, Ratio
from flushlab.report.crash import said
from flushlab.report.stored import facts_of, probe_of, request_of
from flushlab.report.words import count_answers
from flushlab.store import CampaignRow
from flushlab.units import counted

SCHEMA = "flushlab.campaigns/1"
WIDTH = 80


class CampaignLine(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    created_at: str
    server: str
    state: str
    trials: int
    answer: str


def lines(rows: Sequence[CampaignRow]) -> list[CampaignLine]:
    return [_line(row) for row in rows]


def as_json(rows: Sequence[CampaignRow]) -> dict[str, Any]:
    return {"schema": SCHEMA, "campaigns": lines(rows)}


def render(rows: Sequence[CampaignRow]) -> str:
    """Fits 80 columns."""
    if not rows:
        return "no campaigns yet\n"
    shown = lines(rows)
    ids = min(max(len(line.id) for line in shown), 34)
    texts = []
    for line in shown:
        when = line.created_at[:16].replace("T", " ")
        texts.append(_fit(f"{line.id:<{ids}}  {when}  {line.server:<16} {counted(line.trials, 'trial')}"))
        texts.append(_fit(f"    {line.kind}, {line.state}: {line.answer}"))
    return "\n".join(texts) + "\n"


def _line(row: CampaignRow) -> CampaignLine:
    request = request_of(row)
    goes_on = row.state == "interrupted" and row.kind != "probe"
    nothing_yet = "nothing is proven yet" + ("; --resume goes on" if goes_on else "")
    server, answer = _told(row) if row.result is not None else ("", nothing_yet)
    return CampaignLine(
        id=row.id,
        kind=row.kind,
        created_at=row.created_at,
        server=server or (request.build if request is not None else ""),
        state=row.state,
        trials=row.trials,
        answer=answer,
    )


def _told(row: CampaignRow) -> tuple[str, str]:
    try:
        if row.kind == "probe":
            probe = probe_of(row)
            return " ".join(filter(None, (probe.medium.filesystem, probe.medium.device))), probe.headline
        if row.kind == "crash":
            return "", said(msgspec.json.decode(row.result or b"", type=CrashFacts))
        facts = facts_of(row)
    except (StorageError, msgspec.DecodeError):
        return "", "stored by another version of flushlab"
    assert facts is not None, "there is a result"
    return facts.server.name, _of_tuning(facts, facts.tuning) if facts.tuning else _of_plan(facts)


def _of_tuning(facts: CampaignFacts, tuning: TuningFacts) -> str:
    if tuning.winner is not None:
        return f"{_ratio(tuning.winner.ratio, facts.objective)} at floor {tuning.winner.floor}"
    if tuning.frontier and (cost := tuning.frontier[0].versus_yours):
        return f"settings below the floor; meeting it costs: {_ratio(cost, facts.objective)}"
    if busy := too_busy(facts.trials, facts.disturbed):
        return busy
    if facts.ending == "done" and not tuning.tried:
        return "nothing was left to try"
    if not facts.blocks:
        return "nothing is proven"
    seen = f" (gains ≥ {tuning.detectable:.1%} were detectable)" if tuning.detectable is not None else ""
    return f"no improvement found{seen}"


def _of_plan(facts: CampaignFacts) -> str:
    faster = [arm for arm in facts.arms if arm.is_faster]
    best = max(faster, key=lambda arm: (arm.name == BEST, arm.strength), default=None)
    told = too_busy(facts.trials, facts.disturbed) or "no arm proved faster"
    if best is not None and best.comparison is not None:
        told = f"{best.name} {_ratio(best.comparison.ratio, facts.objective)}"
    known = [one for one in (facts.plan.claims if facts.plan else ()) if one.answer != "not measured"]
    return f"{told}; claims: {count_answers(known)}" if known else told


def _ratio(ratio: Ratio, objective: Objective) -> str:
    short = {"p99": "p99", "latency": "write latency"}.get(objective)
    what = f" lower {short}" if short else ""
    return f"{ratio.estimate:.2f}×{what} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _fit(text: str) -> str:
    printable = "".join(one if one.isprintable() else "·" for one in text).rstrip()
    return printable if len(printable) <= WIDTH else printable[: WIDTH - 1] + "…"
