"""Sandbox: a private server in its own folder.

Server layer; implements `Server`. It listens on a unix socket and on loopback only, under a random password,
as an unprivileged user. An owned sandbox is gone when flushlab is gone, in whatever way; a kept one lives
until it is stopped. Ready means that a query succeeded over the socket and over TCP.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
import pymysql

from flushlab.build import Build, Progress, silent
from flushlab.datadir import DataRoot, Restored, Snapshot, Snapshots, storage_of
from flushlab.datadir.copy import copy_tree
from flushlab.errors import (
    FlushlabError,
    HarnessError,
    LibraryMissing,
    NoMemory,
    NoSpace,
    PortTaken,
    ServerDied,
    ServerError,
    SnapshotDamaged,
    StartFailed,
    ValueOutOfRange,
)
from flushlab.machine import server_user
from flushlab.process import Guard, reap
from flushlab.record import Endpoint, Launch, ServerIdentity, Storage, Value
from flushlab.server import kept as keeping
from flushlab.server import log, placement, variables
from flushlab.server.control import (
    ACCESS_DENIED,
    READ_ONLY_VARIABLE,
    ConnectionGone,
    Control,
    StatementFailed,
    connect,
    explain,
)
from flushlab.server.detached import DetachedProcess, ServerProcess
from flushlab.server.initialise import initialised
from flushlab.server.placement import Placement
from flushlab.server.protocol import Applied, Refusal

READY_LIMIT_S = 900.0
"""Longest wait for a living server to become ready: recovery from a large redo log on a slow disk. A server
that dies is noticed at once."""

RESIZE_LIMIT_S = 60.0
"""Longest wait for the buffer pool's new size; what is read back then counts."""

_POOL_SIZE = "innodb_buffer_pool_size"
_RESIZED = ("Completed", "Size did not change", "Resizing buffer pool failed")
_PORT_TRIES = 8
_POLL_S = 0.002


class AttachesProcess(Protocol):
    """A disk limit: takes in a process before it executes anything."""

    def attach(self, pid: int) -> None:
        """Limits the process and everything that it starts."""
        ...


