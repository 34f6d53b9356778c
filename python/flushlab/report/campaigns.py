"""The stored campaigns as a list: two lines each for people, `flushlab.campaigns/1` for programs. Pure.

Sits in `report`. Reads no more of a result than its one line needs, and loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flushlab.campaign.facts import ANSWERS
from flushlab.campaign.warnings import too_busy
from flushlab.experiment.objective import Objective
from flushlab.record import CrashFacts, Ratio
from flushlab.report.crash import said
from flushlab.report.stored import request_of
from flushlab.store import CampaignRow
from flushlab.units import counted

SCHEMA = "flushlab.campaigns/1"
WIDTH = 80


class _Compared(msgspec.Struct, frozen=True):
    ratio: Ratio
    verdict: str = ""


class _Point(msgspec.Struct, frozen=True):
    floor: str
    ratio: Ratio
    versus_yours: Ratio | None = None


class _Tuned(msgspec.Struct, frozen=True):
    winner: _Point | None = None
    frontier: tuple[_Point, ...] = ()
    detectable: float | None = None
    tried: int = 0


class _Arm(msgspec.Struct, frozen=True):
    name: str
    comparison: _Compared | None = None


class _Claim(msgspec.Struct, frozen=True):
    answer: str


class _Plan(msgspec.Struct, frozen=True):
    claims: tuple[_Claim, ...] = ()


class _Server(msgspec.Struct, frozen=True):
    flavor: str
    version: tuple[int, ...]


class _Medium(msgspec.Struct, frozen=True):
    filesystem: str
    device: str | None = None


class _Summary(msgspec.Struct, frozen=True):
    """As much of CampaignFacts and ProbeRecord as a line shows."""

    server: _Server | None = None
    objective: Objective = "throughput"
    tuning: _Tuned | None = None
    plan: _Plan | None = None
    arms: tuple[_Arm, ...] = ()
    blocks: int = 0
    ending: str = ""
    medium: _Medium | None = None
    headline: str = ""
    trials: int = 0
    disturbed: int = 0


_DECODER = msgspec.json.Decoder(_Summary)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign of the list.

    Attributes:
        id, kind, created_at, state: as stored.
        server: `mariadb@10.11.19`; of a probe the file system and its device.
        trials: number of trials saved.
        answer: what it concluded, in a few words.
    """

    id: str
    kind: str
    created_at: str
    server: str
    state: str
    trials: int
    answer: str


def lines(rows: Sequence[CampaignRow]) -> list[Line]:
    """The list, in the order of the rows."""
    return [_line(row) for row in rows]


def document(rows: Sequence[CampaignRow]) -> dict[str, Any]:
    """The JSON document."""
    return {"schema": SCHEMA, "campaigns": lines(rows)}


def render(rows: Sequence[CampaignRow]) -> str:
    """What a person reads; fits 80 columns."""
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


def _line(row: CampaignRow) -> Line:
    try:
        summary = _DECODER.decode(row.result) if row.result is not None else _Summary()
    except msgspec.DecodeError:
        summary = _Summary()
    server, medium = summary.server, summary.medium
    name = f"{server.flavor}@{'.'.join(map(str, server.version))}" if server else _build(row)
    if medium is not None:
        name = " ".join(filter(None, (medium.filesystem, medium.device)))
    return Line(
        id=row.id,
        kind=row.kind,
        created_at=row.created_at,
        server=name,
        state=row.state,
        trials=row.trials,
        answer=_answer(row, summary),
    )


def _build(row: CampaignRow) -> str:
    """The build that it was asked for on; empty where another version of flushlab stored it."""
    request = request_of(row)
    return request.build if request is not None else ""


def _answer(row: CampaignRow, summary: _Summary) -> str:
    if row.result is None:
        goes_on = row.state == "interrupted" and row.kind != "probe"
        return "nothing is proven yet" + ("; --resume goes on" if goes_on else "")
    if row.kind == "probe":
        return summary.headline
    if row.kind == "crash":
        return _crash(row.result)
    if row.kind in ("series", "compare"):
        return _series(summary)
    result = summary.tuning
    if result is not None and result.winner is not None:
        return f"{_ratio(result.winner.ratio, summary.objective)} at floor {result.winner.floor}"
    if result is not None and result.frontier and (cost := result.frontier[0].versus_yours):
        return f"settings below the floor; meeting it costs: {_ratio(cost, summary.objective)}"
    if busy := too_busy(summary.trials, summary.disturbed):
        return busy
    if result is not None and summary.ending == "done" and not result.tried:
        return "nothing was left to try"
    if result is None or not summary.blocks:
        return "nothing is proven"
    seen = f" (gains ≥ {result.detectable:.1%} were detectable)" if result.detectable is not None else ""
    return f"no improvement found{seen}"


def _crash(result: bytes) -> str:
    try:
        return said(msgspec.json.decode(result, type=CrashFacts))
    except msgspec.DecodeError:
        return "stored by another version of flushlab"


def _series(summary: _Summary) -> str:
    faster = [
        arm for arm in summary.arms if arm.comparison is not None and arm.comparison.verdict == "faster"
    ]
    best = max(faster, key=lambda arm: (arm.name == "best", _estimate(arm)), default=None)
    if best is not None and best.comparison is not None:
        parts = [f"{best.name} {_ratio(best.comparison.ratio, summary.objective)}"]
    else:
        parts = [too_busy(summary.trials, summary.disturbed) or "no arm proved faster"]
    counted: Mapping[str, int] = {
        answer: sum(claim.answer == answer for claim in (summary.plan.claims if summary.plan else ()))
        for answer in ANSWERS
        if answer != "not measured"
    }
    claims = ", ".join(f"{count} {answer}" for answer, count in counted.items() if count)
    return "; claims: ".join([*parts, claims] if claims else parts)


def _estimate(arm: _Arm) -> float:
    return arm.comparison.ratio.estimate if arm.comparison is not None else 0.0


def _ratio(ratio: Ratio, objective: Objective) -> str:
    what = " lower p99" if objective == "p99" else ""
    return f"{ratio.estimate:.2f}×{what} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _fit(text: str) -> str:
    printable = "".join(one if one.isprintable() else "·" for one in text).rstrip()
    return printable if len(printable) <= WIDTH else printable[: WIDTH - 1] + "…"
