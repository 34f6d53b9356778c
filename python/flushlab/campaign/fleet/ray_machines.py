"""Ray: the machines of a fleet are the nodes of a Ray cluster. Sits in `campaign.fleet`; the only module of
`campaign` that imports Ray.

A machine is an actor that is pinned to its node and ends with the driver. Its name is reserved as long as
it lives, so that no two campaigns run on one machine at once. Ray's placement, transport and failure
detection are used as they are; a block never moves by itself, since the dispatch decides (`dispatch.py`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec
import ray
from ray.exceptions import (
    ActorUnavailableError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flushlab.build import Progress, silent
from flushlab.campaign.fleet.first_machine import LOOK_S, FirstMachine
from flushlab.campaign.fleet.judgement import Needs, problems
from flushlab.campaign.fleet.machines import (
    Crashed,
    CrashTask,
    Ended,
    Event,
    Failed,
    Failure,
    Joined,
    Lost,
    Opening,
    Stopped,
    Task,
)
from flushlab.campaign.fleet.runner import OpenMachines
from flushlab.campaign.fleet.sending import Delivered, Gone, Sending
from flushlab.campaign.fleet.supplies import Supplies, supplies_of
from flushlab.campaign.fleet.worker import MachineFacts, Worker
from flushlab.errors import FlushlabError, HarnessError, UsageError
from flushlab.record import CrashRow, Trial
from flushlab.version import __version__

T = TypeVar("T")

ANSWER_S = 60.0
"""Longest wait for a worker process to start: its machine may be busy."""
VERSION_S = 10.0
"""Longest wait for the version of flushlab on a machine that has no worker."""
CLOSE_S = 5.0
"""Longest wait for an idle machine to end its servers in order; then its guard ends them."""
NODES_S = 5.0
"""So often new nodes are looked for."""
PULSE_S = 10.0
"""So often something is sent to a worker that has a call under way: see `pulse`."""
MOST_WORKERS = 3
"""Workers that are started on one node, after the first ones were lost."""
QUEUE_S = 2.0
GUARDS_SURVIVE = {"RAY_kill_child_processes_on_worker_exit": "0"}
"""By default a worker that is killed takes its children along. Guards must outlive it: they end the servers
and remove the folders. The nodes of a fleet that flushlab started have the variable, and this process has it
then. Elsewhere it is given to the worker, which so loads Ray twice."""


class Node(NamedTuple):
    """A living node: its name, which is unique in the fleet, and Ray's id."""

    name: str
    id: str


@contextmanager
def claimed(progress: Progress, root_for: str = "") -> Iterator[OpenMachines]:
    """The machines of the fleet that no other campaign has, claimed while the context lasts; needs a
    connection (`flushlab.fleet.connect`).

    Args:
        progress: takes a line at a time.
        root_for: words for what is known to need root.

    Raises:
        UsageError: a machine that is not fit.
    """
    machines = RayMachines(progress, Needs(MachineFacts.here(), root_for))
    try:
        machines.claim()
        yield OpenMachines(machines, machines.names)
    finally:
        machines.close()


def foreseen() -> OpenMachines:
    """The machines of the fleet in a dry run: none is claimed, no worker is started; needs a connection."""
    return OpenMachines(RayMachines(silent, Needs(MachineFacts.here())), tuple(one.name for one in nodes()))


def nodes() -> list[Node]:
    """The living nodes by name; ids distinguish nodes of the same name."""
    found = [(str(one["NodeName"]), str(one["NodeID"])) for one in _listed() if one["Alive"]]
    names = [name for name, _ in found]
    made = [Node(name if names.count(name) == 1 else f"{name}-{id_[:6]}", id_) for name, id_ in found]
    return sorted(made)


def _listed() -> list[dict[str, Any]]:
    return list(ray.nodes())


@dataclass
class _Claimed:
    """A machine of this campaign."""

    node: Node
    actor: Any


