"""Side workload: what runs on a server beside the load, or without one, until the server is killed.

A program of the user's, a script, or DDL (`ddl_workload`). It has a thread of its own; what becomes of it
once the server is dead does not matter.
"""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

from flushlab.errors import FlushlabError
from flushlab.server import Sandbox
from flushlab.workload import CommandWorkload, SqlWorkload, Timing

_JOIN_S = 60.0


class Stop:
    """Told once, heard by threads and by poll(2)."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def set(self) -> None:
        """It is over."""
        self._event.set()
        os.eventfd_write(self._fd, 1)

    def is_set(self) -> bool:
        """Whether it is."""
        return self._event.is_set()

    def fileno(self) -> int:
        """Readable once it is."""
        return self._fd

    def close(self) -> None:
        """Nobody listens any more."""
        os.close(self._fd)


class SideWorkload(Protocol):
    """See the module's docstring."""

    @property
    def name(self) -> str:
        """As the user wrote it."""
        ...

    def prepare(self, server: Sandbox) -> None:
        """Makes what it needs, before anything is recorded."""
        ...

    def run(self, server: Sandbox, folder: Path, position: Path | None, stop: Stop) -> None:
        """Does it, until it ends by itself or is stopped.

        Args:
            server: it runs, and is killed at some time.
            folder: for notes.
            position: file with the position of the disk's record.
            stop: set when nobody needs it any more.
        """
        ...


class UserWorkload:
    """A `command:` or `sql:` workload as a side workload; it is run once."""

    def __init__(self, workload: CommandWorkload | SqlWorkload) -> None:
        self._workload = workload

    @property
    def name(self) -> str:
        """As the user wrote it."""
        return self._workload.name

    def prepare(self, server: Sandbox) -> None:
        """Creates its database."""
        self._workload.prepare(server)

    def run(self, server: Sandbox, folder: Path, position: Path | None, stop: Stop) -> None:
        """Runs it to its end."""
        if isinstance(self._workload, CommandWorkload):
            self._workload.run_until(server, stop.fileno())
        else:
            self._workload.run(server, Timing(max_seconds=_LONGEST_S), nullcontext())


_LONGEST_S = 86_400.0
"""The server does not live that long."""


class RunningSideWorkload:
    """A side workload that runs, in a thread; arguments: as of `SideWorkload.run`."""

    def __init__(self, side: SideWorkload, server: Sandbox, folder: Path, position: Path | None) -> None:
        self._stop = Stop()
        self._failed: FlushlabError | None = None
        self._thread = threading.Thread(
            target=self._run, args=(side, server, folder, position), name=side.name, daemon=True
        )

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises what it failed with, if it has ended so."""
        if self.ended and self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        """Ends it; the server is dead by now, or will be in a moment."""
        self._stop.set()
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            self._stop.close()

    def _run(self, side: SideWorkload, server: Sandbox, folder: Path, position: Path | None) -> None:
        try:
            side.run(server, folder, position, self._stop)
        except FlushlabError as error:
            self._failed = error
