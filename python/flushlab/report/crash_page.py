"""The page of a crash campaign: what was measured, as one HTML file that needs nothing else. Pure.

Sits in `report`; its looks and its promises are those of `page`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from flushlab.campaign.crash.request import OF_DISKS, READ
from flushlab.crashed.measured import WHAT
from flushlab.record import CrashFacts
from flushlab.redact import values_without_passwords
from flushlab.report.crash import said, verdict
from flushlab.report.page.crash import sections
from flushlab.report.page.page import Head, page
from flushlab.report.page.parts import Cell, Section, Table, when
from flushlab.report.page.repeat import repeating
from flushlab.store import CampaignRow
from flushlab.workload.parse import flag

_NOT_OF_DISKS = object()


def render(row: CampaignRow, facts: CrashFacts) -> str:
    """The page of a stored crash campaign."""
    headline = said(facts)
    head = Head(
        headline=headline[0].upper() + headline[1:],
        lead=("It was interrupted: this is what was judged until then.",) if facts.ending != "done" else (),
        workload=facts.workload,
        title=f"What is left of {facts.server} after {WHAT[facts.fail]}?",
    )
    shown = [*sections(facts), *_settings(facts), *_doubts(facts), *_repeat(row, facts)]
    return page(row, head, when(row), _keys(facts), shown)


def _keys(facts: CrashFacts) -> Iterator[tuple[str, str]]:
    yield "verdict", verdict(facts).replace("_", " ")
    yield "crashes", f"{sum(len(arm.images) for arm in facts.arms if not arm.control):,}"
    if controls := sum(len(arm.images) for arm in facts.arms if arm.control):
        yield "of the control", f"{controls:,}"
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
    lead = "The server's settings, and what it did during the recording."
    yield Section("settings", "Configurations", lead, tables=(Table(head, (*rows, load)),))


def _doubts(facts: CrashFacts) -> Iterator[Section]:
    if facts.warnings:
        yield Section("doubts", "Doubts", notes=tuple(warning.text for warning in facts.warnings))


def _repeat(row: CampaignRow, facts: CrashFacts) -> Iterator[Section]:
    try:
        plan = values_without_passwords(msgspec.json.decode(row.plan, type=dict[str, Any]))
    except msgspec.DecodeError:
        return
    if plan:
        note = "The same recording gives the same crashes; another run makes another recording."
        yield from repeating(row, [("", command(plan))], facts.sources, facts.workload, [note])


def _words(configurations: Mapping[str, Any] | Sequence[str]) -> Iterator[str]:
    """Configurations as the command line spells them: a name may stand before its settings."""
    if not isinstance(configurations, Mapping):
        yield from map(str, configurations)
        return
    for name, own in configurations.items():
        settings = (
            " ".join(f"{setting}={value}" for setting, value in own.items()) if isinstance(own, dict) else own
        )
        yield f"{name}: {settings}" if settings else name


def command(plan: Mapping[str, Any]) -> str:
    """The command line of a crash campaign, an option a line.

    Args:
        plan: its arguments, as `flushlab.crash` takes them; those that are None need no mention.
    """
    parts = [shlex.quote(one) for one in _words(plan.get("configurations") or ())]
    for name, value in plan.items():
        if name in ("configurations", *READ) or value is None or OF_DISKS.get(name, _NOT_OF_DISKS) == value:
            continue
        if name == "settings":
            parts += [f"--set {shlex.quote(f'{setting}={of}')}" for setting, of in value.items()]
        elif isinstance(value, bool):
            parts.append(f"--{'' if value else 'no-'}{name.replace('_', '-')}")
        else:
            parts.append(f"{flag(name)} {shlex.quote(str(value))}")
    return " \\\n  ".join(["flushlab crash", *parts])