@dataclass
class RayMachines:
    """Machines of a fleet that this campaign has claimed.

    Attributes:
        progress: takes a line at a time.
        needs: of the campaign, as far as they are known.
    """

    progress: Progress
    needs: Needs
    _claimed: dict[str, _Claimed] = field(default_factory=dict)
    _running: dict[Any, tuple[str, int]] = field(default_factory=dict)
    _crashing: set[Any] = field(default_factory=set)
    _joining: dict[Any, _Claimed] = field(default_factory=dict)
    _opening: dict[Any, _Claimed] = field(default_factory=dict)
    _barred: set[str] = field(default_factory=set)
    _workers: dict[str, int] = field(default_factory=dict)
    _receiving: list[tuple[Future[dict[str, Delivered]], _Claimed]] = field(default_factory=list)
    _work: Opening | None = None
    _supplies: Supplies | None = None
    _looked_s: float = 0.0
    _pulsed_s: float = 0.0
    _first: FirstMachine = field(init=False)

    def __post_init__(self) -> None:
        self._first = first_machine(self.progress)

    @property
    def names(self) -> tuple[str, ...]:
        """The machines that are claimed."""
        return tuple(self._claimed)

    def claim(self) -> None:
        """Claims every machine that no other campaign has; waits for one if there is none.

        Raises:
            UsageError: a machine is not fit for the campaign.
        """
        said = False
        while not self._claimed:
            found, busy = nodes(), list[str]()
            for node in found:
                claimed = self._try_to_claim(node)
                if claimed is None:
                    busy.append(node.name)
                else:
                    self._claimed[node.name] = claimed
            if not self._claimed:
                if not said:
                    self.progress(
                        f"another campaign runs on every machine ({', '.join(busy)}); waiting for it"
                    )
                said = True
                time.sleep(QUEUE_S)
            elif busy:
                self.progress(f"left out, as another campaign runs there: {', '.join(busy)}")
        self._require_fit(self._facts())

    def _try_to_claim(self, node: Node) -> _Claimed | None:
        """The machine; None if another campaign has it."""
        actor = worker_on(node.id, Worker, is_cancelled, is_ordered=False)
        if actor is None:
            return None
        self._workers[node.id] = self._workers.get(node.id, 0) + 1
        return _Claimed(node, actor)

    def _facts(self) -> dict[str, MachineFacts]:
        found = dict[str, MachineFacts]()
        asked = {name: one.actor.facts.remote() for name, one in self._claimed.items()}
        for name, reference in asked.items():
            try:
                found[name] = msgspec.json.decode(ray.get(reference, timeout=ANSWER_S), type=MachineFacts)
            except GetTimeoutError:
                self._lose(
                    name,
                    HarnessError(
                        f"machine {name} has not started a worker within {ANSWER_S:.0f} s",
                        hint="see `flushlab fleet status`",
                    ),
                )
            except (RayActorError, RayTaskError, msgspec.DecodeError) as error:
                there = _installed(self._claimed[name].node)
                self._lose(name, _no_worker(name, there, error))
        return found

    def _lose(self, name: str, error: FlushlabError) -> None:
        """Leaves a machine out before its first block.

        Raises:
            FlushlabError: it was the last one, or it lacks what a user can give it.
        """
        if len(self._claimed) == 1 or isinstance(error, UsageError):
            raise error
        kill(self._claimed.pop(name).actor)
        self.progress(f"left out: {error.message}")

    def _require_fit(self, facts: Mapping[str, MachineFacts]) -> None:
        found = [text for name, one in facts.items() for text in problems(name, one, self.needs)]
        if found:
            raise UsageError(
                "; ".join(found),
                hint="correct it, or go on without that machine: run `flushlab fleet stop` there",
            )

    # -- as the runner sees them

    def open(self, opening: Opening) -> tuple[str, ...]:
        self._work = opening
        self.needs = self.needs._replace(root=opening.root_for)
        self._require_fit(self._facts())
        openings = self._supply_all(opening)
        opened = {name: one.actor.open.remote(openings[name]) for name, one in self._claimed.items()}
        for name, reference in opened.items():
            try:
                answer = answered(reference, self._first, self._claimed[name].actor)
                failure = msgspec.json.decode(answer, type=Failure | None)
            except RayError as error:
                self._lose(name, HarnessError(f"machine {name} was lost as it opened: {reason(error)}"))
                continue
            if failure is not None:
                self._lose(name, failure.error(name))
        self._looked_s = time.monotonic()
        return self.names

    def _supply_all(self, opening: Opening) -> Mapping[str, Opening]:
        """What each machine needs to open, once it has the campaign's content."""
        if opening.request is None:
            return dict.fromkeys(self._claimed, opening)
        self._supplies = supplies = supplies_of(opening.request)
        post = RayPost({name: one.actor for name, one in self._claimed.items()}, self._first)
        found = dict[str, Opening]()
        for name, delivered in Sending(supplies.needed, post, self.progress).to(self.names).items():
            if isinstance(delivered, FlushlabError):
                self._lose(name, delivered)
            else:
                found[name] = opening.at(supplies.plan_at(delivered))
        return found

    def submit(self, machine: str, number: int, task: Task | CrashTask) -> None:
        reference = self._claimed[machine].actor.run.remote(msgspec.json.encode(task))
        self._running[reference] = machine, number
        if isinstance(task, CrashTask):
            self._crashing.add(reference)

    def cancel(self, machine: str) -> None:
        for reference, (name, _) in self._running.items():
            if name == machine:
                ray.cancel(reference)

    def wait(self, seconds: float) -> Sequence[Event]:
        if self._first.look():
            self._look_for_nodes()
        self._open_received()
        references = [*self._running, *self._joining, *self._opening]
        if not references:
            time.sleep(min(seconds, QUEUE_S))
            return ()
        self._pulse()
        ray.wait(references, num_returns=1, timeout=seconds)
        ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
        if ready:
            self._first.heard()
        return [event for one in ready for event in self._events(one)]

    def _pulse(self) -> None:
        now = time.monotonic()
        if now - self._pulsed_s < PULSE_S:
            return
        self._pulsed_s = now
        busy = [self._claimed[machine] for machine, _ in self._running.values()]
        pulse(one.actor for one in (*busy, *self._joining.values(), *self._opening.values()))

    def dismiss(self, machine: str) -> None:
        claimed = self._forget(machine)
        if claimed is not None:
            self._barred.add(claimed.node.id)
            kill(claimed.actor)

    def rest(self) -> None:
        for machine in {machine for machine, _ in self._running.values()}:
            self.dismiss(machine)
        idle = [one.actor for one in self._claimed.values()]
        with suppress(RayError):
            ray.wait([actor.close.remote() for actor in idle], num_returns=len(idle), timeout=CLOSE_S)

    def close(self) -> None:
        if self._first.is_silent:
            return  # Ray would wait for the first machine; workers end with this process
        busy = {machine for machine, _ in self._running.values()}
        idle = [one.actor for name, one in self._claimed.items() if name not in busy]
        with suppress(RayError):
            ray.wait([actor.close.remote() for actor in idle], num_returns=len(idle), timeout=CLOSE_S)
        joining = [*self._joining.values(), *self._opening.values(), *(one for _, one in self._receiving)]
        for one in (*self._claimed.values(), *joining):
            kill(one.actor)

    def _events(self, reference: Any) -> Iterator[Event]:
        if reference in self._joining:
            self._open_joined(reference)
        elif reference in self._opening:
            yield from self._opened(reference)
        elif reference in self._running:
            yield self._ended(reference)

    def _ended(self, reference: Any) -> Event:
        machine, number = self._running.pop(reference)
        is_of_crashes = reference in self._crashing
        self._crashing.discard(reference)
        try:
            answer = bytes(ray.get(reference))
        except TaskCancelledError:  # it comes when the worker has left the block
            return Stopped(machine, number)
        except RayError as error:
            self._forget(machine)
            return Lost(machine, reason(error))
        if is_of_crashes:
            rows = msgspec.json.decode(answer, type=tuple[CrashRow, ...] | Failure)
            return (
                Failed(machine, number, rows) if isinstance(rows, Failure) else Crashed(machine, number, rows)
            )
        trials = msgspec.json.decode(answer, type=tuple[Trial, ...] | Failure)
        return (
            Failed(machine, number, trials) if isinstance(trials, Failure) else Ended(machine, number, trials)
        )

    def _forget(self, machine: str) -> _Claimed | None:
        for reference in [one for one, (name, _) in self._running.items() if name == machine]:
            del self._running[reference]
            self._crashing.discard(reference)
        return self._claimed.pop(machine, None)

    # -- machines that join, or come back

    def _look_for_nodes(self) -> None:
        now = time.monotonic()
        if self._work is None or now - self._looked_s < NODES_S:
            return
        self._looked_s = now
        receiving = [one for _, one in self._receiving]
        known = (*self._claimed.values(), *self._joining.values(), *self._opening.values(), *receiving)
        here = {one.node.id for one in known}
        for node in nodes():
            if node.id in here | self._barred or self._workers.get(node.id, 0) >= MOST_WORKERS:
                continue
            if node.name not in self._claimed and (claimed := self._try_to_claim(node)) is not None:
                self._joining[claimed.actor.facts.remote()] = claimed

    def _open_joined(self, reference: Any) -> None:
        claimed = self._joining.pop(reference)
        try:
            facts = msgspec.json.decode(ray.get(reference), type=MachineFacts)
        except (RayError, msgspec.DecodeError) as error:
            why = _no_worker(claimed.node.name, _installed(claimed.node), error)
            if isinstance(why, UsageError):
                self._leave_out(claimed, why.message)
            return
        if unfit := [*problems(claimed.node.name, facts, self.needs)]:
            self._leave_out(claimed, "; ".join(unfit))
            return
        self._supply_joined(claimed)

    def _supply_joined(self, claimed: _Claimed) -> None:
        """Sends the content beside the blocks that run."""
        assert self._work is not None, "machines join a campaign that is open"
        if self._supplies is None:
            self._opening[claimed.actor.open.remote(self._work)] = claimed
            return
        post = RayPost({claimed.node.name: claimed.actor}, self._first)
        sending = Sending(self._supplies.needed, post, self.progress)
        self._receiving.append((in_thread(lambda: sending.to([claimed.node.name])), claimed))

    def _open_received(self) -> None:
        """Opens the machines that have joined and have the content now."""
        for received, claimed in [one for one in self._receiving if one[0].done()]:
            self._receiving.remove((received, claimed))
            try:
                delivered = received.result()[claimed.node.name]
            except FlushlabError as error:
                delivered = error
            except RayError as error:
                name = claimed.node.name
                delivered = HarnessError(f"machine {name} was lost as it joined: {reason(error)}")
            if isinstance(delivered, FlushlabError):
                self._leave_out(claimed, delivered.message)
                continue
            assert self._work is not None
            assert self._supplies is not None
            opening = self._work.at(self._supplies.plan_at(delivered))
            self._opening[claimed.actor.open.remote(opening)] = claimed

    def _opened(self, reference: Any) -> Iterator[Joined]:
        claimed = self._opening.pop(reference)
        try:
            failure = msgspec.json.decode(ray.get(reference), type=Failure | None)
        except RayError:
            return
        if failure is not None:
            self._leave_out(claimed, f"machine {claimed.node.name}: {failure.message}")
            return
        self._claimed[claimed.node.name] = claimed
        yield Joined(claimed.node.name)

    def _leave_out(self, claimed: _Claimed, why: str) -> None:
        self._barred.add(claimed.node.id)
        kill(claimed.actor)
        self.progress(f"left out: {why}")


