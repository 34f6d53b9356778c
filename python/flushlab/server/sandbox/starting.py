"""Starting: one start of a sandbox's process, from its files to the first answered query.

Server layer. Ready means that a query succeeded over the socket and over TCP.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pymysql

from flushlab.errors import FlushlabError, StartFailed
from flushlab.machine import server_user
from flushlab.process import Guard, Network, Reach
from flushlab.record import Endpoint
from flushlab.server.control import (
    ConnectionGone,
    StatementFailed,
    connect,
    explain,
    tls_context,
)
from flushlab.server.refusals import ACCESS_DENIED
from flushlab.server.sandbox import account, failures, log, option_files
from flushlab.server.sandbox.activity import Activity, ServerProcess, end, of_process
from flushlab.server.sandbox.membership import Membership
from flushlab.server.sandbox.paths import SandboxPaths
from flushlab.server.sandbox.spec import READY_LIMIT_S, SandboxSpec
from flushlab.settings.gate import require_admitted_words

_POLL_S, _POLL_SHARE, _MOST_POLL_S = 0.002, 0.01, 0.1
"""Pauses are a share of the time that a start has taken, so that looking takes no time from the server."""
_NODE_POLL_S = 0.02
_CHECK_S = 0.5


@dataclass(frozen=True)
class Start:
    """One start of one sandbox.

    Attributes:
        spec: of the sandbox, with its present settings and arguments.
        paths, endpoint: of the sandbox.
        once: arguments of this start alone.
    """

    spec: SandboxSpec
    paths: SandboxPaths
    endpoint: Endpoint
    once: Sequence[str] = ()

    @property
    def _membership(self) -> Membership | None:
        return self.spec.node.membership if self.spec.node else None

    def spawn(self, guard: Guard) -> ServerProcess:
        """Writes the client's option file and the accounts, and starts the process under the guard."""
        paths, user = self.paths, server_user()
        require_admitted_words(self.spec.written, self.spec.build.flavor, self.spec.build.version)
        paths.clear_socket()
        account.write_secret(paths.client_options, option_files.client_option_file(self.endpoint))
        build, membership = self.spec.build, self._membership
        clients = self.spec.instance.clients
        access = clients.access if clients else None
        accounts = account.account_sql(build, self.endpoint.password, access)
        if membership:
            accounts = f"SET SESSION wsrep_on = OFF;\n{accounts}"  # every node makes them for itself
        connects = membership is not None or self.spec.instance.connects
        network: Network = "own" if self._has_own_network else "host" if connects else "none"
        link = self.spec.node.link if self.spec.node else None
        sql = self.spec.startup.sql
        account.write_secret(paths.init_file, accounts + "".join(f"{one};\n" for one in sql), user)
        return guard.spawn(
            [
                *build.command,
                f"--defaults-file={paths.server_options}",
                *self.spec.written,
                *self.spec.arguments,
                *self.once,
            ],
            log=paths.log,
            cwd=paths.server_folder,
            environment={
                **(membership.environment(build) if membership else build.environment),
                "HOME": str(paths.server_folder),
                "TMPDIR": str(paths.temporary),
            },
            reach=Reach(paths.of_server, network),
            before_exec=link.attach if link else None,
            outlives_guard=self.spec.instance.kept,
        )

    @property
    def _has_own_network(self) -> bool:
        return self._membership is not None and self._membership.place.own_network

    def await_ready(self, process: ServerProcess, log_start: int, identify: Callable[[], None]) -> None:
        """Waits until queries are answered over both ways in; `identify` asks the last one.

        Args:
            process: the server's.
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
        startup = self.spec.startup
        began, socket = time.monotonic(), self.paths.socket
        deadline = began + startup.limit_s
        done = partial(of_process, process.identity.pid, self.paths.log)
        activity = Activity(done, startup.idle_s or startup.limit_s)
        complaint = "nothing listens on its socket"
        checks_at = time.monotonic() + _CHECK_S

        def pause() -> float:
            return min(max(_POLL_S, _POLL_SHARE * (time.monotonic() - began)), _MOST_POLL_S)

        while process.wait(pause()) is None:
            if socket.exists():
                try:
                    self._knock()
                    identify()
                    return
                except (ConnectionGone, StatementFailed, OSError, pymysql.MySQLError) as error:
                    complaint = str(error)
                    if self._membership:
                        time.sleep(_NODE_POLL_S)  # it waits for others, who need the processors
                    if isinstance(error, pymysql.MySQLError) and explain(error)[0] in ACCESS_DENIED:
                        end(process, signal.SIGKILL)
                        raise self._failed(f"rejects flushlab's login: {complaint}", log_start) from error
            if startup.check is not None and time.monotonic() > checks_at:
                try:
                    startup.check()
                except FlushlabError:
                    end(process, signal.SIGKILL)
                    raise
                checks_at = time.monotonic() + _CHECK_S
            if startup.idle_s is not None and activity.idle():
                end(process, signal.SIGKILL)
                raise self._failed(f"is not ready and {activity.words}: {complaint}", log_start)
            if time.monotonic() > deadline:
                end(process, signal.SIGKILL)
                failed = self._failed(f"was not ready after {startup.limit_s:.0f} s: {complaint}", log_start)
                if isinstance(failed, StartFailed):
                    failed.unfinished = True
                raise failed
        code = process.wait(0)
        if code == -signal.SIGKILL:
            raise failures.killed(f"the server {self.spec.build.name}", " while it started")
        raise self._failed(f"stopped while it started ({failures.ending(code)})", log_start)

    def _knock(self) -> None:
        for transport in ("socket",) if self._has_own_network else ("socket", "tcp"):
            with connect(
                self.endpoint,
                transport,
                answer_s=READY_LIMIT_S,
                tls=tls_context("required") if account.logs_in_by_sha2(self.spec.build) else None,
            ) as connection:
                connection.cursor().execute("SELECT 1")

    def _failed(self, how: str, log_start: int) -> FlushlabError:
        said = log.since(self.paths.log, log_start)
        return failures.start_failed(self.spec.build, self.endpoint, self.spec.settings, said, how)
