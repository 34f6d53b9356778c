"""Killed: a server that is killed under load and started again on its own, over and over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Self

import msgspec

from flushlab.crashed import ddl_workload, judge, replicated
from flushlab.crashed.ledger import read_notes
from flushlab.crashed.live import Load, LoadOutcome, make_ledger, run_until_killed
from flushlab.crashed.recovered_server import ask, not_ready
from flushlab.crashed.replica import listening_replica
from flushlab.errors import FlushlabError, StartFailed
from flushlab.record import CrashImage, CrashPoint, Storage
from flushlab.server import Sandbox


class Killed:
    """A server that is killed over and over; a context manager that ends it.

    What does not come back is followed by a new one.

    Args:
        start: a server that runs, and ends with its context.
        prepare: makes the load's tables and tells what the server is to be under.
        seconds: longest time of load before a kill; that of a load that ends by itself counts if it is less.
        folder: that the notes are written to.
        afresh: the load cannot be run again on what it has left, so each kill has a server of its own.
        replicas: a folder for the data of replicas; None: there are none.
    """

    def __init__(
        self,
        start: Callable[[], AbstractContextManager[Sandbox]],
        prepare: Callable[[Sandbox], Load],
        seconds: float,
        folder: Path,
        *,
        afresh: bool = False,
        replicas: Path | None = None,
    ) -> None:
        self._start, self._prepare = start, prepare
        self._seconds, self._folder = seconds, folder
        self._afresh, self._replicas = afresh, replicas
        self._stack = ExitStack()
        self._alive: tuple[Sandbox, Load] | None = None
        self.commits_per_s = 0.0
        """Acknowledged before the last kill."""
        self.storage: Storage | None = None
        """What the data of the last server lay on; None before the first kill."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def kill(self, point: CrashPoint) -> CrashImage:
        """One kill; the point's seed draws its moment."""
        began = time.monotonic()
        server, load = self._alive or self._begin()
        found, ran = _killed(server, load, self._seconds, self._folder, point, self._replicas)
        self.commits_per_s = ran.commits_per_s
        if ran.over:  # kills are to fall into what it takes
            self._seconds = ran.lasted_s
        if self._afresh or not server.alive():
            self._end()
        return msgspec.structs.replace(found, seconds=time.monotonic() - began)

    def _begin(self) -> tuple[Sandbox, Load]:
        server = self._stack.enter_context(self._start())
        self.storage = server.storage
        load = self._prepare(server)
        if load.side:
            load.side.prepare(server)
        self._alive = server, load
        return self._alive

    def _end(self) -> None:
        self._alive = None
        self._stack.close()


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
