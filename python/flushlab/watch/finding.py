"""Finding: what flushlab runs, which of its servers is watched, and how both are kept up with.

What runs is asked for at most a few times a second, whoever wants to know. Of servers that stand side by side
one is watched for as long as it stands: its counters then go on, and connections do not come and go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from flushlab.errors import UsageError
from flushlab.process import running as process_running
from flushlab.process.running import RunningProcess
from flushlab.record.running import Running, WatchedServer

FRESH_S = 0.4
LOOK_FOR_S = 1.0
"""So long what was found stays as it is, and so often something is looked for where nothing runs."""


class WatchTarget:
    """Keeps up with what runs.

    Args:
        look: what runs now, or None.
    """

    def __init__(self, look: Callable[[], Running | None]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._running: Running | None = None
        self._at_s = -LOOK_FOR_S
        self._watched = ""

    def running(self) -> Running | None:
        """What runs."""
        with self._lock:
            now = time.monotonic()
            if now - self._at_s >= (FRESH_S if self._running else LOOK_FOR_S):
                self._running = self._look()
                self._at_s = time.monotonic()
            return self._running

    def reach(self) -> WatchedServer | None:
        """The server that is to be asked now, as it stands at this moment."""
        with self._lock:
            if self._running is not None:
                self._at_s = -LOOK_FOR_S
        running = self.running()
        servers = running.servers if running else ()
        chosen = next((one for one in servers if one.key == self._watched), servers[0] if servers else None)
        self._watched = chosen.key if chosen else ""
        return chosen

    def pids(self) -> tuple[int, ...]:
        """Processes of all servers of what runs."""
        running = self.running()
        return running.pids if running else ()


def in_this_process() -> WatchTarget:
    """What this process runs."""
    return WatchTarget(process_running.current_status)


def on_this_machine(campaign: str | None = None) -> WatchTarget:
    """What any process of this home runs, the newest first; or a campaign, as long as it does.

    Raises:
        UsageError: the campaign does not run.
    """
    place: Path | None = None

    def look() -> Running | None:
        nonlocal place
        running = process_running.ask(place) if place is not None else None
        if running is None:
            found = _found(campaign)
            place, running = (found.place, found.running) if found else (None, None)
        return running

    if campaign is not None and _found(campaign) is None:
        others = ", ".join(filter(None, (one.running.campaign for one in process_running.find())))
        raise UsageError(
            f"campaign {campaign} is not running",
            hint=f"these are: {others}" if others else f"flushlab report {campaign} shows one that has ended",
        )
    return WatchTarget(look)


def _found(campaign: str | None) -> RunningProcess | None:
    every = process_running.find()
    return next((one for one in every if campaign in (None, one.running.campaign)), None)
