"""Node data: the data directory that all nodes of a cluster start from, as a snapshot.

Server layer. A plain data directory knows no position in a cluster's history, and nodes that know none copy
the whole of another one's first. So a single node is bootstrapped on it once and stopped in an orderly way.
Nodes that start from copies of the result are at the same position, and need nothing from each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from flushlab.build import Build, Progress, silent
from flushlab.build.galera import Galera
from flushlab.datadir import DataRoot, Snapshot, SnapshotKey, Snapshots
from flushlab.record import Value
from flushlab.server.sandbox.contents import initialised
from flushlab.server.sandbox.membership import Membership
from flushlab.server.sandbox.ports import free_places
from flushlab.server.sandbox.sandbox import Sandbox
from flushlab.server.sandbox.spec import DataDirectory, Node, SandboxSpec
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import layout_of

FORMAT = "1"
"""Raise this when the way nodes' data directories are made changes."""

BOOTSTRAP = "--wsrep-new-cluster"
_OWN = ("galera.cache", "gvwstate.dat", "ib_buffer_pool")
"""Files of the node that must not be copied."""


def node_data(
    build: Build,
    galera: Galera,
    *,
    settings: Mapping[str, Value],
    data_root: DataRoot,
    snapshot: Snapshot | None = None,
    snapshots: Snapshots | None = None,
    progress: Progress = silent,
) -> Snapshot:
    """The snapshot that nodes start from; made if it is not there.

    Args:
        build: the server.
        galera: the provider.
        settings: of the nodes; only those that shape files count.
        data_root: of the node that makes the snapshot.
        snapshot: a server's data directory; the build's initialised one if None.
        snapshots: the store of snapshots.
        progress: told if it must be made.

    Raises:
        StartFailed: the node did not become ready.
        NoSpace, StorageError: it could not be written.
    """
    kept = snapshots or Snapshots()
    plain = snapshot or initialised(build, settings, progress)
    key = SnapshotKey(
        {
            **plain.key.parts,
            "node": FORMAT,
            "galera": galera.id,
            "plain": plain.key.digest,
        }
    )
    found = kept.find(key)
    if found is not None:
        return found
    progress(f"preparing the data directory of a cluster's nodes on {build.name}")
    layout = layout_of(settings, load_catalog())

    def fill(target: Path) -> None:
        (place,) = free_places(1)
        membership = Membership(
            cluster=f"node-{secrets.token_hex(4)}", number=1, places=(place,), galera=galera
        )
        spec = SandboxSpec(
            build=build,
            settings=layout,
            data=DataDirectory(data_root, snapshot=plain, snapshots=kept, settle=False),
            node=Node(membership=membership),
        )
        with Sandbox.prepare(spec) as node:
            node.begin_again(once=[BOOTSTRAP])
            node.await_ready()
            node.stop()
            for name in _OWN:
                (node.datadir / name).unlink(missing_ok=True)
            node.move_datadir(target)

    return kept.make(key, fill)
