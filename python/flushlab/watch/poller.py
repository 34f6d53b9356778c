"""Poller: the one thread that queries the watched server, over one connection, one query at a time.

Promises:

- A question has a deadline.
- A slow question is asked less often, so that answers never take more than `MOST_SHARE` of the time.
- If the server is gone, the poller looks for it again, at growing intervals.
- The session is read-only and gives up on locks at once, and the server itself ends a slow question.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pymysql

from flushlab.errors import FlushlabError
from flushlab.record import ServerIdentity
from flushlab.record.running import WatchedServer
from flushlab.server.control import connect, explain, tls_context
from flushlab.settings.catalog import version_of
from flushlab.watch import questions
from flushlab.watch.kernel_syncs import KernelSyncs
from flushlab.watch.questions import Question
from flushlab.watch.status import ServerStatus
from flushlab.watch.threads import Meter, Repeating

DEADLINE_S = 2.0
NOBODY = "no server runs now"
MOST_SHARE = 0.05
PATIENCE_S = (1.0, 1.0, 2.0, 5.0)
_EARLY_S = 0.1
"""A sample comes once a second, a little earlier or later."""
REFUSED_S = 60.0
"""A question that was refused is asked again after so long: somebody may have granted what it takes."""

_DENIED = {1044, 1142, 1143, 1227, 1370}
_CONNECTION_LOST = {2006, 2013, 1053, 1927, 0}
_PARSERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    questions.STATUS: ("status", questions.parse_pairs),
    questions.VARIABLES: ("variables", questions.parse_pairs),
    questions.THREADS: ("threads", questions.parse_threads),
    questions.METRICS: ("metrics", questions.parse_metrics),
    questions.FILES: ("files", questions.parse_files),
    questions.MONITOR: ("monitor", questions.parse_innodb),
}


class PollResult(msgspec.Struct, frozen=True, kw_only=True):
    """State of the watched server as the poller has it.

    Attributes:
        up: the server answers.
        since: Unix time since which `up` is what it is; None before the first try, or without a server.
        why: why it is down.
        failed: error inside flushlab that kept it from polling; empty if none.
        seen: the latest answers; of an earlier moment while the server is down.
        before: the answers at the status query before.
    """

    up: bool = False
    since: float | None = None
    why: str = ""
    failed: str = ""
    seen: ServerStatus | None = None
    before: ServerStatus | None = None


class Poller(Repeating):
    """Polls until it is closed.

    Args:
        reach: says which server is to be asked; None for none at present.
        meter: takes the thread's CPU time.
    """

    def __init__(self, reach: Callable[[], WatchedServer | None], meter: Meter) -> None:
        super().__init__("watch-poller", meter, 2 * DEADLINE_S + 1)
        self.known = PollResult()
        self._reach = reach
        self._session: _Session | None = None
        self._key = ""
        self._failures = 0

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
        """Asks what is due; the seconds until the next sample."""
        reach = self._reach()
        if reach is None or reach.key != self._key:
            self._drop()
            self._key = reach.key if reach else ""
            self._failures = 0
            self.known = PollResult(why="" if reach else NOBODY)
        if reach is None:
            return 0.25
        try:
            if self._session is None:
                self._session = _Session(reach, self.known.seen)
            self._session.ask_what_is_due(reach.driven_s, self._end.is_set)
        except (_Gone, FlushlabError) as error:
            self._drop()
            self._failures += 1
            self._note(up=False, why=str(error))
            return PATIENCE_S[min(self._failures, len(PATIENCE_S)) - 1]
        self._failures = 0
        self._note(up=True, why="")
        return 1.0 if self._session.is_known else 0.0

    def _note(self, *, up: bool, why: str) -> None:
        known = self.known
        since = known.since if known.since is not None and known.up == up else time.time()
        seen, before = known.seen, known.before
        if self._session is not None and self._session.seen is not None:
            if seen is None or self._session.seen.at_s != seen.at_s:
                before = seen
            seen = self._session.seen
        self.known = PollResult(up=up, since=since, why=why, seen=seen, before=before)

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def inside(error: Exception) -> str:
    """An error inside flushlab, which nobody expected, in words that any encoding takes."""
    return ascii(f"internal error: {type(error).__name__}: {error}")[1:-1]


class _Gone(Exception):
    """The server does not answer, or does not let us in."""


class _Due:
    """When a question is asked next, and in which form."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.form = 0
        self.at_s = 0.0
        self._took_s = deque([0.0, 0.0, 0.0], maxlen=3)

    def asked(self, at_s: float, took_s: float) -> None:
        """It was asked then. One slow answer is a hiccup; two of three are a server that is slow."""
        self._took_s.append(took_s)
        usual_s = sorted(self._took_s)[1]
        self.at_s = at_s + max(self.question.every_s - _EARLY_S, usual_s / MOST_SHARE)


