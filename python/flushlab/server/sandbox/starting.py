"""Starting: one start of a sandbox's process, from its files to the first answered query.

Server layer. Ready means that a query succeeded over the socket and over TCP.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pymysql

from flushlab.errors import FlushlabError, HarnessError, StartFailed
from flushlab.machine import proc_stat, server_user
from flushlab.process import Guard, GuardedProcess, Network, ProcessIdentity, Reach
from flushlab.process.identity import signal_process, wait_for_end
from flushlab.record import Endpoint
from flushlab.server.control import (
    ACCESS_DENIED,
    ConnectionGone,
    StatementFailed,
    connect,
    explain,
    tls_context,
)
from flushlab.server.sandbox import log, option_files
from flushlab.server.sandbox.log import ending, killed, start_failed
from flushlab.server.sandbox.option_files import SandboxPaths, account_sql, logs_in_by_sha2, write_secret
from flushlab.server.sandbox.spec import READY_LIMIT_S, SandboxSpec
from flushlab.settings.admission import require_admitted_words

STOP_LIMIT_S = 300.0
"""Longest wait for an orderly stop, which writes all dirty pages; then SIGKILL."""


class DetachedProcess(NamedTuple):
    identity: ProcessIdentity

    def alive(self) -> bool:
        return self.identity.alive()

    def signal(self, number: signal.Signals) -> None:
        signal_process(self.identity, number)

    def wait(self, seconds: float) -> int | None:
        return 0 if wait_for_end(self.identity, seconds) else None


ServerProcess = GuardedProcess | DetachedProcess


def end(process: ServerProcess, number: signal.Signals) -> None:
    process.signal(number)
    if process.wait(STOP_LIMIT_S) is None:
        process.signal(signal.SIGKILL)
        if process.wait(STOP_LIMIT_S) is None:
            raise HarnessError(
                f"the server's process {process.identity.pid} survived SIGKILL",
                hint="its disk may hang; see dmesg",
            )


_LEAST_SHARE = 0.02
"""Of a processor. A server that waits for ever takes 0.002 of one to see that it still has to."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.5
SPINS = 5
"""So many times as long a process may only compute; InnoDB reads and writes while it recovers."""
_MOST_S = 10.0
"""So much of the time between two samples counts: nobody works on a machine that is paused for a minute."""


class ProcessCounters(NamedTuple):
    cpu_s: float
    io_bytes: int | None
    log_bytes: int


