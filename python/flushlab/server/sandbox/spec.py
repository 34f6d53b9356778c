"""Spec: how a server is started: which build, with which settings, on which data, under which name.

Sits in `server`. One frozen value; `Sandbox` and `Cluster` are started from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flushlab.build import Build
from flushlab.datadir import DataRoot, SlowDisk
from flushlab.record import Value
from flushlab.server.clients import Clients

if TYPE_CHECKING:
    from flushlab.datadir import Snapshot, Snapshots
    from flushlab.server.sandbox.node import Membership

READY_LIMIT_S = 900.0
"""Longest wait for a living server to become ready: recovery from a large redo log on a slow disk. A server
that dies is noticed at once."""


@dataclass(frozen=True)
class SandboxSpec:
    """What a sandbox, or each node of a cluster, is started from.

    Attributes:
        arguments: flushlab's own words of the command line.
        written: lines of the user's option file, which pass the admission at every start.
        data_root: parent of the data directory; `run` in flushlab's home if None.
        node_roots: parents of the nodes' data directories in a cluster, instead of `data_root`.
        snapshot: content at the first start; the build's initialised data directory if None.
        snapshots: the store of `snapshot`; the home's if None.
        settle: write the copy of `snapshot` out to the device before the start, so that every trial starts
            alike; without, the start is faster and the page cache warm.
        adopt: an existing data directory below the root, moved into the sandbox instead of a copy.
        slow_disk: model of a disk of the sandbox's own, made below the model's data root and removed with the
            sandbox.
        connects: without it, the kernel refuses the server's connections.
        init_sql: run at every start.
        idle_s: a start is over if the server does nothing for so long.
        check: called every half second of the wait; ends it by an exception.
        nodes: how many a cluster has; 1 is a sandbox alone.
        latency_s: a round trip between nodes. Above 0, each has a network of its own.
        membership, view, link: of one node of a cluster, which decides them.
    """

    build: Build
    _: KW_ONLY
    settings: Mapping[str, Value] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    written: Sequence[str] = ()

    data_root: DataRoot | None = None
    node_roots: Sequence[DataRoot] = ()
    snapshot: Snapshot | None = None
    snapshots: Snapshots | None = None
    settle: bool = True
    adopt: Path | None = None
    slow_disk: SlowDisk | None = None

    name: str | None = None
    kept: bool = False
    port: int | None = None
    password: str | None = None
    connects: bool = False
    clients: Clients | None = None

    init_sql: Sequence[str] = ()
    idle_s: float | None = None
    check: Callable[[], object] | None = None

    nodes: int = 1
    latency_s: float = 0.0
    membership: Membership | None = None
    view: tuple[str, ...] | None = None
    link: Callable[[int], None] | None = None
