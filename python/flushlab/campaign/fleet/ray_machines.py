"""Ray: the machines that run a campaign's blocks are workers on the nodes of a Ray cluster. Sits in
`campaign.fleet`.

Ray's placement, transport and failure detection are used as they are; a block never moves by itself, since
the dispatch decides (`dispatch.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError, TaskCancelledError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flushlab.campaign.fleet.health import Needs, problems
from flushlab.campaign.fleet.machines import (
    Crashed,
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
from flushlab.campaign.fleet.ray_post import RayPost
from flushlab.campaign.fleet.ray_workers import (
    ANSWER_S,
    QUEUE_S,
    FirstMachine,
    Node,
    answered,
    first_machine,
    is_cancelled,
    kill,
    nodes,
    pulse,
    reason,
    worker_on,
)
from flushlab.campaign.fleet.runner import OpenMachines
from flushlab.campaign.fleet.sending import Delivered, Sending
from flushlab.campaign.fleet.supplies import Supplies, supplies_of
from flushlab.campaign.fleet.worker import MachineFacts, Worker
from flushlab.campaign.pool.work import CrashTask
from flushlab.errors import FlushlabError, HarnessError, UsageError
from flushlab.progress import Progress, silent
from flushlab.record import CrashRow, Trial
from flushlab.version import __version__

T = TypeVar("T")

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
                        f"machine {name} has not answered within {ANSWER_S:.0f} s",
                        hint="its worker has not started, or its link is down: see `flushlab fleet status`",
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
        self._receiving.append((_in_thread(lambda: sending.to([claimed.node.name])), claimed))

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


def _in_thread(work: Callable[[], T]) -> Future[T]:
    """Runs something beside the command, which does not wait for it when it ends."""
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
