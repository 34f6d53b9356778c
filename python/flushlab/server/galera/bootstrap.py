"""Bootstrap: which node of a stopped cluster starts it again. Sits in `server`.

The one that has every transaction: the last to leave if all left in an orderly way, else the one that came
furthest (https://galeracluster.com/library/documentation/crash-recovery.html). How far a killed node has
come, `mariadbd --wsrep-recover` tells.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.build.galera import Galera
from flushlab.datadir import Snapshot, SnapshotKey, Snapshots
from flushlab.errors import StartFailed, StorageError
from flushlab.process import Guard, Reach
from flushlab.progress import Progress, silent
from flushlab.server.sandbox import log
from flushlab.server.sandbox.contents import initialised
from flushlab.server.sandbox.log import ending, killed, start_failed
from flushlab.server.sandbox.node import NOWHERE, Membership, NodeState, free_places, recovered
from flushlab.server.sandbox.sandbox import Sandbox
from flushlab.server.sandbox.spec import SandboxSpec
from flushlab.settings.configuration import layout_of


class NoPosition(StorageError):
    """Nodes that do not tell which of them has every transaction."""


class BootstrapChoice(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    why: str


def choose(states: Mapping[str, NodeState]) -> BootstrapChoice:
    nodes = list(states.items())
    words = ", ".join(f"{name} {state.seqno if state.known else 'unknown'}" for name, state in nodes)
    known = [state for state in states.values() if state.known]
    if not known:
        raise NoPosition(
            f"no node of the cluster knows its position: {words}",
            hint="their data directories hold no Galera state: start a new cluster",
        )
    if len({state.group for state in known}) > 1:
        raise NoPosition(
            f"the nodes have histories of different clusters: {words}",
            hint="keep the node that has your data: dump it, and load it into a new cluster",
        )
    furthest = max(state.seqno for state in known)
    ahead = [(number, *node) for number, node in enumerate(nodes, 1) if node[1].seqno == furthest]
    number, name, state = next((node for node in ahead if node[2].safe), ahead[0])
    if state.safe:
        return BootstrapChoice(number=number, why=f"{name} left last, at {furthest} (safe_to_bootstrap)")
    way = "mariadbd --wsrep-recover" if any(one.recovered for one in states.values()) else "grastate.dat"
    what = f"{name} came furthest, to {furthest}"
    if len(ahead) == len(nodes):
        what = f"all nodes are at {furthest}"
    return BootstrapChoice(number=number, why=f"{what} ({way}: {words})")


_LIMIT_S = 900.0


def recover(node: Sandbox) -> NodeState:
    assert node.membership is not None, "only a cluster's node has a position"
    if not (node.datadir / "ibdata1").is_file():
        return NOWHERE  # its data are gone: it takes another node's
    before = log.size(node.log)
    with Guard(f"{node.name}.recover") as guard:
        process = guard.spawn(
            [*node.build.command, f"--defaults-file={node.folder / 'my.cnf'}", "--wsrep-recover"],
            log=node.log,
            cwd=node.datadir,
            environment=node.membership.environment(node.build),
            # It tries whether somebody answers at the socket that the killed node left.
            reach=Reach(node.folders, "host"),
        )
        code = process.wait(_LIMIT_S)
    said = log.since(node.log, before)
    if code == 0:
        return recovered(said)
    what = f"the server {node.build.name}"
    if code is None:
        error = StartFailed(f"{what} had not recovered {node.name} after {_LIMIT_S:.0f} s")
        error.unfinished = True
        raise error
    if code == -signal.SIGKILL:
        raise killed(what, f" while it recovered {node.name}")
    how = f"could not recover {node.name} ({ending(code)})"
    failed = start_failed(node.build, node.endpoint, node.settings, said, how)
    if isinstance(failed, StartFailed):
        failed.hint = (
            f"empty {node.datadir} and start the cluster again: the node then copies another one's data,"
            " and what it alone had is lost"
        )
    raise failed


FORMAT = "1"
"""Raise this when the way nodes' data directories are made changes."""

BOOTSTRAP = "--wsrep-new-cluster"
_OWN = ("galera.cache", "gvwstate.dat", "ib_buffer_pool")
"""Files of the node that must not be copied."""


def node_data(spec: SandboxSpec, galera: Galera, progress: Progress = silent) -> Snapshot:
    kept = spec.snapshots or Snapshots()
    plain = spec.snapshot or initialised(spec.build, spec.settings, progress)
    key = SnapshotKey(
        {
            **plain.key.parts,
            "node": FORMAT,
            "galera": galera.id,
            "plain": plain.key.digest,
        }
    )
    if (found := kept.find(key)) is not None:
        return found
    progress(f"preparing the data directory of a cluster's nodes on {spec.build.name}")

    def fill(target: Path) -> None:
        (place,) = free_places(1)
        membership = Membership(
            cluster=f"node-{secrets.token_hex(4)}", number=1, places=(place,), galera=galera
        )
        alone = SandboxSpec(
            spec.build,
            settings=layout_of(spec.settings),
            data_root=spec.data_root,
            snapshot=plain,
            snapshots=kept,
            settle=False,
            membership=membership,
        )
        with Sandbox.prepare(alone) as node:
            node.begin_again(once=[BOOTSTRAP])
            node.await_ready()
            node.stop()
            for name in _OWN:
                (node.datadir / name).unlink(missing_ok=True)
            node.move_datadir(target)

    return kept.make(key, fill)
