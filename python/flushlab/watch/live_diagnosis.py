"""Live diagnosis: what bounds the writes of the watched server, over the last half minute.

Fed by the poller with the answers that it has anyway and samples of connections; asks nothing by itself. If
the server runs on this machine, the machine's side joins (`live_host`). A server that flushlab measures is
not diagnosed: a trial must not be asked more, and is over sooner.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

import msgspec

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.host import Host, HostWatch
from flushlab.diagnosis.shares import WriteTime
from flushlab.diagnosis.window import Window
from flushlab.telemetry.live.status import ServerStatus

STRETCH_S = 15.0
_LOOKING_SHARE = 0.004
"""Part of the time that looking may take."""


class LiveHost:
    def __init__(self) -> None:
        self.latest: Host | None = None
        self._watch: HostWatch | None = None
        self._pid: int | None = None
        self._due_s = 0.0

    def note(self, pid: int | None, variables: Mapping[str, str], at_s: float) -> None:
        if pid != self._pid:
            self._pid, self._watch, self.latest, self._due_s = pid, None, None, at_s
        if pid is None or at_s < self._due_s:
            return
        began = time.thread_time()
        with contextlib.suppress(OSError):  # the process has ended
            if self._watch is not None:
                self.latest = self._watch.finish()
            self._watch = HostWatch(pid, variables)
        self._due_s = at_s + max(STRETCH_S, (time.thread_time() - began) / _LOOKING_SHARE)


WINDOW_S = 30.0
FIRST_S = 10.0
"""A shorter window is not judged."""
_STEP_S = 1.0
_EVERY_S = 2.0
_JUDGING_SHARE = 0.02
"""Part of the time that judging may take: with thousands of writers it takes 0.1 s."""


class JudgedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """`now` has the mean number of writers by wait since the last judgement, `wait_s` their time since the
    beginning."""

    diagnosis: Diagnosis
    now: Mapping[str, float] = {}
    wait_s: Mapping[str, float] = {}


class LiveDiagnosis:
    def __init__(self) -> None:
        self.latest: JudgedWindow | None = None
        self._window: Window | None = None
        self._host = LiveHost()
        self._began_s = 0.0
        self._due_s = 0.0
        self._counted_s = 0.0
        self._wait_s: Mapping[str, float] = {}

    def note(self, seen: ServerStatus, at_s: float, pid: int | None = None) -> None:
        if not seen.status:
            return
        self._host.note(pid, seen.variables, at_s)
        window = self._window
        if window is not None:
            window.note(seen, at_s - self._began_s)
        if window is None or window.restarted or window.first.key != seen.key:
            self._window = Window(seen, _STEP_S, WINDOW_S)
            self._began_s, self._due_s, self._counted_s, self.latest = at_s, at_s + FIRST_S, 0.0, None
            return
        if at_s >= self._due_s and window.last.at_s > window.first.at_s:
            self._judge(window, at_s)

    def forget(self) -> None:
        self._window = self.latest = None
        self._host = LiveHost()

    def _judge(self, window: Window, at_s: float) -> None:
        began = time.thread_time()
        found = diagnose(window.evidence(window.last.key, host=self._host.latest))
        own = found.evidence.time
        now = self._count(own, at_s - self._began_s)
        self.latest = JudgedWindow(diagnosis=found, now=now, wait_s=self._wait_s)
        took_s = time.thread_time() - began
        self._due_s = at_s + max(_EVERY_S * 0.9, took_s / _JUDGING_SHARE)

    def _count(self, own: WriteTime, at_s: float) -> dict[str, float]:
        """A slow server has steps without a sample: the next one stands for them."""
        news = [one for one in own.steps if self._counted_s <= one.at_s and one.at_s + own.step_s <= at_s]
        if not news:
            return {}
        began_s, told = self._counted_s, dict[str, float]()
        for step in news:
            ends_s = step.at_s + own.step_s
            for wait, mean in step.connections.items():
                told[wait] = told.get(wait, 0.0) + mean * (ends_s - self._counted_s)
            self._counted_s = ends_s
        total = dict(self._wait_s)
        for wait, seconds in told.items():
            total[wait] = total.get(wait, 0.0) + seconds
        self._wait_s = total
        return {wait: seconds / (self._counted_s - began_s) for wait, seconds in told.items()}
