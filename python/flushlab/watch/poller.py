"""Poller: the one thread that queries the watched server, over one connection, one query at a time.

Promises:

- The server is only read, with deadlines and less often if it is slow: `telemetry.live.session`.
- If the server is gone, the poller looks for it again, at growing intervals.
- A login that the server refuses is not tried again if it is the first, else once: servers lock accounts and
  hosts after a few.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec

from flushlab.errors import FlushlabError, ServerError
from flushlab.record.running import WatchedServer
from flushlab.telemetry.live.questions import LIVE_STATES_S, live_questions, questions
from flushlab.telemetry.live.session import DEADLINE_S, Gone, Session
from flushlab.telemetry.live.status import ServerStatus
from flushlab.watch.live_diagnosis import JudgedWindow, LiveDiagnosis
from flushlab.watch.threads import Meter, Repeating

NOBODY = "no server runs now"
PATIENCE_S = (1.0, 1.0, 2.0, 5.0)
REFUSED_S = 30.0
"""Until the one more try of a login that was let in before: a new primary may get its accounts later."""


class PollResult(msgspec.Struct, frozen=True, kw_only=True):
    """State of the watched server as the poller has it.

    Attributes:
        since: Unix time since which `up` is what it is; None before the first try, or without a server.
        refused: the login was refused, and is not tried again.
        seen: the latest answers; of an earlier moment while the server is down.
        judged: what bounds writes; None while there is too little to judge, or the server is not diagnosed.
    """

    up: bool = False
    since: float | None = None
    why: str = ""
    refused: ServerError | None = None
    failed: str = ""
    seen: ServerStatus | None = None
    before: ServerStatus | None = None
    judged: JudgedWindow | None = None


class Poller(Repeating):
    def __init__(
        self, reach: Callable[[], WatchedServer | None], meter: Meter, live: LiveDiagnosis | None = None
    ) -> None:
        super().__init__("watch-poller", meter, 2 * DEADLINE_S + 1)
        self._live = live
        self._choose = questions if live is None else live_questions
        self._every_s = 1.0 if live is None else LIVE_STATES_S
        self.known = PollResult()
        self._reach = reach
        self._session: Session | None = None
        self._key = ""
        self._failures = 0
        self._logins = 0

    def _run(self) -> None:
        super()._run()
        self._drop()

    def _turn(self) -> float:
        began = time.monotonic()
        try:
            patience_s = self._look()
        except Exception as error:  # noqa: BLE001 - it is shown
            patience_s = PATIENCE_S[0]
            self.known = PollResult(failed=inside(error), seen=self.known.seen)
            with contextlib.suppress(Exception):
                self._drop()
        return max(0.05, patience_s - (time.monotonic() - began))

    def _look(self) -> float:
        reach = self._reach()
        if reach is None or reach.key != self._key:
            self._drop()
            self._key = reach.key if reach else ""
            self._failures, self._logins = 0, 1
            self.known = PollResult(why="" if reach else NOBODY)
        if reach is None or self.known.refused is not None:
            return 0.25
        try:
            if self._session is None:
                self._session = Session(reach, self.known.seen, self._choose)
            self._session.ask_what_is_due(reach.driven_s, self._end.is_set)
        except (Gone, FlushlabError) as error:
            self._drop()
            self._failures += 1
            self._note(up=False, why=str(error))
            if isinstance(error, Gone) and error.refused:
                return self._refused(reach, error)
            return PATIENCE_S[min(self._failures, len(PATIENCE_S)) - 1]
        self._failures, self._logins = 0, 2
        self._note(up=True, why="")
        return self._every_s if self._session.is_known else 0.0

    def _refused(self, reach: WatchedServer, error: Gone) -> float:
        self._logins -= 1
        if not self._logins:
            refused = ServerError(f"the server at {reach.key} cannot be watched: {error}", hint=error.hint)
            self.known = msgspec.structs.replace(self.known, refused=refused)
        return REFUSED_S

    def _note(self, *, up: bool, why: str) -> None:
        known = self.known
        since = known.since if known.since is not None and known.up == up else time.time()
        seen, before, judged = known.seen, known.before, None
        if self._session is not None:
            if seen is None or self._session.seen.at_s != seen.at_s:
                before = seen
            seen = self._session.seen
        if self._live is not None and up and seen is not None:
            self._live.note(seen, time.monotonic(), self._session.pid if self._session is not None else None)
            judged = self._live.latest
        self.known = PollResult(up=up, since=since, why=why, seen=seen, before=before, judged=judged)

    def _drop(self) -> None:
        if self._live is not None:
            self._live.forget()
        session, self._session = self._session, None
        if session is not None:
            session.close()


def inside(error: Exception) -> str:
    return ascii(f"internal error: {type(error).__name__}: {error}")[1:-1]
