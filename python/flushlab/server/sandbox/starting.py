"""Starting: one start of a sandbox's process, from its files to the first answered query.

Server layer. Ready means that a query succeeded over the socket and over TCP.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pymysql

from flushlab.build import Build
from flushlab.errors import FlushlabError, StartFailed
from flushlab.machine import server_user
from flushlab.process import Guard
from flushlab.record import Endpoint, Value
from flushlab.server.control import (
    ACCESS_DENIED,
    ConnectionGone,
    StatementFailed,
    connect,
    explain,
    tls_context,
)
from flushlab.server.sandbox import account, failures, log, option_files
from flushlab.server.sandbox.activity import Activity, of_process
from flushlab.server.sandbox.detached import ServerProcess, end
from flushlab.server.sandbox.membership import Membership
from flushlab.server.sandbox.paths import SandboxPaths

READY_LIMIT_S = 900.0
"""Longest wait for a living server to become ready: recovery from a large redo log on a slow disk. A server
that dies is noticed at once."""

_POLL_S = 0.002
_NODE_POLL_S = 0.02
_CHECK_S = 0.5


class AttachesProcess(Protocol):
    """A disk limit: takes in a process before it executes anything."""

    def attach(self, pid: int) -> None:
        """Limits the process and everything that it starts."""
        ...


@dataclass(frozen=True, kw_only=True)
class Start:
    """One start of one sandbox.

    Attributes:
        build, paths, endpoint, settings, arguments: the sandbox's.
        sql: statements that the server runs before it lets anybody in.
        disk_limit: the process is attached before it executes the server.
        kept: the process outlives its guard.
        connects: it may open connections to others.
        membership: its part of a cluster, or None.
        once: arguments of this start alone.
        link: the process is attached before it executes the server, to a network of its own.
        limit_s: longest wait until it is ready.
        idle_s: longest wait while it does nothing; None: `limit_s`.
        check: called now and then while it is waited for; what it raises ends the wait.
    """

    build: Build
    paths: SandboxPaths
    endpoint: Endpoint
    settings: Mapping[str, Value]
    arguments: Sequence[str]
    sql: Sequence[str]
    disk_limit: AttachesProcess | None
    kept: bool
    connects: bool
    membership: Membership | None = None
    once: Sequence[str] = ()
    link: AttachesProcess | None = None
    limit_s: float = READY_LIMIT_S
    idle_s: float | None = None
    check: Callable[[], object] | None = None

    def spawn(self, guard: Guard) -> ServerProcess:
        """Writes the client's option file and the accounts, and starts the process under the guard."""
        paths, user = self.paths, server_user()
        paths.clear_socket()
        account.write_secret(paths.client_options, option_files.client_option_file(self.endpoint))
        accounts = account.account_sql(self.build, self.endpoint.password)
        if self.membership:
            accounts = f"SET SESSION wsrep_on = OFF;\n{accounts}"  # every node makes them for itself
        account.write_secret(paths.init_file, accounts + "".join(f"{one};\n" for one in self.sql), user)
        return guard.spawn(
            [
                *self.build.command,
                f"--defaults-file={paths.server_options}",
                *self.arguments,
                *self.once,
            ],
            log=paths.log,
            cwd=paths.server_folder,
            environment={
                **(self.membership.environment(self.build) if self.membership else self.build.environment),
                "HOME": str(paths.server_folder),
                "TMPDIR": str(paths.temporary),
            },
            before_exec=self._attach,
            outlives_guard=self.kept,
            connects=self.connects,
            own_network=self.membership is not None and self.membership.place.own_network,
        )

    def _attach(self, pid: int) -> None:
        for one in (self.disk_limit, self.link):
            if one is not None:
                one.attach(pid)

    def await_ready(self, process: ServerProcess, log_start: int, identify: Callable[[], None]) -> None:
        """Waits until queries are answered over both ways in; `identify` asks the last one.

        Args:
            process: that was spawned.
            log_start: length of its log before.
            identify: asks over the control connection; may raise `ConnectionGone`.

        Raises:
            StartFailed, PortTaken, NoSpace, NoMemory, LibraryMissing: it did not become ready, and is dead.
        """
        try:
            self._await_ready(process, log_start, identify)
        finally:
            self.paths.init_file.unlink(missing_ok=True)

    def _await_ready(self, process: ServerProcess, log_start: int, identify: Callable[[], None]) -> None:
        deadline = time.monotonic() + self.limit_s
        done = partial(of_process, process.identity.pid, self.paths.log)
        activity = Activity(done, self.idle_s or self.limit_s)
        complaint = "nothing listens on its socket"
        checks_at = time.monotonic() + _CHECK_S
        while process.wait(_POLL_S) is None:
            if self.paths.socket.exists():
                try:
                    self._knock()
                    identify()
                    return
                except (ConnectionGone, StatementFailed, OSError, pymysql.MySQLError) as error:
                    complaint = str(error)
                    if self.membership:
                        time.sleep(_NODE_POLL_S)  # it waits for others, who need the processors
                    if isinstance(error, pymysql.MySQLError) and explain(error)[0] in ACCESS_DENIED:
                        end(process, signal.SIGKILL)
                        raise self._failed(f"rejects flushlab's login: {complaint}", log_start) from error
            if self.check is not None and time.monotonic() > checks_at:
                try:
                    self.check()
                except FlushlabError:
                    end(process, signal.SIGKILL)
                    raise
                checks_at = time.monotonic() + _CHECK_S
            if self.idle_s is not None and activity.idle():
                end(process, signal.SIGKILL)
                raise self._failed(f"is not ready and {activity.words}: {complaint}", log_start)
            if time.monotonic() > deadline:
                end(process, signal.SIGKILL)
                failed = self._failed(f"was not ready after {self.limit_s:.0f} s: {complaint}", log_start)
                if isinstance(failed, StartFailed):
                    failed.unfinished = True
                raise failed
        code = process.wait(0)
        if code == -signal.SIGKILL:
            raise failures.killed_while_starting(self.build)
        raise self._failed(f"stopped while it started ({failures.ending(code)})", log_start)

    def _knock(self) -> None:
        alone = self.membership is not None and self.membership.place.own_network
        for transport in ("socket",) if alone else ("socket", "tcp"):
            with connect(
                self.endpoint,
                transport,
                answer_s=READY_LIMIT_S,
                tls=tls_context("required") if account.logs_in_by_sha2(self.build) else None,
            ) as connection:
                connection.cursor().execute("SELECT 1")

    def _failed(self, how: str, log_start: int) -> FlushlabError:
        said = log.since(self.paths.log, log_start)
        return failures.start_failed(self.build, self.endpoint, self.settings, said, how)
