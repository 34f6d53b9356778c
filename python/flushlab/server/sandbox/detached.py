"""Detached: the process of a kept sandbox, which has no guard any more; and how any server's process ends.

Server layer; the counterpart of `GuardedProcess`. A process that is not our child tells no exit status.
"""

from __future__ import annotations

import signal
from typing import Protocol

from flushlab.errors import HarnessError
from flushlab.process import ProcessIdentity
from flushlab.process.identity import signal_process, wait_for_end

STOP_LIMIT_S = 300.0
"""Longest wait for an orderly stop, which writes all dirty pages; then SIGKILL."""


class ServerProcess(Protocol):
    """A server's process, guarded or detached."""

    @property
    def identity(self) -> ProcessIdentity:
        """Pid and start time."""
        ...

    def alive(self) -> bool:
        """True while it runs; a zombie does not."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing happens if it is dead."""
        ...

    def wait(self, seconds: float) -> int | None:
        """Waits for its end; None if it still runs."""
        ...


class DetachedProcess:
    """A process known by its pid and start time."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self._identity = identity

    @property
    def identity(self) -> ProcessIdentity:
        """Pid and start time."""
        return self._identity

    def alive(self) -> bool:
        """True while it runs; a zombie does not."""
        return self._identity.alive()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing happens if it is dead."""
        signal_process(self._identity, number)

    def wait(self, seconds: float) -> int | None:
        """0 once it is dead, however it died; None if it still runs."""
        return 0 if wait_for_end(self._identity, seconds) else None


def end(process: ServerProcess, number: signal.Signals) -> None:
    """Ends a server's process by a signal, and by SIGKILL if that does not do.

    Raises:
        HarnessError: it survives even that.
    """
    process.signal(number)
    if process.wait(STOP_LIMIT_S) is None:
        process.signal(signal.SIGKILL)
        if process.wait(STOP_LIMIT_S) is None:
            raise HarnessError(
                f"the server's process {process.identity.pid} survived SIGKILL",
                hint="its disk may hang; see dmesg",
            )
