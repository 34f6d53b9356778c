"""Spec: which server a sandbox starts, on which data, under which name, and how its starts are limited.

Sits in `server`. Frozen values; `Sandbox` and `Cluster` are started from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flushlab.build import Build
from flushlab.datadir import DataRoot, SlowDisk
from flushlab.record import DiskProfile, Value
from flushlab.server.clients import Clients

if TYPE_CHECKING:
    from flushlab.datadir import Snapshot, Snapshots
    from flushlab.server.sandbox.node import Membership

READY_LIMIT_S = 900.0
"""Longest wait for a living server to become ready: recovery from a large redo log on a slow disk. A server
that dies is noticed at once."""


@dataclass(frozen=True)
class DataDirectory:
    """Where a data directory lies, and its content at the first start.

    Attributes:
        root: parent of the data directory; `run` in flushlab's home if None.
        node_roots: parents of the nodes' data directories in a cluster, instead of `root`.
        snapshot: the content; the build's initialised data directory if None.
        snapshots: the store of `snapshot`; the home's if None.
        settle: write the copy of `snapshot` out to the device before the start, so that every trial starts
            alike; without, the start is faster and the page cache warm.
        adopt: an existing data directory below the root, moved into the sandbox instead of a copy.
        slow_disk: model of a disk of the sandbox's own, made below the model's data root and removed with the
            sandbox.
    """

    root: DataRoot | None = None
    node_roots: Sequence[DataRoot] = ()
    snapshot: Snapshot | None = None
    snapshots: Snapshots | None = None
    settle: bool = True
    adopt: Path | None = None
    slow_disk: SlowDisk | None = None

    @classmethod
    def below(cls, path: Path | str | None, profile: DiskProfile | None = None) -> DataDirectory:
        root = DataRoot.open(Path(path) if path else None)
        return cls(root, slow_disk=SlowDisk(root, profile) if profile is not None else None)


@dataclass(frozen=True, kw_only=True)
class Instance:
    """Name, account and network access; unless it `connects`, the kernel refuses its connections."""

    name: str | None = None
    kept: bool = False
    port: int | None = None
    password: str | None = None
    connects: bool = False
    clients: Clients | None = None


@dataclass(frozen=True, kw_only=True)
class Startup:
    """Rules of every start; `check` is called every half second of the wait and ends it by an exception."""

    sql: Sequence[str] = ()
    limit_s: float = READY_LIMIT_S
    idle_s: float | None = None
    check: Callable[[], object] | None = None


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    build: Build
    settings: Mapping[str, Value]
    arguments: Sequence[str] = ()
    written: Sequence[str] = ()
    data: DataDirectory = DataDirectory()
    instance: Instance = Instance()
    startup: Startup = Startup()
    membership: Membership | None = None
    view: tuple[str, ...] | None = None
    link: Callable[[int], None] | None = None
