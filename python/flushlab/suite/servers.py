"""Servers: the throwaway servers of one run, each of which can be reset and moved.

Suite layer, on `server`. A reset kills the server, puts a pristine copy of its data directory in place and
starts it again: same host, port, socket, account. So whatever a test did (rows, next automatic numbers,
tables, accounts, global variables) is gone by construction. With clones, a server that waits takes its place
instead, behind a port and a socket that stay.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from flushlab.build import Build
from flushlab.datadir import DataRoot, Snapshot, Snapshots
from flushlab.errors import FlushlabError, NoSpace, PortTaken, ServerError, StorageError
from flushlab.record import Endpoint, Value
from flushlab.server import Sandbox
from flushlab.server.contents import fresh_copy
from flushlab.suite.clones import Clones
from flushlab.suite.command import shield_thread
from flushlab.suite.profile import throwaway
from flushlab.suite.root import ChosenRoot

if TYPE_CHECKING:
    from flushlab._core import Front

Say = Callable[[str], None]

_ANSWER_S = 1.0
"""Longest wait for an answer that can be done without."""


class SuiteServer:
    """One throwaway server.

    Args:
        sandbox: it.
        snapshot, snapshots: the template that it was started on.
        clones: servers that may take its place; the caller must reach it through `front` then.
        front: the port that callers know, if it is not the server's own.

    Attributes:
        sandbox: the server of the moment.
        resets: how many there were.
        stopped_for: why it was stopped while the suite ran; empty if it was not.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        snapshot: Snapshot,
        snapshots: Snapshots,
        clones: Clones | None = None,
        front: Front | None = None,
    ) -> None:
        self.sandbox = sandbox
        self._first = sandbox
        self._clones = clones
        self._front = front
        if front is not None:
            self._link_socket()
        self._snapshot = snapshot
        self._snapshots = snapshots
        self._turn = threading.RLock()
        self._spare: ThreadPoolExecutor | None = None
        self._next: Path | None = None
        self.resets = 0
        self.stopped_for = ""

    @property
    def name(self) -> str:
        """That callers know it by: of its first sandbox, whose folder stays to the end."""
        return self._first.name

    @property
    def folder(self) -> Path:
        """Of that sandbox."""
        return self._first.folder

    @property
    def endpoint(self) -> Endpoint:
        """How callers reach it, whichever server it is."""
        own = self._first.endpoint
        if self._front is None:
            return own
        return msgspec.structs.replace(own, port=self._front.port, socket=str(self._link))

    def expect_resets(self) -> None:
        """Starts clones in the background, if there are to be any."""
        if self._clones is not None:
            self._clones.fill()

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs one statement if the server is up and nobody resets or moves it just now, else nothing.

        The guard's messages have one reader at a time: whoever has the turn. A server that hangs is not
        waited for: it must not hold up who looks at the memory, nor the end.
        """
        if not self._turn.acquire(blocking=False):
            return []
        try:
            return self.sandbox.query(sql, answer_s=_ANSWER_S) if self.sandbox.alive() else []
        except FlushlabError:
            return []
        finally:
            self._turn.release()

    def reset(self) -> float:
        """Puts the pristine data directory back; the seconds that it took.

        Raises:
            ServerError, StorageError: it could not; the server may be gone then.
        """
        with self._turn:
            if self.stopped_for:
                raise ServerError(f"the server {self.name} was stopped: {self.stopped_for}")
            began = time.monotonic()
            if not self._exchange():
                self._restart()
            self.resets += 1
            return time.monotonic() - began

    def _exchange(self) -> bool:
        """Lets a clone take the server's place; False if there is none."""
        clone = self._clones.take() if self._clones is not None else None
        if self._clones is None or self._front is None or clone is None:
            return False
        old, self.sandbox = self.sandbox, clone
        self._link_socket()
        self._front.switch(clone.endpoint.port or 0)
        old.kill()  # cuts connections over its socket, which are not the front's
        self._clones.retire(partial(_remove, old, whole=old is not self._first))
        self._clones.fill()
        return True

    def _restart(self) -> None:
        """Starts the server again on a fresh copy; the next copy is made in the background."""
        if self._spare is None:
            self._spare = ThreadPoolExecutor(1, "spare", initializer=shield_thread)
        fresh = self._spare.submit(self._take).result()
        self.sandbox.kill()
        old = self.sandbox.replace_datadir(fresh)
        self.sandbox.start_again()
        self._spare.submit(self._renew, old)

    @property
    def _link(self) -> Path:
        return self._first.folder / "current.sock"

    def _link_socket(self) -> None:
        """Callers know a symbolic link to the socket; connect(2) follows it."""
        fresh = self._link.with_name("next.sock")
        fresh.symlink_to(str(self.sandbox.endpoint.socket))
        fresh.replace(self._link)

    def move_to_disk(self, settings: Mapping[str, Value]) -> None:
        """Stops the server in an orderly way, moves its data directory to disk and starts it there.

        Raises:
            FlushlabError, OSError: it could not; the server is stopped and its data directory deleted then.
        """
        with self._turn:
            try:
                if self._clones is not None:
                    self._clones.end()
                    self._clones = None
                if self._spare is not None:
                    self._spare.submit(
                        lambda: None
                    ).result()  # a copy that is being made lies beside the data
                if self._next is not None:
                    shutil.rmtree(self._next, ignore_errors=True)
                    self._next = None
                profile = throwaway(self.sandbox.build, "disk", settings)
                self.sandbox.stop()
                self.sandbox.move_to_own_folder()
                self.sandbox.set_before_start(profile.settings, profile.arguments)
                self.sandbox.start_again()
            except (FlushlabError, OSError):
                self.sandbox.kill()
                shutil.rmtree(self.sandbox.datadir, ignore_errors=True)
                raise

    def end(self) -> None:
        """Kills the server and deletes what it had."""
        with self._turn:
            if self._front is not None:
                self._front.close()
            if self._spare is not None:
                self._spare.shutdown(wait=True, cancel_futures=True)
            if self._clones is not None:
                self._clones.end()
            self.sandbox.close()
            self._first.close()

    def _take(self) -> Path:
        if self._next is None:
            return self._copy()
        fresh, self._next = self._next, None
        return fresh

    def _renew(self, old: Path) -> None:
        shutil.rmtree(old, ignore_errors=True)
        try:
            self._next = self._copy()
        except StorageError:
            self._next = None  # no room for a spare one: the next reset makes its own

    def _copy(self) -> Path:
        return fresh_copy(self._snapshot, self._snapshots, self.sandbox.datadir)


