"""Remote server: the user's running server, over one control connection. Its settings stay as they are.

Server layer; implements the reading half of `Server`. `put_back.Changes` alone changes settings.

Every wait for an answer ends. A statement may take long: a server that has not answered for a while is asked
for a sign of life on another connection. Without one, the statement is given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import msgspec
import pymysql

from flushlab.errors import ServerDied, ServerError, UsageError
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.record.running import WatchedServer
from flushlab.server.control import ConnectionGone, Control, explain, way_out
from flushlab.server.protocol import (
    Applied,
    NodeGroup,
    Server,
    SingleServer,
    differences,
    not_in_step,
    wsrep_status,
)
from flushlab.server.remote.login import Address, other_address
from flushlab.server.sql import read_variables
from flushlab.settings.catalog import version_of
from flushlab.undo import Closing

SILENT_S = 5.0
"""Longest wait for a sign of life, and for an answer until one is asked for."""
_GIVEN_UP_S = 10.0
"""Longest wait for the second sign of life, which is the last."""


class RemoteServer(SingleServer, Closing):
    """A server that runs already; a context manager that closes its control connection.

    `made` has global variables as the last SET GLOBAL has left them; None: not read back. `started_before_s`
    is by the server's own clock; None if it does not tell.
    """

    storage = Storage(visible=False)
    launch = Launch()
    pid: int | None = None

    def __init__(self, address: Address, *, connect_s: float = 2 * SILENT_S) -> None:
        self.address = address
        self.endpoint = address.endpoint
        self.when_silent: Callable[[], object] = lambda: None
        self.made: dict[str, Value | None] = {}
        self.started_before_s: float | None = None
        self._control = self._connection(connect_s)
        # Not SELECT: a node without a quorum answers SHOW alone.
        ((_, text),) = self.query("SHOW GLOBAL VARIABLES LIKE 'version'", answer_s=connect_s)
        self.identity = ServerIdentity(
            flavor="mariadb" if "mariadb" in str(text).lower() else "mysql",
            version=version_of(str(text).partition("-")[0]),
            version_text=str(text),
        )

    def alive(self) -> bool:
        with suppress(ServerError):
            try:
                self.query("SELECT 1", answer_s=SILENT_S)
            except ServerDied:
                self.when_silent()
                return False
        return True

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        try:
            with self._watched(answer_s):
                return self._control.query(sql, args, answer_s=answer_s)
        except ConnectionGone as error:
            raise ServerDied(
                f"the server at {self.address.name} does not answer: {error}", hint=error.hint
            ) from error
        except pymysql.MySQLError as error:
            errno, text = explain(error)
            raise ServerError(
                f"the server at {self.address.name}: {text}", hint=way_out(errno, text)
            ) from error

    @contextmanager
    def _watched(self, answer_s: float | None) -> Iterator[None]:
        answered = threading.Event()
        if answer_s is None or answer_s > SILENT_S:
            threading.Thread(target=self._watch, args=[answered], name="answer", daemon=True).start()
        try:
            yield
        finally:
            answered.set()

    def _watch(self, answered: threading.Event) -> None:
        while not answered.wait(SILENT_S):
            if self._lives(SILENT_S) or answered.is_set():
                continue
            self.when_silent()
            if not self._lives(_GIVEN_UP_S) and not answered.is_set():
                self._control.cut()
                return

    def _lives(self, limit_s: float) -> bool:
        other = self._connection(limit_s)
        with closing(other), suppress(ServerError):
            try:
                other.query("SELECT 1", answer_s=limit_s)
            except ConnectionGone:
                return False
        return True

    def _connection(self, connect_s: float) -> Control:
        address = self.address
        return Control(
            address.endpoint,
            address.transport,
            ssl_mode=address.ssl_mode,
            ssl_ca=address.ssl_ca,
            connect_s=connect_s,
        )

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        return read_variables(self.query, self.identity, names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        raise AssertionError(f"an attached server's settings are left alone: {', '.join(settings)}")

    def log_tail(self, lines: int = 20) -> str:
        return ""

    def stop(self) -> None:
        self._control.close()

    close = stop


CONNECT_S = 5.0
"""Longest wait for a connection to a server that is there, or is not."""

_EVERY = "a cluster is measured and changed as a whole"


class Member(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: str
    on: bool
    node: str = ""
    cluster: str = ""
    size: int = 0
    primary: bool = False
    state: str = ""
    incoming: tuple[str, ...] = ()


def members(named: Sequence[RemoteServer], stack: ExitStack) -> tuple[RemoteServer, ...]:
    reports = [member(server) for server in named]
    if len(named) == 1 and not reports[0].on:
        return tuple(named)
    servers = {report.node: server for report, server in zip(reports, named, strict=True)}
    lost = []
    for place in reports[0].incoming if len(named) == 1 else ():
        try:
            address = other_address(named[0].address, place)
            server = stack.enter_context(RemoteServer(address, connect_s=CONNECT_S))
        except (ServerError, ValueError) as error:
            if place:  # an arbitrator tells none
                lost.append(f"{place}: {error}")
            continue
        if (report := member(server)).node not in servers:
            servers[report.node] = server
            reports.append(report)
    require_whole(reports, lost)
    return tuple(servers.values())


def require_alike(nodes: Sequence[RemoteServer], names: Collection[str]) -> None:
    if found := differences({node.address.name: node for node in nodes}, names):
        raise ServerError(found[0])


def member(server: RemoteServer) -> Member:
    name, version = server.address.name, server.identity.version_text
    on = server.query("SHOW GLOBAL VARIABLES LIKE 'wsrep\\_on'")
    if not on or str(on[0][1]).upper() not in ("ON", "1"):
        return Member(name=name, version=version, on=False)
    status = wsrep_status(server.query, answer_s=None)
    return Member(
        name=name,
        version=version,
        on=True,
        node=status.get("wsrep_gcomm_uuid", ""),
        cluster=status.get("wsrep_cluster_state_uuid", ""),
        size=int(status.get("wsrep_cluster_size", "0")),
        primary=status.get("wsrep_cluster_status") == "Primary",
        state=status.get("wsrep_local_state_comment", ""),
        incoming=tuple(place.strip() for place in status.get("wsrep_incoming_addresses", "").split(",")),
    )


def require_whole(reports: Sequence[Member], lost: Sequence[str] = ()) -> None:
    first = reports[0]
    for node in reports:
        if not node.on:
            message = f"{node.name} is not a node of a cluster: wsrep_on is OFF"
            raise UsageError(message, hint="name nodes alone")
        if not node.primary:
            raise ServerError(f"{node.name} has no quorum", hint="see wsrep_cluster_status there")
        if node.state != "Synced":
            raise ServerError(f"{node.name} is {node.state}, not Synced", hint="wait until it is in step")
        if node.cluster != first.cluster:
            raise UsageError(f"{node.name} and {first.name} are nodes of different clusters", hint=_EVERY)
    reached, size = len({node.node for node in reports}), first.size - first.incoming.count("")
    if reached < size:
        why = "".join(f"; {place}" for place in lost)
        raise UsageError(
            f"{reached} of the cluster's {size} nodes can be reached{why}",
            hint=f"{_EVERY}: name all nodes, as in --dsn mysql://USER:PASSWORD@NODE1,NODE2,NODE3/DATABASE",
        )
    if len({node.version for node in reports}) > 1:
        versions = ", ".join(f"{node.name} runs {node.version}" for node in reports)
        message = f"the nodes run different versions: {versions}"
        raise UsageError(message, hint=f"{_EVERY}: upgrade them first")


_POLL_S = 0.02


class RemoteGroup(NodeGroup[RemoteServer]):
    pid: int | None = None

    def __init__(self, nodes: Sequence[RemoteServer]) -> None:
        super().__init__(nodes)
        self.seconds: dict[str, float] = {}  # its start took nothing
        self.before: dict[str, Value] = {}
        """Settings that change before each slice, as they were before the first change."""
        self.mark = ""
        self._silent: RemoteServer | None = None
        self._given_up = set[RemoteServer]()

    @property
    def name(self) -> str:
        return ", ".join(node.address.name for node in self.nodes)

    @property
    def address(self) -> Address:
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
        if self._may_lose:
            return any(map(self._is_left, self.nodes))
        self._silent = next((node for node in self.nodes if not node.alive()), None)
        return self._silent is None

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        if (silent := self._silent) is not None and not self._may_lose:
            self._silent = None
            raise ServerDied(f"{silent.address.name} does not answer any more", hint="is it running?")
        return self.speaker.query(sql, args, answer_s=answer_s)

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        return self.first.read_back(names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        return self.first.apply(settings)

    def log_tail(self, lines: int = 20) -> str:
        return ""

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        """Never: it goes on."""

    def close(self) -> None:
        """Nothing: whoever opened it closes it."""

    def settled(self, limit_s: float) -> float:
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
    with ExitStack() as stack:
        named = [stack.enter_context(RemoteServer(one, connect_s=CONNECT_S)) for one in addresses]
        yield RemoteGroup(members(named, stack))


def watched_at(address: Address) -> WatchedServer:
    return WatchedServer(
        key=address.name,
        endpoint=address.endpoint,
        transport=address.transport,
        ssl_mode=address.ssl_mode,
        ssl_ca=address.ssl_ca,
    )


def watched(server: Server, arm: str = "") -> WatchedServer:
    endpoint, pid = server.endpoint, server.pid
    remote = server if isinstance(server, RemoteServer | RemoteGroup) else None
    address = remote.address if remote else Address(endpoint=endpoint)
    found = watched_at(msgspec.structs.replace(address, endpoint=endpoint))
    return msgspec.structs.replace(
        found,
        key=f"{found.key} {pid}" if pid is not None else found.key,
        arm=arm,
        pid=pid,
        pids=tuple(node.pid for node in server.nodes if node.pid is not None),
    )
