"""Killed: what crashes under load and comes back, over and over. Sits in `crashed`.

A single server is killed and started again on its own. Nodes of a cluster crash and come back to a cluster
that lives. Two kinds of disk:

- If mysqld is killed, the node comes back on its own disk as it is.
- If the power fails, the node comes back on the disk's content after the crash. Each node has a disk that
  records, and each crash has a cluster of its own.

A power failure is a kill, plus the disk's content a moment later. If the nodes have a network between them,
the node is removed from the network first. On loopback, data that the node has already written to its sockets
still arrives at the others.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from flushlab.crashed import judge
from flushlab.crashed.recording import (
    CrashedServer,
    CrashingLoad,
    LoadOutcome,
    UnderLoad,
    run_until_killed,
)
from flushlab.crashed.recovered_server import (
    AcksTable,
    NotBack,
    as_one,
    ask,
    await_together,
    make_acks_table,
    not_ready,
    require_alike,
    said,
    see,
    way_back,
)
from flushlab.crashed.replica import listening_replica, of_killed
from flushlab.datadir import DataRoot
from flushlab.datadir.fault_disk import FaultDisk, FaultImage, remove_record
from flushlab.errors import FlushlabError, ServerDied, StartFailed
from flushlab.record import Crash, CrashNode, CrashPoint, Failure, NodesKind, NodeWay, Storage
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.galera.bootstrap import NoPosition
from flushlab.server.galera.cluster import Cluster

_STALL_S = 15.0
"""Longest wait for commits to go on without a node that died: Galera gives it up after 5 s."""
_POLL_S = 0.05
_BETWEEN_S = 8.0
"""Longest time between two nodes that die one after the other without coming back: the second one before or
after Galera has given up the first. Half of the times are below a second."""


class Killed(ABC):
    may_crash_in_recovery: ClassVar[bool] = False

    def __init__(
        self, server: CrashedServer, prepare: Callable[[Sandbox], CrashingLoad], folder: Path
    ) -> None:
        self._spec, self._prepare, self._folder = server, prepare, folder
        self._stack = ExitStack()
        self.commits_per_s = 0.0
        self.storage: Storage | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def kill(self, point: CrashPoint) -> Crash:
        began = time.monotonic()
        goes_on = False
        try:
            found, goes_on = self._crash(point)
        finally:
            if not goes_on:
                self._end()
        return msgspec.structs.replace(found, seconds=time.monotonic() - began)

    @abstractmethod
    def _crash(self, point: CrashPoint) -> tuple[Crash, bool]:
        """Result of a crash; True: the same server can crash again."""

    def _end(self) -> None:
        self._stack.close()


class KilledServer(Killed):
    """`afresh`: its load cannot run twice on the same data."""

    may_crash_in_recovery = True

    def __init__(
        self,
        server: CrashedServer,
        prepare: Callable[[Sandbox], CrashingLoad],
        folder: Path,
        *,
        afresh: bool = False,
        replicas: Path | None = None,
    ) -> None:
        super().__init__(server, prepare, folder)
        self._seconds = server.seconds
        self._afresh, self._replicas = afresh, replicas
        self._alive: tuple[Sandbox, CrashingLoad] | None = None

    def _crash(self, point: CrashPoint) -> tuple[Crash, bool]:
        server, load = self._alive or self._begin()
        draws = random.Random(point.seed)
        seconds = self._seconds * (0.1 + 0.9 * draws.random())
        if load.acks:
            make_acks_table(server, load.acks)
        with ExitStack() as stack:
            replica = None
            if self._replicas and load.acks:
                replica = stack.enter_context(listening_replica(server, load.acks, self._replicas))
            ran = run_until_killed(server, load, seconds, self._folder)
            if replica:
                replica.stop_listening()
            self.commits_per_s = ran.commits_per_s
            if ran.over:  # kills are to fall into what it takes
                self._seconds = ran.lasted_s
            found = self._judged(server, load, ran, point, draws)
            if replica and self._replicas and load.acks and found.outcome not in ("not_started", "unknown"):
                old, new = of_killed(server, load.acks, replica, self._replicas)
                found = msgspec.structs.replace(found, replica=old, new_replica=new)
        return found, server.alive() and not self._afresh

    def _judged(
        self, server: Sandbox, load: CrashingLoad, ran: LoadOutcome, point: CrashPoint, draws: random.Random
    ) -> Crash:
        try:
            if point.kind == "in_recovery":
                server.begin_again()
                time.sleep(draws.random() * server.seconds["start"])
                server.kill()
            server.start_again()
            recovered = ask(server, load.acks)
        except StartFailed as error:
            return not_ready(point, ran.notes, error)
        except (FlushlabError, OSError) as error:
            server.kill()  # nobody knows what it would do under the next load
            return judge.unknown(point, ran.notes, str(error))
        return judge.judge(point, ran.notes, ran.ended_ns, recovered)

    def _begin(self) -> tuple[Sandbox, CrashingLoad]:
        started = self._spec.start()
        assert not isinstance(started, Cluster), "it is alone"
        server = self._stack.enter_context(started)
        self.storage = server.storage
        load = self._prepare(server)
        if load.side:
            load.side.prepare(server)
        self._alive = server, load
        return self._alive

    def _end(self) -> None:
        self._alive = None
        super()._end()


def bring_back(cluster: Cluster, down: Collection[int]) -> dict[int, NodeWay]:
    """Raises NotBack if they do not come and it is their data; another error if they lack something."""
    alone = len(down) == len(cluster.nodes)
    try:
        choice = cluster.start_again()
    except StartFailed as error:
        if error.unfinished:
            raise
        raise NotBack(said(error.message)) from error
    except (NoPosition, ServerDied) as error:
        raise NotBack(said(error.message)) from error
    return {
        number: "bootstrap"
        if alone and number == choice.number
        else way_back(cluster.nodes[number - 1].said_since_start())
        for number in down
    }


def node_on(image: FaultImage, datadir: Path, spec: SandboxSpec, stack: ExitStack) -> Sandbox:
    root = DataRoot.open(image.mount)
    node = Sandbox.prepare(replace(spec, data_root=root, adopt=datadir, check=image.require_served))
    stack.callback(node.close)
    return node


class KilledCluster(Killed):
    def __init__(
        self,
        server: CrashedServer,
        prepare: Callable[[Sandbox], CrashingLoad],
        folder: Path,
        which: NodesKind,
    ) -> None:
        super().__init__(server, prepare, folder)
        self._which = which
        self._cluster: Cluster | None = None
        self._disks: list[FaultDisk] = []
        self._under: list[FaultDisk | FaultImage] = []
        self._ran = False

    def _crash(self, point: CrashPoint) -> tuple[Crash, bool]:
        """The point's seed draws its nodes, too; a fault once a cluster is under load makes it `unknown`."""
        try:
            found = self._crash_nodes(point)
        except (FlushlabError, OSError) as error:
            if not self._ran:
                raise
            return judge.unknown(point, (), str(error)), False
        return found, found.outcome in ("kept", "lost") and self._spec.fail is None

    def _crash_nodes(self, point: CrashPoint) -> Crash:
        cluster = self._alive()
        draws = random.Random(point.seed)
        order = draws.sample(range(1, len(cluster.nodes) + 1), len(cluster.nodes))
        driven = order[-1] if draws.random() < 0.5 else order[0]
        load, acks = self._load(cluster, cluster.nodes[driven - 1])
        seconds = self._spec.seconds * (0.1 + 0.9 * draws.random())
        down, crashed_ns = dict[int, int](), 0
        began = time.monotonic()

        def fell(number: int) -> int:
            now_ns = time.monotonic_ns()
            cluster.unplug(number)  # a machine without power sends nothing more
            cluster.nodes[number - 1].kill()
            # Whatever it had acknowledged is at this record or before it.
            down[number] = self._disks[number - 1].position() if self._disks else 0
            return now_ns

        try:
            with UnderLoad(cluster.nodes[driven - 1], load, self._folder) as loading:
                self._ran = True
                loading.let_run(seconds)
                self.commits_per_s = loading.acknowledged() / max(seconds, _POLL_S)
                if self._which == "one":
                    crashed_ns = fell(order[0])
                    if driven != order[0]:
                        _await_more(loading)
                        loading.let_run(seconds / 2)
                else:
                    pauses_s = [
                        _BETWEEN_S * draws.random() ** 3 if self._which == "cascade" else 0.0 for _ in order
                    ]
                    for number, pause_s in zip(order, pauses_s, strict=True):
                        crashed_ns = fell(number)
                        if number != order[-1]:
                            time.sleep(pause_s)
            notes = loading.notes()
            on_the_way = list[Crash]()
            if left := [number for number in range(1, len(cluster.nodes) + 1) if number not in down]:
                await_together([cluster.nodes[number - 1] for number in left])
                with cluster.losing_nodes():
                    seen = see(cluster, acks, only=left)
                on_the_way = [judge.judge(point, notes, crashed_ns, node.recovered) for node in seen]
            if self._spec.fail:
                for number, at in down.items():
                    self._put_back(cluster, number, at, self._spec.fail, point.seed)
            ways = bring_back(cluster, down)
        except NotBack as error:
            self._require_served()
            notes = loading.notes()
            return judge.not_started(point, notes, f"{error} ({time.monotonic() - began:.0f} s)")
        seen = see(cluster, acks)
        self._require_served()
        nodes = [
            CrashNode(
                number=number,
                crashed=number in ways,
                way=ways.get(number, "stayed"),
                outcome="unknown",
                position=cluster.positions.get(number),
            )
            for number in range(1, len(cluster.nodes) + 1)
        ]
        return as_one(point, notes, crashed_ns, seen, nodes, on_the_way)

    def _load(self, cluster: Cluster, driven: Sandbox) -> tuple[CrashingLoad, AcksTable]:
        first = cluster.first
        load = self._prepare(first)
        assert load.spec and load.acks, "a cluster is judged by its acknowledgement table"
        require_alike(cluster, self._spec.spec.settings)
        make_acks_table(first, load.acks)
        cluster.settled()
        for node, disk in zip(cluster.nodes, self._disks, strict=False):
            node.query("SET GLOBAL innodb_max_dirty_pages_pct = 0")  # crashes meet page writes, too
            disk.start_recording()
        spec = msgspec.structs.replace(load.spec, endpoint=driven.endpoint)
        return CrashingLoad(spec, load.acks), load.acks

    def _alive(self) -> Cluster:
        if self._cluster is not None:
            return self._cluster
        for _ in range(self._spec.spec.nodes if self._spec.fail else 0):
            disk = self._spec.new_disk()
            self._stack.callback(remove_record, disk.record)
            self._disks.append(self._stack.enter_context(disk))
        self._under = [*self._disks]
        started = self._spec.start(self._disks)
        assert isinstance(started, Cluster), "it has nodes"
        self._cluster = started
        self._stack.callback(started.close)
        self.storage = started.storage
        return started

    def _put_back(self, cluster: Cluster, number: int, at: int, fail: Failure, seed: int) -> None:
        dead, disk = cluster.nodes[number - 1], self._disks[number - 1]
        assert dead.membership is not None, "it is a node"
        datadir = dead.datadir.relative_to(disk.mount)
        dead.close()
        disk.require_served()
        disk.close()
        left = FaultImage(disk.record, at, fail, seed + number, self._spec.data_root.path)
        image = self._under[number - 1] = self._stack.enter_context(left)
        moved = image.mount / "left"  # the node that comes back has the name of the one that is dead
        (image.mount / datadir.parts[0]).rename(moved)
        spec = replace(dead.spec, view=None)
        cluster.replace(number, node_on(image, moved.joinpath(*datadir.parts[1:]), spec, self._stack))

    def _require_served(self) -> None:
        for disk in self._under:
            disk.require_served()

    def _end(self) -> None:
        self._cluster = None
        self._disks, self._under = [], []
        super()._end()


def _await_more(loading: UnderLoad) -> None:
    before, deadline = loading.acknowledged(), time.monotonic() + _STALL_S
    with suppress(FlushlabError):  # the load has ended: whatever it was told is noted
        while loading.acknowledged() == before and time.monotonic() < deadline:
            loading.let_run(_POLL_S)
