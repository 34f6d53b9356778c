"""Remote group: the user's own server, or all nodes of their Galera cluster, as one server that takes a load.

Server layer; implements `Server` through the first node. It is never started, stopped or killed; its settings
change by `put_back.Changes` alone, which writes down what was there before.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from flushlab.errors import ServerDied, ServerError
from flushlab.record import Value
from flushlab.server.node_group import NodeGroup, not_in_step
from flushlab.server.protocol import Applied
from flushlab.server.remote.address import Address
from flushlab.server.remote.members import CONNECT_S, members
from flushlab.server.remote.server import RemoteServer

_POLL_S = 0.02


class RemoteGroup(NodeGroup[RemoteServer]):
    """Servers that run already.

    Args:
        nodes: the server, or all nodes of its cluster; whoever opened them closes them.
    """

    pid: int | None = None
    """It may run anywhere."""

    def __init__(self, nodes: Sequence[RemoteServer]) -> None:
        super().__init__(nodes)
        self.seconds: dict[str, float] = {}
        """What its start took: nothing."""
        self.before: dict[str, Value] = {}
        """Settings that change before each slice, as they were before the first change."""
        self.mark = ""
        """The comment of tables that are made on it; empty while none are to be made."""
        self._silent: RemoteServer | None = None
        self._given_up = set[RemoteServer]()

    @property
    def name(self) -> str:
        """Where it is, for people."""
        return ", ".join(node.address.name for node in self.nodes)

    @property
    def address(self) -> Address:
        """How a load connects: as to the node with the strictest rule."""
        encrypted = (node.address for node in self.nodes if node.address.ssl_mode != "disabled")
        return next(encrypted, self.first.address)

    @contextmanager
    def losing_nodes(self) -> Iterator[None]:
        """Inside, nodes may die; who has not answered is not asked again, for that may take seconds."""
        with super().losing_nodes():
            try:
                yield
            finally:
                self._given_up.clear()

    def _is_left(self, node: RemoteServer) -> bool:
        if node in self._given_up or not node.alive():
            self._given_up.add(node)
            return False
        return True

    def alive(self) -> bool:
        """Whether every node answers, or any inside `losing_nodes`."""
        if self._may_lose:
            return any(map(self._is_left, self.nodes))
        self._silent = next((node for node in self.nodes if not node.alive()), None)
        return self._silent is None

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Runs one statement on the first node; inside `losing_nodes`, on the first that answers.

        Raises:
            ServerDied: it does not answer, or `alive` has found a node that does not.
            ServerError: it answered with an error.
        """
        if (silent := self._silent) is not None and not self._may_lose:
            self._silent = None
            raise ServerDied(f"{silent.address.name} does not answer any more", hint="is it running?")
        return self.speaker.query(sql, args, answer_s=answer_s)

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        """Global variables of the first node; `members.require_alike` compares the others."""
        return self.first.read_back(names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        """Never: it is not ours."""
        return self.first.apply(settings)

    def log_tail(self, lines: int = 20) -> str:
        """It cannot be seen."""
        return ""

    def stop(self) -> None:
        """Lets go of it; it goes on."""
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        """Never: it goes on."""

    def close(self) -> None:
        """Nothing: whoever opened it closes it."""

    def settled(self, limit_s: float) -> float:
        """Waits until every node of a cluster is in step and has applied what it received.

        Returns:
            The seconds that took; 0 for a server that is alone.

        Raises:
            ServerError: it is not so within `limit_s`.
        """
        began = time.monotonic()
        while len(self.nodes) > 1:
            found = [not_in_step(node, node.address.name, queues_empty=True) for node in self.nodes]
            if not (waits := "; ".join(filter(None, found))):
                break
            if time.monotonic() > began + limit_s:
                raise ServerError(f"the cluster is not in step: {waits}", hint="see the nodes' error logs")
            time.sleep(_POLL_S)
        return time.monotonic() - began


@contextmanager
def open_group(addresses: Sequence[Address]) -> Iterator[RemoteGroup]:
    """Somebody's server, with all nodes of its cluster if it is of one.

    Args:
        addresses: of one of them, or of all.

    Raises:
        UsageError: they are no cluster, or not all of it.
        ServerError: one does not answer, or the cluster is not whole and in step.
    """
    with ExitStack() as stack:
        named = [stack.enter_context(RemoteServer(one, connect_s=CONNECT_S)) for one in addresses]
        yield RemoteGroup(members(named, stack))
