"""Cluster, killed: nodes that crash under load and come back, on a cluster that lives. Sits in `crashed`.

What a node comes back on is its own disk as it is (its process was killed), or what a crash has left of it:
then each node has a disk that records, and a cluster of its own for each crash. A power cut is a kill, with
what the disk holds a moment later. Where the nodes have a network between them, the node is taken off it
first; on loopback, what it had written to its sockets before still arrives at the others.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from flushlab.crashed import judge
from flushlab.crashed.killed import Killed
from flushlab.crashed.ledger import Note
from flushlab.crashed.live import Load, Loading, make_ledger
from flushlab.crashed.nodes import NotBack, Seen, as_one, await_together, require_alike, see, way_back
from flushlab.crashed.recovered_server import Ledger, said
from flushlab.crashed.run import CrashedServer, Disks, start
from flushlab.datadir import DataRoot
from flushlab.datadir.fault_disk import FaultDisk, FaultImage, remove_record
from flushlab.errors import FlushlabError, ServerDied, StartFailed
from flushlab.record import (
    CrashImage,
    CrashNode,
    CrashPoint,
    LoadSpec,
    NodesKind,
    NodeWay,
)
from flushlab.server import DataDirectory, Instance, Sandbox, Startup
from flushlab.server.galera.bootstrap import NoPosition
from flushlab.server.galera.cluster import Cluster
from flushlab.server.sandbox.spec import Node, SandboxSpec

_STALL_S = 15.0
"""Longest wait for commits to go on without a node that died: Galera gives it up after 5 s."""
_POLL_S = 0.05
_BETWEEN_S = 8.0
"""Longest time between two nodes that die one after the other without coming back: the second one before or
after Galera has given up the first. Half of the times are below a second."""


class _PowerLoss:
    """The disks of nodes that lose their power, and what their caches hold."""

    def __init__(self, spec: CrashedServer, disks: Disks, seed: int, stack: ExitStack) -> None:
        self._disks, self._seed, self._stack = disks, seed, stack
        self.own: list[FaultDisk] = []
        self._at: dict[int, int] = {}
        for _ in range(spec.nodes):
            disk = FaultDisk(disks.folder, disks.size, disks.fs, disks.emulate, record=True)
            stack.callback(remove_record, disk.record)
            self.own.append(stack.enter_context(disk))
        self._under: list[FaultDisk | FaultImage] = [*self.own]

    def require_served(self) -> None:
        """Refuses disks that could not do what they were asked; errors: as of a disk."""
        for disk in self._under:
            disk.require_served()

    def hits(self, number: int) -> None:
        """A node is dead: whatever it had acknowledged is at this record or before it."""
        self._at[number] = self.own[number - 1].position()

    def put_back(self, cluster: Cluster, number: int) -> None:
        """Replaces a dead node by one on what the crash has left of its disk."""
        dead, disk = cluster.nodes[number - 1], self.own[number - 1]
        assert dead.membership is not None, "it is a node"
        datadir = dead.datadir.relative_to(disk.mount)
        dead.close()
        disk.require_served()
        disk.close()
        seed, folder = self._seed + number, self._disks.folder
        left = FaultImage(disk.record, self._at[number], self._disks.fail, seed, folder)
        image = self._under[number - 1] = self._stack.enter_context(left)
        moved = image.mount / "left"  # the node that comes back has the name of the one that is dead
        (image.mount / datadir.parts[0]).rename(moved)
        spec = SandboxSpec(
            build=dead.build,
            settings=dead.settings,
            arguments=dead.arguments,
            instance=Instance(password=dead.endpoint.password),
            node=Node(membership=dead.membership, link=dead.link),
        )
        cluster.replace(number, node_on(image, moved.joinpath(*datadir.parts[1:]), spec, self._stack))


def bring_back(cluster: Cluster, down: Collection[int]) -> dict[int, NodeWay]:
    """Brings back the nodes that are down, as `flushlab server start` does; how each came.

    Raises:
        NotBack: they do not come, and it is their data.
        FlushlabError: they do not for another reason: they lack something, or take too long.
    """
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
    """A node that does not run yet, on what a crash has left of a node's data; it ends with the stack."""
    data = DataDirectory(DataRoot.open(image.mount), adopt=datadir)
    node = Sandbox.prepare(replace(spec, data=data, startup=Startup(check=image.require_served)))
    stack.callback(node.close)
    return node


