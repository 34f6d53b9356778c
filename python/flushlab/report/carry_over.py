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

from flushlab.campaign.facts import EXTERNAL, SeriesFacts, TuneFacts
from flushlab.campaign.recommended import Recommended
from flushlab.record import Machine, ServerIdentity
from flushlab.settings.fit import SCALED
from flushlab.units import format_latency, format_size


class CarryOver(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, or kind of figure.

    Attributes:
        what: for people.
        carries: whether it holds elsewhere.
        why: the condition, or the reason.
    """

    what: str
    carries: Literal["yes", "roughly", "no"]
    why: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do on the real server.

    Attributes:
        what: a sentence.
        commands: for a shell there, in the folder with the files.
    """

    what: str
    commands: tuple[str, ...] = ()


def carry_over(facts: TuneFacts | SeriesFacts, server: ServerIdentity | None = None) -> tuple[CarryOver, ...]:
    """What holds elsewhere, the surest first; of one of several servers, if it is named."""
    measured = [facts.server]
    if isinstance(facts, SeriesFacts):
        measured = [base.server or facts.server for base, _ in facts.by_server]
    return tuple(_lines(facts, [server] if server else measured))


def on_own_server(facts: TuneFacts | SeriesFacts) -> bool:
    """Whether it was measured on a server that flushlab did not start."""
    return any(warning.slug == EXTERNAL for warning in facts.warnings)


def _lines(facts: TuneFacts | SeriesFacts, servers: Sequence[ServerIdentity]) -> Iterator[CarryOver]:
    names = ", ".join(dict.fromkeys(server.name for server in servers))
    why = f"they follow from the settings and the version ({names})"
    yield CarryOver(what="guarantees", carries="yes", why=why)
    if on_own_server(facts):
        why = "it is your server, but this workload: your statements may gain more, or less"
        yield CarryOver(what="ratios", carries="roughly", why=why)
        why = "they are of this workload, beside whatever else the server did"
        yield CarryOver(what="figures", carries="no", why=why)
        return
    parts = {"data": facts.data_bytes, "pool": facts.pool_bytes, "redo": facts.redo_bytes}
    sizes = {name: size for name, size in parts.items() if size is not None}
    like = (
        f" and {' : '.join(sizes)} is about {' : '.join(map(format_size, sizes.values()))}" if sizes else ""
    )
    limit = facts.machine.disk_limit
    disk = f"does about {limit.write_iops} writes/s" if limit else "syncs about as fast as this one"
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
    yield CarryOver(
        what="figures", carries="no", why=f"{absolute} this machine's ({_machine(facts.machine)})"
    )
    if isinstance(facts, TuneFacts) and facts.recovery_s:
        yield CarryOver(what="recovery", carries="no", why="it depends on the redo log and the disk there")


def _machine(machine: Machine) -> str:
    memory = format_size(machine.memory_bytes)
    return f"{machine.cpu_count} CPUs, {memory}, {machine.filesystem}"


def steps(one: Recommended) -> tuple[Step, ...]:
    """What to do on the real server with the files: check, look, change, look again, and how to go back.
    Nothing where there are none."""
    if not one.has_files:
        return ()
    checked = f"flushlab settings --check my.cnf --server {one.server.name} --floor {one.floor}"
    look = ["mysql --table < verify.sql"]
    if one.workload.startswith("command:"):
        look.append(f"time {one.workload.removeprefix('command:').strip()}")
    persisted = one.server.persists  # settings.sql prints what is persisted and about to be overwritten
    return (
        Step(what="See what the lines guarantee on your version:", commands=(checked,)),
        Step(what="Under your usual load, note what the server does:", commands=tuple(look)),
        Step(
            what="Add my.cnf to its option file and restart it, or set what needs no restart:",
            commands=("mysql -N < settings.sql >> persisted.sql" if persisted else "mysql < settings.sql",),
        ),
        Step(what="At the same time of day, do step 2 again and compare."),
        Step(
            what="To undo it, put rollback.cnf in place of my.cnf and restart, or:",
            commands=("cat rollback.sql persisted.sql | mysql" if persisted else "mysql < rollback.sql",),
        ),
    )


def render_carry_over(facts: TuneFacts | SeriesFacts) -> Iterator[RenderableType]:
    """For the terminal."""
    there = "the load that your server has" if on_own_server(facts) else "your server"
    yield Text(f"what carries over to {there}", style="dim")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for line in carry_over(facts):
        table.add_row(line.what, line.carries, line.why)
    yield table


def render_what_now(facts: TuneFacts | SeriesFacts, found: Sequence[Recommended]) -> Iterator[RenderableType]:
    """For the terminal: what to do on each server for which there is something, and with which files."""
    for one in found:
        where = one.folder or "your server"
        folder = PurePath(facts.files[0]).parent / one.folder if facts.files else None
        files = f", with the files in {folder}/" if folder else ""
        if todo := steps(one):
            yield ""
            yield Text(f"what to do on {where}{files}", style="dim", overflow="ignore", no_wrap=True)
            yield from render_steps(todo)


def render_steps(found: tuple[Step, ...]) -> Iterator[RenderableType]:
    """For the terminal; commands stay whole, whatever its width."""
    for number, step in enumerate(found, 1):
        yield Text(f"{number}. {step.what}")
        for command in step.commands:
            yield Text(f"   {command}", style="bold", overflow="ignore", no_wrap=True)
