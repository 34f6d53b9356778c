"""Bootstrap: which node of a stopped cluster starts it again. Pure; sits in `server`.

The one that has every transaction: the last to leave if all left in an orderly way, else the one that came
furthest (https://galeracluster.com/library/documentation/crash-recovery.html).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flushlab.errors import StorageError
from flushlab.server.sandbox.grastate import State


class NoPosition(StorageError):
    """Nodes that do not tell which of them has every transaction."""


class NodePosition(msgspec.Struct, frozen=True, kw_only=True):
    """A stopped node and its position.

    Attributes:
        name: of the node.
        state: its position.
        recovered: the node was killed, and its position comes from `--wsrep-recover`.
    """

    name: str
    state: State
    recovered: bool = False


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The node to bootstrap from.

    Attributes:
        number: of the node, from 1.
        why: in words.
    """

    number: int
    why: str


def choose(found: Sequence[NodePosition]) -> Choice:
    """The node with the most transactions, by the positions of all nodes.

    Raises:
        NoPosition: no node knows its position, or they come from different clusters.
    """
    known = [(number, one) for number, one in enumerate(found, 1) if one.state.known]
    if not known:
        raise NoPosition(
            f"no node of the cluster knows its position: {_positions(found)}",
            hint="their data directories hold no Galera state: start a new cluster",
        )
    groups = sorted({one.state.group for _, one in known})
    if len(groups) > 1:
        raise NoPosition(
            f"the nodes have histories of different clusters: {_positions(found)}",
            hint="keep the node that has your data: dump it, and load it into a new cluster",
        )
    furthest = max(one.state.seqno for _, one in known)
    ahead = [(number, one) for number, one in known if one.state.seqno == furthest]
    number, one = next(((n, node) for n, node in ahead if node.state.safe), ahead[0])
    return Choice(number=number, why=_why(one, found, len(ahead)))


def _why(one: NodePosition, found: Sequence[NodePosition], ahead: int) -> str:
    if one.state.safe:
        return f"{one.name} left last, at {one.state.seqno} (safe_to_bootstrap)"
    way = "mariadbd --wsrep-recover" if any(other.recovered for other in found) else "grastate.dat"
    what = f"{one.name} came furthest, to {one.state.seqno}"
    if ahead == len(found):
        what = f"all nodes are at {one.state.seqno}"
    return f"{what} ({way}: {_positions(found)})"


def _positions(found: Sequence[NodePosition]) -> str:
    return ", ".join(f"{one.name} {one.state.seqno if one.state.known else 'unknown'}" for one in found)
