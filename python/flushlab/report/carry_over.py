"""What of a result carries over to another server, what does not, and what to do there. Pure.

Sits in `report`; terminal, JSON and page show the same lines, of a tuning and of a series.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Literal

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import IF_LOST, Recommended, Step
from flushlab.record import ServerIdentity
from flushlab.report.words import sizes
from flushlab.settings.fit import SCALED
from flushlab.settings.floor import Floor
from flushlab.units import counted, format_latency, format_size


class CarryOver(msgspec.Struct, frozen=True, kw_only=True):
    """One result, or kind of result.

    Attributes:
        what: the result.
        carries: `yes`, `roughly` or `no`.
        why: the condition, or the reason.
    """

    what: str
    carries: Literal["yes", "roughly", "no"]
    why: str


def carry_over(facts: CampaignFacts, server: ServerIdentity | None = None) -> tuple[CarryOver, ...]:
    """What holds elsewhere, the surest first; of one of several servers, if it is named."""
    return tuple(_lines(facts, [server] if server else facts.servers))


def _lines(facts: CampaignFacts, servers: Sequence[ServerIdentity]) -> Iterator[CarryOver]:
    names = ", ".join(dict.fromkeys(server.name for server in servers))
    why = f"they follow from the settings and the version ({names})"
    yield CarryOver(what="guarantees", carries="yes", why=why)
    if facts.base.observed is not None:
        why = "it is your server and its own load; at another hour, that load may be another one"
        yield CarryOver(what="ratios", carries="roughly", why=why)
        yield CarryOver(what="results", carries="roughly", why="they are of that hour")
        return
    if facts.is_remote:
        why = "it is your server, but this workload: your statements may gain more, or less"
        yield CarryOver(what="ratios", carries="roughly", why=why)
        why = "they are of this workload, beside whatever else the server did"
        yield CarryOver(what="results", carries="no", why=why)
        return
    known = sizes(facts)
    like = f" and {' : '.join(known)} is about {' : '.join(known.values())}" if known else ""
    disk = "syncs about as fast as this one"
    if (slow := facts.machine.slow_disk) is not None:
        disk = f"takes about {format_latency(slow.measured_sync_us_p50)} for a sync"
    if facts.server.nodes > 1:
        alone = f"{facts.server.nodes} nodes shared this machine's processors and disk; theirs have their own"
        yield CarryOver(what="ratios", carries="no", why=alone)
    else:
        yield CarryOver(what="ratios", carries="roughly", why=f"if the disk there {disk}{like}")
    for warning in facts.warnings:
        if warning.slug == SCALED:
            yield CarryOver(what=warning.setting, carries="no", why=warning.text)
    absolute = "seconds are" if facts.unit == "s" else f"{facts.unit or 'throughput'} and latency are"
    machine = facts.machine
    here = f"{machine.cpu_count} CPUs, {format_size(machine.memory_bytes)}, {machine.filesystem}"
    whose = f"this machine's ({here})"
    if facts.machines:
        whose = f"those of the fleet's {counted(len(facts.machines), 'machine')}"
    yield CarryOver(what="results", carries="no", why=f"{absolute} {whose}")
    if any(arm.recovery_s is not None for arm in (facts.base, *facts.arms)):
        yield CarryOver(what="recovery", carries="no", why="it depends on the redo log and the disk there")


def render_carry_over(facts: CampaignFacts) -> Iterator[RenderableType]:
    """For the terminal."""
    there = "the load that your server has" if facts.is_remote else "your server"
    yield Text(f"what carries over to {there}", style="dim")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for line in carry_over(facts):
        table.add_row(line.what, line.carries, line.why)
    yield table


def render_what_now(facts: CampaignFacts, found: Sequence[Recommended]) -> Iterator[RenderableType]:
    """For the terminal: what to do on each server for which there is something, and with which files."""
    for one in found:
        where = one.folder or "your server"
        folder = PurePath(facts.files[0]).parent / one.folder if facts.files else None
        files = f", with the files in {folder}/" if folder else ""
        if todo := one.next_steps:
            yield ""
            yield Text(f"what to do on {where}{files}", style="dim", overflow="ignore", no_wrap=True)
            yield from _render_costs(one)
            yield from render_steps(todo)


def render_offers(found: Sequence[Recommended]) -> Iterator[RenderableType]:
    """For the terminal: gains below the floor, each with its cost and the way to its files."""
    for one in found:
        yield ""
        yield Text(f"offer, if you can lose {IF_LOST[Floor(one.floor)]} (floor {one.floor})", style="dim")
        yield Text(one.sentence)
        yield from _render_costs(one)
        for step in one.next_steps:
            yield Text(step.what)
            for command in step.commands:
                yield Text(f"   {command}", style="bold", overflow="ignore", no_wrap=True)


def _render_costs(one: Recommended) -> Iterator[RenderableType]:
    """For the terminal: what a crash may take."""
    for line in one.costs:
        yield Text(f"costs: {line}", style="yellow")
    if not one.costs:
        yield Text("costs: no durability; every guarantee stays")


def render_steps(found: tuple[Step, ...]) -> Iterator[RenderableType]:
    """For the terminal; commands stay whole, whatever its width."""
    for number, step in enumerate(found, 1):
        yield Text(f"{number}. {step.what}")
        for command in step.commands:
            yield Text(f"   {command}", style="bold", overflow="ignore", no_wrap=True)
