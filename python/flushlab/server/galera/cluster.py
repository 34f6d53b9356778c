"""Cluster: several sandboxes joined by Galera, on one machine.

Server layer; implements `Server` through its first node. Each node is a sandbox with an address of its
own, so guards, run records and the janitor see to it as to any other. Ready means that every node is synced,
has all others in its view and answers queries. Settings go to every node; where that takes restarts, one node
after the other leaves and comes back, so that the others keep the quorum.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from flushlab.build import Build
from flushlab.build.galera import Galera, galera_for
from flushlab.datadir import DataRoot, Restored, Snapshots
from flushlab.errors import (
    FlushlabError,
    NoMemory,
    PortTaken,
    ServerDied,
    ServerError,
    StartFailed,
    UsageError,
)
from flushlab.machine import available_memory_bytes, server_user
from flushlab.process.network import EmulatedNetwork
from flushlab.progress import Progress, silent
from flushlab.record import Value
from flushlab.server.galera.bootstrap import BOOTSTRAP, BootstrapChoice, choose, node_data, recover
from flushlab.server.protocol import Applied, NodeGroup, Refusal, differences, not_in_step
from flushlab.server.sandbox import kept as keeping
from flushlab.server.sandbox import log
from flushlab.server.sandbox.log import killed, shortage
from flushlab.server.sandbox.node import (
    GCACHE_BYTES,
    Membership,
    NodeAddress,
    NodeState,
    free_places,
    new_view,
    read_state,
    require_free_places,
    write_state,
)
from flushlab.server.sandbox.option_files import new_password
from flushlab.server.sandbox.sandbox import Sandbox
from flushlab.server.sandbox.spec import SandboxSpec
from flushlab.settings.configuration import Configuration
from flushlab.undo import Closing, Undo, undo_all
from flushlab.units import format_size

LEAST_NODES, MOST_NODES = 2, 9
SYNC_LIMIT_S = 300.0
"""Longest wait for nodes to be of one view; a node that dies is noticed at once."""

_NODE_BYTES = 200 << 20
"""Memory of a node besides its buffer pool, as measured of MariaDB 10.11 after its start."""
_POLL_S = 0.02
_LEAST_ANSWER_S = 5.0
"""A node that runs is asked once more when the time is up."""
_TRIES = 3


class Cluster(NodeGroup[Sandbox], Closing):
    def __init__(self, name: str, nodes: Sequence[Sandbox]) -> None:
        super().__init__(nodes)
        self.name = name
        self.seconds: dict[str, float] = {}
        self.positions: dict[int, int] = {}
        self._network: EmulatedNetwork | None = None
        self._own = Undo()  # the network and limits of disks

    @classmethod
    def start(cls, spec: SandboxSpec, progress: Progress = silent) -> Self:
        """Starts nodes on copies of one data directory and waits until all are synced; a slow disk of each
        ends with the cluster."""
        size, build = spec.nodes, spec.build
        require_size(size)
        galera = galera_for(build, progress)
        _require_memory(spec)
        own_roots, root = spec.node_roots, spec.data_root or DataRoot.open()
        spec = replace(
            spec,
            data_root=root,
            node_roots=own_roots or [root] * size,
            snapshots=spec.snapshots or Snapshots(),
            password=spec.password or new_password(),
        )
        copied = node_data(spec, galera, progress)
        of_node = copied.allocated_bytes + GCACHE_BYTES
        for own_root in own_roots:
            own_root.require_free(of_node, f"a node of {build.name}")
        if not own_roots:
            root.require_free(size * of_node, f"a cluster of {size} nodes of {build.name}")
        for attempt in range(_TRIES):
            try:
                cluster = cls._begin(replace(spec, snapshot=copied), galera, progress)
                break
            except PortTaken:  # another program was faster
                if spec.latency_s or attempt == _TRIES - 1:
                    raise
        if spec.kept:
            with Undo() as undo:
                undo.callback(cluster.remove)
                for node in cluster.nodes:
                    node.keep()
                undo.pop_all()
        return cluster

    @classmethod
    def _begin(cls, spec: SandboxSpec, galera: Galera, progress: Progress) -> Self:
        name, size, view = spec.name or f"c{secrets.token_hex(4)}", spec.nodes, new_view(spec.nodes)
        with Undo() as undo:
            along = Undo()
            undo.callback(along.close)
            network = along.enter_context(EmulatedNetwork(spec.latency_s)) if spec.latency_s else None
            numbers = range(1, size + 1)
            if network is not None:
                addresses = map(network.address, numbers)
                places = tuple(NodeAddress(address=address, own_network=True) for address in addresses)
            else:
                places = free_places(size, [member.address for member in _kept_members()])
            nodes: list[Sandbox] = []
            for number, root in zip(numbers, spec.node_roots, strict=True):
                membership = Membership(cluster=name, number=number, places=places, galera=galera)
                of_node = replace(
                    spec,
                    data_root=root,
                    settle=spec.settle and number == size,
                    membership=membership,
                    view=view,
                    link=partial(network.attach, number) if network is not None else None,
                )
                nodes.append(Sandbox.begin(of_node, progress))
                undo.callback(nodes[-1].close)
            cluster = cls(name, nodes)
            cluster._network, cluster._own = network, along
            cluster._await_first()
            undo.pop_all()
        return cluster

    @classmethod
    def attach(cls, name: str, *, stopped: bool = False) -> Self:
        names = node_names(name)
        if not names:
            kept = ", ".join(kept_clusters())
            raise UsageError(
                f"there is no kept cluster named {name!r}",
                hint=f"there are: {kept}" if kept else "`flushlab server start --cluster 3` starts one",
            )
        nodes = [Sandbox.attach(one, stopped=True) for one in names]
        dead = [node for node in nodes if not node.alive()]
        if dead and not stopped:
            names_of = ", ".join(node.name for node in dead)
            raise ServerDied(
                f"{len(dead)} of {len(nodes)} nodes of the cluster {name} do not run: {names_of};"
                f" the log of {dead[0].name} ends with:\n{dead[0].log_tail()}",
                hint=f"start it again with: flushlab server start --name {name}",
            )
        return cls(name, nodes)

    @property
    def build(self) -> Build:
        return self.first.build

    @property
    def kept(self) -> bool:
        return self.first.kept

    @property
    def pid(self) -> int | None:
        return self.speaker.pid

    @property
    def latency_s(self) -> float | None:
        return self._network.measured_s if self._network is not None else None

    @property
    def settings(self) -> Mapping[str, Value]:
        return self.first.settings

    @property
    def restored(self) -> Restored | None:
        return self.first.restored

    def alive(self) -> bool:
        alive = (node.alive() for node in self.nodes)
        return any(alive) if self._may_lose else all(alive)

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        if not self._may_lose:
            self.require_alive()
        return self.speaker.query(sql, args, answer_s=answer_s)

    def require_alive(self) -> None:
        for node in self.nodes:
            if not node.alive():
                raise ServerDied(
                    f"{node.name}, a node of the cluster {self.name}, is no longer running;"
                    f" its log ends with:\n{node.log_tail()}"
                )

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        self.require_alive()
        return self.first.read_back(names)

    def differences(self, names: Iterable[str]) -> list[str]:
        return differences({node.name: node for node in self.nodes}, names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        """Restarts roll. What one node refuses is refused: the nodes before it get back what they had."""
        self.require_alive()
        before, remaining = self.first.read_back(settings), dict(settings)
        refused, restarted = list[Refusal](), False
        for number, node in enumerate(self.nodes):
            applied = node.apply(remaining)
            restarted |= applied.restarted
            for refusal in applied.refused:
                refused.append(refusal)
                remaining.pop(refusal.name, None)
                for other in self.nodes[:number]:
                    other.apply({name: before[name] for name in (refusal.name,) if name in before})
        self.await_synced()
        if different := self.differences(remaining):
            raise ServerError(f"the nodes took different values: {'; '.join(different)}")
        return Applied(
            settings=self.first.read_back(remaining),
            refused=tuple(refused),
            restarted=restarted,
            warnings=applied.warnings,
        )

    def settled(self, limit_s: float = SYNC_LIMIT_S) -> float:
        return self.await_synced(limit_s, queues_empty=True)

    def await_synced(self, limit_s: float = SYNC_LIMIT_S, *, queues_empty: bool = False) -> float:
        began = time.monotonic()
        while True:
            self.require_alive()
            left_s = max(_LEAST_ANSWER_S, began + limit_s - time.monotonic())
            waits = [
                not_in_step(
                    node, node.name, nodes=len(self.nodes), queues_empty=queues_empty, answer_s=left_s
                )
                for node in self.nodes
            ]
            if not any(waits):
                return time.monotonic() - began
            if time.monotonic() > began + limit_s:
                raise ServerError(
                    f"the cluster {self.name} did not come together: {'; '.join(filter(None, waits))}",
                    hint="see the nodes' error logs; other programs may take the processors or the disk",
                )
            time.sleep(_POLL_S)

    def log_tail(self, lines: int = 20) -> str:
        return "\n".join(f"{node.name}:\n{node.log_tail(lines)}" for node in self.nodes)

    def restart(self, settings: Mapping[str, Value] | None = None) -> None:
        """Restarts node by node, with other settings unless None; the others keep the quorum.

        Raises:
            StartFailed: a node did not become ready.
        """
        for node in self.nodes:
            node.restart(settings)
        self.await_synced()

    def kill(self) -> None:
        undo_all(node.kill for node in self.nodes)

    def stop(self) -> None:
        """Stops the first node last: the cluster is bootstrapped from there."""
        undo_all(node.stop for node in reversed(self.nodes))

    def start_again(self) -> BootstrapChoice:
        """Starts a stopped or killed cluster; returns which node it was bootstrapped from, and why."""
        logged = [log.size(node.log) for node in self.nodes]
        with Undo() as undo:
            for node in self.nodes:
                undo.callback(node.give_up_start)
            try:
                return self._start_again()
            except (StartFailed, ServerDied) as error:
                if (lack := self._lack(logged)) is not None:
                    raise lack from error
                raise

    def _start_again(self) -> BootstrapChoice:
        began = time.monotonic()
        self.positions = {}
        members = [node.membership for node in self.nodes if not node.alive()]
        places = [member.place for member in members if member is not None]
        require_free_places([place for place in places if not place.own_network])
        if running := [node for node in self.nodes if node.alive()]:
            choice = BootstrapChoice(
                number=self.nodes.index(running[0]) + 1, why=f"{running[0].name} still runs"
            )
        else:
            choice = self._bootstrap()
        others = [node for node in self.nodes if not node.alive()]
        for node in others:
            self._begin_again(node)
        for node in others:
            node.await_again()
        self.await_synced()
        self.seconds["start"] = time.monotonic() - began
        return choice

    def unplug(self, number: int) -> None:
        if self._network is not None:
            self._network.detach(number)

    def replace(self, number: int, node: Sandbox) -> None:
        nodes = list(self.nodes)
        nodes[number - 1] = node
        self.nodes = tuple(nodes)

    def close(self) -> None:
        undo_all([*(node.close for node in self.nodes), self._own.close])

    def remove(self) -> None:
        stops = [self.stop] if self.first.disk is None else []
        undo_all([*stops, *(node.remove for node in reversed(self.nodes)), self._own.close])

    def _lack(self, logged: Sequence[int]) -> FlushlabError | None:
        """A shortage that any node reports: a joining node needs another one, which may have ended for it."""
        for node, before in zip(self.nodes, logged, strict=True):
            what = f"{node.name}, a node of the cluster {self.name}"
            if node.was_killed:
                return killed(f"{what},")
            said = log.since(node.log, before)
            if (found := shortage(f"{what}, says", node.endpoint, said)) is not None:
                return found
        return None

    def _await_first(self) -> None:
        began = time.monotonic()
        for number, node in enumerate(self.nodes, 1):
            try:
                node.await_ready()
            except StartFailed as error:
                message = f"{node.name}, node {number} of {len(self.nodes)}: {error.message}"
                raise StartFailed(message, hint=error.hint, refusal=error.refusal) from error
        self.await_synced()
        self.seconds["restore"] = sum(node.seconds["restore"] for node in self.nodes)
        self.seconds["start"] = time.monotonic() - began

    def _bootstrap(self) -> BootstrapChoice:
        states = {}
        for node in self.nodes:
            state = read_state(node.datadir)
            states[node.name] = state if state.known else recover(node)
            self._note_position(node, states[node.name])
        choice = choose(states)
        first = self.nodes[choice.number - 1]
        state = states[first.name]
        write_state(first.datadir, NodeState(state.group, state.seqno, safe=True), server_user())
        for node in self.nodes:
            (node.datadir / "gvwstate.dat").unlink(missing_ok=True)
        first.begin_again(once=[BOOTSTRAP])
        first.await_again()
        return choice

    def _begin_again(self, node: Sandbox) -> None:
        state = read_state(node.datadir)
        if not state.known and (found := recover(node)).known:
            self._note_position(node, found)
            node.begin_again(once=[f"--wsrep-start-position={found.group}:{found.seqno}"])
        else:
            self._note_position(node, state)
            node.begin_again()

    def _note_position(self, node: Sandbox, state: NodeState) -> None:
        if state.known:
            self.positions[self.nodes.index(node) + 1] = state.seqno


def start_server(spec: SandboxSpec, progress: Progress = silent) -> Sandbox | Cluster:
    return Sandbox.start(spec, progress) if spec.nodes == 1 else Cluster.start(spec, progress)


def require_size(size: int) -> None:
    if not LEAST_NODES <= size <= MOST_NODES:
        raise UsageError(
            f"a cluster of {size} nodes is not possible: it has {LEAST_NODES} to {MOST_NODES}",
            hint="use --cluster 3: three nodes keep a quorum when one is lost",
        )


def kept_clusters() -> list[str]:
    return list(dict.fromkeys(member.cluster for member in _kept_members()))


def node_names(cluster: str) -> list[str]:
    return [member.name for member in _kept_members() if member.cluster == cluster]


def _kept_members() -> list[Membership]:
    return [one.saved.membership for one in keeping.statuses() if one.saved.membership is not None]


def _require_memory(spec: SandboxSpec) -> None:
    configuration = Configuration(spec.settings, spec.build.identity)
    needed = spec.nodes * (int(configuration.value("innodb_buffer_pool_size") or 0) + _NODE_BYTES)
    free = available_memory_bytes()
    if needed > free:
        raise NoMemory(
            f"{spec.nodes} nodes need about {format_size(needed)} of memory, and {format_size(free)} is free",
            hint="lower innodb_buffer_pool_size, or use fewer nodes",
        )
