"""The page of a crash campaign: what was measured, as one HTML file that needs nothing else. Pure.

Sits in `report`; its looks and its promises are those of `page`.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.crashed.measured import WHAT
from flushlab.record import CrashFacts
from flushlab.report.crash import said, verdict
from flushlab.report.page.about import repeating
from flushlab.report.page.crash import sections
from flushlab.report.page.page import page
from flushlab.report.page.parts import Cell, Head, Section, Table, when
from flushlab.report.stored import request_of
from flushlab.store import CampaignRow


def render(row: CampaignRow, facts: CrashFacts) -> str:
    """The page of a stored crash campaign."""
    headline = said(facts)
    head = Head(
        headline=headline[0].upper() + headline[1:],
        lead=("It was interrupted: this is what was judged until then.",) if facts.ending != "done" else (),
        workload=facts.workload,
        title=f"What is left of {facts.server} after {WHAT[facts.failure]}?",
    )
    shown = [*sections(facts), *_settings(facts), *_warnings(facts), *_repeat(row, facts)]
    return page(row, head, when(row), _keys(facts), shown)


def _keys(facts: CrashFacts) -> Iterator[tuple[str, str]]:
    yield "verdict", verdict(facts).replace("_", " ")
    yield "crashes", f"{sum(len(arm.crashes) for arm in facts.arms if not arm.positive_control):,}"
    if controls := sum(len(arm.crashes) for arm in facts.arms if arm.positive_control):
        yield "of the positive control", f"{controls:,}"
    if facts.fs:
        yield "file system", facts.fs


def _settings(facts: CrashFacts) -> Iterator[Section]:
    """What was set, a column for each configuration."""
    names = dict.fromkeys(name for arm in facts.arms for name in arm.settings)
    rates = (f"{arm.commits_per_s:,.0f} commits/s" if arm.commits_per_s else "" for arm in facts.arms)
    load = Cell("load", "name"), *(Cell(rate) for rate in rates)
    rows = [
        (Cell(name, "code"), *(Cell(str(arm.settings.get(name, "")), "code") for arm in facts.arms))
        for name in names
    ]
    head = (Cell("setting"), *(Cell(arm.name) for arm in facts.arms))
    during = "before it was killed" if facts.failure == "process" else "during the recording"
    lead = f"The server's settings, and what it did {during}."
    yield Section("settings", "Configurations", lead, tables=(Table(head, (*rows, load)),))


def _warnings(facts: CrashFacts) -> Iterator[Section]:
    if facts.warnings:
        yield Section("warnings", "Warnings", notes=tuple(warning.text for warning in facts.warnings))


def _repeat(row: CampaignRow, facts: CrashFacts) -> Iterator[Section]:
    note = "The same recording gives the same crashes; another run makes another recording."
    yield from repeating(row, request_of(row), *([] if facts.failure == "process" else [note]))
