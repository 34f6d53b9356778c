"""Sampling: watches a running server for a while and makes the evidence.

Everything goes over one read-only session (`telemetry.live.session`). If the server stops answering, or the
user presses Ctrl-C, the evidence is what was seen until then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from flushlab.diagnosis.evidence import STOPPED, Evidence
from flushlab.diagnosis.host import HostWatch, Start, read_start
from flushlab.diagnosis.shares import step_of
from flushlab.diagnosis.window import Window
from flushlab.errors import MeasurementError, ServerDied, ServerError
from flushlab.machine.processes import command_line
from flushlab.progress import Progress
from flushlab.record.running import WatchedServer
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import doctor_questions
from flushlab.telemetry.live.session import FIRST_S, Answerer, Gone, Session, waiting_aloud
from flushlab.telemetry.live.status import ServerStatus
from flushlab.undo import signal_of

LEAST_S = 1.0
"""Shorter windows have no rates."""
_STEP_S = 0.02


def watch(reach: WatchedServer, seconds: float, progress: Progress) -> Evidence:
    """Watches a server.

    Args:
        reach: the server.
        seconds: length of the window.
        progress: takes a line at a time.

    Raises:
        ServerError: the server does not answer, or refuses the account.
        ServerDied: the server stopped answering before there was anything to judge.
    """
    asked = time.monotonic()
    with opened(reach, progress) as session:
        watched = _Watching(reach, session, seconds, time.monotonic() - asked)
        name = watched.first.identity.name
        progress(f"watching {name} at {reach.key} for {seconds:g} s, read-only; Ctrl-C ends it early")
        watched.run()
    return watched.evidence()


@contextlib.contextmanager
def opened(reach: WatchedServer, progress: Progress) -> Iterator[Session]:
    """A session with the questions of a diagnosis. A server that stalls is waited for.

    Raises:
        ServerError: the server does not answer, or refuses the account.
    """
    session = None
    try:
        with waiting_aloud(reach.key, progress):
            session = Session(reach, choose=doctor_questions, first_s=FIRST_S)
        _require_server(reach, session.answerer())
        yield session
    except Gone as error:
        raise ServerError(f"the server at {reach.key} cannot be watched: {error}", hint=error.hint) from error
    finally:
        if session is not None:
            session.close()


def _require_server(reach: WatchedServer, answerer: Answerer) -> None:
    """Refuses what is known to be none: answers of a proxy may come from several servers."""
    if answerer.proxy:
        raise ServerError(
            f"{reach.key} is {answerer.proxy}, a proxy and no server",
            hint="name the address of the server behind it",
        )
    if answerer.stranger:
        raise ServerError(
            f"the server at {reach.key} is {answerer.stranger} ({answerer.version})",
            hint="the doctor knows MySQL and MariaDB",
        )


class _Watching:
    """The samples of one window."""

    def __init__(self, reach: WatchedServer, session: Session, seconds: float, silent_s: float) -> None:
        self._reach, self._session, self._seconds, self._silent_s = reach, session, seconds, silent_s
        self._began = time.time()
        self._at_s = 0.0
        self._window = Window(self._ask(), step_of(seconds))
        self._interrupted = ""
        self._between = session.answerer().between
        self._host = HostWatch(session.pid, self.first.variables) if session.pid is not None else None

    @property
    def first(self) -> ServerStatus:
        return self._window.first

    def run(self) -> None:
        """Looks until the time is over, the server is gone, or Ctrl-C."""
        try:
            self._look()
            self._session.ask_now(questions.STATUS, questions.FILES)  # a slow server was asked long ago
        except Gone as error:
            # Ctrl-C may have cut an answer short, and the connection with it.
            self._interrupted = self._interrupted or f"{STOPPED} ({error})"
        self._window.note(self._seen, self._at_s)

    def _look(self) -> None:
        """Looks until the time is over, or Ctrl-C."""
        began = time.monotonic()
        try:
            while (gone_by := time.monotonic() - began) < self._seconds:
                self._at_s = gone_by
                self._window.note(self._ask(), gone_by)
                time.sleep(_STEP_S)
        except KeyboardInterrupt as error:
            self._interrupted = signal_of(error)

    def evidence(self) -> Evidence:
        if self._window.last.at_s - self.first.at_s < LEAST_S:
            why = self._interrupted or "too few answers"
            kind = ServerDied if "answering" in why else MeasurementError
            raise kind(f"{why} before there was anything to judge", hint="watch for some seconds at least")
        if self._window.restarted:
            self._interrupted = "the server started anew: counters began at 0"
        return self._window.evidence(
            self._reach.key,
            began=self._began,
            host=self._host.finish() if self._host is not None else None,
            start=self._start(),
            between=self._between,
            interrupted=self._interrupted,
            silent_s=self._silent_s,
        )

    def _start(self) -> Start | None:
        pid, root = self._session.pid, self._host.root if self._host else None
        if pid is None or root is None:
            return None
        last = self._window.last
        named = (one.path for one in (last.origins or {}).values())
        words = command_line(pid)
        return read_start(words, last.identity, named, root) if words else None

    def _ask(self) -> ServerStatus:
        self._session.ask_what_is_due(None, lambda: False)
        return self._seen

    @property
    def _seen(self) -> ServerStatus:
        assert self._session.seen is not None
        return self._session.seen
