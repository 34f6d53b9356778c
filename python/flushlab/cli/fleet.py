"""`flushlab fleet`: several machines for one campaign: start, join, look, stop."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flushlab.cli import options
from flushlab.cli.consoles import console, stdout
from flushlab.cli.declare import OptionGroup
from flushlab.cli.output import emit_json, print_warning, require_writable, say
from flushlab.fleet import PORT
from flushlab.spec import Option
from flushlab.spec.parts import Port

if TYPE_CHECKING:
    from flushlab.fleet.connect import FleetAddress
    from flushlab.fleet.status import MachineStatus

app = OptionGroup("fleet", "Several machines for one campaign: start, join, look, stop.")

Name = Annotated[str | None, Option("Name of this machine in reports; default: its host name.")]


@app.add("start")
def start(
    listen: Annotated[
        str | None,
        Option(
            "This machine's address for the others; without it, the fleet is on loopback.", metavar="ADDRESS"
        ),
    ] = None,
    port: Annotated[Port, Option("Port of the first machine.")] = PORT,
    name: Name = None,
) -> None:
    """Start a fleet whose first machine this is.

    Prints the line to run on the other machines. It passes the fleet's key through ssh: a file that only you
    can read. With --listen, Ray listens on all addresses of this machine; TLS and the key keep others out.

    \b
    Examples:
      flushlab fleet start --listen 10.0.0.5
      flushlab fleet start
    """
    from flushlab.fleet.local_node import fleet_folder
    from flushlab.fleet.start import start as start_fleet

    record = start_fleet(listen, port, name)
    console.print(f"the fleet is at {record.fleet}; `flushlab fleet stop` ends it")
    if not record.listens:
        say("it is on loopback: other machines cannot join without --listen ADDRESS")
        return
    key = shlex.quote(str(fleet_folder() / "key"))
    say("run this on each other machine, as a user who may log in here by ssh:")
    stdout.print(
        f"ssh {record.address} cat {key} | flushlab fleet join {record.fleet} --key -", soft_wrap=True
    )


@app.add("join")
def join(
    address: Annotated[str, Option("Address of the first machine, HOST[:PORT].", positional=True)],
    key: Annotated[str | None, Option("File with the fleet's key; - is stdin.", metavar="FILE")] = None,
    listen: Annotated[
        str | None,
        Option(
            "This machine's address for the others; default: the one towards the first.", metavar="ADDRESS"
        ),
    ] = None,
    name: Name = None,
) -> None:
    """Join this machine to a fleet.

    `flushlab fleet start --listen ADDRESS` on the first machine prints the whole line.

    \b
    Example:
      ssh db1 cat /var/lib/flushlab/fleet/key | flushlab fleet join db1 --key -
    """
    from flushlab.fleet.connect import parse_address, require_ray
    from flushlab.fleet.key import parse
    from flushlab.fleet.start import join as join_fleet

    require_ray()
    fleet = parse_address(address)
    record = join_fleet(fleet, parse(*_key(key)), listen, name)
    console.print(f"{record.address} is in the fleet at {record.fleet}; `flushlab fleet stop` ends that")


@app.add("status")
def status(
    address: Annotated[
        str | None,
        Option("Address of a fleet or of a Ray cluster; default: this machine's.", positional=True),
    ] = None,
    json: options.Json = None,
) -> None:
    """Show the machines of a fleet: processors, memory, disk, syncs, load of others, servers.

    Each machine measures its disk for 2 s: a sync after 4 KiB, and commits of one session whose logs are
    synced, without a server.

    \b
    Examples:
      flushlab fleet status
      flushlab fleet status 10.0.0.5:9377 --json -
    """
    from flushlab.fleet.connect import connected
    from flushlab.fleet.status import survey
    from flushlab.units import counted

    require_writable(json)
    fleet = _where(address)
    with connected(fleet) as nodes:
        say(f"measuring the disks of {counted(len(nodes), 'machine')} …")
        machines = survey(nodes)
    emit_json({"schema": "flushlab.fleet-status/1", "fleet": str(fleet), "machines": machines}, json)
    if json != "-":
        for machine in machines:
            stdout.print("\n".join(_lines(machine)), soft_wrap=True)
    _warn(machines)


@app.add("stop")
def stop() -> None:
    """End the fleet on this machine; on the first machine, on all.

    Campaigns on the fleet end; their servers too. `--resume` continues a campaign on another fleet.

    \b
    Example:
      flushlab fleet stop
    """
    from flushlab.fleet.start import stop as stop_fleet

    ended = stop_fleet(say)
    if ended is None:
        console.print("no fleet runs on this machine")
    else:
        console.print(
            f"stopped the fleet at {ended.fleet}" if ended.role == "head" else f"left {ended.fleet}"
        )


def _key(given: str | None) -> tuple[bytes, str]:
    from flushlab.errors import NotWritable, UsageError

    if given is None or (given == "-" and sys.stdin.isatty()):
        raise UsageError(
            "the fleet's key is missing",
            hint="`flushlab fleet start --listen ADDRESS` there prints the line that passes it",
        )
    if given == "-":
        return sys.stdin.buffer.read(), "stdin"
    try:
        return Path(given).read_bytes(), given
    except OSError as error:
        raise NotWritable(f"the key {given} cannot be read: {error.strerror}", hint="check --key") from error


def _where(given: str | None) -> FleetAddress:
    from flushlab.errors import UsageError
    from flushlab.fleet.connect import own_fleet, parse_address, require_ray

    require_ray()
    found = parse_address(given) if given else own_fleet()
    if found is None:
        raise UsageError(
            "no fleet runs on this machine", hint="start one: flushlab fleet start; or name an address"
        )
    return found


def _lines(machine: MachineStatus) -> list[str]:
    from flushlab.units import format_size

    title = f"{machine.name}  {machine.address}"
    not_usable = [f"  not usable: {machine.problem}"] if machine.problem else []
    if not machine.cpu_count:
        return [title, *not_usable]
    disk = f"{machine.filesystem}{f' on {machine.disk}' if machine.disk else ''}"
    syncs = [] if machine.sync_us_p50 is None else [f"sync {machine.sync_us_p50:,.0f} µs"]
    syncs += [] if machine.ceiling_per_s is None else [f"ceiling {machine.ceiling_per_s:,.0f} commits/s"]
    root = "" if machine.is_root else " without root"
    return [
        title,
        *not_usable,
        f"  {machine.cpu_count} CPU, {format_size(machine.memory_bytes)}, {machine.cpu_model}",
        f"  disk: {disk}, {format_size(machine.free_bytes)} free; {', '.join(syncs) or 'not measured'}",
        f"  {machine.others.words if machine.others else 'others: unknown'}",
        f"  flushlab {machine.flushlab}{root}, Ray {machine.ray}, Python {machine.python}",
        f"  servers: {', '.join(machine.servers) or 'none installed'}",
    ]


def _warn(machines: tuple[MachineStatus, ...]) -> None:
    from flushlab.fleet.status import CLOCK_S
    from flushlab.version import __version__

    for one in machines:
        if one.flushlab not in ("", __version__):
            print_warning(
                f"{one.name} runs flushlab {one.flushlab}, this machine {__version__}: it is refused"
            )
        if one.clock_ahead_s is not None and abs(one.clock_ahead_s) > CLOCK_S:
            side = "ahead of" if one.clock_ahead_s > 0 else "behind"
            print_warning(f"the clock of {one.name} is {abs(one.clock_ahead_s):,.0f} s {side} this machine's")
