"""First machine: whether the machine that a fleet began with is heard of. Sits in `campaign.fleet`; no Ray.

Without it, Ray cannot be asked, and ends the command after a minute without a word. One rule holds for blocks
and for content on its way. A sign of life is an answer of the first machine, or whatever arrives from any
machine, such as a chunk that was taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flushlab.errors import FleetError
from flushlab.fleet import reach

LOOK_S = 5.0
"""So often it is looked at."""
SILENT_S = 30.0
"""Longest time without a sign of life; a short loss of the network passes."""
MOST_S = 40.0
"""Longest time without its own answer, whatever arrives: after 60 s, Ray 2.60 ends every process that is
connected to it (`gcs_rpc_server_reconnect_timeout_s`)."""


def takes_connections(place: str) -> bool:
    """Whether somebody takes connections at HOST:PORT."""
    return reach.takes_connections(reach.parse_address(place))


@dataclass
class FirstMachine:
    """The first machine of a fleet; threads may share it.

    Attributes:
        place: HOST:PORT of its Ray.
        say: takes a line for people.
        answers: whether it answers at its place.
        clock: in seconds.
    """

    place: Callable[[], str]
    say: Callable[[str], None]
    answers: Callable[[str], bool] = takes_connections
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked_s: float | None = None
    _heard_s: float = 0.0
    _silent_since_s: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether it gave no answer when it was last looked at."""
        return self._silent_since_s is not None

    def heard(self) -> None:
        """Something has arrived from a machine."""
        self._heard_s = self.clock()

    def look(self) -> bool:
        """Whether it answers; looks now and then only.

        Raises:
            FleetError: it has been silent for too long.
        """
        with self._lock:
            now = self.clock()
            if self._looked_s is None or now - self._looked_s >= LOOK_S:
                self._looked_s = now
                self._ask(now)
            return not self.is_silent

    def _ask(self, now: float) -> None:
        place = self.place()
        if self.answers(place):
            self._silent_since_s = None
            return
        if self._silent_since_s is None:
            self._silent_since_s = now
            self.say(f"the first machine of the fleet, {place}, does not answer; waiting for it")
        silent_s = now - self._silent_since_s
        if silent_s > MOST_S or min(silent_s, now - self._heard_s) > SILENT_S:
            raise FleetError(
                f"the first machine of the fleet, {place}, has not answered for {silent_s:.0f} s",
                hint="start the fleet there again, join the other machines, then resume the campaign",
            )
