"""Live: a server under load, with an acknowledgement table or without one, until it is killed."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from flushlab import _core
from flushlab.crashed import judge as notes_of
from flushlab.crashed.judge import Note
from flushlab.crashed.recovered_server import AcksTable, said
from flushlab.errors import FlushlabError, MeasurementError
from flushlab.record import AcksSpec, LoadSpec
from flushlab.server import Sandbox
from flushlab.workload.command import CommandWorkload
from flushlab.workload.engine import native, raise_if_failed
from flushlab.workload.protocol import Timing
from flushlab.workload.sql import SqlWorkload

_JOIN_S = 60.0
_LONGEST_S = 86_400.0
"""The server does not live that long."""

SideWorkload = CommandWorkload | SqlWorkload


class RunningSideWorkload:
    """A side workload that runs, in a thread, on a server that is killed at some time."""

    def __init__(self, side: SideWorkload, server: Sandbox) -> None:
        self._side, self._server = side, server
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._failed: FlushlabError | None = None
        self._thread = threading.Thread(target=self._run, name=side.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def check(self) -> None:
        if self.ended and self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        os.eventfd_write(self._stop, 1)
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            os.close(self._stop)

    def _run(self) -> None:
        try:
            if isinstance(self._side, CommandWorkload):
                self._side.run_until(self._server, self._stop)
            else:
                self._side.run(self._server, Timing(max_seconds=_LONGEST_S), nullcontext())
        except FlushlabError as error:
            self._failed = error


_POLL_S = 0.01
_FIRST_COMMIT_S = 60.0
_DYING = re.compile(r"fatal|abort|assert|got signal", re.IGNORECASE)
_DYING_S = 30.0
"""A server that ends itself writes a stack trace first."""


class CrashingLoad(NamedTuple):
    """What a server is under when it crashes: the engine's load with acknowledged commits, or a side
    workload, or both."""

    spec: LoadSpec | None
    acks: AcksTable | None
    side: SideWorkload | None = None
    workload: str = ""
    beside: str = ""


class LoadOutcome(NamedTuple):
    """`over`: the side workload ended by itself; `complaint`, `died`, `words`: what followed a fault."""

    notes: list[Note]
    ended_ns: int
    commits_per_s: float
    over: bool
    lasted_s: float
    complaint: str = ""
    died: bool = False
    words: str = ""


def make_acks_table(server: Sandbox, acks: AcksTable) -> None:
    """Makes an empty acknowledgement table, and forgets what the binary log has of an older one.

    Galera refuses the latter to nodes.
    """
    server.query(f"CREATE DATABASE IF NOT EXISTS {acks.database}")
    server.query(f"DROP TABLE IF EXISTS {acks.database}.{notes_of.ACKS_TABLE}")
    server.query(notes_of.acks_table_sql(acks.database, acks.rows))
    ((on,),) = server.query("SELECT @@log_bin")
    if int(on) and server.membership is None:
        mysql_8_4 = server.identity.flavor == "mysql" and server.identity.version >= (8, 4)
        server.query("RESET BINARY LOGS AND GTIDS" if mysql_8_4 else "RESET MASTER")


class Loading:
    """A load with an acknowledgement table, entered with the first acknowledged commit."""

    def __init__(
        self, server: Sandbox, spec: LoadSpec, acks: AcksTable, folder: Path, position: Path | None = None
    ) -> None:
        self._server, self._spec = server, spec
        self._file = folder / "notes"
        noted = AcksSpec(file=str(self._file), position=str(position or ""), rows=acks.rows)
        self._file.unlink(missing_ok=True)
        load = msgspec.json.encode(msgspec.structs.replace(spec, acks=noted))
        self._load = native(lambda: _core.LoadRun(load), server)

    def __enter__(self) -> Self:
        try:
            began = time.monotonic()
            self._load.start()
            while not self.acknowledged():
                raise_if_failed(self._load, self._server)
                if time.monotonic() - began > _FIRST_COMMIT_S:
                    raise MeasurementError(
                        f"{self._spec.workload}: nothing was committed within {_FIRST_COMMIT_S:.0f} s",
                        hint="try fewer --threads or another workload",
                    )
                time.sleep(_POLL_S)
        except BaseException:
            self._load.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._server.kill()  # it may not answer: nobody waits for that after a Ctrl-C
        self._load.stop()

    def let_run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.check()
            time.sleep(min(_POLL_S, left))

    def check(self) -> None:
        raise_if_failed(self._load, self._server)

    def acknowledged(self) -> int:
        return self._file.stat().st_size // notes_of.NOTE_BYTES if self._file.exists() else 0

    def notes(self) -> list[Note]:
        return notes_of.read_notes(self._file)


class Working:
    def __init__(self, server: Sandbox, load: CrashingLoad, folder: Path, position: Path | None) -> None:
        self._server = server
        self._loading = (
            Loading(server, load.spec, load.acks, folder, position) if load.spec and load.acks else None
        )
        self._side = RunningSideWorkload(load.side, server) if load.side else None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._loading:
                stack.enter_context(self._loading)
            if self._side:
                self._side.start()
                stack.callback(self._side.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is not None and self._side:
            self._server.kill()  # the side workload may wait for it
        self._stack.__exit__(kind, error, trace)

    @property
    def over(self) -> bool:
        """There is no load with an acknowledgement table, and the side workload has ended."""
        return self._loading is None and (self._side is None or self._side.ended)

    def let_run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.over:
            self._check()
            time.sleep(min(_POLL_S, left))
        self._check()

    def notes(self) -> list[Note]:
        return self._loading.notes() if self._loading else []

    def _check(self) -> None:
        if self._loading:
            self._loading.check()
        if self._side:
            self._side.check()


def run_until_killed(
    server: Sandbox,
    load: CrashingLoad,
    seconds: float,
    folder: Path,
    position: Path | None = None,
    fault: Callable[[], object] | None = None,
    kill: Callable[[], object] | None = None,
) -> LoadOutcome:
    """Drives a load and kills the server under it; `fault` happens in the middle, and may end the server or
    its load."""
    complaint, words, died = "", "", False
    with Working(server, load, folder, position) as working:
        began = time.monotonic()
        working.let_run(seconds / 2 if fault else seconds)
        if fault:
            fault()
            until = time.monotonic() + seconds / 2
            try:
                working.let_run(seconds / 2)
            except FlushlabError as error:
                complaint = said(error.message)
            time.sleep(max(0.0, until - time.monotonic()))  # whatever it does without a load
            words = said(server.said_since_start())
            patience = time.monotonic() + (_DYING_S if _DYING.search(words) else 0.0)
            while server.alive() and time.monotonic() < patience:
                time.sleep(_POLL_S)
            died = not server.alive()
        over = working.over
        ended_ns, lasted = time.monotonic_ns(), time.monotonic() - began
        (kill or server.kill)()
    notes = working.notes()
    return LoadOutcome(
        notes, ended_ns, len(notes) / max(lasted, _POLL_S), over, lasted, complaint, died, words
    )
