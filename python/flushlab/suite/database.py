"""Database: a throwaway database for Python; a suite's servers by their names, from other processes."""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from flushlab import atomic
from flushlab.datadir import Snapshots
from flushlab.errors import ServerError, UsageError
from flushlab.process import run_folder
from flushlab.progress import Progress, silent
from flushlab.server import Sandbox
from flushlab.server.sandbox.contents import fresh_copy, initialised
from flushlab.spec.build import build, taking
from flushlab.spec.commands import DatabaseSpec
from flushlab.suite.request import check_database, create_database, fields_of, read_request, variables
from flushlab.suite.servers import SuiteServer
from flushlab.suite.session import RESET_FILE, SuiteSession


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
    with SuiteSession(asked, progress).open() as servers:
        first = servers[0]
        fields = fields_of(asked.build, first.endpoint, asked.database)
        yield Database(port=int(fields.pop("port")), **fields, _server=first)


_ANSWER_S = 900.0
_DATABASES = "databases"
"""File in a sandbox's folder: the databases that `environment` created, a name per line."""


def environment(name: str, database: str) -> dict[str, str]:
    check_database(database)
    with Sandbox.attach(name) as sandbox:
        sandbox.query(create_database(database, ""))
        if database not in (known := _databases(name)):
            atomic.write(run_folder() / name / _DATABASES, "".join(f"{one}\n" for one in (*known, database)))
        fields = fields_of(sandbox.build, sandbox.endpoint, database)
    return variables([{**fields, "name": name}], {})


def _databases(name: str) -> list[str]:
    try:
        return (run_folder() / name / _DATABASES).read_text().splitlines()
    except FileNotFoundError:
        return []


def reset(name: str) -> float:
    file = run_folder() / name / RESET_FILE
    try:
        address = file.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return _reset_kept(name)
    try:
        # No proxy of the environment: it is this machine.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(urllib.request.Request(address, method="POST"), timeout=_ANSWER_S) as answer:
            return float(json.load(answer)["seconds"])
    except urllib.error.HTTPError as error:
        reason = str(error.reason)
        with suppress(ValueError, KeyError, TypeError):
            reason = json.load(error)["error"]
        raise ServerError(f"the server {name} could not be reset: {reason}") from error
    except OSError as error:
        raise ServerError(f"the flushlab test that owns {name} does not answer: {error}") from error


def _reset_kept(name: str) -> float:
    with Sandbox.attach(name) as sandbox:
        if (node := sandbox.membership) is not None:
            raise UsageError(
                f"{name} is a node of the cluster {node.cluster}: a single node cannot be reset",
                hint=f"run: flushlab server stop {node.cluster}, and start a new one",
            )
        began = time.monotonic()
        pristine = initialised(sandbox.build, sandbox.settings)
        fresh = fresh_copy(pristine, Snapshots(), sandbox.datadir)
        sandbox.kill()
        old = sandbox.replace_datadir(fresh)
        sandbox.start_again()
        for database in _databases(name):
            sandbox.query(create_database(database, ""))
        took = time.monotonic() - began
        shutil.rmtree(old, ignore_errors=True)
    return took
