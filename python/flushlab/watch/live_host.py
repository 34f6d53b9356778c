"""Live host: the machine of the watched server in stretches, for the live diagnosis.

Only if the kernel proves that the server runs on this machine, as for the doctor. Reading the I/O of all
processes costs some ten milliseconds, so a stretch is long, and longer on a machine with many processes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from flushlab.diagnosis.host import Host, HostWatch

STRETCH_S = 15.0
_MOST_SHARE = 0.004
"""Part of the time that looking may take."""


class LiveHost:
    """The machine in the last whole stretch.

    Attributes:
        latest: what was seen; None before the first stretch ends, or if the server is elsewhere.
    """

    def __init__(self) -> None:
        self.latest: Host | None = None
        self._watch: HostWatch | None = None
        self._pid: int | None = None
        self._due_s = 0.0

    def note(self, pid: int | None, variables: Mapping[str, str], at_s: float) -> None:
        """Ends a stretch that is over, and begins the next.

        Args:
            pid: of the server, if it runs on this machine.
            variables: of the server.
            at_s: monotonic clock.
        """
        if pid != self._pid:
            self._pid, self._watch, self.latest, self._due_s = pid, None, None, at_s
        if pid is None or at_s < self._due_s:
            return
        began = time.thread_time()
        with contextlib.suppress(OSError):  # the process has ended
            if self._watch is not None:
                self.latest = self._watch.finish()
            self._watch = HostWatch(pid, variables)
        self._due_s = at_s + max(STRETCH_S, (time.thread_time() - began) / _MOST_SHARE)
