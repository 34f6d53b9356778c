"""Ray: workers on the nodes of a cluster, for machines and clients. Sits in `campaign.fleet`.

A worker is an actor that is pinned to its node and ends with the driver. Its name claims the machine as long
as it lives, so that no two campaigns run on one machine at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flushlab.errors import FleetError
from flushlab.fleet import reach
from flushlab.progress import Progress

LOOK_S = 5.0
"""So often it is looked at."""
SILENT_S = 30.0
"""Longest time without a sign of life; a short loss of the network passes."""
MOST_S = 40.0
"""Longest time without its own answer, whatever arrives: after 60 s, Ray 2.60 ends every process that is
connected to it (`gcs_rpc_server_reconnect_timeout_s`)."""


def takes_connections(place: str) -> bool:
    """Whether somebody takes connections at HOST:PORT."""
    return reach.takes_connections(reach.parse_address(place))


@dataclass
class FirstMachine:
    """The first machine of a fleet; threads may share it.

    Attributes:
        place: HOST:PORT of its Ray.
        say: takes a line for people.
        answers: whether it answers at its place.
        clock: in seconds.
    """

    place: Callable[[], str]
    say: Progress
    answers: Callable[[str], bool] = takes_connections
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked_s: float | None = None
    _heard_s: float = 0.0
    _silent_since_s: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether it gave no answer when it was last looked at."""
        return self._silent_since_s is not None

    def heard(self) -> None:
        """Something has arrived from a machine."""
        self._heard_s = self.clock()

    def look(self) -> bool:
        """Whether it answers; looks now and then only.

        Raises:
            FleetError: it has been silent for too long.
        """
        with self._lock:
            now = self.clock()
            if self._looked_s is None or now - self._looked_s >= LOOK_S:
                self._looked_s = now
                self._ask(now)
            return not self.is_silent

    def _ask(self, now: float) -> None:
        place = self.place()
        if self.answers(place):
            self._silent_since_s = None
            return
        if self._silent_since_s is None:
            self._silent_since_s = now
            self.say(f"the first machine of the fleet, {place}, does not answer; waiting for it")
        silent_s = now - self._silent_since_s
        if silent_s > MOST_S or min(silent_s, now - self._heard_s) > SILENT_S:
            raise FleetError(
                f"the first machine of the fleet, {place}, has not answered for {silent_s:.0f} s",
                hint="start the fleet there again, join the other machines, then resume the campaign",
            )


ANSWER_S = 60.0
"""Longest wait for a worker process to start: its machine may be busy."""
QUEUE_S = 2.0
"""So often a machine that another campaign has is asked for."""
GUARDS_SURVIVE = {"RAY_kill_child_processes_on_worker_exit": "0"}
"""By default a worker that is killed takes its children along. Guards must outlive it: they end the servers
and remove the folders. The nodes of a fleet that flushlab started have the variable, and this process has it
then. Elsewhere it is given to the worker, which so loads Ray twice."""


class Node(NamedTuple):
    """A living node: its name, which is unique in the fleet, and Ray's id."""

    name: str
    id: str


def nodes() -> list[Node]:
    """The living nodes by name; ids distinguish nodes of the same name."""
    found = [(str(one["NodeName"]), str(one["NodeID"])) for one in _listed() if one["Alive"]]
    names = [name for name, _ in found]
    made = [Node(name if names.count(name) == 1 else f"{name}-{id_[:6]}", id_) for name, id_ in found]
    return sorted(made)


def _listed() -> list[dict[str, Any]]:
    return list(ray.nodes())


def worker_on(node_id: str, worker: type, *arguments: object, is_ordered: bool = True) -> Any | None:
    """A worker on a node, under the name that claims the machine; None if another campaign has it.

    Args:
        node_id: Ray's.
        worker: its class.
        arguments: of its constructor.
        is_ordered: calls are carried out in the order in which they were made. Ray 2.60 keeps that order by
            numbers. A call that is cancelled before it is sent leaves a gap. The next one waits 30 s for it,
            and fails as if the worker were gone: see ray-project/ray#65785.
    """
    is_set = GUARDS_SURVIVE.items() <= os.environ.items()
    try:
        return (
            ray.remote(worker)
            .options(
                name=f"machine {node_id}",
                num_cpus=0,
                max_restarts=0,
                max_task_retries=0,
                allow_out_of_order_execution=not is_ordered,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
                runtime_env={} if is_set else {"env_vars": GUARDS_SURVIVE},
            )
            .remote(*arguments)
        )
    except ValueError:  # the name is taken
        return None


def is_cancelled() -> bool:
    """Whether the call that this worker carries out is cancelled."""
    return bool(ray.get_runtime_context().is_canceled())


def kill(actor: Any) -> None:
    """Ends a worker, if it is not gone."""
    with suppress(RayError, ValueError):
        ray.kill(actor, no_restart=True)


def first_machine(progress: Progress) -> FirstMachine:
    """That of the fleet which this process is connected to."""
    return FirstMachine(lambda: str(ray.get_runtime_context().gcs_address), progress)


def answered(call: Any, fleet: FirstMachine, *actors: Any) -> Any:
    """The answer to a call, however long it takes, as long as the first machine is heard of.

    Args:
        call: to one of the workers.
        fleet: its first machine.
        actors: the workers.

    Raises:
        FleetError: it is not.
        RayError: as of `ray.get`.
    """
    while True:
        try:
            answer = ray.get(call, timeout=LOOK_S)
        except GetTimeoutError:
            fleet.look()
            pulse(actors)
        else:
            fleet.heard()
            return answer


def pulse(actors: Iterable[Any]) -> None:
    """Sends something to workers that have a call under way; nobody waits for an answer.

    If the link is down for 20 s while an answer is under way, the worker's side gives up the connection, as
    gRPC sets TCP_USER_TIMEOUT. This side learns it only when it sends something, and then the call fails.
    Ray 2.60 itself sends a ping after 300 s; a shorter `RAY_grpc_client_keepalive_time_ms` is no way out,
    since the worker ends a connection with "too_many_pings" after three of them.
    """
    for actor in actors:
        actor.__ray_ready__.remote()


def reason(error: BaseException) -> str:
    """Why something was lost: of a worker in flushlab's words, else the first line of Ray's."""
    if isinstance(error, ActorUnavailableError):
        return "its worker does not answer"
    if isinstance(error, RayActorError):
        return "its worker has ended, or the machine is gone"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
