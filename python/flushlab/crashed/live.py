"""Live: a server under load, with an acknowledgement table or without one, until it is killed."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from flushlab import _core
from flushlab.crashed.judge import NOTE_BYTES, Note, read_notes
from flushlab.crashed.recovered_server import AcksTable, said
from flushlab.errors import FlushlabError, MeasurementError
from flushlab.record import AcksSpec, LoadSpec
from flushlab.server import Sandbox
from flushlab.workload.command import CommandWorkload
from flushlab.workload.engine import native, raise_if_failed
from flushlab.workload.protocol import Timing
from flushlab.workload.sql import SqlWorkload

SideWorkload = CommandWorkload | SqlWorkload
_JOIN_S = 60.0
_LONGEST_S = 86_400.0
"""The server does not live that long."""
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


class UnderLoad:
    """A server under load; a context manager, entered with the first acknowledged commit, if there are any.

    Args:
        server: has the acknowledgement table, if the load has one.
        position: of the disk's record.
    """

    def __init__(
        self, server: Sandbox, load: CrashingLoad, folder: Path, position: Path | None = None
    ) -> None:
        self._server, self._given = server, load
        self._file = folder / "notes"
        self._load: _core.LoadRun | None = None
        if load.spec and load.acks:
            noted = AcksSpec(file=str(self._file), position=str(position or ""), rows=load.acks.rows)
            spec = msgspec.json.encode(msgspec.structs.replace(load.spec, acks=noted))
            self._file.unlink(missing_ok=True)
            self._load = native(lambda: _core.LoadRun(spec), server)
        self._side_failed: FlushlabError | None = None
        self._side: threading.Thread | None = None
        if load.side:
            self._stop_side = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._side = threading.Thread(target=self._run_side, name=load.side.name, daemon=True)

    def __enter__(self) -> Self:
        if self._load:
            try:
                self._await_commit(self._load)
            except BaseException:
                self._load.stop()
                raise
        if self._side:
            self._side.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The side workload may wait for the server, and after a Ctrl-C nobody waits for its answers.
        if kind is not None and (self._side or not issubclass(kind, Exception)):
            self._server.kill()
        if self._side:  # what becomes of it once the server is dead does not matter
            os.eventfd_write(self._stop_side, 1)
            self._side.join(_JOIN_S)
            if not self._side.is_alive():
                os.close(self._stop_side)
        if self._load:
            self._load.stop()

    @property
    def over(self) -> bool:
        """There is no acknowledgement table, and the side workload has ended by itself."""
        return self._load is None and (self._side is None or not self._side.is_alive())

    def let_run(self, seconds: float) -> None:
        """Waits, no longer than until it is over; raises what ends it before that."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.over:
            self._check()
            time.sleep(min(_POLL_S, left))
        self._check()

    def acknowledged(self) -> int:
        return self._file.stat().st_size // NOTE_BYTES if self._file.exists() else 0

    def notes(self) -> list[Note]:
        return read_notes(self._file) if self._load else []

    def _await_commit(self, load: _core.LoadRun) -> None:
        load.start()
        began = time.monotonic()
        while not self.acknowledged():
            self._check()
            if time.monotonic() - began > _FIRST_COMMIT_S:
                assert self._given.spec is not None, "it has commits"
                raise MeasurementError(
                    f"{self._given.spec.workload}: nothing was committed within {_FIRST_COMMIT_S:.0f} s",
                    hint="try fewer --threads or another workload",
                )
            time.sleep(_POLL_S)

    def _check(self) -> None:
        if self._load:
            raise_if_failed(self._load, self._server)
        if self._side_failed is not None:
            raise self._side_failed

    def _run_side(self) -> None:
        side = self._given.side
        try:
            if isinstance(side, CommandWorkload):
                side.run_until(self._server, self._stop_side)
            elif side:
                side.run(self._server, Timing(max_seconds=_LONGEST_S), nullcontext())
        except FlushlabError as error:
            self._side_failed = error


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
    with UnderLoad(server, load, folder, position) as working:
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
