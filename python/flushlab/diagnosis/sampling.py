"""Sampling: watches a running server for a while and makes the evidence.

Everything goes over one read-only session (`telemetry.live.session`). If the server stops answering, or the
user presses Ctrl-C, the evidence is what was seen until then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from flushlab.diagnosis.evidence import STOPPED, Evidence
from flushlab.diagnosis.host import HostWatch, read_start
from flushlab.diagnosis.shares import step_of
from flushlab.diagnosis.window import Window
from flushlab.errors import MeasurementError, ServerDied, ServerError
from flushlab.machine.processes import command_line
from flushlab.progress import Progress
from flushlab.record.running import WatchedServer
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import doctor_questions
from flushlab.telemetry.live.session import FIRST_S, Gone, Session, waiting_aloud
from flushlab.undo import signal_of

LEAST_S = 1.0
"""Shorter windows have no rates."""
_STEP_S = 0.02


def watch(reach: WatchedServer, seconds: float, progress: Progress) -> Evidence:
    asked, interrupted, at_s = time.monotonic(), "", 0.0
    with opened(reach, progress) as session:
        silent_s, began_at = time.monotonic() - asked, time.time()
        session.ask_what_is_due()
        window = Window(session.seen, step_of(seconds))
        between = session.answerer().between
        host = HostWatch(session.pid, window.first.variables) if session.pid is not None else None
        name = window.first.identity.name
        progress(f"watching {name} at {reach.key} for {seconds:g} s, read-only; Ctrl-C ends it early")
        try:
            began = time.monotonic()
            try:
                while (gone_by := time.monotonic() - began) < seconds:
                    at_s = gone_by
                    session.ask_what_is_due()
                    window.note(session.seen, at_s)
                    time.sleep(_STEP_S)
            except KeyboardInterrupt as error:
                interrupted = signal_of(error)
            session.ask_now(questions.STATUS, questions.FILES)  # a slow server was asked long ago
        except Gone as error:
            # Ctrl-C may have cut an answer short, and the connection with it.
            interrupted = interrupted or f"{STOPPED} ({error})"
        window.note(session.seen, at_s)
    first, last = window.first, window.last
    if last.at_s - first.at_s < LEAST_S:
        why = interrupted or "too few answers"
        kind = ServerDied if "answering" in why else MeasurementError
        raise kind(f"{why} before there was anything to judge", hint="watch for some seconds at least")
    start = None
    if host is not None and host.root is not None and (words := command_line(host.pid)):
        named = (origin.path for origin in (last.origins or {}).values())
        start = read_start(words, last.identity, named, host.root)
    return window.evidence(
        reach.key,
        began=began_at,
        host=host.finish() if host is not None else None,
        start=start,
        between=between,
        interrupted="the server started anew: counters began at 0" if window.restarted else interrupted,
        silent_s=silent_s,
    )


@contextlib.contextmanager
def opened(reach: WatchedServer, progress: Progress) -> Iterator[Session]:
    """A server that stalls is waited for. Raises ServerError if it does not answer, or refuses the
    account."""
    session = None
    try:
        with waiting_aloud(reach.key, progress):
            session = Session(reach, choose=doctor_questions, first_s=FIRST_S)
        answerer = session.answerer()  # of a proxy, answers may come from several servers
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
        yield session
    except Gone as error:
        raise ServerError(f"the server at {reach.key} cannot be watched: {error}", hint=error.hint) from error
    finally:
        if session is not None:
            session.close()
