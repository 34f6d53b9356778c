"""Node group: one server or the nodes of a cluster; the first node speaks for all.

Server layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import msgspec

from flushlab.record import Endpoint, Launch, ServerIdentity, Storage
from flushlab.server.protocol import Server

N = TypeVar("N", bound=Server)


class NodeGroup(Generic[N]):
    """Nodes that take a load as one server, or a server that is alone.

    Args:
        nodes: in their order; every node is of the same version.
    """

    def __init__(self, nodes: Sequence[N]) -> None:
        assert nodes, "there is a server"
        self.nodes = tuple(nodes)
        self._may_lose = False

    @property
    def first(self) -> N:
        """The node that the load goes to, unless it is spread."""
        return self.nodes[0]

    @property
    def identity(self) -> ServerIdentity:
        """Which server answered."""
        return msgspec.structs.replace(self.first.identity, nodes=len(self.nodes))

    @property
    def endpoint(self) -> Endpoint:
        """How to reach the first node."""
        return self.first.endpoint

    @property
    def storage(self) -> Storage:
        """Where the data directories lie."""
        return self.first.storage

    @property
    def launch(self) -> Launch:
        """What no variable shows."""
        return self.first.launch

    @property
    def speaker(self) -> N:
        """The node that speaks for all: the first one; inside `losing_nodes`, the first that is left."""
        if not self._may_lose:
            return self.first
        return next((node for node in self.nodes if self._is_left(node)), self.first)

    @contextmanager
    def losing_nodes(self) -> Iterator[None]:
        """Inside, nodes may die: the first of those that are left speaks for all."""
        self._may_lose = True
        try:
            yield
        finally:
            self._may_lose = False

    def _is_left(self, node: N) -> bool:
        return node.alive()
