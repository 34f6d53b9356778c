"""Side workload: a program or a script of the user's that runs on a server beside the load, or without one,
until the server is killed.

It has a thread of its own; what becomes of it once the server is dead does not matter.
"""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext

from flushlab.errors import FlushlabError
from flushlab.server import Sandbox
from flushlab.workload import CommandWorkload, SqlWorkload, Timing

_JOIN_S = 60.0
_LONGEST_S = 86_400.0
"""The server does not live that long."""

SideWorkload = CommandWorkload | SqlWorkload
"""It is run once."""


class RunningSideWorkload:
    """A side workload that runs, in a thread, on a server that is killed at some time."""

    def __init__(self, side: SideWorkload, server: Sandbox) -> None:
        self._side, self._server = side, server
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._failed: FlushlabError | None = None
        self._thread = threading.Thread(target=self._run, name=side.name, daemon=True)

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