class KilledCluster(Killed):
    """A cluster whose nodes crash.

    Args:
        server, prepare, folder: as of `Killed`.
        which: of its nodes.
        disks: crash with their nodes; None: the processes alone do.
    """

    def __init__(
        self,
        server: CrashedServer,
        prepare: Callable[[Sandbox], Load],
        folder: Path,
        which: NodesKind,
        disks: Disks | None,
    ) -> None:
        super().__init__(server, prepare, folder)
        self._which, self._disks = which, disks
        self._cluster: Cluster | None = None
        self._power: _PowerLoss | None = None
        self._ran = False

    def _crash(self, point: CrashPoint) -> tuple[CrashImage, bool]:
        """One crash; the point's seed draws its nodes, too. What goes wrong once a cluster was under load
        makes it `unknown`."""
        try:
            found = self._crash_nodes(point)
        except (FlushlabError, OSError) as error:
            if not self._ran:
                raise
            return judge.unknown(point, (), str(error)), False
        return found, found.outcome in ("kept", "lost") and self._disks is None

    def _crash_nodes(self, point: CrashPoint) -> CrashImage:
        cluster = self._alive(point.seed)
        draws = random.Random(point.seed)
        order = draws.sample(range(1, len(cluster.nodes) + 1), len(cluster.nodes))
        driven = order[-1] if self._which == "rolling" or draws.random() < 0.5 else order[0]
        server = cluster.nodes[driven - 1]
        load, ledger = self._load(cluster, server)
        seconds = self._spec.seconds * (0.1 + 0.9 * draws.random())
        crash = _Crash(cluster, self._power, ledger, point)
        began = time.monotonic()
        try:
            with Loading(server, load, ledger, self._folder) as loading:
                self._ran = True
                loading.let_run(seconds)
                self.commits_per_s = loading.acknowledged() / max(seconds, _POLL_S)
                if self._which == "one":
                    crash.one(order[0], loading, survives=driven != order[0], seconds=seconds)
                elif self._which == "all":
                    crash.these(order, [0.0] * len(order))
                elif self._which == "rolling":
                    crash.rolling(order, loading, seconds)
                else:
                    crash.these(order, [_BETWEEN_S * draws.random() ** 3 for _ in order])
            notes = loading.notes()
            crash.look_at_those_left(notes)
            crash.bring_back()
        except NotBack as error:
            self._require_served()
            notes = loading.notes()
            return judge.not_started(point, notes, f"{error} ({time.monotonic() - began:.0f} s)")
        seen = see(cluster, ledger)
        self._require_served()
        return as_one(point, notes, crash.crashed_ns, seen, crash.nodes(), crash.on_the_way)

    def _load(self, cluster: Cluster, server: Sandbox) -> tuple[LoadSpec, Ledger]:
        first = cluster.first
        load = self._prepare(first)
        assert load.spec is not None and load.ledger is not None, "a cluster is judged by its ledger"
        require_alike(cluster, self._spec.settings)
        make_ledger(first, load.ledger)
        cluster.settled()
        if self._power:
            for node, disk in zip(cluster.nodes, self._power.own, strict=True):
                node.query("SET GLOBAL innodb_max_dirty_pages_pct = 0")  # crashes meet page writes, too
                disk.start_recording()
        return msgspec.structs.replace(load.spec, endpoint=server.endpoint), load.ledger

    def _alive(self, seed: int) -> Cluster:
        if self._cluster is not None:
            return self._cluster
        if self._disks is not None:
            self._power = _PowerLoss(self._spec, self._disks, seed, self._stack)
        started = start(self._spec, self._power.own if self._power else ())
        assert isinstance(started, Cluster), "it has nodes"
        self._cluster = started
        self._stack.callback(self._cluster.close)
        self.storage = self._cluster.storage
        return self._cluster

    def _require_served(self) -> None:
        if self._power:
            self._power.require_served()

    def _end(self) -> None:
        self._cluster = None
        super()._end()


class _Crash:
    """One crash, and what is known of it so far."""

    def __init__(self, cluster: Cluster, power: _PowerLoss | None, ledger: Ledger, point: CrashPoint) -> None:
        self._cluster, self._power, self._ledger, self._point = cluster, power, ledger, point
        self._down: list[int] = []
        self._ways: dict[int, NodeWay] = {}
        self._positions: dict[int, int] = {}
        self.crashed_ns = 0
        self.on_the_way: list[CrashImage] = []

    def one(self, number: int, loading: Loading, *, survives: bool, seconds: float) -> None:
        """A node dies; if the load goes to another one, it goes on for a while."""
        self._fell(number)
        if survives:
            before = loading.acknowledged()
            _await_more(loading, before)
            loading.let_run(seconds / 2)

    def these(self, order: Sequence[int], between_s: Sequence[float]) -> None:
        """Nodes die one after the other, and none comes back."""
        for number, pause_s in zip(order, between_s, strict=True):
            self._fell(number)
            if number != order[-1]:
                time.sleep(pause_s)

    def rolling(self, order: Sequence[int], loading: Loading, seconds: float) -> None:
        """Nodes die one after the other, each when the one before is back; the load goes to the last."""
        for number in order:
            self._fell(number)
            if number != order[-1]:
                _await_more(loading, loading.acknowledged())
                self.bring_back()
                loading.let_run(seconds / 2)

    def look_at_those_left(self, notes: Sequence[Note]) -> None:
        """Judges the nodes that did not crash, before the others come back."""
        left = [number for number in range(1, len(self._cluster.nodes) + 1) if number not in self._down]
        if left and self._down:
            await_together([self._cluster.nodes[number - 1] for number in left])
            with self._cluster.losing_nodes():
                seen: list[Seen] = see(self._cluster, self._ledger, only=left)
            self.on_the_way += [
                judge.judge(self._point, notes, self.crashed_ns, one.recovered) for one in seen
            ]

    def bring_back(self) -> None:
        """Brings back the nodes that are down; errors: as `bring_back`."""
        if self._power:
            for number in self._down:
                self._power.put_back(self._cluster, number)
        self._ways |= bring_back(self._cluster, self._down)
        self._positions |= self._cluster.positions
        self._down = []

    def nodes(self) -> list[CrashNode]:
        """What is known of each."""
        return [
            CrashNode(
                number=number,
                crashed=number in self._ways,
                way=self._ways.get(number, "stayed"),
                outcome="unknown",
                position=self._positions.get(number),
            )
            for number in range(1, len(self._cluster.nodes) + 1)
        ]

    def _fell(self, number: int) -> None:
        self.crashed_ns = time.monotonic_ns()
        self._cluster.unplug(number)  # a machine without power sends nothing more
        self._cluster.nodes[number - 1].kill()
        if self._power:
            self._power.hits(number)
        self._down.append(number)


def _await_more(loading: Loading, before: int) -> None:
    """Waits until commits go on."""
    deadline = time.monotonic() + _STALL_S
    with suppress(FlushlabError):  # the load has ended: whatever it was told is noted
        while loading.acknowledged() == before and time.monotonic() < deadline:
            loading.let_run(_POLL_S)
