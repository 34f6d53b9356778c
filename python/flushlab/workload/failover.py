"""Failover: the nodes that die in a window whose load moves on to the next one, and what that costs.

Beside `engine`, which glances every few hundredths of a second; nothing here is finer than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flushlab.record import LostNode, Warning
from flushlab.server.protocol import Server


class Losses:
    """Nodes that died since it was made.

    Args:
        nodes: all of the cluster, in their order.
    """

    def __init__(self, nodes: Sequence[Server]) -> None:
        self._nodes = dict(enumerate(nodes, 1))
        self._lost: dict[int, LostNode] = {}
        self._events, self._committed_s = 0, 0.0
        self.glance(0.0, 0)

    def glance(self, now_s: float, events: int) -> None:
        """Looks who is left.

        Args:
            now_s: since the window's beginning.
            events: completed so far.
        """
        if events != self._events:
            self._events, self._committed_s = events, now_s
        for number in [number for number, node in self._nodes.items() if not node.alive()]:
            del self._nodes[number]
            self._lost[number] = LostNode(node=number, at_s=now_s, without_commit_s=0.0)
        for number, one in self._lost.items():
            longest_s = max(one.without_commit_s, now_s - self._committed_s)
            self._lost[number] = LostNode(node=number, at_s=one.at_s, without_commit_s=longest_s)

    def rests_s(self, now_s: float) -> float:
        """How long no transaction has been committed."""
        return now_s - self._committed_s

    @property
    def nodes(self) -> tuple[LostNode, ...]:
        """In the order in which they died."""
        return tuple(self._lost.values())


def lost_node_warnings(lost: Iterable[LostNode]) -> tuple[Warning, ...]:
    """What is said of nodes that died."""
    return tuple(
        Warning(
            "node-lost",
            f"node {one.node} died {f'{one.at_s:.1f} s into' if one.at_s else 'before'} the window: for"
            f" {one.without_commit_s:.1f} s no transaction was committed. The figure includes that",
        )
        for one in lost
    )
