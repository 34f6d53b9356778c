"""The Server protocol: what the layers above may ask of any server.

`Sandbox` implements it; a fake for tests (`tests/fakes/server.py`) passes the same tests
(`tests/contract/test_server_contract.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from flushlab.errors import ServerError
from flushlab.record import Endpoint, Launch, ServerIdentity, Storage, Value, Warning
from flushlab.settings.configuration import Configuration


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: Value
    reason: str


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    settings: Mapping[str, Value]
    refused: tuple[Refusal, ...] = ()
    restarted: bool = False
    warnings: tuple[Warning, ...] = ()


class Server(Protocol):
    """A running server."""

    @property
    def identity(self) -> ServerIdentity: ...

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def storage(self) -> Storage: ...

    @property
    def launch(self) -> Launch: ...

    @property
    def pid(self) -> int | None:
        """Process id of the server itself, or None if it cannot be seen."""
        ...

    @property
    def nodes(self) -> Sequence[Server]:
        """The servers that it consists of: itself, or a cluster's nodes, whose first one speaks for it."""
        ...

    def alive(self) -> bool:
        """True if the server's process runs (a zombie does not) or, for an external one, answers."""
        ...

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Runs one statement on the control connection (reconnecting once if it is gone), and waits for the
        answer for `answer_s`, or as long as it takes.

        Raises:
            ServerDied: the server is gone; carries the tail of its error log.
            ServerError: the server answered with an error.
        """
        ...

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        """Global variables as they are, typed as the catalog types them; unknown names are left out."""
        ...

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        """Sets dynamic settings at run time, restarts for the others, reads every one back."""
        ...

    def log_tail(self, lines: int = 20) -> str:
        """The end of the server's error log; empty if there is none."""
        ...

    def stop(self) -> None:
        """Stops the server in an orderly way; does nothing if it is stopped."""
        ...

    def settled(self, limit_s: float) -> float:
        """Seconds until every node has applied what it received; 0 for a server that is no cluster.

        Raises:
            ServerError: a node is not in step within `limit_s`.
        """
        ...

    def losing_nodes(self) -> AbstractContextManager[None]:
        """Inside, nodes of a cluster may die: the first of those that are left speaks for all."""
        ...


class SingleServer:
    @property
    def nodes(self) -> Sequence[Server]:
        return (cast(Server, self),)

    def settled(self, limit_s: float) -> float:
        return 0.0

    def losing_nodes(self) -> AbstractContextManager[None]:
        return nullcontext()


N = TypeVar("N", bound=Server)


class NodeGroup(Generic[N]):
    def __init__(self, nodes: Sequence[N]) -> None:
        assert nodes, "there is a server"
        self.nodes = tuple(nodes)
        self._may_lose = False

    @property
    def first(self) -> N:
        return self.nodes[0]

    @property
    def identity(self) -> ServerIdentity:
        return msgspec.structs.replace(self.first.identity, nodes=len(self.nodes))

    @property
    def endpoint(self) -> Endpoint:
        return self.first.endpoint

    @property
    def storage(self) -> Storage:
        return self.first.storage

    @property
    def launch(self) -> Launch:
        return self.first.launch

    @property
    def speaker(self) -> N:
        if not self._may_lose:
            return self.first
        return next((node for node in self.nodes if self._is_left(node)), self.first)

    @contextmanager
    def losing_nodes(self) -> Iterator[None]:
        self._may_lose = True
        try:
            yield
        finally:
            self._may_lose = False

    def _is_left(self, node: N) -> bool:
        return node.alive()


_ANSWER_S = 5.0
"""A node that has not answered by then is called frozen; on a busy machine a second is no reason."""


def quorum_problem(server: Server, lost: Collection[int] = ()) -> str:
    """Nodes that are dead, frozen or without a quorum, in words; numbers in `lost`, from 1, may be dead."""
    if len(server.nodes) == 1:
        return ""
    nodes = dict(enumerate(server.nodes, 1))
    asked = {number: node for number, node in nodes.items() if number not in lost} or nodes
    for _ in range(2):  # those that are left may be about to notice
        troubles = ((number, _trouble(node)) for number, node in asked.items())
        words = ", ".join(f"node {number} {trouble}" for number, trouble in troubles if trouble)
        if not words or "no quorum" in words:
            break
    return f"the cluster lost its quorum: {words}" if "no quorum" in words else words


def not_in_step(
    node: Server,
    name: str,
    *,
    nodes: int | None = None,
    queues_empty: bool = False,
    answer_s: float | None = None,
) -> str:
    status = wsrep_status(node.query, answer_s=answer_s)
    if status["wsrep_cluster_status"] != "Primary":
        return f"{name} has no quorum"
    if nodes is not None and int(status["wsrep_cluster_size"]) != nodes:
        return f"{name} sees {status['wsrep_cluster_size']} of {nodes} nodes"
    if status["wsrep_local_state_comment"] != "Synced":
        return f"{name} is {status['wsrep_local_state_comment']}"
    if queues_empty and int(status["wsrep_local_recv_queue"]):
        return f"{name} has {status['wsrep_local_recv_queue']} write sets to apply"
    return ""


def _trouble(node: Server) -> str:
    if not node.alive():
        return "died" if node.storage.visible else "does not answer"
    try:
        status = wsrep_status(node.query, answer_s=_ANSWER_S)
    except ServerError:
        return "does not answer"
    return "" if status.get("wsrep_cluster_status") == "Primary" else "has no quorum"


def wsrep_status(query: Callable[..., list[tuple[Any, ...]]], *, answer_s: float | None) -> dict[str, str]:
    rows = query("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'", answer_s=answer_s)
    return {str(name).lower(): str(value) for name, value in rows}


def differences(nodes: Mapping[str, Server], names: Iterable[str]) -> list[str]:
    (first_name, first), *others = nodes.items()
    wanted, words = first.read_back(names), list[str]()
    for node_name, node in others:
        same, theirs = Configuration({}, node.identity).same, node.read_back(wanted)
        words += [
            f"{name} is {theirs.get(name)} on {node_name} and {value} on {first_name}"
            for name, value in wanted.items()
            if name not in theirs or not same(name, value, theirs[name])
        ]
    return words


def replica_statement(identity: ServerIdentity) -> str:
    """Statement for a replica's state: MariaDB has a row for each of its sources."""
    if identity.flavor == "mariadb":
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if identity.version >= (8, 0, 22) else "SHOW SLAVE STATUS"


def sources_of(server: Server) -> list[str]:
    """The hosts that a replica has its data from.

    Raises:
        StatementFailed: the account may not see them; `rights` finds that out beforehand.
    """
    column = 3 if server.identity.flavor == "mariadb" else 1
    return [str(row[column]) for row in server.query(replica_statement(server.identity))]


def replicas_of(server: Server) -> int:
    return sum(str(row[4]).startswith("Binlog Dump") for row in server.query("SHOW PROCESSLIST"))
