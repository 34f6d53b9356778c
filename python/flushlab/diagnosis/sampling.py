"""Sampling: watches a running server for a while and makes the evidence.

Everything goes over one read-only session (`telemetry.live.session`). If the server stops answering, or the
user presses Ctrl-C, the evidence is what was seen until then.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping

from flushlab import machine
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.shares import STRETCHES, Tally
from flushlab.errors import MeasurementError, ServerDied, ServerError
from flushlab.record import Value
from flushlab.record.running import WatchedServer
from flushlab.settings.catalog import load_catalog
from flushlab.settings.in_force import in_force
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import OpenTransaction, doctor_questions
from flushlab.telemetry.live.session import Gone, Session
from flushlab.telemetry.live.status import ServerStatus

LEAST_S = 1.0
"""Shorter windows have no rates."""
_STEP_S = 0.02


def watch(reach: WatchedServer, seconds: float, progress: Callable[[str], None]) -> Evidence:
    """Watches a server.

    Args:
        reach: the server.
        seconds: length of the window.
        progress: takes a line at a time.

    Raises:
        ServerError: the server does not answer, or refuses the account.
        ServerDied: the server stopped answering before there was anything to judge.
    """
    with opened(reach) as session:
        watched = _Window(reach, session, seconds)
        name = watched.first.identity.name
        progress(f"watching {name} at {reach.key} for {seconds:g} s, read-only; Ctrl-C ends it early")
        watched.run()
    return watched.evidence()


@contextlib.contextmanager
def opened(reach: WatchedServer) -> Iterator[Session]:
    """A session with the questions of a diagnosis.

    Raises:
        ServerError: the server does not answer, or refuses the account.
    """
    session = None
    try:
        session = Session(reach, choose=doctor_questions)
        yield session
    except Gone as error:
        raise ServerError(
            f"the server at {reach.key} cannot be watched: {error}", hint="check address, user and password"
        ) from error
    finally:
        if session is not None:
            session.close()


class _Window:
    """The samples of one window."""

    def __init__(self, reach: WatchedServer, session: Session, seconds: float) -> None:
        self._reach, self._session, self._seconds = reach, session, seconds
        self.first = self._ask()
        self._last = self.first
        self._tally = Tally(self.first.identity)
        self._ages: list[int] = []
        self._transactions: dict[int, OpenTransaction] = {}
        self._waiting: list[int] = []
        self._states: object = None
        self._looked: object = None
        self._interrupted = ""
        self._is_local = _is_local(reach, self.first.variables)
        self._machine = machine.sample() if self._is_local else None

    def run(self) -> None:
        """Looks until the time is over, the server is gone, or Ctrl-C."""
        try:
            self._look()
            self._session.ask_now(questions.STATUS, questions.FILES)  # a slow server was asked long ago
        except Gone as error:
            self._interrupted = f"the server stopped answering ({error})"
        self._note(self._seen, STRETCHES - 1)

    def _look(self) -> None:
        """Looks until the time is over, or Ctrl-C."""
        began = time.monotonic()
        try:
            while (gone_by := time.monotonic() - began) < self._seconds:
                self._note(self._ask(), min(STRETCHES - 1, int(gone_by / self._seconds * STRETCHES)))
                time.sleep(_STEP_S)
        except KeyboardInterrupt:
            self._interrupted = "Ctrl-C"

    def evidence(self) -> Evidence:
        """What was seen."""
        first, last = self.first, self._last
        seconds = last.at_s - first.at_s
        if seconds < LEAST_S:
            why = self._interrupted or "too few answers"
            kind = ServerDied if "answering" in why else MeasurementError
            raise kind(f"{why} before there was anything to judge", hint="watch for some seconds at least")
        if (uptime := last.number("uptime")) is not None and uptime < (first.number("uptime") or 0.0):
            self._interrupted = "the server started anew: counters began at 0"
        waited_ms = (last.number("innodb_row_lock_time") or 0.0) - (
            first.number("innodb_row_lock_time") or 0.0
        )
        # The counter has waits that ended, the looks those that go on.
        waiting = sum(self._waiting) / len(self._waiting) if self._waiting else 0.0
        write_time = self._tally.write_time(max(waiting, waited_ms / 1000 / seconds))
        return Evidence(
            seconds=seconds,
            before=first,
            after=last,
            checkpoint_ages=tuple(self._ages),
            write_time=write_time if sees_others(last) else None,
            transactions=self._transactions,
            settings=_settings(last, self._reach.key),
            machine=machine.between(self._machine, machine.sample()) if self._machine else None,
            cpus=os.cpu_count() if self._is_local else None,
            memory_bytes=machine.memory_bytes() if self._is_local else None,
            missing=last.missing,
            interrupted=self._interrupted,
        )

    def _ask(self) -> ServerStatus:
        self._session.ask_what_is_due(None, lambda: False)
        return self._seen

    @property
    def _seen(self) -> ServerStatus:
        assert self._session.seen is not None
        return self._session.seen

    def _note(self, seen: ServerStatus, stretch: int) -> None:
        if seen.states is not None and seen.states is not self._states:
            self._states = seen.states
            self._tally.add(stretch, seen.states)
        if seen.at_s != self._last.at_s and (age := seen.redo.checkpoint_age) is not None:
            self._ages.append(age)
        if seen.transactions is not None and seen.transactions is not self._looked:
            self._looked = seen.transactions
            self._waiting.append(sum(one.waits for one in seen.transactions))
            self._transactions |= {one.thread: one for one in seen.transactions}
        self._last = seen


def sees_others(seen: ServerStatus) -> bool:
    """Whether connections of other accounts are seen: without PROCESS, the list of processes is the own ones,
    and no error says so."""
    if seen.states is None:
        return False
    instrumented = seen.identity.flavor == "mysql" and seen.variables.get("performance_schema", "") in (
        "ON",
        "1",
    )
    by_list = not instrumented or any("performance_schema" in one for one in seen.missing)
    return "PROCESS" not in seen.missing or not by_list


def _is_local(reach: WatchedServer, variables: Mapping[str, str]) -> bool:
    """Whether the server's host is this machine, as far as its name and the address tell."""
    near = bool(reach.endpoint.socket) or reach.endpoint.host in ("127.0.0.1", "::1", "localhost")
    return near and variables.get("hostname") == socket.gethostname()


def _settings(seen: ServerStatus, path: str) -> dict[str, Value]:
    known = in_force(seen.variables, seen.identity, path=path).settings
    return {name: value for name, value in known.items() if name in load_catalog()}
