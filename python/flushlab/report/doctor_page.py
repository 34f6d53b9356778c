"""The page of a diagnosis: the answer, where the writers' time went, each finding. One HTML file that needs
nothing else. Pure.

Sits in `report`; its looks and its promises are those of `page`.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.diagnosis.diagnose import Diagnosis
from flushlab.diagnosis.evidence import WITH_READS
from flushlab.diagnosis.finding import Finding
from flushlab.diagnosis.waits import wait_words
from flushlab.report import doctor_plots
from flushlab.report.doctor import began_words, cost, measured, percent, settings_text
from flushlab.report.doctor_changes import as_text, form_words
from flushlab.report.doctor_host import host_lines
from flushlab.report.doctor_state import state_lines
from flushlab.report.page.page import Foot, page
from flushlab.report.page.parts import Cell, Head, Section, Table, numbers
from flushlab.report.words import FAILURES, rounded
from flushlab.units import format_seconds
from flushlab.version import __version__


def render(diagnosis: Diagnosis) -> str:
    """The page of a diagnosis."""
    evidence = diagnosis.evidence
    first, _, rest = diagnosis.answer.partition(". ")
    doubts = (f"Doubt: {one}." for one in diagnosis.doubts)
    head = Head(
        headline=first.removesuffix("."),
        lead=(*([rest] if rest else []), *doubts),
        workload="",
        title=f"What bounds the writes of {evidence.after.key}?",
        servers=evidence.server,
    )
    sections = [
        *_waits(diagnosis),
        *(section for one in diagnosis.findings for section in _finding(one, diagnosis)),
        *_machine(diagnosis),
        *_guarantees(diagnosis),
        *_not_judged(diagnosis),
    ]
    foot = Foot(evidence.after.key, "doctor", "read-only", __version__)
    return page(foot, head, began_words(diagnosis), _keys(diagnosis), sections)


def _keys(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    evidence = diagnosis.evidence
    yield "from files" if evidence.files else "watched for", format_seconds(evidence.seconds)
    if evidence.time.writers:
        yield "writers", f"{evidence.time.writers:,}"
    if evidence.commits is not None:
        reads = ", reads too" if evidence.commits_by == WITH_READS else ""
        yield f"commits/s{reads}", rounded(evidence.commits)
    yield "samples", f"{evidence.time.samples:,}"
    yield "floor now", diagnosis.floor.partition(",")[0]


def _waits(diagnosis: Diagnosis) -> Iterator[Section]:
    """The writers' time over the window, and commits."""
    evidence, time = diagnosis.evidence, diagnosis.evidence.time
    if not time.writers or not time.is_sample:
        return
    binding = binding_waits(diagnosis)
    stack = doctor_plots.stacking(time, binding)
    rows = []
    for wait in sorted(stack, key=lambda one: -time.connections[one]):
        mean = time.connections[wait]
        marked = "binds" if wait in binding else ""
        rows.append(
            (Cell(wait_words(wait), "name", marked), *numbers(f"{mean:.2f}", percent(mean / time.total)))
        )
    plots = [
        doctor_plots.waits(
            time,
            binding,
            evidence.seconds,
            name="waits",
            title="Writers in each wait over the window, stacked; the table has the means",
        )
    ]
    if rates := evidence.commit_rates:
        plots.append(
            doctor_plots.commits(rates, evidence.seconds, name="commits", title="Commits/s over the window")
        )
    notes = []
    if time.connections.get("row lock"):
        notes.append(
            "Connection states do not show row lock waits. The server's counters give their total for the"
            " window; the plot draws them as a fixed share of executing and of locking reads."
        )
    yield Section(
        "time",
        "Where the writers' time goes",
        "The mean number of writers in a wait is the time spent there per second. A closed loop of writers"
        " is as fast as the sum allows, the client's turn included.",
        plots=tuple(plots),
        legend=tuple((wait_words(wait), doctor_plots.INKS.get(wait, "mute")) for wait in stack),
        tables=(Table((Cell("wait"), Cell("writers", "num"), Cell("of the time", "num")), tuple(rows)),),
        notes=tuple(notes),
    )


def binding_waits(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Those of the finding that the answer names."""
    first = diagnosis.findings[0] if diagnosis.findings else None
    return first.waits if first is not None and first.strength == "binds" else ()


def _finding(found: Finding, diagnosis: Diagnosis) -> Iterator[Section]:
    tables = []
    if found.seen:
        rows = tuple((Cell(one.text), Cell(one.sql, "code" if one.sql else "")) for one in found.seen)
        tables.append(Table((Cell("seen"), Cell("to see it yourself")), rows, stacks=True))
    if found.changes:
        changes = tuple(
            (
                Cell(settings_text(one), "name"),
                Cell(cost(one, diagnosis), "", "; ".join(one.costs)),
            )
            for one in found.changes
        )
        tables.append(Table((Cell("settings"), Cell("costs")), changes, "To try, untested on this server"))
    yield Section(
        found.name.replace("_", "-"),
        found.title[0].upper() + found.title[1:],
        " ".join(filter(None, (measured(found), found.advice))),
        tables=tuple(tables),
        code=tuple(
            (f"{settings_text(one)}: {form_words(diagnosis)}, untested", as_text(one, diagnosis))
            for one in found.changes
        ),
    )


def _machine(diagnosis: Diagnosis) -> Iterator[Section]:
    if (host := diagnosis.evidence.host) is not None:
        yield Section("machine", "The server's machine", notes=tuple(f"{one}." for one in host_lines(host)))
    if lines := tuple(state_lines(diagnosis.state, diagnosis.evidence.identity)):
        yield Section(
            "settings", "Settings, their sources, and restarts", notes=tuple(f"{one}." for one in lines)
        )


def _guarantees(diagnosis: Diagnosis) -> Iterator[Section]:
    rows = tuple(
        (Cell(words), Cell(diagnosis.guarantees[failure]))
        for failure, words in FAILURES.items()
        if failure in diagnosis.guarantees
    )
    if rows:
        lead = "What happens to acknowledged commits in each failure, by the rules for this version."
        yield Section(
            "guarantees",
            "What the server guarantees now",
            lead,
            tables=(Table((Cell("when"), Cell("what is kept")), rows, stacks=True),),
            notes=(f"Floor: {diagnosis.floor}.",),
        )


def _not_judged(diagnosis: Diagnosis) -> Iterator[Section]:
    if diagnosis.not_judged:
        yield Section(
            "not-judged",
            "Not judged",
            notes=tuple(f"{one[0].upper()}{one[1:]}." for one in diagnosis.not_judged),
        )
