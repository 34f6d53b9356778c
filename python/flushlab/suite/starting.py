"""Starting: servers on copies of one template, in memory or on disk.

Suite layer, on `server`. Those of a run start together, before the command; tests may take more of them
meanwhile (`pool`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pymysql

from flushlab.datadir import DataRoot, Snapshot, Snapshots
from flushlab.errors import NoSpace
from flushlab.server import DataDirectory, Instance, Sandbox, Startup
from flushlab.suite.profile import throwaway, undoable
from flushlab.suite.request import SuiteRequest
from flushlab.suite.root import ChosenRoot, has_room, memory_for
from flushlab.suite.servers import Check, Clones, Pristine, Say, Servers, SuiteServer
from flushlab.suite.undoing import CannotUndo, Undoing
from flushlab.undo import Undo


class Starter:
    """Starts servers on copies of a template, all with the same password.

    Attributes:
        root: where their data are.
    """

    def __init__(
        self,
        request: SuiteRequest,
        snapshot: Snapshot,
        snapshots: Snapshots,
        *,
        root: ChosenRoot,
        password: str,
        say: Say,
        undo: bool,
    ) -> None:
        self.root = root
        self._request = request
        self._snapshot = snapshot
        self._snapshots = snapshots
        self._password = password
        self._say = say
        self._undo = undo
        self._rows = dict[str, Sequence[str]]()

    def has_room(self, servers: int) -> bool:
        """Whether so many more fit."""
        return has_room(self.root, self._snapshot.allocated_bytes, servers)

    def memory_for(self, servers: int) -> int:
        """Bytes of memory that so many may take."""
        return memory_for(self.root, self._snapshot.allocated_bytes, servers)

    def start_all(self, count: int, clones: int | None) -> Servers:
        """All or none; on disk if memory turns out to be full. Arguments as `start`'s.

        Raises:
            StartFailed, PortTaken, StorageError: as `Sandbox.start`.
        """
        try:
            return self._start_all(count, clones)
        except NoSpace as error:
            if not self.root.in_memory:
                raise
            self._say(
                f"memory was full at the start of the server ({error.message}); the server is on disk instead"
            )
            on_disk = DataRoot.open(self._request.data_root)
            self.root = ChosenRoot(root=on_disk, in_memory=False, reason="memory was full")
            return self._start_all(count, clones)

    def start(self, clones: int | None, number: int | None = None, check: Check | None = None) -> SuiteServer:
        """One.

        Args:
            clones: standby servers of it, as `Clones` has them.
            number: of a worker, from 0: its port is that far behind the one that the user chose, if any.
            check: called now and then; its exception ends the start.

        Raises as `start_all`.
        """
        chosen = self._request.spec.port if number is not None else None
        port = chosen + (number or 0) if chosen else None
        profile_of = undoable if self._undo else throwaway
        profile = profile_of(
            self._request.build, "memory" if self.root.in_memory else "disk", self._request.settings
        )
        data = DataDirectory(self.root.root, snapshot=self._snapshot, snapshots=self._snapshots, settle=False)

        def begin(instance: Instance, check: Check | None) -> Pristine:
            sandbox = Sandbox.start(
                self._request.build,
                settings=profile.settings,
                arguments=profile.arguments,
                data=data,
                instance=instance,
                startup=Startup(check=check),
            )
            return Pristine(sandbox, self._undoing_on(sandbox))

        start_standby = partial(begin, Instance(password=self._password))
        standby = Clones(start_standby, clones, self._has_room_for_clones, self._say)
        first = begin(Instance(port=port, password=self._password), check)
        return SuiteServer(first, self._snapshot, self._snapshots, standby, self._undoing_on)

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

    def _has_room_for_clones(self, servers: int) -> bool:
        return self.root.in_memory and self.has_room(servers)

    def _undoing_on(self, sandbox: Sandbox) -> Undoing | None:
        if not self._undo:
            return None
        verify = self._request.spec.verify_resets
        try:
            return Undoing(sandbox.endpoint, sandbox.identity, sandbox.datadir, self._rows, verify=verify)
        except (CannotUndo, pymysql.MySQLError, OSError):
            return None  # the user's own settings, or a server that dies: what comes next finds out
