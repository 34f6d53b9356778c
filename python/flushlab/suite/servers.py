"""Servers: the sandboxes of one run; each can be reset and moved to disk.

Suite layer, on `server`. A reset undoes what was committed, where that is exact (`undoing`). Otherwise a
standby server on another copy of the template replaces the used one, behind the same port and socket. Where
none is ready, the server is killed, gets a pristine copy of its data directory and starts again. What
cannot be undone is gone by construction then.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec
import pymysql

from flushlab.datadir import DataRoot, Snapshot, Snapshots
from flushlab.errors import FlushlabError, NoSpace, ServerError, StorageError
from flushlab.progress import Progress
from flushlab.record import Endpoint, Value
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.sandbox.contents import fresh_copy
from flushlab.suite.command import shield_thread
from flushlab.suite.profile import ChosenRoot, arguments, has_room, memory_for, throwaway, undoable
from flushlab.suite.request import SuiteRequest
from flushlab.suite.undoing import CannotUndo, RowsNeeded, Undoing, UndoneWrongly
from flushlab.undo import Undo, undo_all
from flushlab.units import counted

if TYPE_CHECKING:
    from flushlab._core import Proxy

Check = Callable[[], None]
BY_ITSELF = 1
"""How many wait where nobody said."""
WORTH_IT = 3
"""Resets that could not be undone before clones are made by themselves: there may be no more of them."""
_CALM_S = 0.05
"""Whoever asked for a reset has the processors first, unless nobody is left who stands by."""

_T = TypeVar("_T")

_ANSWER_S = 1.0
"""Longest wait for an answer that can be done without."""
_OTHERS = (
    "SELECT COUNT(*) FROM information_schema.processlist WHERE id NOT IN (CONNECTION_ID(), {own})"
    " AND user NOT IN ('system user', 'event_scheduler')"
)


class Pristine(NamedTuple):
    sandbox: Sandbox
    undoing: Undoing | None

    def close(self) -> None:
        if self.undoing is not None:
            self.undoing.close()
        self.sandbox.close()


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """`how`: undone, replaced by a standby server, or restarted; `why`: what was undone, or what could not
    be."""

    seconds: float
    how: Literal["undone", "replaced", "restarted"]
    why: str = ""


class Clones:
    def __init__(
        self,
        start: Callable[[Check], Pristine],
        count: int | None,
        room: Callable[[int], bool] = lambda _: True,
        say: Progress = lambda _: None,
    ) -> None:
        self._start = start
        self._count = BY_ITSELF if count is None else count
        self._after = WORTH_IT if count is None else 0
        self._ended = False
        self._room = room if count is None else lambda _: True
        self._say = say
        self._lock = threading.Lock()
        self._waiting: deque[Future[Pristine]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def begun(self) -> bool:
        return bool(self._waiting)

    def fill(self, resets: int) -> None:
        with self._lock:
            missing = self._count - len(self._waiting)
            if self._ended or missing <= 0 or resets < self._after or not self._room(missing):
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count, "clone", initializer=shield_thread)
                if self._after:
                    self._say(
                        f"{counted(self._count, 'standby server')} for resets that cannot be undone, after"
                        f" {self._after} of them (--clones 0: none)"
                    )
            wait_s = _CALM_S if self._waiting else 0.0
            self._waiting.extend(self._pool.submit(self._start_in, wait_s) for _ in range(missing))

    def take(self) -> Pristine | None:
        if not self._waiting:
            return None
        try:
            return self._waiting.popleft().result()
        except FlushlabError:
            return None  # no room for one: the caller restarts its server

    def _start_in(self, wait_s: float) -> Pristine:
        time.sleep(wait_s)
        self._require_wanted()
        return self._start(self._require_wanted)

    def _require_wanted(self) -> None:
        if self._ended:
            raise ServerError("the suite has ended")

    def end(self) -> None:
        with self._lock:
            self._ended = True
            begun = [one for one in self._waiting if not one.cancel()]
            self._waiting.clear()
        if self._pool is not None:
            for one in begun:
                self._pool.submit(lambda started: started.result().close(), one)  # if it started at all
            self._pool.shutdown(wait=True)
            self._pool = None


class SuiteServer:
    def __init__(
        self,
        pristine: Pristine,
        snapshot: Snapshot,
        snapshots: Snapshots,
        clones: Clones,
        undoing_on: Callable[[Sandbox], Undoing | None] = lambda _: None,
    ) -> None:
        self.sandbox, self._undoing = pristine
        self._undoing_on = undoing_on
        self._first = self.sandbox
        self._clones = clones
        self._proxy: Proxy | None = None
        self._link_socket()
        self._snapshot = snapshot
        self._snapshots = snapshots
        self._turn = threading.RLock()
        self._behind: ThreadPoolExecutor | None = None
        self._next: Path | None = None
        self._ended = False
        self.resets: list[Reset] = []
        self.stopped_for = ""
        self.fault = ""

    @property
    def name(self) -> str:
        return self._first.name

    @property
    def folder(self) -> Path:
        return self._first.folder

    @property
    def endpoint(self) -> Endpoint:
        return msgspec.structs.replace(self._first.endpoint, socket=str(self._link))

    @property
    def shortages(self) -> int:
        return self._proxy.shortages if self._proxy is not None else 0

    def expect_resets(self) -> None:
        self._clones.fill(sum(one.how != "undone" for one in self.resets))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The guard's messages have one reader at a time; a server that hangs must not hold up who looks at
        the memory."""
        if not self._turn.acquire(blocking=False):
            return []
        try:
            return self.sandbox.query(sql, answer_s=_ANSWER_S) if self.sandbox.alive() else []
        except FlushlabError:
            return []
        finally:
            self._turn.release()

    def is_pristine(self) -> bool:
        return self._undoing is None or self._undoing.is_pristine()

    def connections(self) -> int | None:
        own = self._undoing.number if self._undoing is not None else 0
        found = self.ask(_OTHERS.format(own=own))
        return int(found[0][0]) if found else None

    def reset(self, *, cut: bool = False) -> Reset:
        with self._turn:
            if self.stopped_for:
                raise ServerError(f"the server {self.name} was stopped: {self.stopped_for}")
            began = time.monotonic()
            how, why = self._back(cut)
            self.resets.append(Reset(seconds=time.monotonic() - began, how=how, why=why))
            self.expect_resets()
            return self.resets[-1]

    def _back(self, cut: bool) -> tuple[Literal["undone", "replaced", "restarted"], str]:
        cause, needed = "", frozenset[str]()
        if self._undoing is not None:
            try:
                return "undone", str(self._undoing.undo(cut=cut))
            except RowsNeeded as error:
                cause, needed = str(error), error.tables
            except CannotUndo as error:
                cause = str(error)
            except UndoneWrongly as error:
                cause = str(error)
                try:
                    kept = f"its binary log is in {self._undoing.keep_log()}"
                except OSError as full:
                    kept = f"its binary log could not be kept: {full.strerror}"
                self.fault = self.fault or f"{cause}; {kept}"
            except BaseException:
                self._undo_no_more()  # half undone: the next reset takes another server
                raise
            self._undo_no_more()
        is_replaced = self._exchange()
        if not is_replaced:
            self._restart()
        if needed and self._undoing is not None:  # resets from now on put back the rows of these tables
            try:
                self._undoing.learn(needed)
            except (CannotUndo, pymysql.MySQLError, OSError):
                self._restart()  # a failure costs one more
        return "replaced" if is_replaced else "restarted", cause

    def _undo_no_more(self) -> None:
        if self._undoing is not None:
            self._undoing.close()
            self._undoing = None

    def _exchange(self) -> bool:
        clone = self._clones.take()
        if clone is None:
            return False
        old = self.sandbox
        self._undo_no_more()
        old.begin_kill()  # cuts connections over its socket, too, and nobody waits for its memory
        if self._proxy is None:
            old.kill()  # the port that callers know is its own
            self._proxy = _proxy(clone.sandbox, self._first)
            if self._proxy is None:
                clone.close()
                return False
        else:
            self._proxy.switch(clone.sandbox.endpoint.port or 0)
        self.sandbox, self._undoing = clone
        self._link_socket()
        self._later(self._remove, old)
        return True

    def _restart(self) -> None:
        fresh = self._later(lambda: self._next or self._copy()).result()
        self._next = None
        self._undo_no_more()
        self.sandbox.kill()
        old = self.sandbox.replace_datadir(fresh)
        self.sandbox.start_again()
        self._undoing = self._undoing_on(self.sandbox)
        self._later(self._renew, old)

    def _later(self, do: Callable[..., _T], *words: Path | Sandbox) -> Future[_T]:
        if self._behind is None:
            self._behind = ThreadPoolExecutor(1, "behind", initializer=shield_thread)
        return self._behind.submit(do, *words)

    @property
    def _link(self) -> Path:
        return self._first.folder / "current.sock"

    def _link_socket(self) -> None:
        """Callers know a symbolic link to the socket; connect(2) follows it."""
        fresh = self._link.with_name("next.sock")
        fresh.symlink_to(str(self.sandbox.endpoint.socket))
        fresh.replace(self._link)

    def move_to_disk(self, settings: Mapping[str, Value]) -> None:
        with self._turn:
            try:
                self._clones.end()
                self._undo_no_more()
                self._later(lambda: None).result()  # a copy that is being made lies beside the data
                spare, self._next = self._next, None
                if spare is not None:
                    shutil.rmtree(spare, ignore_errors=True)
                build = self.sandbox.build
                self.sandbox.stop()
                self.sandbox.move_to_own_folder()
                self.sandbox.set_before_start(throwaway(build, "disk", settings), arguments(build, "disk"))
                self.sandbox.start_again()
            except (FlushlabError, OSError):
                self.sandbox.kill()
                shutil.rmtree(self.sandbox.datadir, ignore_errors=True)
                raise

    def trim_log(self) -> None:
        if self._undoing is None or not self._turn.acquire(blocking=False):
            return
        try:
            self._undoing.trim()
        except (pymysql.MySQLError, OSError):
            self._undo_no_more()  # the next reset takes another server
        finally:
            self._turn.release()

    def give_up_clones(self) -> bool:
        with self._turn:
            waited = self._clones.begun
            self._clones.end()
            return waited

    def end(self) -> None:
        with self._turn:
            self._ended = True
            self._undo_no_more()
            proxy = [self._proxy.close] if self._proxy is not None else []
            behind = [self._behind.shutdown] if self._behind is not None else []
            undo_all([*proxy, *behind, self._clones.end, self.sandbox.close, self._first.close])

    def _renew(self, old: Path) -> None:
        shutil.rmtree(old, ignore_errors=True)
        if self._ended or self._clones.begun:
            return  # nobody resets it again, or the next reset takes a clone
        with suppress(StorageError):  # no room for a spare one: the next reset makes its own
            self._next = self._copy()

    def _copy(self) -> Path:
        return fresh_copy(self._snapshot, self._snapshots, self.sandbox.datadir)

    def _remove(self, old: Sandbox) -> None:
        spare, self._next = self._next, None
        if old is not self._first:
            old.close()
            return
        old.kill()
        for datadir in filter(None, (old.datadir, spare)):
            shutil.rmtree(datadir, ignore_errors=True)


