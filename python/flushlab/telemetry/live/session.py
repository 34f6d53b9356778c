"""Session: one connection to a running server that may be somebody's production, one question at a time.

Promises:

- A question has a deadline.
- A slow question is asked less often, so that its answers never take more than `MOST_SHARE` of the time.
- The session is read-only and gives up on locks at once, and the server itself ends a slow question.
- Nothing is sent but the statements of `questions` and those that begin the session.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pymysql

from flushlab.machine.processes import is_server, peer_pid
from flushlab.progress import Progress
from flushlab.record import ServerIdentity
from flushlab.record.running import WatchedServer
from flushlab.server.control import (
    PASSWORD_EXPIRED,
    answer_within,
    connect,
    explain,
    is_final,
    tls_context,
    way_out,
)
from flushlab.settings.catalog import version_of
from flushlab.telemetry.activity import KernelSyncs
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import Question, waits_for_metadata
from flushlab.telemetry.live.status import ServerStatus

_PROXIES = {"proxysql": "ProxySQL", "maxscale": "MaxScale", "mysqlrouter": "MySQL Router"}
_STRANGERS = {
    "tidb": "TiDB",
    "oceanbase": "OceanBase",
    "vitess": "Vitess",
    "planetscale": "PlanetScale",
    "dolt": "Dolt",
    "singlestore": "SingleStore",
    "memsql": "SingleStore",
    "starrocks": "StarRocks",
    "doris": "Doris",
    "clickhouse": "ClickHouse",
    "manticore": "Manticore",
    "sphinx": "Sphinx",
}


class Answerer(msgspec.Struct, frozen=True, kw_only=True):
    greeting: str
    version: str
    comment: str = ""
    greeted: int | None = None
    numbered: int | None = None

    @property
    def proxy(self) -> str:
        return _named(_PROXIES, self.greeting, self.comment)

    @property
    def stranger(self) -> str:
        return _named(_STRANGERS, self.version, self.comment)

    @property
    def between(self) -> str:
        if None in (self.greeted, self.numbered) or self.greeted == (self.numbered or 0) % (1 << 32):
            return ""
        return f"the connection is number {self.greeted} there and {self.numbered} at the server"


def _named(names: dict[str, str], *texts: str) -> str:
    words = {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}
    return next((name for word, name in names.items() if word in words), "")


DEADLINE_S = 2.0
FIRST_S = 30.0
"""Deadline of the first answers for those who cannot begin later: a server may stall just then."""
MOST_SHARE, MOST_LATCHED = 0.05, 0.002
"""Of the time, that a question may take; and one that writers wait for."""
_EARLY = 0.1
"""Part of its interval by which a question may come early: samples are not taken to the millisecond."""
_VERSION = re.compile(r"\d+\.\d+(\.\d+)*")
REFUSED_S = 60.0
"""A question that was refused is asked again after so long: somebody may have granted what it takes."""

_DENIED = {1044, 1142, 1143, 1227, 1370}
_CUT = {1205, 1317, 1969, 3024}
"""A lock that did not come in time, KILL QUERY, and the limits of time of MariaDB and MySQL."""
_CONNECTION_LOST = {2006, 2013, 1053, 1927, PASSWORD_EXPIRED, 0}


class Gone(Exception):
    """`refused`: the server refuses the login, and would again."""

    def __init__(self, error: Exception | str) -> None:
        errno, text = explain(error) if isinstance(error, pymysql.MySQLError) else (0, str(error))
        super().__init__(f"{text} (error {errno})" if errno else text)
        self.hint, self.refused = way_out(errno, str(self)), is_final(errno, str(self))


class Due:
    def __init__(self, question: Question) -> None:
        self.question = question
        self.form = 0
        self.at_s = 0.0
        self._took_s = deque([0.0, 0.0, 0.0], maxlen=3)

    def asked(self, at_s: float, took_s: float) -> None:
        """It was asked then. One slow answer is a hiccup; two of three are a server that is slow."""
        self._took_s.append(took_s)
        usual_s = sorted(self._took_s)[1]
        most = MOST_LATCHED if self.question.latches else MOST_SHARE
        self.at_s = at_s + max(self.question.every_s * (1 - _EARLY), usual_s / most)


Choose = Callable[[ServerIdentity, Mapping[str, str]], tuple[Question, ...]]


class Session:
    """One connection, which learns the server's variables at once.

    Args:
        first_s: deadline of the first answers: version, variables, status.

    Attributes:
        peer: process of this machine at the other end of the connection; None if it is elsewhere or unseen.

    Raises:
        Gone: the server does not answer, or refuses the account.
    """

    def __init__(
        self,
        reach: WatchedServer,
        seen: ServerStatus | None = None,
        choose: Choose = questions.questions,
        first_s: float | None = None,
    ) -> None:
        self._reach, self._choose = reach, choose
        self._first_s = max(first_s or 0.0, DEADLINE_S)
        try:
            self._connection = connect(
                reach.endpoint,
                reach.transport,
                answer_s=self._first_s,
                connect_s=DEADLINE_S,
                tls=tls_context(reach.ssl_mode, reach.ssl_ca),
            )
        except (pymysql.MySQLError, OSError) as error:
            raise Gone(error) from error
        self._due: list[Due] = []
        self._missing: dict[str, str] = {}
        self._syncs: KernelSyncs | None = None
        self._answerer: Answerer | None = None
        end = vars(self._connection).get("_sock")
        self.peer = peer_pid(end) if isinstance(end, socket.socket) else None
        try:
            self._begin(seen)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        if self._reach.pid is not None:
            return self._reach.pid
        return self.peer if self.peer is not None and is_server(self.peer) else None

    @property
    def is_known(self) -> bool:
        return bool(self.seen.status)

    def close(self) -> None:
        if self._syncs is not None:
            self._syncs.close()
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self._connection.close()

    def ask_what_is_due(
        self, driven_s: float | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        for due in self._due:
            if is_over():
                return
            if time.monotonic() < due.at_s or not self._is_wanted(due.question):
                continue
            if (self.seen.row_lock_waiters or 0.0) <= due.question.most_waits:
                self._ask(due, driven_s)
            else:
                self._spare(due, driven_s)

    def _is_wanted(self, question: Question) -> bool:
        if question.only == "left prepared":
            return any(one.is_left for one in self.seen.transactions or ())
        is_always = question.only == "always"
        return is_always or any(waits_for_metadata(one.state) for one in self.seen.states or ())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(due.question.name for due in self._due)

    def account(self) -> str:
        return str(self._query(questions.ACCOUNT)[0][0])

    def answerer(self) -> Answerer:
        if self._answerer is None:
            greeting = vars(self._connection)
            greeted, numbered = greeting.get("server_thread_id"), self._one(questions.NUMBER)
            self._answerer = Answerer(
                greeting=str(greeting.get("server_version", "")),
                version=self.seen.identity.version_text,
                comment=self._one(questions.COMMENT),
                greeted=greeted[0] if isinstance(greeted, tuple) else None,
                numbered=int(numbered) if numbered.isdecimal() else None,
            )
        return self._answerer

    def _one(self, sql: str) -> str:
        try:
            rows = self._query(sql)
        except Refused:
            return ""
        return str(rows[0][0]) if rows else ""

    def ask_now(self, *names: str) -> None:
        for due in self._due:
            if due.question.name in names:
                self._ask(due, None)

    def _begin(self, known: ServerStatus | None) -> None:
        text = self._one("SELECT VERSION()")
        number = _VERSION.match(text)
        if number is None:
            raise Gone(f"it gives its version as {text!r}, which no MySQL or MariaDB does")
        identity = ServerIdentity(
            flavor="mariadb" if "mariadb" in text.lower() else "mysql",
            version=version_of(number[0]),
            version_text=text,
        )
        with contextlib.suppress(Refused):
            self._query("SET SESSION TRANSACTION READ ONLY")
        with contextlib.suppress(Refused):  # InnoDB tells when a transaction began in the machine's time zone
            self._query("SET SESSION time_zone = 'SYSTEM'")
        self._limit(identity, self._first_s)
        self.seen = ServerStatus(key=self._reach.key, identity=identity)
        if known is not None and known.identity == identity:
            self.seen = known
        self._due = [Due(question) for question in questions.FIRST_QUESTIONS]
        for due in self._due:
            self._ask(due, None)
        if self.pid is not None and identity.flavor == "mariadb":
            self._syncs = KernelSyncs(self.pid, self.seen.variables)
        first = {due.question.name: due for due in self._due}
        asked = self._choose(identity, self.seen.variables)
        self._due = [first.get(question.name) or Due(question) for question in asked]
        if self._first_s > DEADLINE_S:
            self.ask_now(questions.STATUS)
            self._limit(identity, DEADLINE_S)
            answer_within(self._connection, DEADLINE_S)

    def _limit(self, identity: ServerIdentity, seconds: float) -> None:
        limit = f"max_execution_time = {seconds * 1000:.0f}"
        if identity.flavor == "mariadb":
            limit = f"max_statement_time = {seconds}"
        with contextlib.suppress(Refused):  # older servers have no such limit
            self._query(f"SET SESSION lock_wait_timeout = 1, {limit}")

    def _spare(self, due: Due, driven_s: float | None) -> None:
        if len(due.question.forms) > 1:
            first, due.form = due.form, max(due.form, 1)
            self._ask(due, driven_s)
            due.form = first
            return
        due.asked(time.monotonic(), 0.0)
        self.seen = msgspec.structs.replace(self.seen, spared=self.seen.spared | {due.question.name})

    def _ask(self, due: Due, driven_s: float | None) -> None:
        question = due.question
        began = time.monotonic()
        rows: list[tuple[Any, ...]] | None = None
        answer: Any = None
        while due.form < len(question.forms) and rows is None:
            try:
                rows = self._query(question.forms[due.form])
                answer = question.parse(rows)
            except Refused as error:
                if error.cut:  # for once
                    break
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
            if due.form == len(question.forms):
                due.form, due.at_s = 0, began + REFUSED_S
            elif question.every_s > REFUSED_S:  # it was cut short, and is asked once
                due.at_s = began + max(DEADLINE_S, took_s / MOST_SHARE)
            news["failed"] = self.seen.failed | {question.name}
        else:
            news[question.field] = answer
            news["asked_s"] = {**self.seen.asked_s, question.name: began}
            news["failed"] = self.seen.failed - {question.name}
        if question.name == questions.STATUS and rows is not None:
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
            raise Gone(error) from error
        except pymysql.MySQLError as error:
            errno, text = explain(error)
            if errno in _CONNECTION_LOST:
                raise Gone(error) from error
            raise Refused(text, denied=errno in _DENIED, cut=errno in _CUT) from error


@contextlib.contextmanager
def waiting_aloud(key: str, progress: Progress) -> Iterator[None]:
    text = f"{key} has not answered for {DEADLINE_S:g} s: waiting for {FIRST_S:g} s at most; Ctrl-C ends it"
    timer = threading.Timer(DEADLINE_S, progress, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Refused(Exception):
    def __init__(self, text: str, *, denied: bool, cut: bool) -> None:
        super().__init__(text)
        self.denied, self.cut = denied, cut