class _Session:
    """One connection."""

    def __init__(self, reach: WatchedServer, seen: ServerStatus | None) -> None:
        self._reach = reach
        try:
            self._connection = connect(
                reach.endpoint,
                reach.transport,
                answer_s=DEADLINE_S,
                connect_s=DEADLINE_S,
                tls=tls_context(reach.ssl_mode, reach.ssl_ca),
            )
        except (pymysql.MySQLError, OSError) as error:
            raise _Gone(_error_text(error)) from error
        self.seen = seen
        self._due: list[_Due] = []
        self._missing: dict[str, str] = {}
        self._syncs: KernelSyncs | None = None
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def is_known(self) -> bool:
        """Whether its status was asked for."""
        return self.seen is not None and bool(self.seen.status)

    def close(self) -> None:
        """Says goodbye."""
        if self._syncs is not None:
            self._syncs.close()
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self._connection.close()

    def ask_what_is_due(self, driven_s: float | None, is_over: Callable[[], bool]) -> None:
        """Asks one question after the other."""
        assert self.seen is not None
        for due in self._due:
            if is_over():
                return
            if time.monotonic() >= due.at_s:
                self._ask(due, driven_s)

    def _begin(self) -> None:
        text = str(self._query("SELECT VERSION()")[0][0])
        identity = ServerIdentity(
            flavor="mariadb" if "mariadb" in text.lower() else "mysql",
            version=version_of(text.partition("-")[0]),
            version_text=text,
        )
        limit = (
            f"max_statement_time = {DEADLINE_S}"
            if identity.flavor == "mariadb"
            else f"max_execution_time = {DEADLINE_S * 1000:.0f}"
        )
        for statement in ("SET SESSION TRANSACTION READ ONLY", f"SET SESSION lock_wait_timeout = 1, {limit}"):
            with contextlib.suppress(_Refused):  # older servers have no such limit
                self._query(statement)
        if self.seen is None or self.seen.identity != identity:
            self.seen = ServerStatus(key=self._reach.key, identity=identity)
        self._due = [_Due(question) for question in questions.first_questions()]
        for due in self._due:
            self._ask(due, None)
        if self._reach.pid is not None and identity.flavor == "mariadb":
            self._syncs = KernelSyncs(self._reach.pid, self.seen.variables)
        known = {due.question.name: due for due in self._due}
        asked = questions.questions(identity, self.seen.variables)
        self._due = [known.get(question.name) or _Due(question) for question in asked]

    def _ask(self, due: _Due, driven_s: float | None) -> None:
        assert self.seen is not None
        question = due.question
        field, parse = _PARSERS[question.name]
        began = time.monotonic()
        rows: list[tuple[Any, ...]] | None = None
        told: Any = None
        while due.form < len(question.forms) and rows is None:
            try:
                rows = self._query(question.forms[due.form])
                told = parse(rows)
            except _Refused as error:
                if error.denied:
                    self._missing[question.name] = question.needs
                due.form += 1
            except (ValueError, TypeError, IndexError):  # a server that tells it in another way
                rows = None
                due.form += 1
        took_s = time.monotonic() - began
        due.asked(began, took_s)
        news: dict[str, Any] = {"took_s": {**self.seen.took_s, question.name: took_s}}
        if rows is None:
            due.form, due.at_s = 0, began + REFUSED_S
            news["failed"] = self.seen.failed | {question.name}
        else:
            news[field] = told
            news["failed"] = self.seen.failed - {question.name}
        if question.name == questions.STATUS:
            syncs = self._syncs.read() if self._syncs is not None else None
            news |= {"at_s": began + took_s, "driven_s": driven_s, "syncs": syncs}
        news["missing"] = tuple(sorted({needs for needs in self._missing.values() if needs}))
        self.seen = msgspec.structs.replace(self.seen, **news)

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except (pymysql.err.InterfaceError, OSError) as error:
            raise _Gone(_error_text(error)) from error
        except pymysql.MySQLError as error:
            errno, text = explain(error)
            if errno in _CONNECTION_LOST:
                raise _Gone(_error_text(error)) from error
            raise _Refused(text, denied=errno in _DENIED) from error


class _Refused(Exception):
    """The server answered with an error."""

    def __init__(self, text: str, *, denied: bool) -> None:
        super().__init__(text)
        self.denied = denied


def _error_text(error: Exception) -> str:
    if isinstance(error, pymysql.MySQLError):
        errno, text = explain(error)
        return f"{text} (error {errno})" if errno else text
    return str(error)