class Sandbox:
    """A private server. Made by `start` or `attach`; a context manager that ends an owned one."""

    def __init__(
        self,
        build: Build,
        where: Placement,
        *,
        settings: Mapping[str, Value],
        arguments: Sequence[str],
        storage: Storage,
        endpoint: Endpoint,
        kept: bool,
        guard: Guard | None,
        disk_limit: AttachesProcess | None,
    ) -> None:
        self._build = build
        self._where = where
        self._settings = dict(settings)
        self._arguments = tuple(arguments)
        self._storage = storage
        self._endpoint = endpoint
        self._kept = kept
        self._guard = guard
        self._disk_limit = disk_limit
        self._sql: tuple[str, ...] = ()
        self._process: ServerProcess | None = None
        self._control = Control(endpoint)
        self._identity: ServerIdentity | None = None
        self._log_start = 0
        self.seconds: dict[str, float] = {}
        """How long things took: `restore`, `start` (the last one)."""
        self.restored: Restored | None = None
        """Way and bytes of the data directory's restore; None for an attached one."""

    @classmethod
    def start(
        cls,
        build: Build,
        *,
        settings: Mapping[str, Value] | None = None,
        arguments: Sequence[str] = (),
        data_root: DataRoot | None = None,
        snapshot: Snapshot | None = None,
        name: str | None = None,
        kept: bool = False,
        disk_limit: AttachesProcess | None = None,
        port: int | None = None,
        progress: Progress = silent,
        snapshots: Snapshots | None = None,
        settle: bool = True,
        sql: Sequence[str] = (),
        password: str | None = None,
    ) -> Self:
        """Starts a server on a restored data directory and waits until it is ready.

        Args:
            build: what to start.
            settings: written to its option file.
            arguments: more words for its command line, behind everything else; no secrets.
            data_root: where its data directory lies; `run` in flushlab's home if None.
            snapshot: the data directory; the build's initialised one if None. A given one is settled on the
                device before the start, so that every trial starts alike.
            name: of the sandbox; random if None.
            kept: it outlives flushlab until `flushlab server stop NAME`.
            disk_limit: its process is attached before it executes the server.
            port: on loopback; a free one if None.
            progress: told what takes long.
            snapshots: those that `snapshot` belongs to; the home's if None.
            settle: settle a given snapshot's copy on its device; without it the start is faster and warm.
            sql: statements that the server runs at every start before it lets anybody in.
            password: of flushlab's account, without quotes; a random one if None.

        Raises:
            UsageError: the name is taken or not allowed, a setting is one that sandboxes set themselves, or
                the socket's path is too long.
            PortTaken: `port` is in use.
            StartFailed: it did not become ready; `refusal` says which setting it refused, if that was why.
            NoSpace: the disk was full; NoMemory: the memory was.
            LibraryMissing: a shared library that it needs is gone.
        """
        checked = placement.check_names(settings or {})
        root = data_root or DataRoot.open()
        where = Placement.choose(name, root)
        if port is not None:
            _require_free_port(port)
        chosen = port or free_port()
        reap()
        guard = Guard(where.name, where.folders)
        try:
            where.make(server_user())
            sandbox = cls(
                build,
                where,
                settings=checked,
                arguments=arguments,
                storage=root.storage,
                endpoint=_endpoint(where, chosen, password),
                kept=kept,
                guard=guard,
                disk_limit=disk_limit,
            )
            sandbox._sql = tuple(sql)
            sandbox._restore(snapshot, progress, snapshots or Snapshots(), settle=settle)
            sandbox._start(guard, port_is_fixed=port is not None)
            if kept:
                sandbox._write_kept()
                guard.release()
                sandbox._let_go()
        except BaseException:
            guard.close()
            raise
        return sandbox

    @classmethod
    def attach(cls, name: str) -> Self:
        """A kept sandbox that runs.

        Raises:
            UsageError: there is none of that name; lists those that there are.
            ServerDied: it does not run any more.
        """
        saved, identity = keeping.load(name)
        sandbox = cls(
            saved.build,
            saved.placement,
            settings=saved.settings,
            arguments=saved.arguments,
            storage=saved.storage,
            endpoint=keeping.endpoint(saved),
            kept=True,
            guard=None,
            disk_limit=None,
        )
        sandbox._process = DetachedProcess(identity)
        if not sandbox.alive():
            raise ServerDied(
                f"the sandbox {name} does not run any more; its log ends with:\n{sandbox.log_tail()}",
                hint=f"remove it with: flushlab server stop {name}",
            )
        sandbox._identify()
        return sandbox

    @property
    def name(self) -> str:
        """Of the sandbox."""
        return self._where.name

    @property
    def build(self) -> Build:
        """What it was started from."""
        return self._build

    @property
    def kept(self) -> bool:
        """True if it outlives flushlab."""
        return self._kept

    @property
    def folder(self) -> Path:
        """Its option files and log."""
        return self._where.folder

    @property
    def datadir(self) -> Path:
        """Its data directory."""
        return self._where.datadir

    @property
    def settings(self) -> Mapping[str, Value]:
        """What its option file sets, apart from the sandbox's own lines."""
        return dict(self._settings)

    @property
    def identity(self) -> ServerIdentity:
        """Which server answered."""
        assert self._identity is not None, "a sandbox is handed out only when it has answered"
        return self._identity

    @property
    def endpoint(self) -> Endpoint:
        """How to reach it."""
        return self._endpoint

    @property
    def storage(self) -> Storage:
        """Where its data directory lies."""
        return self._storage

    @property
    def launch(self) -> Launch:
        """What no variable shows: extra arguments, preloaded libraries, a switched-off redo log."""
        rows = []
        if self._build.flavor == "mysql" and self._build.version >= (8, 0, 21):
            rows = self.query("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'")
        return Launch(
            arguments=self._arguments,
            preload=self._build.environment.get("LD_PRELOAD"),
            redo_enabled=not rows or str(rows[0][1]).upper() == "ON",
        )

    @property
    def pid(self) -> int | None:
        """The server's process id, or None while it is stopped."""
        return self._process.identity.pid if self._process is not None else None

    def alive(self) -> bool:
        """True while the server's process runs; a zombie does not."""
        return self._process is not None and self._process.alive()

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Runs one statement on the control connection, reconnecting once if it is gone.

        Args:
            sql: the statement.
            args: its arguments.
            answer_s: longest wait for an answer; for ever if None.

        Raises:
            ServerDied: the server is gone; carries the tail of its error log.
            StatementFailed: the server answered with an error.
        """
        if not self.alive():
            raise self._died()
        try:
            return self._control.query(sql, args, answer_s=answer_s)
        except ConnectionGone as error:
            # A crash closes its connections some time before the process is dead.
            if self._process is None or self._process.wait(1.0) is not None:
                raise self._died() from error
            raise ServerError(f"the server {self.name} does not answer: {error}") from error

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        """Global variables as they are, typed as the catalog types them; unknown names are left out."""
        return variables.read_variables(self.query, self.identity, names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        """Sets dynamic settings at run time, restarts for the others, reads every one back.

        What the server refuses is in the result with its reason; the server then runs without it. What it
        accepted stays in its option file, for later restarts.

        Raises:
            UsageError: a setting is one that sandboxes set themselves.
            ServerDied, StartFailed: the server is gone, and was before or does not come back as it was.
        """
        asked = placement.check_names(settings)
        refused: list[Refusal] = []
        later: dict[str, Value] = {}
        for name, value in asked.items():
            reason = self._set_now(name, value)
            if reason is None:
                self._settings[name] = value
            elif reason == "":
                later[name] = value
            else:
                refused.append(Refusal(name=name, value=value, reason=reason))
        if later:
            refused += self._set_by_restart(later)
        accepted = {name: value for name, value in asked.items() if name not in {one.name for one in refused}}
        self._write_options()
        got = self.read_back(accepted)
        return Applied(
            settings=got,
            refused=tuple(refused),
            restarted=bool(later),
            warnings=variables.doubts(self.identity, accepted, got),
        )

    def log_tail(self, lines: int = 20) -> str:
        """The end of the server's error log."""
        return log.tail(self._where.log, lines)

    def restart(self, settings: Mapping[str, Value] | None = None) -> None:
        """Stops in an orderly way and starts again.

        Args:
            settings: take the place of the present ones; None leaves them.

        Raises:
            StartFailed: it did not become ready.
        """
        if settings is not None:
            self._settings = placement.check_names(settings)
        self.stop()
        self.start_again()

    def kill(self) -> None:
        """SIGKILL, and waits until the process is dead. The data directory stays."""
        self._end(signal.SIGKILL, keeping.STOP_LIMIT_S)

    def stop(self) -> None:
        """Stops the server in an orderly way; does nothing if it is stopped. The data directory stays.

        Raises:
            HarnessError: it survives even SIGKILL.
        """
        self._end(signal.SIGTERM, keeping.STOP_LIMIT_S)

    def start_again(self) -> None:
        """Starts a stopped or killed server on its data directory, with the settings that it has.

        Raises:
            StartFailed: it did not become ready.
        """
        assert not self.alive(), "start_again is for a server that is stopped or killed"
        if self._guard is not None:
            self._start(self._guard, port_is_fixed=True)
            return
        with Guard(f"{self.name}.restart") as guard:
            self._start(guard, port_is_fixed=True)
            keeping.note_process(self.name, self._started.identity)
            self._write_kept()
            guard.release(forget=True)
        self._let_go()

    def move_datadir(self, target: Path) -> None:
        """Moves the data directory of a stopped server to `target`, a missing or empty directory.

        Raises:
            StorageError: it cannot be moved there.
        """
        assert not self.alive(), "a running server's data directory is not moved"
        if target.is_dir():
            target.rmdir()
        try:
            self.datadir.rename(target)
        except OSError:  # another file system
            copy_tree(self.datadir, target)

    def move_to_own_folder(self) -> None:
        """Moves the data directory of a stopped server out of its data root, into the sandbox's own folder.

        Raises:
            StorageError: it does not fit there.
        """
        own = msgspec.structs.replace(self._where, data_folder=self._where.folder)
        if own == self._where:
            return
        self.move_datadir(own.datadir)
        own.temporary.mkdir(mode=0o755, exist_ok=True)
        placement.give(own.temporary, server_user())
        shutil.rmtree(self._where.data_folder, ignore_errors=True)
        self._where = own
        self._storage = storage_of(own.folder)

    def set_before_start(self, settings: Mapping[str, Value], arguments: Sequence[str]) -> None:
        """What a stopped server is started with the next time, instead of what it had.

        Raises:
            UsageError: a setting is one that sandboxes set themselves.
        """
        assert not self.alive(), "a running server takes settings by apply or restart"
        self._settings = placement.check_names(settings)
        self._arguments = tuple(arguments)

    def replace_datadir(self, fresh: Path) -> Path:
        """Puts `fresh`, on the same file system, in the place of a stopped server's data directory.

        Returns:
            Where the old one lies now; it is the caller's to delete.
        """
        assert not self.alive(), "a running server's data directory is not replaced"
        old = self.datadir.with_name(f"old-{secrets.token_hex(4)}")
        self.datadir.rename(old)
        fresh.rename(self.datadir)
        return old

    def close(self) -> None:
        """Ends an owned sandbox: kills the server and removes its folders. Lets go of a kept one."""
        self._control.close()
        if self._guard is not None:
            self._guard.close()

    def remove(self) -> None:
        """Stops the server in an orderly way and removes its folders, kept or owned."""
        self.stop()
        self.close()
        if self._kept:
            keeping.remove(self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _started(self) -> ServerProcess:
        assert self._process is not None
        return self._process

    def _restore(
        self, snapshot: Snapshot | None, progress: Progress, snapshots: Snapshots, *, settle: bool
    ) -> None:
        user = server_user()
        began = time.monotonic()
        if snapshot is not None:
            self.restored = snapshots.restore(
                snapshot, self.datadir, uid=user.uid, gid=user.gid, settle=settle
            )
        else:
            own = initialised(self._build, self._settings, progress)
            began = time.monotonic()
            try:
                self.restored = snapshots.restore(own, self.datadir, uid=user.uid, gid=user.gid, settle=False)
            except SnapshotDamaged:
                snapshots.remove(own.key)
                own = initialised(self._build, self._settings, progress)
                self.restored = snapshots.restore(own, self.datadir, uid=user.uid, gid=user.gid, settle=False)
        self.seconds["restore"] = time.monotonic() - began

    def _start(self, guard: Guard, *, port_is_fixed: bool) -> None:
        """Starts the process and waits until it is ready, on another port if the chosen one was lost."""
        began = time.monotonic()
        for attempt in range(_PORT_TRIES):
            try:
                self._launch(guard)
                break
            except PortTaken:
                if port_is_fixed or attempt == _PORT_TRIES - 1:
                    raise
                self._endpoint = _endpoint(self._where, free_port(), self._endpoint.password)
                self._control = Control(self._endpoint)
        self.seconds["start"] = time.monotonic() - began

    def _launch(self, guard: Guard) -> None:
        where, user = self._where, server_user()
        where.clear_socket()
        self._write_options()
        placement.write_secret(where.client_options, placement.client_option_file(self._endpoint))
        accounts = placement.account_sql(self._build, self._endpoint.password)
        placement.write_secret(where.init_file, accounts + "".join(f"{one};\n" for one in self._sql), user)
        self._log_start = where.log.stat().st_size if where.log.exists() else 0
        self._process = guard.spawn(
            [*self._build.command, f"--defaults-file={where.server_options}", *self._arguments],
            log=where.log,
            cwd=where.server_folder,
            environment={
                **self._build.environment,
                "HOME": str(where.server_folder),
                "TMPDIR": str(where.temporary),
            },
            before_exec=self._disk_limit.attach if self._disk_limit else None,
            outlives_guard=self._kept,
        )
        try:
            self._await_ready()
        finally:
            where.init_file.unlink(missing_ok=True)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_LIMIT_S
        complaint = "nothing listens on its socket"
        while self._started.wait(_POLL_S) is None:
            if not self._where.socket.exists():
                pass  # not yet
            else:
                try:
                    for transport in ("socket", "tcp"):
                        with connect(
                            self._endpoint,
                            transport,
                            answer_s=READY_LIMIT_S,
                            tls=placement.logs_in_by_sha2(self._build),
                        ) as connection:
                            connection.cursor().execute("SELECT 1")
                    self._identify()
                    return
                except (ConnectionGone, OSError, pymysql.MySQLError) as error:
                    complaint = str(error)
                    if isinstance(error, pymysql.MySQLError) and explain(error)[0] in ACCESS_DENIED:
                        self._end(signal.SIGKILL, keeping.STOP_LIMIT_S)
                        raise self._start_failed(f"does not let flushlab in: {complaint}") from error
            if time.monotonic() > deadline:
                self._end(signal.SIGKILL, keeping.STOP_LIMIT_S)
                raise self._start_failed(f"was not ready after {READY_LIMIT_S:.0f} s: {complaint}")
        code = self._started.wait(0)
        if code == -signal.SIGKILL:
            raise NoSpace(
                f"the server {self._build.name} was killed by SIGKILL while it started, as the kernel does"
                " when memory runs out",
                hint=log.MEMORY_HINT,
            )
        raise self._start_failed(f"ended while it started ({_ending(code)})")

    def _identify(self) -> None:
        ((text,),) = self._control.query("SELECT VERSION()")
        self._identity = ServerIdentity(
            flavor=self._build.flavor,
            version=self._build.version,
            version_text=str(text),
            build_id=self._build.id,
        )

    def _set_now(self, name: str, value: Value) -> str | None:
        """None if it was set, empty if it takes a restart, else the reason why not."""
        here = variables.setting_here(self.identity, name)
        if here is not None and not here.dynamic:
            try:
                here.parse(value)
            except ValueOutOfRange as error:
                return error.message
            got = self.read_back([name])
            return None if name in got and here.same(value, got[name]) else ""
        try:
            variables.set_variable(self.query, self.identity, name, value)
        except StatementFailed as error:
            takes_restart = error.errno == READ_ONLY_VARIABLE or (here is not None and here.partly_dynamic)
            return "" if takes_restart else error.text
        if name == _POOL_SIZE:
            self._await_resize()
        if here is not None and here.partly_dynamic and not here.same(value, self.read_back([name])[name]):
            return ""  # taken, and without effect
        return None

    def _await_resize(self) -> None:
        """MySQL (and older MariaDB) resizes the buffer pool behind SET's back, and tells how far it is.

        Without waiting, the size before it would be read back. The status is set before SET returns.
        """
        deadline = time.monotonic() + RESIZE_LIMIT_S
        while time.monotonic() < deadline:
            rows = self.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status'")
            if not rows or not str(rows[0][1]) or str(rows[0][1]).startswith(_RESIZED):
                return
            self._started.wait(_POLL_S)

    def _set_by_restart(self, wanted: Mapping[str, Value]) -> list[Refusal]:
        """Restarts with settings; those that the server refuses are left out and returned."""
        before = dict(self._settings)
        remaining = dict(wanted)
        refused: list[Refusal] = []
        while True:
            try:
                self.restart({**before, **remaining})
                return refused
            except (StartFailed, NoSpace) as error:  # too large a pool is refused by lack of memory
                if not remaining:
                    raise
                said = log.since(self._where.log, self._log_start)
                named = log.refused_name(said, remaining)
                out = [named] if named in remaining else list(remaining)
                reason = log.refusal_from_log(said, remaining) or log.digest(said, 1) or error.message
                refused += [
                    Refusal(name=name, value=remaining.pop(name), reason=reason) for name in out if name
                ]

    def _write_options(self) -> None:
        content = placement.server_option_file(
            self._build, self._where, self._endpoint.port or 0, self._settings
        )
        file = self._where.server_options
        temporary = file.with_suffix(".new")
        temporary.write_text(content)
        temporary.chmod(0o644)
        temporary.replace(file)
        if self._kept and self._guard is None:
            self._write_kept()

    def _write_kept(self) -> None:
        keeping.save(
            keeping.Saved(
                name=self.name,
                build=self._build,
                placement=self._where,
                settings=self._settings,
                arguments=self._arguments,
                storage=self._storage,
                socket=str(self._where.socket),
                port=self._endpoint.port or 0,
            )
        )

    def _let_go(self) -> None:
        """The process of a kept sandbox is looked at from outside from now on."""
        self._process = DetachedProcess(self._started.identity)
        self._guard = None

    def _end(self, number: signal.Signals, seconds: float) -> None:
        self._control.close()
        process = self._process
        if process is None:
            return
        process.signal(number)
        if process.wait(seconds) is None:
            process.signal(signal.SIGKILL)
            if process.wait(seconds) is None:
                raise HarnessError(
                    f"the server {self.name} (process {self.pid}) does not die of SIGKILL",
                    hint="its disk may hang; see dmesg",
                )
        self._process = None

    def _start_failed(self, how: str) -> FlushlabError:
        """The error that fits what the log says about a start."""
        said = log.since(self._where.log, self._log_start)
        self._process = None if not self.alive() else self._process
        what = f"the server {self._build.name} {how}"
        if log.port_taken(said):
            return PortTaken(f"port {self._endpoint.port} on {HOST} is in use", hint=_PORT_HINT)
        if (line := log.no_space(said)) is not None:
            return NoSpace(f"{what}: {line}", hint="make room, or choose another place with --data-root")
        soname = log.library_in(said)
        if soname is not None:
            return LibraryMissing(
                f"{what}: the shared library {soname} is gone", hint=log.library_hint(soname)
            )
        if (line := log.no_memory(said)) is not None:
            return NoMemory(f"{what}: {line}", hint=log.MEMORY_HINT)
        refusal = log.refusal_from_log(said, self._settings)
        return StartFailed(f"{what}; its log says:\n{log.digest(said)}", refusal=refusal)

    def _died(self) -> FlushlabError:
        """What the log says about an end that nobody asked for."""
        said = log.since(self._where.log, self._log_start)
        what = f"the server {self.name} is gone"
        if (line := log.no_space(said)) is not None:
            return NoSpace(f"{what}: {line}", hint="make room, or choose another place with --data-root")
        return ServerDied(f"{what}; its log says:\n{log.digest(said)}")


HOST = placement.HOST
_PORT_HINT = "choose another port, or leave it out: a free one is found"


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _require_free_port(port: int) -> None:
    with socket.socket() as probe:
        # As servers do: ports of connections that were closed a moment ago are free to listen on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise PortTaken(f"port {port} on {HOST} cannot be used: {error}", hint=_PORT_HINT) from None


def _endpoint(where: Placement, port: int, password: str | None = None) -> Endpoint:
    return Endpoint(
        user=placement.USER,
        password=password or placement.new_password(),
        socket=str(where.socket),
        host=HOST,
        port=port,
        option_file=str(where.client_options),
    )


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
