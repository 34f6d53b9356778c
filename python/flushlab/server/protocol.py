"""The Server protocol: what the layers above may ask of any server.

`Sandbox` implements it; a fake for tests (`tests/fakes/server.py`) passes the same tests
(`tests/contract/test_server_contract.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

import msgspec

from flushlab.record import Endpoint, Launch, ServerIdentity, Storage, Value, Warning


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that the server did not accept, with the server's own reason (an error's text or the
    line of its error log)."""

    name: str
    value: Value
    reason: str


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of settings that were applied.

    Attributes:
        settings: each applied name as the server reads it back.
        refused: settings that the server did not accept and runs without.
        restarted: whether a restart was needed.
        warnings: values that the server rounded or that read back differently.
    """

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
    """The members of `Server` that are about nodes, for a server that is no cluster."""

    @property
    def nodes(self) -> Sequence[Server]:
        """Itself."""
        return (cast(Server, self),)

    def settled(self, limit_s: float) -> float:
        """0: nothing is sent to other nodes."""
        return 0.0

    def losing_nodes(self) -> AbstractContextManager[None]:
        """Nothing: there is no other node."""
        return nullcontext()
