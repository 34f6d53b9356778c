"""Killed: a server that crashes under load and is started again on its own, over and over."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec

from flushlab.crashed import ddl_workload, judge, replicated
from flushlab.crashed.ledger import read_notes
from flushlab.crashed.live import Load, LoadOutcome, make_ledger, run_until_killed
from flushlab.crashed.recovered_server import ask, not_ready
from flushlab.crashed.replica import listening_replica
from flushlab.crashed.run import CrashedServer, start
from flushlab.errors import FlushlabError, StartFailed
from flushlab.record import CrashImage, CrashPoint, Storage
from flushlab.server import Sandbox
from flushlab.server.galera.cluster import Cluster


class Killed(ABC):
    """A server that crashes under load, over and over; a context manager that ends it.

    What does not come back is followed by a new one.

    Args:
        server: it crashes.
        prepare: makes the load's tables and tells what the server is to be under.
        folder: that the notes are written to.
    """

    def __init__(self, server: CrashedServer, prepare: Callable[[Sandbox], Load], folder: Path) -> None:
        self._spec, self._prepare, self._folder = server, prepare, folder
        self._stack = ExitStack()
        self.commits_per_s = 0.0
        """Acknowledged before the last crash."""
        self.storage: Storage | None = None
        """What the data of the last server lay on; None before the first crash."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def kill(self, point: CrashPoint) -> CrashImage:
        """One crash; the point's seed draws its moment.

        Raises:
            FlushlabError: no server was under load, or its load failed.
        """
        began = time.monotonic()
        goes_on = False
        try:
            found, goes_on = self._crash(point)
        finally:
            if not goes_on:
                self._end()
        return msgspec.structs.replace(found, seconds=time.monotonic() - began)

    @abstractmethod
    def _crash(self, point: CrashPoint) -> tuple[CrashImage, bool]:
        """What became of a crash, and whether the same server can crash again."""

    def _end(self) -> None:
        """Ends what lives."""
        self._stack.close()


class KilledServer(Killed):
    """A server alone, whose process is killed; the page cache and the disk stay.

    Args:
        server, prepare, folder: as of `Killed`.
        afresh: the load cannot be run again on what it has left, so each kill has a server of its own.
        replicas: a folder for the data of replicas; None: there are none.
    """

    def __init__(
        self,
        server: CrashedServer,
        prepare: Callable[[Sandbox], Load],
        folder: Path,
        *,
        afresh: bool = False,
        replicas: Path | None = None,
    ) -> None:
        super().__init__(server, prepare, folder)
        self._seconds = server.seconds
        self._afresh, self._replicas = afresh, replicas
        self._alive: tuple[Sandbox, Load] | None = None

    def _crash(self, point: CrashPoint) -> tuple[CrashImage, bool]:
        server, load = self._alive or self._begin()
        found, ran = _killed(server, load, self._seconds, self._folder, point, self._replicas)
        self.commits_per_s = ran.commits_per_s
        if ran.over:  # kills are to fall into what it takes
            self._seconds = ran.lasted_s
        return found, server.alive() and not self._afresh

    def _begin(self) -> tuple[Sandbox, Load]:
        started = start(self._spec)
        assert not isinstance(started, Cluster), "it is alone"
        server = self._stack.enter_context(started)
        self.storage = server.storage
        load = self._prepare(server)
        if load.side:
            load.side.prepare(server)
        self._alive = server, load
        return self._alive

    def _end(self) -> None:
        self._alive = None
        super()._end()


def _killed(
    server: Sandbox, load: Load, seconds: float, folder: Path, point: CrashPoint, replicas: Path | None = None
) -> tuple[CrashImage, LoadOutcome]:
    draws = random.Random(point.seed)
    seconds *= 0.1 + 0.9 * draws.random()
    if load.ledger:
        make_ledger(server, load.ledger)
    with ExitStack() as stack:
        replica = None
        if replicas and load.ledger:
            replica = stack.enter_context(listening_replica(server, load.ledger, replicas))
        ran = run_until_killed(server, load, seconds, folder)
        if replica:
            replica.stop_listening()
        statements = len(read_notes(folder / ddl_workload.NOTES))
        try:
            if point.kind == "in_recovery":
                server.begin_again()
                time.sleep(draws.random() * server.seconds["start"])
                server.kill()
            server.start_again()
            recovered = ask(server, load.ledger)
        except StartFailed as error:
            return not_ready(point, ran.notes, error), ran
        except (FlushlabError, OSError) as error:
            server.kill()  # nobody knows what it would do under the next load
            return judge.unknown(point, ran.notes, str(error)), ran
        found = judge.judge(point, ran.notes, ran.ended_ns, recovered, statements)
        if replica and replicas and load.ledger:
            old, new = replicated.of_killed(server, load.ledger, replica, replicas)
            found = msgspec.structs.replace(found, replica=old, new_replica=new)
        return found, ran