def _remove(old: Sandbox, *, whole: bool) -> None:
    """Frees what a server that was replaced held; of the first one the folder stays."""
    if whole:
        old.close()
    else:
        shutil.rmtree(old.datadir, ignore_errors=True)


class Servers:
    """The servers of one run, in the workers' order; a context manager that ends them all at once."""

    def __init__(self, servers: Sequence[SuiteServer]) -> None:
        self.all = tuple(servers)

    def end(self) -> None:
        """Ends them."""
        if len(self.all) == 1:
            self.all[0].end()
            return
        with ThreadPoolExecutor(len(self.all)) as pool:
            list(pool.map(lambda server: server.end(), self.all))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def start_servers(
    build: Build,
    snapshot: Snapshot,
    snapshots: Snapshots,
    *,
    count: int,
    root: ChosenRoot,
    disk: Callable[[], DataRoot],
    settings: Mapping[str, Value],
    port: int | None,
    password: str | None,
    say: Say,
    clones: int = 0,
) -> Servers:
    """Starts servers on copies of a template; on disk if memory turns out to be full.

    Raises:
        StartFailed, PortTaken, StorageError: as `Sandbox.start`.
    """

    def start(index: int, where: ChosenRoot) -> SuiteServer:
        profile = throwaway(build, "memory" if where.in_memory else "disk", settings)
        start_one = partial(
            Sandbox.start,
            build,
            settings=profile.settings,
            arguments=profile.arguments,
            data_root=where.root,
            snapshot=snapshot,
            snapshots=snapshots,
            settle=False,
            password=password,
        )
        wanted = port + index if port else None
        if not clones:
            return SuiteServer(start_one(port=wanted), snapshot, snapshots)
        sandbox = start_one()
        try:
            front = _front(sandbox, wanted)
        except BaseException:
            sandbox.close()
            raise
        return SuiteServer(sandbox, snapshot, snapshots, Clones(start_one, clones), front)

    try:
        return Servers(_start_all(start, count, root))
    except NoSpace as error:
        if not root.in_memory:
            raise
        say(f"memory was full while starting the server ({error.message}); it is on disk instead")
        root = ChosenRoot(root=disk(), in_memory=False, reason="memory was full")
        return Servers(_start_all(start, count, root))


def _front(sandbox: Sandbox, port: int | None) -> Front:
    from flushlab._core import Front  # not loaded without need: the command is to start at once

    try:
        return Front(sandbox.endpoint.port or 0, port or 0)
    except OSError as error:
        raise PortTaken(f"port {port} cannot be used: {error}", hint="remove --port") from None


def _start_all(
    start: Callable[[int, ChosenRoot], SuiteServer], count: int, root: ChosenRoot
) -> list[SuiteServer]:
    """All or none."""
    if count == 1:
        return [start(0, root)]
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(start, index, root) for index in range(count)]
    started = [future.result() for future in futures if future.exception() is None]
    for future in futures:
        if (error := future.exception()) is not None:
            for server in started:
                server.end()
            raise error
    return started