Servers = tuple[SuiteServer, ...]


@contextmanager
def ending(servers: Servers) -> Iterator[Servers]:
    try:
        yield servers
    finally:
        with ThreadPoolExecutor(len(servers)) as pool:
            list(pool.map(SuiteServer.end, servers))


def _proxy(to: Sandbox, instead_of: Sandbox) -> Proxy | None:
    from flushlab._core import Proxy  # not loaded without need: the command is to start at once

    try:
        return Proxy(to.endpoint.port or 0, instead_of.endpoint.port or 0)
    except OSError:
        return None


@dataclass
class Starter:
    request: SuiteRequest
    snapshot: Snapshot
    snapshots: Snapshots
    root: ChosenRoot
    password: str
    say: Progress
    undo: bool
    _rows: dict[str, Sequence[str]] = field(default_factory=dict)

    def has_room(self, servers: int) -> bool:
        return has_room(self.root, self.snapshot.allocated_bytes, servers)

    def memory_for(self, servers: int) -> int:
        return memory_for(self.root, self.snapshot.allocated_bytes, servers)

    def start_all(self, count: int, clones: int | None) -> Servers:
        try:
            return self._start_all(count, clones)
        except NoSpace as error:
            if not self.root.in_memory:
                raise
            self.say(
                f"memory was full at the start of the server ({error.message}); the server is on disk instead"
            )
            on_disk = DataRoot.open(self.request.data_root)
            self.root = ChosenRoot(root=on_disk, in_memory=False, reason="memory was full")
            return self._start_all(count, clones)

    def start(self, clones: int | None, number: int | None = None, check: Check | None = None) -> SuiteServer:
        """`number`: of a worker, from 0: its port is so far behind the user's. `check`: called now and then,
        ends the start."""
        chosen = self.request.spec.port if number is not None else None
        port = chosen + (number or 0) if chosen else None
        profile_of = undoable if self.undo else throwaway
        settings = profile_of(self.request.build, self.root.where, self.request.settings)
        spec = SandboxSpec(
            self.request.build,
            settings=settings,
            arguments=arguments(self.request.build, self.root.where),
            data_root=self.root.root,
            snapshot=self.snapshot,
            snapshots=self.snapshots,
            settle=False,
            password=self.password,
        )

        def begin(port: int | None, check: Check | None) -> Pristine:
            sandbox = Sandbox.start(replace(spec, port=port, check=check))
            return Pristine(sandbox, self._undoing_on(sandbox))

        standby = Clones(
            partial(begin, None),
            clones,
            lambda more: self.root.in_memory and self.has_room(more),
            self.say,
        )
        first = begin(port, check)
        return SuiteServer(first, self.snapshot, self.snapshots, standby, self._undoing_on)

    def _start_all(self, count: int, clones: int | None) -> Servers:
        if count == 1:
            return (self.start(clones, 0),)
        with ThreadPoolExecutor(count) as pool:
            futures = [pool.submit(self.start, clones, number) for number in range(count)]
        started = [future.result() for future in futures if future.exception() is None]
        for future in futures:
            if (error := future.exception()) is not None:
                with Undo() as undo:
                    for server in started:
                        undo.callback(server.end)
                    raise error
        return tuple(started)

    def _undoing_on(self, sandbox: Sandbox) -> Undoing | None:
        if not self.undo:
            return None
        verify = self.request.spec.verify_resets
        try:
            return Undoing(sandbox.endpoint, sandbox.identity, sandbox.datadir, self._rows, verify=verify)
        except (CannotUndo, pymysql.MySQLError, OSError):
            return None  # the user's own settings, or a server that dies: what comes next finds out
