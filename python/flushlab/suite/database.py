"""Database: a throwaway database for tests, in this process.

Suite layer. Template, memory and resets work as in `flushlab test`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flushlab.build import Progress, silent
from flushlab.spec.build import build
from flushlab.spec.commands import DatabaseSpec
from flushlab.spec.sugar import taking
from flushlab.suite.environment import fields_of
from flushlab.suite.request import read_request
from flushlab.suite.servers import SuiteServer
from flushlab.suite.session import Session


@dataclass(frozen=True, kw_only=True)
class Database:
    """Address and account of a throwaway database.

    Attributes:
        host, port: on loopback.
        socket: path of its unix socket.
        user, password: of an account with all privileges.
        database: its name.
        url: `mysql://user:password@host:port/database`.
        jdbc_url: the same for JDBC.
    """

    host: str
    port: int
    socket: str
    user: str
    password: str = field(repr=False)
    database: str
    url: str = field(repr=False)
    jdbc_url: str = field(repr=False)
    _server: SuiteServer = field(repr=False)

    def reset(self) -> float:
        """Restores the content that the database had at its start, at the same address; returns seconds.

        Connections stay where it was undone, unless they held a transaction, and are cut elsewhere.

        Raises:
            ServerError, StorageError: the reset failed; the server may have stopped.
        """
        return self._server.reset().seconds


@contextmanager
@taking(DatabaseSpec, progress="Receives one line of progress per call.")
def database(*, progress: Progress = silent, **given: Any) -> Iterator[Database]:
    """A throwaway database for tests; gone when the context ends.

    Arguments have the names and meanings of the options of `flushlab test`.

    Raises:
        UsageError: an argument is invalid, or the prepare command failed.
        FlushlabError: the server could not be started.
    """
    asked = read_request(build(DatabaseSpec, given), progress)
    with Session(asked, progress).open() as servers:
        first = servers[0]
        fields = fields_of(asked.build, first.endpoint, asked.database)
        yield Database(port=int(fields.pop("port")), **fields, _server=first)
