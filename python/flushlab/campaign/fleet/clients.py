"""Clients: machines of a fleet that load servers of this machine. Sits in `campaign.fleet`; imports Ray.

Machines are claimed as those that run blocks are, the server's too: nothing of another campaign runs beside a
load or a server. The password of the clients' account reaches them by Ray, and so by TLS.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import ray

from flushlab import _core
from flushlab.campaign.fleet.ray_workers import (
    QUEUE_S,
    RayWorker,
    first_machine,
    nodes,
    worker_on,
)
from flushlab.campaign.fleet.worker import Worker
from flushlab.errors import UsageError
from flushlab.fleet import key, local_node
from flushlab.fleet.connect import FleetNode
from flushlab.progress import Progress
from flushlab.record import Latency, LoadSpec
from flushlab.server.clients import Access, ClientLoad
from flushlab.server.sandbox.option_files import new_password
from flushlab.workload.generators import Generator, Reached, SeveralLoads


class ClientWorker(Generator):
    def connect(self, number: int, spec: LoadSpec) -> Latency:
        return super().connect(number, msgspec.structs.replace(spec, ssl_ca=str(key.authority())))


@dataclass(frozen=True)
class FleetClients:
    access: Access
    generators: Sequence[Reached]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(generator.machine for generator in self.generators)

    def connect(self, spec: LoadSpec) -> ClientLoad:
        try:
            return SeveralLoads(spec, self.generators)
        except _core.CoreError as error:
            if "ssl_mode" in (error.hint or ""):  # which is not for the user to choose here
                error.hint = "clients on other machines need TLS: choose another server, or remove --client"
            raise


@contextmanager
def claimed(names: Sequence[str], progress: Progress) -> Iterator[FleetClients]:
    """Needs a connection (`flushlab.fleet.connect`); a FleetError if this machine listens on loopback
    only."""
    clients, server = find(names)
    first, identity, record = first_machine(progress), key.identity(), local_node.read()
    assert record is not None, "it has an identity"
    hosts = tuple(client.address for client in clients)
    access = Access(record.address, hosts, new_password(), identity)
    with ExitStack() as undo:
        workers = dict[FleetNode, RayWorker]()
        # In the same order everywhere: two commands that want the same machines never wait for each other.
        for node in sorted((server, *clients), key=lambda node: node.id):
            worker = Worker if node == server else ClientWorker
            workers[node] = RayWorker(node, _claimed(node, worker, progress), first, "client")
            undo.callback(workers[node].kill)
        for client in clients:
            workers[client].first_call("clock")()
        yield FleetClients(access, [workers[client] for client in clients])


def find(names: Sequence[str]) -> tuple[list[FleetNode], FleetNode]:
    here, there = str(ray.get_runtime_context().get_node_id()), nodes()
    return chosen(names, there, here), next(node for node in there if node.id == here)


def chosen(names: Sequence[str], there: Iterable[FleetNode], here: str) -> list[FleetNode]:
    by_name = {node.name: node for node in there}
    others = ", ".join(sorted(name for name, node in by_name.items() if node.id != here))
    found = list[FleetNode]()
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


def _claimed(node: FleetNode, worker: type, progress: Progress) -> Any:
    said = False
    while (actor := worker_on(node.id, worker)) is None:
        if not said:
            progress(f"another campaign runs on {node.name}; waiting for it")
        said = True
        time.sleep(QUEUE_S)
    return actor
