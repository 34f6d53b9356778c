"""Section: what a plan claims, answered. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import ClaimFacts
from flushlab.plan.plan import BASE
from flushlab.record import Ratio
from flushlab.report.page.parts import Cell, Section, Subject, Table
from flushlab.report.words import interval, small, times

_ANSWERS = {"confirmed": "good", "refuted": "bad"}


def _measured(claim: ClaimFacts, ratio: Ratio) -> str:
    counts = f" · {small(claim.counts[0])} against {small(claim.counts[1])}" if claim.counts else ""
    return interval(ratio) + counts


def section(subject: Subject) -> Iterator[Section]:
    """What a plan claims, answered."""
    plan = subject.facts.plan if subject.facts is not None else None
    rows = tuple(
        (
            Cell(
                claim.text,
                "",
                (f"{claim.figure}: " if claim.figure else "")
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
        head = (Cell("claim"), Cell("claimed", "num"), Cell("measured", "num"), Cell("answer"))
        lead = (
            "What was claimed of these changes, and what was measured on this server and disk. Refuted: the "
            "interval excludes the claim. No difference: neither faster nor slower by more than 2.5 %. "
            "Undecided: the interval is too wide to tell."
        )
        yield Section("claims", "Claims", lead, tables=(Table(head, rows),))