class Activity:
    """Idle after `idle_s` without work, or `SPINS` times as long of computing alone: it turns in circles."""

    def __init__(
        self,
        done: Callable[[], ProcessCounters | None],
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._done, self._idle_s, self._clock = done, idle_s, clock
        self._sampled = clock()
        self._idle_for_s = self._still_for_s = 0.0
        self._then = self._still = done()

    def idle(self) -> bool:
        now = self._clock()
        if now - self._sampled < _SAMPLE_S:
            return False
        passed = min(now - self._sampled, _MOST_S)
        self._idle_for_s += passed
        self._still_for_s += passed
        self._sampled = now
        done = self._done()
        least_s = _LEAST_SHARE * self._idle_s
        then = self._then
        if done is None or then is None or _is_heard(then, done) or done.cpu_s - then.cpu_s > least_s:
            self._idle_for_s, self._then = 0.0, done
        if done is None or self._still is None or _is_heard(self._still, done):
            self._still_for_s, self._still = 0.0, done
        return self._idle_for_s >= self._idle_s or self._spins

    @property
    def words(self) -> str:
        if self._spins:
            return f"has read, written and said nothing for {self._still_for_s:.0f} s"
        return f"has done nothing for {self._idle_s:.0f} s"

    @property
    def _spins(self) -> bool:
        return self._still_for_s >= SPINS * self._idle_s


def _is_heard(then: ProcessCounters, now: ProcessCounters) -> bool:
    return now.io_bytes is None or now[1:] != then[1:]


def of_process(pid: int, log_file: Path) -> ProcessCounters | None:
    fields = proc_stat.fields(str(pid))
    if fields is None:
        return None
    cpu = (int(fields[proc_stat.USER_TICKS]) + int(fields[proc_stat.SYSTEM_TICKS])) / _TICKS
    return ProcessCounters(cpu, _io_bytes(pid), log.size(log_file))


def _io_bytes(pid: int) -> int | None:
    try:
        counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    except OSError:
        return None
    return int(counts["read_bytes"]) + int(counts["write_bytes"])


_POLL_S, _POLL_SHARE, _MOST_POLL_S = 0.002, 0.01, 0.1
"""Pauses are a share of the time that a start has taken, so that looking takes no time from the server."""
_NODE_POLL_S = 0.02
_CHECK_S = 0.5


@dataclass(frozen=True)
class Start:
    spec: SandboxSpec
    paths: SandboxPaths
    endpoint: Endpoint
    once: Sequence[str] = ()

    def spawn(self, guard: Guard) -> ServerProcess:
        paths, user = self.paths, server_user()
        require_admitted_words(self.spec.written, self.spec.build.flavor, self.spec.build.version)
        paths.clear_socket()
        write_secret(paths.client_options, option_files.client_option_file(self.endpoint))
        build, membership = self.spec.build, self.spec.membership
        clients = self.spec.clients
        access = clients.access if clients else None
        accounts = account_sql(build, self.endpoint.password, access)
        if membership:
            accounts = f"SET SESSION wsrep_on = OFF;\n{accounts}"  # every node makes them for itself
        connects = membership is not None or self.spec.connects
        network: Network = "own" if self._has_own_network else "host" if connects else "none"
        write_secret(paths.init_file, accounts + "".join(f"{one};\n" for one in self.spec.init_sql), user)
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
            before_exec=self.spec.link,
            outlives_guard=self.spec.kept,
        )

    @property
    def _has_own_network(self) -> bool:
        return self.spec.membership is not None and self.spec.membership.place.own_network

    def await_ready(self, process: ServerProcess, log_start: int, identify: Callable[[], None]) -> None:
        try:
            self._await_ready(process, log_start, identify)
        finally:
            self.paths.init_file.unlink(missing_ok=True)

    def _await_ready(self, process: ServerProcess, log_start: int, identify: Callable[[], None]) -> None:
        check, idle_s = self.spec.check, self.spec.idle_s
        began, socket = time.monotonic(), self.paths.socket
        deadline = began + READY_LIMIT_S
        done = partial(of_process, process.identity.pid, self.paths.log)
        activity = Activity(done, idle_s or READY_LIMIT_S)
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
                    if self.spec.membership:
                        time.sleep(_NODE_POLL_S)  # it waits for others, who need the processors
                    if isinstance(error, pymysql.MySQLError) and explain(error)[0] in ACCESS_DENIED:
                        end(process, signal.SIGKILL)
                        raise self._failed(f"rejects flushlab's login: {complaint}", log_start) from error
            if check is not None and time.monotonic() > checks_at:
                try:
                    check()
                except FlushlabError:
                    end(process, signal.SIGKILL)
                    raise
                checks_at = time.monotonic() + _CHECK_S
            if idle_s is not None and activity.idle():
                end(process, signal.SIGKILL)
                raise self._failed(f"is not ready and {activity.words}: {complaint}", log_start)
            if time.monotonic() > deadline:
                end(process, signal.SIGKILL)
                failed = self._failed(f"was not ready after {READY_LIMIT_S:.0f} s: {complaint}", log_start)
                if isinstance(failed, StartFailed):
                    failed.unfinished = True
                raise failed
        code = process.wait(0)
        if code == -signal.SIGKILL:
            raise killed(f"the server {self.spec.build.name}", " while it started")
        raise self._failed(f"stopped while it started ({ending(code)})", log_start)

    def _knock(self) -> None:
        for transport in ("socket",) if self._has_own_network else ("socket", "tcp"):
            with connect(
                self.endpoint,
                transport,
                answer_s=READY_LIMIT_S,
                tls=tls_context("required") if logs_in_by_sha2(self.spec.build) else None,
            ) as connection:
                connection.cursor().execute("SELECT 1")

    def _failed(self, how: str, log_start: int) -> FlushlabError:
        said = log.since(self.paths.log, log_start)
        return start_failed(self.spec.build, self.endpoint, self.spec.settings, said, how)
