"""Ray: workers on the nodes of a cluster, for machines and clients. Sits in `campaign.fleet`; imports Ray.

A worker is an actor that is pinned to its node and ends with the driver. Its name claims the machine as long
as it lives, so that no two campaigns run on one machine at once.

Without the fleet's first machine, Ray cannot be asked, and ends the command after a minute without a word. So
whoever waits for an answer looks at it meanwhile.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import msgspec
import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flushlab import _core
from flushlab.campaign.fleet.machines import own_error
from flushlab.errors import FleetError, HarnessError, MeasurementError
from flushlab.fleet.connect import FleetNode, parse_address, takes_connections
from flushlab.progress import Progress
from flushlab.workload.generators import named

ANSWER_S = 60.0
"""Longest wait for a worker process to start: its machine may be busy."""
QUEUE_S = 2.0
"""So often a machine that another campaign has is asked for."""
GUARDS_SURVIVE = {"RAY_kill_child_processes_on_worker_exit": "0"}
"""By default a worker that is killed takes its children along. Guards must outlive it: they end the servers
and remove the folders. The nodes of a fleet that flushlab started have the variable, and this process has it
then. Elsewhere it is given to the worker, which so loads Ray twice."""
LOOK_S = 5.0
"""So often the first machine is looked at."""
SILENT_S = 30.0
"""Longest time without a sign of life of it; a short loss of the network passes."""
MOST_S = 40.0
"""Longest time without its own answer, whatever arrives: after 60 s, Ray 2.60 ends every process that is
connected to it (`gcs_rpc_server_reconnect_timeout_s`)."""


@dataclass
class FirstMachine:
    """Threads may share it; an answer, or whatever arrives from any machine, is a sign of its life."""

    place: str
    say: Progress
    answers: Callable[[str], bool] = lambda place: takes_connections(parse_address(place))
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked_s: float | None = None
    _heard_s: float = 0.0
    _silent_since_s: float | None = None

    @property
    def is_silent(self) -> bool:
        return self._silent_since_s is not None

    def heard(self) -> None:
        self._heard_s = self.clock()

    def look(self) -> bool:
        """Looks now and then only; a FleetError if it has been silent for too long."""
        with self._lock:
            now = self.clock()
            if self._looked_s is None or now - self._looked_s >= LOOK_S:
                self._looked_s = now
                if self.answers(self.place):
                    self._silent_since_s = None
                    return True
                if self._silent_since_s is None:
                    self._silent_since_s = now
                    self.say(f"the first machine of the fleet, {self.place}, does not answer; waiting for it")
                silent_s = now - self._silent_since_s
                if silent_s > MOST_S or min(silent_s, now - self._heard_s) > SILENT_S:
                    raise FleetError(
                        f"the first machine of the fleet, {self.place}, has not answered for"
                        f" {silent_s:.0f} s",
                        hint="start the fleet there again, join the other machines, then resume the campaign",
                    )
            return not self.is_silent


def first_machine(progress: Progress) -> FirstMachine:
    return FirstMachine(str(ray.get_runtime_context().gcs_address), progress)


@dataclass(frozen=True)
class RayWorker:
    node: FleetNode
    actor: Any
    first: FirstMachine
    role: Literal["machine", "client"] = "machine"

    @property
    def machine(self) -> str:
        return self.node.name

    def call(self, method: str, *arguments: object) -> Callable[[], Any]:
        return partial(self._answer, getattr(self.actor, method).remote(*arguments), math.inf)

    def first_call(self, method: str) -> Callable[[], Any]:
        """The worker's process may not have started yet, and may never do."""
        return partial(self._answer, getattr(self.actor, method).remote(), time.monotonic() + ANSWER_S)

    def _answer(self, call: Any, until_s: float) -> Any:
        while True:
            try:
                answer = ray.get(call, timeout=max(0.0, min(LOOK_S, until_s - time.monotonic())))
            except GetTimeoutError:
                if time.monotonic() >= until_s:
                    raise HarnessError(
                        f"{self.role} {self.machine} has not answered within {ANSWER_S:.0f} s",
                        hint="its worker has not started, or its link is down: see `flushlab fleet status`",
                    ) from None
                self.first.look()
                self.pulse()
            except RayError as error:
                raise self.error(error) from error
            else:
                self.first.heard()
                return answer

    def error(self, error: RayError) -> Exception:
        if isinstance(error, RayTaskError):
            cause: BaseException = error.cause
            if isinstance(cause, _core.CoreError):
                return named(self.machine, cause)
            return named(self.machine, own_error(cause))
        lost = MeasurementError if self.role == "client" else HarnessError
        return lost(
            f"{self.role} {self.machine} was lost: {reason(error)}", hint="see `flushlab fleet status`"
        )

    def pulse(self) -> None:
        """Sends something to a worker that has a call under way; nobody waits for an answer.

        If the link is down for 20 s while an answer is under way, the worker's side gives up the connection,
        as gRPC sets TCP_USER_TIMEOUT. This side learns it only when it sends something, and then the call
        fails. Ray 2.60 itself sends a ping after 300 s; a shorter `RAY_grpc_client_keepalive_time_ms` is no
        way out, since the worker ends a connection with "too_many_pings" after three of them.
        """
        self.actor.__ray_ready__.remote()

    def kill(self) -> None:
        """If the first machine is silent, which Ray would wait for, the worker ends with this process."""
        if not self.first.is_silent:
            with suppress(RayError, ValueError):
                ray.kill(self.actor, no_restart=True)


def nodes() -> list[FleetNode]:
    found = [
        FleetNode(id=str(node["NodeID"]), name=str(node["NodeName"]), address=str(node["NodeManagerAddress"]))
        for node in ray.nodes()
        if node["Alive"]
    ]
    names = [node.name for node in found]
    unique = [
        node
        if names.count(node.name) == 1
        else msgspec.structs.replace(node, name=f"{node.name}-{node.id[:6]}")
        for node in found
    ]
    return sorted(unique, key=lambda node: (node.name, node.id))


def worker_on(node_id: str, worker: type, *arguments: object) -> Any | None:
    """None if another campaign has it. Calls may overtake each other, so whoever needs an order waits for the
    answer. Ray 2.60 would keep an order by numbers, and a call that is cancelled before it is sent leaves a
    gap. The next one waits 30 s for it, and fails as if the worker were gone: see ray-project/ray#65785."""
    is_set = GUARDS_SURVIVE.items() <= os.environ.items()
    try:
        return (
            ray.remote(worker)
            .options(
                name=f"machine {node_id}",
                num_cpus=0,
                max_restarts=0,
                max_task_retries=0,
                allow_out_of_order_execution=True,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
                runtime_env={} if is_set else {"env_vars": GUARDS_SURVIVE},
            )
            .remote(*arguments)
        )
    except ValueError:  # the name is taken
        return None


def is_cancelled() -> bool:
    return bool(ray.get_runtime_context().is_canceled())


def reason(error: BaseException) -> str:
    if isinstance(error, ActorUnavailableError):
        return "its worker does not answer"
    if isinstance(error, RayActorError):
        return "its worker has ended, or the machine is gone"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
