"""Activity: how a server's process ends, and whether it does anything until then.

Sits in `server`. A kept sandbox's process has no guard any more, and one that is not our child tells no exit
status. Whether a process works is seen by what the kernel counts of it and by its log.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from flushlab.errors import HarnessError
from flushlab.machine import proc_stat
from flushlab.process import ProcessIdentity
from flushlab.process.identity import signal_process, wait_for_end
from flushlab.server.sandbox import log

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


_LEAST_SHARE = 0.02
"""Of a processor. A server that waits for ever takes 0.002 of one to see that it still has to."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.5
SPINS = 5
"""So many times as long a process may only compute; InnoDB reads and writes while it recovers."""
_MOST_S = 10.0
"""So much of the time between two samples counts: nobody works on a machine that is paused for a minute."""


class ProcessCounters(NamedTuple):
    """Processor time, I/O and log of a process so far.

    Attributes:
        cpu_s: of processor time.
        io_bytes: read from and written to devices; None where that is hidden: nobody is called idle then.
        log_bytes: length of its log.
    """

    cpu_s: float
    io_bytes: int | None
    log_bytes: int


class Activity:
    """Watches a process.

    Args:
        done: reads the counters; None once the process is gone.
        idle_s: for how long it must have done nothing to be idle. One that keeps processors busy, and reads,
            writes and says nothing, is idle after `SPINS` times as long: it turns in circles.
        clock: seconds.
    """

    def __init__(
        self,
        done: Callable[[], ProcessCounters | None],
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._done, self._idle_s, self._clock = done, idle_s, clock
        self._sampled = clock()
        self._idle_for_s = self._still_for_s = 0.0
        self._then = self._still = done()

    def idle(self) -> bool:
        """Whether it has done nothing for so long; to be asked again and again."""
        now = self._clock()
        if now - self._sampled < _SAMPLE_S:
            return False
        passed = min(now - self._sampled, _MOST_S)
        self._idle_for_s += passed
        self._still_for_s += passed
        self._sampled = now
        done = self._done()
        least_s = _LEAST_SHARE * self._idle_s
        then = self._then
        if done is None or then is None or _is_heard(then, done) or done.cpu_s - then.cpu_s > least_s:
            self._idle_for_s, self._then = 0.0, done
        if done is None or self._still is None or _is_heard(self._still, done):
            self._still_for_s, self._still = 0.0, done
        return self._idle_for_s >= self._idle_s or self._spins

    @property
    def words(self) -> str:
        """What has been seen of one that is idle."""
        if self._spins:
            return f"has read, written and said nothing for {self._still_for_s:.0f} s"
        return f"has done nothing for {self._idle_s:.0f} s"

    @property
    def _spins(self) -> bool:
        return self._still_for_s >= SPINS * self._idle_s


def _is_heard(then: ProcessCounters, now: ProcessCounters) -> bool:
    """Whether it has read, written or said anything; or that is hidden."""
    return now.io_bytes is None or now[1:] != then[1:]


def of_process(pid: int, log_file: Path) -> ProcessCounters | None:
    """What a process has done by now; None if there is none."""
    fields = proc_stat.fields(str(pid))
    if fields is None:
        return None
    cpu = (int(fields[proc_stat.USER_TICKS]) + int(fields[proc_stat.SYSTEM_TICKS])) / _TICKS
    return ProcessCounters(cpu, _io_bytes(pid), log.size(log_file))


def _io_bytes(pid: int) -> int | None:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(": ") for line in lines)
    return int(found["read_bytes"]) + int(found["write_bytes"])
