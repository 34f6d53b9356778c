"""Killed: a server that is killed under load and started again on its own, over and over.

`Killed` goes on with the same server. What cannot be run a second time on what it has left, such as a program
of the user's, gets a server of its own for each kill: `KilledAfresh`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import msgspec

from flushlab.crashed import ddl_workload, judge, replicated
from flushlab.crashed.ledger import read_notes
from flushlab.crashed.live import Load, LoadOutcome, make_ledger, run_until_killed
from flushlab.crashed.recovered_server import ask, said, unfinished
from flushlab.crashed.replica import listening_replica
from flushlab.errors import FlushlabError, StartFailed
from flushlab.record import CrashImage, CrashPoint, Storage
from flushlab.server import Sandbox


class Killed:
    """Kills of one server's process; the page cache and the disk stay.

    Args:
        server: it runs, and does until it once does not come back.
        load: what it is under; nothing but the ledger's.
        seconds: longest time of load before a kill.
        folder: that the notes are written to.
        replicas: a folder for the data of replicas; None: there are none.
    """

    def __init__(
        self, server: Sandbox, load: Load, seconds: float, folder: Path, replicas: Path | None = None
    ) -> None:
        self._server, self._load = server, load
        self._seconds, self._folder, self._replicas = seconds, folder, replicas
        self.rates: list[float] = []
        """Acknowledged commits per second, of each kill."""

    def kill(self, point: CrashPoint) -> CrashImage:
        """One kill; the point's seed draws its moment."""
        began = time.monotonic()
        found, ran = _killed(self._server, self._load, self._seconds, self._folder, point, self._replicas)
        self.rates.append(ran.commits_per_s)
        return msgspec.structs.replace(found, seconds=time.monotonic() - began)

    @property
    def storage(self) -> Storage:
        """What its data lie on."""
        return self._server.storage

    @property
    def alive(self) -> bool:
        """Whether the server came back."""
        return self._server.alive()


class KilledAfresh:
    """Kills of servers, each of which is new.

    Args:
        start: a server that runs, and ends with its context.
        prepare: makes the load's tables and tells what the server is to be under.
        seconds: longest time of load before a kill; that of a load that ends by itself counts if it is less.
        folder: that the notes are written to.
    """

    alive = True
    """There is another server for the next kill."""

    def __init__(
        self,
        start: Callable[[], AbstractContextManager[Sandbox]],
        prepare: Callable[[Sandbox], Load],
        seconds: float,
        folder: Path,
    ) -> None:
        self._start, self._prepare = start, prepare
        self._seconds, self._folder = seconds, folder
        self.rates: list[float] = []
        """Acknowledged commits per second, of each kill."""
        self.storage: Storage | None = None
        """What the data of the last one lay on; None before the first kill."""

    def kill(self, point: CrashPoint) -> CrashImage:
        """One kill; the point's seed draws its moment."""
        began = time.monotonic()
        with self._start() as server:
            load = self._prepare(server)
            if load.side:
                load.side.prepare(server)
            found, ran = _killed(server, load, self._seconds, self._folder, point)
            self.storage = server.storage
        self.rates.append(ran.commits_per_s)
        if ran.over:  # kills are to fall into what it takes
            self._seconds = ran.lasted_s
        return msgspec.structs.replace(found, seconds=time.monotonic() - began)


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
            if error.unfinished:
                return judge.unknown(point, ran.notes, unfinished(error)), ran
            return judge.not_started(point, ran.notes, said(error.message)), ran
        except (FlushlabError, OSError) as error:
            server.kill()  # nobody knows what it would do under the next load
            return judge.unknown(point, ran.notes, str(error)), ran
        found = judge.judge(point, ran.notes, ran.ended_ns, recovered, statements)
        if replica and replicas and load.ledger:
            old, new = replicated.of_killed(server, load.ledger, replica, replicas)
            found = msgspec.structs.replace(found, replica=old, new_replica=new)
        return found, ran
