"""Sandbox: a private server in its own folder.

Server layer; implements `Server`. It listens on a unix socket and on loopback, or on an address that its
clients reach, under a random password, as an unprivileged user. An owned sandbox is gone when flushlab is
gone, in whatever way; a kept one lives until it is stopped. Ready means that a query succeeded over the
socket and over TCP.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from flushlab.datadir import DataRoot, Restored, SlowDisk, Snapshots, storage_of
from flushlab.errors import PortTaken, ServerDied, ServerError, StartFailed
from flushlab.machine import server_user
from flushlab.process import Guard, reap, run_record
from flushlab.progress import Progress, silent
from flushlab.record import DiskEmulation, Endpoint, Launch, ServerIdentity, Storage, Value
from flushlab.server.clients import Clients
from flushlab.server.control import ConnectionGone, Control
from flushlab.server.protocol import Applied, SingleServer, wsrep_status
from flushlab.server.sandbox import contents, log, reconfigure
from flushlab.server.sandbox import kept as keeping
from flushlab.server.sandbox.log import died
from flushlab.server.sandbox.node import HOST, free_port, require_free_port, write_view
from flushlab.server.sandbox.option_files import (
    SandboxPaths,
    give,
    new_password,
    sandbox_endpoint,
    self_signed,
    server_option_file,
    write_private,
)
from flushlab.server.sandbox.spec import SandboxSpec
from flushlab.server.sandbox.starting import DetachedProcess, ServerProcess, Start, end
from flushlab.server.sql import read_variables, redo_enabled
from flushlab.settings.admission import require_admitted
from flushlab.undo import Closing, undo_all

_PORT_TRIES = 8
_GREETING_S = 20.0
"""Longest wait for the answer to a first question: a frozen server takes connections and says nothing."""


class Sandbox(SingleServer, Closing):
    """A sandbox, by `start` or `attach`; a context manager that ends an owned one."""

    identity: ServerIdentity

    def __init__(
        self,
        spec: SandboxSpec,
        paths: SandboxPaths,
        endpoint: Endpoint,
        storage: Storage,
        guard: Guard | None = None,
        disk: DiskEmulation | None = None,
    ) -> None:
        self.build, self.kept = spec.build, spec.kept
        self.membership = spec.membership
        self.name, self.folder, self.log = paths.name, paths.folder, paths.log
        self.endpoint, self.storage, self.disk = endpoint, storage, disk
        self.seconds: dict[str, float] = {}
        self.restored: Restored | None = None
        self.answer_s: float | None = None
        self.spec = spec
        self._paths = paths
        self._guard = guard
        self._own_disk: SlowDisk | None = None
        self._port_is_fixed = True
        self._start_now: Start | None = None
        self._restart_guard: Guard | None = None
        self._process: ServerProcess | None = None
        self._control = Control(endpoint)
        self._log_start = 0
        self._began = 0.0

    @classmethod
    def start(cls, spec: SandboxSpec, progress: Progress = silent) -> Self:
        sandbox = cls.begin(spec, progress)
        sandbox.await_ready()
        if spec.kept:
            sandbox.keep()
        return sandbox

    @classmethod
    def begin(cls, spec: SandboxSpec, progress: Progress = silent) -> Self:
        with ExitStack() as undo:
            sandbox = cls.prepare(spec, progress)
            undo.callback(sandbox.close)
            assert sandbox._guard is not None, "a new sandbox has a guard"
            sandbox._spawn(sandbox._guard)
            undo.pop_all()
        return sandbox

    @classmethod
    def prepare(cls, spec: SandboxSpec, progress: Progress = silent) -> Self:
        spec = replace(spec, settings=require_admitted(spec.settings), arguments=tuple(spec.arguments))
        root = spec.data_root or DataRoot.open()
        name, host, port = spec.name, spec.clients.access.address if spec.clients else HOST, spec.port
        if (member := spec.membership) is not None:
            name, host, port = member.name, member.address, member.place.sql_port
        elif port is not None:
            require_free_port(port)
        paths = SandboxPaths.choose(name, root)
        reap()
        with ExitStack() as undo:
            disk = None
            if spec.slow_disk is not None:
                run_record.require_free(paths.name)
                disk = spec.slow_disk.another(outlives=spec.kept).open(progress)
                undo.callback(disk.close)
                root, paths = disk.data_root, paths.on(disk.data_root)
            guard = undo.enter_context(Guard(paths.name, paths.folders))
            paths.make(server_user())
            sandbox = cls(
                spec,
                paths,
                sandbox_endpoint(paths, host, port or free_port(host), spec.password or new_password()),
                root.storage,
                guard,
                disk.record if disk is not None else None,
            )
            sandbox._own_disk = disk
            sandbox._port_is_fixed = port is not None
            if spec.adopt is not None:
                spec.adopt.rename(paths.datadir)
            else:
                sandbox._restore(progress)
            if member is not None and spec.view is not None:
                write_view(paths.datadir, spec.view, member.number, server_user())
            sandbox._write_options()
            undo.pop_all()
        return sandbox

    def await_ready(self) -> None:
        assert self._guard is not None, "a kept sandbox was ready once"
        try:
            self._await(self._guard)
        except BaseException:
            self.close()
            raise

    def keep(self) -> None:
        assert self._guard is not None, "it is kept only once"
        try:
            self._write_kept()
            if self._own_disk is not None:
                self._own_disk.keep(self.name)
            self._guard.release()
        except BaseException:
            self.close()
            raise
        self._let_go()

    @classmethod
    def attach(cls, name: str, *, stopped: bool = False) -> Self:
        saved, identity = keeping.load(name)
        spec = SandboxSpec(
            saved.build,
            settings=saved.settings,
            arguments=saved.arguments,
            name=name,
            kept=True,
            connects=saved.connects,
            membership=saved.membership,
        )
        sandbox = cls(spec, saved.paths, keeping.endpoint(saved), saved.storage, disk=saved.disk)
        sandbox._process = DetachedProcess(identity)
        if stopped and not sandbox.alive():
            sandbox._process = None
            return sandbox
        if not sandbox.alive():
            raise ServerDied(
                f"the sandbox {name} is no longer running; its log ends with:\n{sandbox.log_tail()}",
                hint=f"flushlab server start --name {name} starts it again with its data;"
                f" flushlab server stop {name} removes it",
            )
        try:
            sandbox._identify()
        except ConnectionGone as error:
            of = saved.membership.cluster if saved.membership is not None else name
            raise ServerError(
                f"the server {name} runs, but {error}",
                hint=f"flushlab server stop --keep-data {of}; flushlab server start --name {of}",
            ) from error
        return sandbox

    @property
    def datadir(self) -> Path:
        return self._paths.datadir

    @property
    def folders(self) -> tuple[Path, ...]:
        return self._paths.of_server

    @property
    def settings(self) -> Mapping[str, Value]:
        return dict(self.spec.settings)

    @property
    def arguments(self) -> Sequence[str]:
        return self.spec.arguments

    @property
    def launch(self) -> Launch:
        return Launch(
            arguments=tuple(self.spec.arguments),
            preload=self.build.environment.get("LD_PRELOAD"),
            redo_enabled=redo_enabled(self.query, self.identity),
        )

    @property
    def pid(self) -> int | None:
        return self._process.identity.pid if self._process is not None else None

    def alive(self) -> bool:
        return self._process is not None and self._process.alive()

    @property
    def was_killed(self) -> bool:
        """True if SIGKILL has ended its process, and not flushlab's; of one that it cannot tell, False."""
        return self._process is not None and self._process.wait(0) == -signal.SIGKILL

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        if not self.alive():
            raise died(self.name, self.said_since_start())
        limit_s = self.answer_s if answer_s is None else answer_s
        began = time.monotonic()
        try:
            return self._control.query(sql, args, answer_s=limit_s)
        except ConnectionGone as error:
            within = f" within {limit_s:.0f} s" if limit_s and time.monotonic() - began >= limit_s else ""
            # A crash closes its connections some time before the process is dead.
            if self._process is None or self._process.wait(1.0) is not None:
                raise died(self.name, self.said_since_start()) from error
            raise ServerError(f"the server {self.name} does not answer{within}: {error}") from error

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        return read_variables(self.query, self.identity, names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        """Sets dynamic settings at run time, restarts for the others, reads every one back.

        What the server refuses is in the result with its reason; the server then runs without it. What it
        accepted stays in its option file, for later restarts.

        Raises:
            UsageError: a setting is one that sandboxes set themselves.
            ServerDied, StartFailed: the server is gone, and was before or does not come back as it was.
            NoSpace: the disk or the memory was full, whatever the settings; it runs as it was before.
        """
        return reconfigure.apply(self, require_admitted(settings))

    def note_settings(self, settings: Mapping[str, Value]) -> None:
        self.spec = replace(self.spec, settings=dict(settings))
        self._write_options()

    def log_tail(self, lines: int = 20) -> str:
        return log.tail(self.log, lines)

    def said_since_start(self) -> str:
        return log.since(self.log, self._log_start)

    def restart(self, settings: Mapping[str, Value] | None = None) -> None:
        if settings is not None:
            self.spec = replace(self.spec, settings=require_admitted(settings))
        self.stop()
        self.start_again()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def begin_kill(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def start_again(self) -> None:
        self.begin_again()
        self.await_again()

    def begin_again(self, once: Sequence[str] = ()) -> None:
        assert not self.alive(), "start_again is for a server that is stopped or killed"
        self._port_is_fixed = True
        if self._guard is not None:
            self._spawn(self._guard, once)
            return
        self._restart_guard = Guard(f"{self.name}.restart")
        try:
            self._spawn(self._restart_guard, once)
        except BaseException:
            self._restart_guard.close()
            raise

    def await_again(self) -> None:
        if self._guard is not None:
            self._await(self._guard)
            return
        guard, self._restart_guard = self._restart_guard, None
        assert guard is not None, "begin_again comes first"
        with guard:
            self._await(guard)
            keeping.note_process(self.name, self._started.identity)
            self._write_kept()
            guard.release(forget=True)
        self._let_go()

    def give_up_start(self) -> None:
        """Ends the start of a kept sandbox that was begun again and not waited for; an owned one's ends with
        it."""
        guard, self._restart_guard = self._restart_guard, None
        if guard is not None:
            guard.close()
            self._process = None

    def move_datadir(self, target: Path) -> None:
        assert not self.alive(), "a running server's data directory is not moved"
        contents.move(self.datadir, target)

    def move_to_own_folder(self) -> None:
        own = msgspec.structs.replace(self._paths, data_folder=self._paths.folder)
        if own == self._paths:
            return
        self.move_datadir(own.datadir)
        own.temporary.mkdir(mode=0o700, exist_ok=True)
        give(own.temporary, server_user())
        assert self._guard is not None, "a kept sandbox stays where it is"
        self._guard.remove_folder(self._paths.data_folder)
        self._paths = own
        self.storage = storage_of(own.folder)

    def set_before_start(self, settings: Mapping[str, Value], arguments: Sequence[str]) -> None:
        assert not self.alive(), "a running server takes settings by apply or restart"
        settings = require_admitted(settings)
        self.spec = replace(self.spec, settings=settings, arguments=tuple(arguments))

    def replace_datadir(self, fresh: Path) -> Path:
        """Exchanges it for `fresh`, on the same file system; the old one is the caller's to delete."""
        assert not self.alive(), "a running server's data directory is not replaced"
        return contents.exchange(self.datadir, fresh)

    def close(self) -> None:
        own = (self._guard, self._own_disk)
        undo_all([self._control.close, self.give_up_start, *(one.close for one in own if one is not None)])

    def remove(self) -> None:
        """Orderly unless its disk goes with it: there it might write for minutes what nobody reads."""
        number = signal.SIGTERM if self.disk is None else signal.SIGKILL
        from_disk = [partial(keeping.remove, self.name)] if self.kept else []
        undo_all([partial(self._end, number), self.close, *from_disk])

    @property
    def clients(self) -> Clients | None:
        return self.spec.clients

    @property
    def _started(self) -> ServerProcess:
        assert self._process is not None
        return self._process

    def _restore(self, progress: Progress) -> None:
        began, spec = time.monotonic(), self.spec
        self.restored = contents.fill(
            self.datadir,
            spec.snapshots or Snapshots(),
            spec.snapshot or (lambda: contents.initialised(spec.build, spec.settings, progress)),
            settle=spec.settle,
        )
        self.seconds["restore"] = time.monotonic() - began

    def _await(self, guard: Guard) -> None:
        for attempt in range(_PORT_TRIES):
            try:
                assert self._start_now is not None, "it is spawned first"
                self._start_now.await_ready(self._started, self._log_start, self._identify)
                break
            except PortTaken:
                if self._port_is_fixed or attempt == _PORT_TRIES - 1:
                    raise
                host, password = self.endpoint.host or HOST, self.endpoint.password
                self.endpoint = sandbox_endpoint(self._paths, host, free_port(host), password)
                self._control = Control(self.endpoint)
                self._spawn(guard)
            except StartFailed:
                self._process = None  # it is dead, and why has been told
                raise
        self.seconds["start"] = time.monotonic() - self._began

    def _spawn(self, guard: Guard, once: Sequence[str] = ()) -> None:
        self._began = time.monotonic()
        self._write_options()
        self._start_now = Start(self.spec, self._paths, self.endpoint, once)
        self._log_start = log.size(self.log)
        self._process = self._start_now.spawn(guard)

    def _identify(self) -> None:
        if self.membership is not None:
            status = wsrep_status(self._control.query, answer_s=_GREETING_S)
            if status["wsrep_cluster_status"] != "Primary":
                raise ConnectionGone("it has no quorum")
            if (state := status["wsrep_local_state_comment"]) != "Synced":
                raise ConnectionGone(f"it is not synced with its cluster ({state})")
        ((text,),) = self._control.query("SELECT VERSION()", answer_s=_GREETING_S)
        self.identity = msgspec.structs.replace(self.build.identity, version_text=str(text))

    def _write_options(self) -> None:
        content = server_option_file(
            self.build,
            self._paths,
            self.endpoint,
            self.spec.settings,
            self.membership,
            has_clients=self.clients is not None,
        )
        write_private(self._paths.server_options, content, server_user())
        certificate = self._paths.certificate
        if str(certificate) in content and not certificate.exists():
            identity = self.clients.access.identity if self.clients else self_signed()
            write_private(certificate, identity, server_user())
        if self.kept and self._guard is None:
            self._write_kept()

    def _write_kept(self) -> None:
        keeping.save(
            keeping.Saved(
                name=self.name,
                build=self.build,
                paths=self._paths,
                settings=self.spec.settings,
                arguments=tuple(self.spec.arguments),
                storage=self.storage,
                port=self.endpoint.port or 0,
                connects=self.spec.connects,
                membership=self.membership,
                disk=self.disk,
            )
        )

    def _let_go(self) -> None:
        self._process = DetachedProcess(self._started.identity)
        self._guard = self._own_disk = None

    def _end(self, number: signal.Signals) -> None:
        self._control.close()
        if self._process is not None:
            end(self._process, number)
            self._process = None