def _installed(node: Node) -> str | None:
    """The version of flushlab on a node that runs no worker of this one; empty: there is none; None: it does
    not answer."""

    def version() -> str:  # a nested function travels by value, and so needs no module of this version there
        try:
            from flushlab.version import __version__
        except ImportError:
            return ""
        return __version__

    where = NodeAffinitySchedulingStrategy(node.id, soft=False)
    asked = ray.remote(num_cpus=0, max_retries=0)(version).options(scheduling_strategy=where).remote()
    try:
        return str(ray.get(asked, timeout=VERSION_S))
    except RayError:
        return None


def _no_worker(name: str, there: str | None, error: Exception) -> FlushlabError:
    """Why a machine has no worker.

    Args:
        name: of the machine.
        there: the version of flushlab on it, as `_installed`.
        error: of the worker.
    """
    hint = "install the same flushlab[fleet] there, in the Python that runs Ray"
    if there == "":
        return UsageError(f"machine {name} has no flushlab", hint=hint)
    if there is not None and there != __version__:
        return UsageError(f"machine {name} has flushlab {there}, and this one {__version__}", hint=hint)
    return HarnessError(f"machine {name} was lost: {reason(error)}")


def reason(error: BaseException) -> str:
    """Why something was lost: of a worker in flushlab's words, else the first line of Ray's."""
    if isinstance(error, ActorUnavailableError):
        return "its worker does not answer"
    if isinstance(error, RayActorError):
        return "its worker has ended, or the machine is gone"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@dataclass(frozen=True)
