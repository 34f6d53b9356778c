"""Remote server: the user's running server, over one control connection. Its settings stay as they are.

Server layer; implements the reading half of `Server`. `put_back.Changes` alone changes settings.

Every wait for an answer ends. A statement may take long: a server that has not answered for a while is asked
for a sign of life on another connection. Without one, the statement is given up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

SILENT_S = 5.0
"""Longest wait for a sign of life, and for an answer until one is asked for."""
_GIVEN_UP_S = 10.0
"""Longest wait for the second sign of life, which is the last."""


class RemoteServer(SingleServer):
    """A server that runs already; a context manager that closes its control connection.

    Args:
        address: of the server.
        connect_s: longest wait for a connection and the first answer.

    Attributes:
        when_silent: called when the server has given no sign of life, perhaps by another thread.
        made: global variables that change for a while, as the last SET GLOBAL has left them; None: not read
            back.
        started_before_s: when the server had started before the first of these, by its own clock; None if it
            does not tell.
    """

    storage = Storage(visible=False)
    launch = Launch()
    pid: int | None = None
    """It may run anywhere."""

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
        """Whether it answers, be it with an error."""
        try:
            self.query("SELECT 1", answer_s=SILENT_S)
        except ServerDied:
            self.when_silent()
            return False
        except ServerError:
            return True
        return True

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Runs one statement on the control connection; without `answer_s`, waits for the answer as long as
        the server gives signs of life.

        Raises:
            ServerDied: it does not answer.
            StatementFailed: it answered with an error.
        """
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
        """Inside, an answer is waited for; cut short if the server gives no sign of life."""
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
        """Whether the server answers on another connection, be it with an error."""
        other = self._connection(limit_s)
        try:
            other.query("SELECT 1", answer_s=limit_s)
        except ConnectionGone:
            return False
        except ServerError:
            return True
        finally:
            other.close()
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
