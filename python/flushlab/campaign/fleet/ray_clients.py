"""Ray: clients of a campaign's servers are actors on other nodes. Sits in `campaign.fleet`; imports Ray.

Machines are claimed as those that run blocks are, the server's too: nothing of another campaign runs beside a
load or a server.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from flushlab.campaign.fleet.clients import ClientWorker, FleetClients, Place, chosen
from flushlab.campaign.fleet.ray_workers import (
    ANSWER_S,
    QUEUE_S,
    FirstMachine,
    answered,
    first_machine,
    kill,
    nodes,
    reason,
    worker_on,
)
from flushlab.campaign.fleet.worker import Worker
from flushlab.errors import HarnessError, MeasurementError
from flushlab.fleet import local_node, secret
from flushlab.progress import Progress
from flushlab.server.clients import Access


@dataclass(frozen=True)
class RayGenerator:
    """A generator in an actor.

    Attributes:
        machine: its name.
        fleet: its first machine.
    """

    machine: str
    actor: Any
    fleet: FirstMachine

    def call(self, method: str, *arguments: object) -> Callable[[], Any]:
        """Calls a method without a wait; what waits for its result."""
        return partial(self._result, getattr(self.actor, method).remote(*arguments))

    def _result(self, reference: Any) -> Any:
        try:
            return answered(reference, self.fleet, self.actor)
        except RayActorError as error:
            raise MeasurementError(
                f"the client {self.machine} does not answer any more",
                hint="see `flushlab fleet status`: its machine or its network is gone",
            ) from error
        except RayError as error:
            raise MeasurementError(f"the client {self.machine} failed: {reason(error)}") from error


@contextmanager
def claimed(names: Sequence[str], progress: Progress) -> Iterator[FleetClients]:
    """Clients of these names, claimed while the context lasts; needs a connection (`flushlab.fleet.connect`).

    Raises:
        UsageError: as `chosen`.
        FleetError: this machine listens on loopback only.
        HarnessError: a machine starts no worker.
    """
    found, server = find(names)
    fleet = first_machine(progress)
    identity, nonce = secret.identity(), secrets.token_hex(16)
    record = local_node.read()
    assert record is not None, "it has an identity"
    access = Access(
        address=record.address,
        hosts=tuple(one.address for one in found),
        password=secret.password(nonce),
        identity=identity,
    )
    with ExitStack() as undo:
        actors = dict[Place, Any]()
        # In the same order everywhere: two commands that want the same machines never wait for each other.
        for place in sorted((server, *found), key=lambda one: one.id):
            given = (Worker,) if place == server else (ClientWorker, nonce)
            actors[place] = _claim(place, *given, progress=progress)
            undo.callback(_end, actors[place], fleet)
        for place in found:
            _await(place.name, actors[place])
        generators = [RayGenerator(place.name, actors[place], fleet) for place in found]
        yield FleetClients(access, generators)


def find(names: Sequence[str]) -> tuple[list[Place], Place]:
    """The machines of these names, and this one, where the server runs; errors as of `claimed`."""
    addresses = {str(one["NodeID"]): str(one["NodeManagerAddress"]) for one in ray.nodes()}
    here = str(ray.get_runtime_context().get_node_id())
    places = [Place(one.name, one.id, addresses[one.id]) for one in nodes()]
    return chosen(names, places, here), next(one for one in places if one.id == here)


def _claim(place: Place, worker: type, *arguments: object, progress: Progress) -> Any:
    """A worker on a machine, once no other campaign has it."""
    said = False
    while (actor := worker_on(place.id, worker, *arguments)) is None:
        if not said:
            progress(f"another campaign runs on {place.name}; waiting for it")
        said = True
        time.sleep(QUEUE_S)
    return actor


def _end(actor: Any, fleet: FirstMachine) -> None:
    """Ends a worker; it ends with this process if the first machine is silent, which Ray would wait for."""
    if not fleet.is_silent:
        kill(actor)


def _await(name: str, actor: Any) -> None:
    try:
        ray.get(actor.clock.remote(), timeout=ANSWER_S)
    except GetTimeoutError:
        raise HarnessError(
            f"the client {name} has not answered within {ANSWER_S:.0f} s",
            hint="its worker has not started, or its link is down: see `flushlab fleet status`",
        ) from None
    except RayActorError as error:
        raise HarnessError(f"the client {name} was lost: {reason(error)}") from error