class RayPost:
    """Reaches recipients in workers, by way of the object store.

    Attributes:
        actors: by the names of their machines.
        fleet: its first machine.
    """

    actors: Mapping[str, Any]
    fleet: FirstMachine

    def put(self, packed: bytes) -> Any:
        """A reference; the store forgets the chunk with it."""
        try:
            return ray.put(packed)
        except RayError as error:
            raise HarnessError(
                f"Ray's object store takes nothing: {reason(error)}",
                hint="see the memory and /dev/shm of this machine",
            ) from error

    def call(self, machine: str, method: str, *arguments: Any) -> Any:
        """A call to a worker; a chunk's reference is resolved there."""
        return getattr(self.actors[machine], method).remote(*arguments)

    def first(self, calls: Collection[Any]) -> Sequence[Any]:
        """The calls that have ended; raises `FleetError` if the first machine is not heard of."""
        while True:
            ready, _ = ray.wait([*calls], num_returns=1, timeout=LOOK_S)
            if ready:
                self.fleet.heard()
            self.fleet.look()
            if ready:
                return [*ready]
            pulse(self.actors.values())

    def result(self, call: Any) -> bytes:
        """The answer; raises `Gone`, and as `first`."""
        try:
            return bytes(answered(call, self.fleet, *self.actors.values()))
        except RayError as error:
            raise Gone(reason(error)) from error


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


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Runs something beside the command, which does not wait for it when it ends."""
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


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
