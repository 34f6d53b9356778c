"""Remote server: the user's running server, over one control connection. Its settings stay as they are.

Server layer; implements the reading half of `Server`. `put_back.Changes` alone changes settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pymysql

from flushlab.errors import ServerDied, ServerError
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.server import variables
from flushlab.server.control import ConnectionGone, Control, explain
from flushlab.server.protocol import Applied, SingleServer
from flushlab.server.refusals import way_out
from flushlab.server.remote.address import Address
from flushlab.settings.catalog import version_of

_ANSWER_S = 5.0
"""Longest wait for a sign of life."""


class RemoteServer(SingleServer):
    """A server that runs already; a context manager that closes its control connection.

    Args:
        address: of the server.
        connect_s: longest wait for a connection and the first answer; None waits as for a server that starts
            up.
    """

    storage = Storage(visible=False)
    launch = Launch()
    pid: int | None = None
    """It may run anywhere."""

    def __init__(self, address: Address, *, connect_s: float | None = None) -> None:
        self.address = address
        self.endpoint = address.endpoint
        self._control = Control(
            address.endpoint,
            address.transport,
            ssl_mode=address.ssl_mode,
            ssl_ca=address.ssl_ca,
            connect_s=connect_s,
        )
        # Not SELECT: a node without a quorum answers SHOW alone.
        ((_, text),) = self.query("SHOW GLOBAL VARIABLES LIKE 'version'", answer_s=connect_s)
        self.identity = ServerIdentity(
            flavor="mariadb" if "mariadb" in str(text).lower() else "mysql",
            version=version_of(str(text).partition("-")[0]),
            version_text=str(text),
        )

    def alive(self) -> bool:
        """Whether it answers, be it with an error."""
        try:
            self.query("SELECT 1", answer_s=_ANSWER_S)
        except ServerDied:
            return False
        except ServerError:
            return True
        return True

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Runs one statement on the control connection; waits for the answer as long as it takes if None.

        Raises:
            ServerDied: it does not answer.
            StatementFailed: it answered with an error.
        """
        try:
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

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        """Global variables as they are; unknown names are left out."""
        return variables.read_variables(self.query, self.identity, names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        """Never: it is not ours."""
        raise AssertionError(f"an attached server's settings are left alone: {', '.join(settings)}")

    def log_tail(self, lines: int = 20) -> str:
        """It cannot be seen."""
        return ""

    def stop(self) -> None:
        """Lets go of it; it goes on."""
        self._control.close()

    def __enter__(self) -> RemoteServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
