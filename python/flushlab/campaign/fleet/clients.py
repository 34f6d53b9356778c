"""Clients: machines of a fleet that load servers of another machine. Sits in `campaign.fleet`; no Ray."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.fleet import secret
from flushlab.record import LoadSpec
from flushlab.server.clients import Access, Load
from flushlab.workload.generator import Generator
from flushlab.workload.generators import Clock, Reached, SeveralLoads, clock_of
from flushlab.workload.options import EngineOptions
from flushlab.workload.protocol import Workload


class Place(NamedTuple):
    """A machine of a fleet: its name, Ray's id of its node, its address."""

    name: str
    id: str
    address: str


def chosen(names: Sequence[str], there: Iterable[Place], here: str) -> list[Place]:
    """The machines of these names.

    Args:
        names: asked for.
        there: all of the fleet.
        here: id of this machine, where the server runs.

    Raises:
        UsageError: a name is unknown, given twice, or that of this machine.
    """
    by_name = {one.name: one for one in there}
    others = ", ".join(sorted(name for name, one in by_name.items() if one.id != here))
    found = list[Place]()
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"--client {name}: the fleet has no machine of that name",
                hint=f"its other machines: {others}"
                if others
                else "the fleet has no other machine: `flushlab fleet join`",
            )
        if by_name[name].id == here:
            raise UsageError(
                f"--client {name}: the server runs on that machine, as the command does",
                hint=f"name another one: {others}" if others else "join another one: `flushlab fleet join`",
            )
        if by_name[name] in found:
            raise UsageError(f"--client {name} is given twice", hint="name each machine once")
        found.append(by_name[name])
    return found


def require_drivable(workload: Workload) -> None:
    """Refuses a workload whose connections flushlab does not open.

    Raises:
        UsageError: it is one.
    """
    if not isinstance(workload, EngineOptions):
        what = workload.name.split(":")[0]
        raise UsageError(
            f"--client drives loads of flushlab's own, and {what} runs on the server's machine",
            hint="use an OLTP workload, upsert or txn:FILE, or remove --client",
        )
    if workload.hdr_log or workload.per_second:
        raise UsageError(
            "--hdr-log and --per-second are not written with --client", hint="remove one of the two"
        )


def completed(nonce: str, spec: LoadSpec) -> LoadSpec:
    """On a client: a load's spec with what did not travel."""
    endpoint = msgspec.structs.replace(spec.endpoint, password=secret.password(nonce))
    return msgspec.structs.replace(spec, endpoint=endpoint, ssl_ca=str(secret.authority()))


class ClientWorker(Generator):
    """Drives loads on a client.

    Args:
        nonce: of the command that loads.
    """

    def __init__(self, nonce: str) -> None:
        super().__init__(lambda spec: completed(nonce, spec))


@dataclass(frozen=True)
class FleetClients:
    """Clients that are ready.

    Attributes:
        access: how they get in.
        generators: one on each.
    """

    access: Access
    generators: Sequence[Reached]
    _clocks: dict[str, Clock] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the machines."""
        return tuple(one.machine for one in self.generators)

    def connect(self, spec: LoadSpec) -> Load:
        """The load on a server; clocks are compared anew, as they drift."""
        for one in self.generators:
            self._clocks[one.machine] = clock_of(one)
        try:
            return SeveralLoads(spec, self.generators, dict(self._clocks))
        except _core.CoreError as error:
            if "ssl_mode" in (error.hint or ""):  # which is not for the user to choose here
                error.hint = "clients on other machines need TLS: choose another server, or remove --client"
            raise
