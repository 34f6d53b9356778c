"""Section: arms and changes that are not among the results. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import CampaignFacts, TuningFacts
from flushlab.report.page.parts import Cell, Section, Subject, Table
from flushlab.report.words import changes

_OUTCOMES = {"measured": "no ratio", "not_in_version": "not in this version"}


def section(subject: Subject) -> Iterator[Section]:
    """Arms and changes that are not among the results."""
    found = _of_facts(subject.facts) if subject.facts is not None else _of_trials(subject)
    rows = tuple((Cell(what, "name"), Cell(how), Cell(why)) for what, how, why in found)
    if rows:
        head = (Cell("arm or change"), Cell("outcome"), Cell("why"))
        yield Section("left-out", "Not among the results", tables=(Table(head, rows),))


def _of_facts(facts: CampaignFacts) -> Iterator[tuple[str, str, str]]:
    """What it is, what became of it, and why."""
    for arm in facts.arms:
        if arm.comparison is None:
            why = arm.reason or "too few blocks for an interval"
            yield arm.name, _OUTCOMES.get(arm.outcome, arm.outcome), why
    if facts.tuning is not None:
        yield from _of_tuning(facts.tuning)


def _of_tuning(tuning: TuningFacts) -> Iterator[tuple[str, str, str]]:
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
