"""Section of the machines of a fleet: each arm's ratio on every one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flushlab.campaign.facts import CampaignFacts
from flushlab.record import OverMachines
from flushlab.report.machines import of_machine, rows, who_ran
from flushlab.report.page.parts import Cell, Section, Subject, Table, numbers
from flushlab.report.words import interval, rounded, times
from flushlab.units import counted

COLUMNS = 6
"""Machines beside each other in one table."""

_KINDS = {"faster": "good", "slower": "bad"}


def section(subject: Subject) -> Iterator[Section]:
    """Arms by machines, with the share of the variance that is between machines."""
    facts = subject.facts
    if facts is None or not (found := rows(facts)):
        return
    names = [one.name for one in facts.machines if one.compared]
    lead = (
        f"{who_ran(facts)}. A block runs on one machine, so no ratio"
        " compares machines. These intervals are each machine's own and hold together with 95 % probability."
    )
    tables = [_table(facts, found, names[first : first + COLUMNS]) for first in range(0, len(names), COLUMNS)]
    unstable = [name for name, over in found if over.unstable]
    notes = (f"The ratio depends on the machine: {', '.join(unstable)}.",) if unstable else ()
    yield Section("machines", "On each machine", lead, tables=(*tables, _variance(found)), notes=notes)


def _table(facts: CampaignFacts, found: Sequence[tuple[str, OverMachines]], names: Sequence[str]) -> Table:
    results = {one.name: one for one in facts.machines}
    head = (Cell("arm"), *numbers(*names))
    body = [(Cell(name, "name"), *(_cell(over, machine) for machine in names)) for name, over in found]
    base = [
        Cell(rounded(results[name].result), "num mute", counted(results[name].blocks, "block"))
        for name in names
    ]
    return Table(head, (*body, (Cell(facts.base.name, "name", facts.unit), *base)))


def _cell(over: OverMachines, machine: str) -> Cell:
    found = of_machine(over, machine)
    if found is None:
        return Cell("", "num")
    kind = _KINDS.get(found.ratio.verdict, "mute")
    return Cell(times(found.ratio.estimate), f"num {kind}", interval(found.ratio))


def _variance(found: Sequence[tuple[str, OverMachines]]) -> Table:
    head = (Cell("arm"), Cell("least gain on"), *numbers("ratio", "variance between machines"))
    body = tuple(
        (
            Cell(name, "name", "depends on the machine" if over.unstable else ""),
            Cell(over.slowest.machine),
            *numbers(times(over.slowest.ratio.estimate), f"{over.between_share:.0%}"),
        )
        for name, over in found
    )
    return Table(head, body)
