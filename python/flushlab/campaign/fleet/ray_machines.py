"""Ray: the machines that run a campaign's blocks are workers on the nodes of a Ray cluster. Sits in
`campaign.fleet`.

Ray's placement, transport and failure detection are used as they are; a block never moves by itself, since
the dispatch decides (`dispatch.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from flushlab.campaign.fleet.health import problems
from flushlab.campaign.fleet.machines import (
    Ended,
    Event,
    Failed,
    Joined,
    Lost,
    Opening,
    Stopped,
    Task,
    own_error,
)
from flushlab.campaign.fleet.opened import OpenMachines
from flushlab.campaign.fleet.ray_workers import (
    QUEUE_S,
    RayWorker,
    first_machine,
    is_cancelled,
    nodes,
    reason,
    worker_on,
)
from flushlab.campaign.fleet.supplies import needed_by, request_at
from flushlab.campaign.fleet.worker import MachineFacts, Worker
from flushlab.campaign.pool.work import CrashTask
from flushlab.errors import FleetError, FlushlabError, HarnessError, UsageError
from flushlab.fleet.connect import FleetNode, task_on
from flushlab.fleet.transfer import Delivered, Needed, send
from flushlab.progress import Progress, silent
from flushlab.version import __version__

T = TypeVar("T")

VERSION_S = 10.0
"""Longest wait for the version of flushlab on a machine that has no worker."""
CLOSE_S = 5.0
"""Longest wait for an idle machine to end its servers in order; then its guard ends them."""
NODES_S = 5.0
"""So often new nodes are looked for."""
PULSE_S = 10.0
"""So often something is sent to a worker that has a call under way: see `RayWorker.pulse`."""
MOST_WORKERS = 3
"""Workers that are started on one node, after the first ones were lost."""


@contextmanager
def claimed(progress: Progress, root_for: str = "") -> Iterator[OpenMachines]:
    machines = RayMachines(progress, root_for)
    try:
        machines.claim()
        yield OpenMachines(machines, machines.names)
    finally:
        machines.close()


def foreseen() -> OpenMachines:
    """None is claimed, no worker is started; needs a connection."""
    names = tuple(node.name for node in nodes())
    return OpenMachines(RayMachines(silent), names)


class RayMachines:
    def __init__(self, progress: Progress, root_for: str = "") -> None:
        self._progress, self._root_for = progress, root_for
        self._first = first_machine(progress)
        self._workers = dict[str, RayWorker]()
        self._running = dict[Any, tuple[str, int]]()
        self._joining = list[tuple[RayWorker, Future[None]]]()
        self._barred = set[str]()
        self._started = dict[str, int]()
        self._opening: Opening | None = None
        self._content: Needed | None = None
        self._looked_s = self._pulsed_s = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._workers)

    def claim(self) -> None:
        said = False
        while not self._workers:
            busy = list[str]()
            for node in nodes():
                worker = self._try_to_claim(node)
                if worker is None:
                    busy.append(node.name)
                else:
                    self._workers[node.name] = worker
            if not self._workers:
                if not said:
                    self._progress(
                        f"another campaign runs on every machine ({', '.join(busy)}); waiting for it"
                    )
                said = True
                time.sleep(QUEUE_S)
            elif busy:
                self._progress(f"left out, as another campaign runs there: {', '.join(busy)}")
        self._require_fit()

    def _try_to_claim(self, node: FleetNode) -> RayWorker | None:
        actor = worker_on(node.id, Worker, is_cancelled)
        if actor is None:
            return None
        self._started[node.id] = self._started.get(node.id, 0) + 1
        return RayWorker(node, actor, self._first)

    def _require_fit(self) -> None:
        facts = {name: worker.first_call("facts") for name, worker in self._workers.items()}
        unfit = self._on_each(lambda worker: self._unfit(worker, facts[worker.machine]))
        if words := [text for one in unfit for text in one]:
            raise UsageError(
                "; ".join(words),
                hint="correct it, or go on without that machine: run `flushlab fleet stop` there",
            )

    def _unfit(self, worker: RayWorker, facts: Callable[[], Any]) -> list[str]:
        try:
            there = msgspec.json.decode(facts(), type=MachineFacts)
        except (HarnessError, msgspec.DecodeError) as error:
            installed = _installed(worker.node)
            if installed in (None, __version__):
                raise own_error(error) from error
            raise UsageError(
                f"machine {worker.machine} has no flushlab"
                if installed == ""
                else f"machine {worker.machine} has flushlab {installed}, and this one {__version__}",
                hint="install the same flushlab[fleet] there, in the Python that runs Ray",
            ) from error
        return [*problems(worker.machine, there, MachineFacts.here(), self._root_for)]

    def _on_each(self, work: Callable[[RayWorker], T]) -> list[T]:
        """What all are to do at once is called before, and waited for here; who fails is left out."""
        found = list[T]()
        for name, worker in [*self._workers.items()]:
            try:
                found.append(work(worker))
            except FlushlabError as error:
                if len(self._workers) == 1 or isinstance(error, UsageError | FleetError):
                    raise
                self._workers.pop(name).kill()
                self._progress(f"left out: {error.message}")
        return found

    # -- as the runner sees them

    def open(self, opening: Opening) -> tuple[str, ...]:
        self._opening, self._root_for = opening, opening.root_for
        self._require_fit()
        delivered: dict[str, Delivered] = {}
        if opening.request is not None:
            self._content = needed_by(opening.request)
            delivered = send(self._content, self._workers.values(), self._progress, _kept)
        opened = self._on_each(lambda worker: self._opened(worker, delivered))
        answers = dict(zip(self._workers, opened, strict=True))
        self._on_each(lambda worker: answers[worker.machine]())
        self._looked_s = time.monotonic()
        return self.names

    def _opened(self, worker: RayWorker, delivered: Mapping[str, Delivered]) -> Callable[[], Any]:
        opening = self._opening
        assert opening is not None
        if opening.request is not None:
            assert self._content is not None
            places = delivered[worker.machine]
            if isinstance(places, FlushlabError):
                raise places
            opening = opening._replace(request=request_at(opening.request, self._content, places))
        return worker.call("open", opening)

    def submit(self, machine: str, number: int, task: Task | CrashTask) -> None:
        self._running[self._workers[machine].actor.run.remote(task)] = machine, number

    def cancel(self, machine: str) -> None:
        for call in self._calls(machine):
            ray.cancel(call)

    def _calls(self, machine: str) -> list[Any]:
        return [call for call, (name, _) in self._running.items() if name == machine]

    def wait(self, seconds: float) -> Sequence[Event]:
        if self._first.look():
            self._look_for_nodes()
        joined = [*self._joined()]
        if not self._running:
            time.sleep(0 if joined else min(seconds, QUEUE_S))
            return joined
        now = time.monotonic()
        if now - self._pulsed_s >= PULSE_S:
            self._pulsed_s = now
            for machine, _ in self._running.values():
                self._workers[machine].pulse()
        calls = [*self._running]
        ray.wait(calls, num_returns=1, timeout=0 if joined else seconds)
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=0)
        if ready:
            self._first.heard()
        return [*joined, *map(self._ended, ready)]

    def _ended(self, call: Any) -> Event:
        machine, number = self._running.pop(call)
        try:
            return Ended(machine, number, tuple(ray.get(call)))
        except TaskCancelledError:  # it comes when the worker has left the block
            return Stopped(machine, number)
        except RayTaskError as error:
            return Failed(machine, number, own_error(error.cause))
        except RayError as error:
            self._forget(machine)
            return Lost(machine, reason(error))

    def dismiss(self, machine: str) -> None:
        if (worker := self._forget(machine)) is not None:
            self._barred.add(worker.node.id)
            worker.kill()

    def _forget(self, machine: str) -> RayWorker | None:
        for call in self._calls(machine):
            del self._running[call]
        return self._workers.pop(machine, None)

    def rest(self) -> None:
        for machine in {machine for machine, _ in self._running.values()}:
            self.dismiss(machine)
        self._close(self._workers.values())

    def close(self) -> None:
        if self._first.is_silent:
            return  # Ray would wait for the first machine; workers end with this process
        busy = {machine for machine, _ in self._running.values()}
        self._close(worker for name, worker in self._workers.items() if name not in busy)
        for worker in (*self._workers.values(), *(worker for worker, _ in self._joining)):
            worker.kill()

    def _close(self, idle: Iterable[RayWorker]) -> None:
        calls = [worker.actor.close.remote() for worker in idle]
        with suppress(RayError):
            ray.wait(calls, num_returns=len(calls), timeout=CLOSE_S)

    # -- machines that join, or come back

    def _look_for_nodes(self) -> None:
        now = time.monotonic()
        if self._opening is None or now - self._looked_s < NODES_S:
            return
        self._looked_s = now
        known = (*self._workers.values(), *(worker for worker, _ in self._joining))
        not_new = {worker.node.id for worker in known} | self._barred
        for node in nodes():
            if node.id in not_new or self._started.get(node.id, 0) >= MOST_WORKERS:
                continue
            if node.name not in self._workers and (worker := self._try_to_claim(node)) is not None:
                self._joining.append((worker, _in_thread(partial(self._join, worker))))

    def _join(self, worker: RayWorker) -> None:
        if unfit := self._unfit(worker, worker.first_call("facts")):
            raise UsageError("; ".join(unfit))
        delivered = {} if self._content is None else send(self._content, [worker], self._progress, _kept)
        self._opened(worker, delivered)()

    def _joined(self) -> Iterator[Joined]:
        for worker, future in [joining for joining in self._joining if joining[1].done()]:
            self._joining.remove((worker, future))
            try:
                future.result()
            except FlushlabError as error:
                if not isinstance(error, HarnessError):  # a worker that is lost may be replaced
                    self._barred.add(worker.node.id)
                worker.kill()
                self._progress(f"left out: {error.message}")
            else:
                self._workers[worker.machine] = worker
                yield Joined(worker.machine)


def _kept(piece: bytes) -> Any:
    """A reference to a piece of a file; the object store forgets the piece with it."""
    try:
        return ray.put(piece)
    except RayError as error:
        raise HarnessError(
            f"Ray's object store takes nothing: {reason(error)}",
            hint="see the memory and /dev/shm of this machine",
        ) from error


def _installed(node: FleetNode) -> str | None:
    """Empty: there is no flushlab; None: the node does not answer."""

    def version() -> str:  # a nested function travels by value, and so needs no module of this version there
        try:
            from flushlab.version import __version__
        except ImportError:
            return ""
        return __version__

    try:
        return str(ray.get(task_on(node.id, version).remote(), timeout=VERSION_S))
    except RayError:
        return None


def _in_thread(work: Callable[[], T]) -> Future[T]:
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
