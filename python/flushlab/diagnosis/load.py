"""Load: observes what a running server's own load writes, adds nothing to it, and keeps recordings of it.

A recording is a file of JSON lines: the server with its settings, then one line for each stretch of
`STRETCH_S`. A recording that is killed loses at most its last stretch.

Beside `sampling`, over the same read-only session. A stretch begins and ends with the server's counters. In
between, connections are sampled at random moments, since an application may work in step with a clock.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.diagnosis.evidence import WITH_READS, commits_counter, committed, settings_of
from flushlab.diagnosis.waits import wait_of
from flushlab.errors import CountersReset, FlushlabError, NotWritable, ServerDied, ServerError
from flushlab.progress import Progress
from flushlab.record import ObservedLoad, ServerIdentity, Value, WrittenStatements, side_by_side
from flushlab.record.running import WatchedServer
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import HISTOGRAM, STATEMENTS, UNTOLD, load_questions
from flushlab.telemetry.live.session import FIRST_S, Gone, Session, waiting_aloud
from flushlab.telemetry.live.status import Rates, ServerStatus, was_reset
from flushlab.units import format_seconds

_WRITING = ("statement", "commit", "metadata lock", "semi-sync", "certification", "flow control")
"""Waits of a connection that writes."""
_SOON_S, _LATER_S = 0.015, 0.05
"""Mean time between samples: few writers are met seldom, and a server with few has time."""
_MOST_SHARE = 0.04
"""Part of the time that the answers may take."""
_MOST_UNTOLD = 0.05
"""If statements of any kind are more than this part of those told by kind, the sums by kind miss writes."""
_LEAST_TOLD = 0.8
"""If statements are less than this part of the commits, performance_schema does not tell those of all
accounts: each transaction has a write statement or a COMMIT."""
_ASKED_AGAIN = 3
"""Times that a question of counters is asked if the answer is cut short."""
_EMPTY: Mapping[str, tuple[str, object]] = {
    HISTOGRAM: ("histogram", {}),
    STATEMENTS: ("statements", None),
    questions.FILES: ("files", {}),
}
"""Questions that a server may refuse, their field, and its value without an answer."""
_WHO = ("hostname", "server_id", "server_uuid")
"""Variables that tell one server from another at its address."""
_STRADDLING = 2
"""Statements that may end in the stretch after the one that counts their commit."""
_FEW = 20
"""Commits below which these are a large part, so that a stretch may lack sums by chance."""
_SAME_START_S = 5.0
"""By so much a server's uptime may lag behind the clock."""
_MOST_AMISS = 0.1
"""Part of the write statements that may be missing in the histogram, or too many in it."""


class LoadObserver:
    """After `_FEW` commits in stretches without sums of statements, `one_source` lets no later stretch have
    them: latencies of two sources make no ratio."""

    def __init__(
        self,
        nodes: Sequence[WatchedServer],
        seed: int = 0,
        *,
        one_source: bool = False,
        first_s: float = FIRST_S,
    ) -> None:
        self._nodes, self._first_s = nodes, first_s
        self._one_source, self._sampled = one_source, 0
        self.commits = 0
        self._sessions: list[Session] = []
        self._first: list[ServerStatus] = []
        self._last: list[ServerStatus] = []
        self._random = random.Random(seed)
        self._met = 1.0

    def observe(self, seconds: float, cut: Callable[[ObservedLoad], None] | None = None) -> ObservedLoad:
        """`cut` takes the load until Ctrl-C, before that is raised. Raises CountersReset if counters were set
        back."""
        try:
            self._connect()
            before = [_counters(session) for session in self._sessions]
            self._first = self._first or before
            earlier, self._last = self._last or before, before
            for first, last, now in zip(self._first, earlier, before, strict=True):
                _require_same(first, last, now)
            looks = [_Looks() for _ in self._sessions]
            try:
                self._look(looks, time.monotonic() + seconds)
            except KeyboardInterrupt:
                # It may have cut an answer short.
                load = None
                self.close()
                with contextlib.suppress(Gone, FlushlabError):
                    self._connect()
                    load = self._since(before, looks)
                if cut is not None and load is not None:
                    cut(load)
                raise
            return self._since(before, looks)
        except Gone as error:
            self.close()
            names = ", ".join(one.key for one in self._nodes)
            if error.refused:  # whoever is asked again is not asked to count failed logins
                raise ServerError(f"{names} refuses the login: {error}", hint=error.hint) from error
            raise ServerDied(f"{names} does not answer any more: {error}", hint=error.hint) from error

    def _since(self, before: Sequence[ServerStatus], looks: Sequence[_Looks]) -> ObservedLoad:
        after = [_counters(session) for session in self._sessions]
        load = side_by_side(list(map(between, before, after, looks)))
        self._last = after
        self.commits += load.commits
        if load.source == "samples":
            self._sampled += load.commits
        return load.by_samples() if self._one_source and self._sampled >= _FEW else load

    def settings(self) -> tuple[ServerIdentity, Mapping[str, Value]]:
        try:
            self._connect()
            self._sessions[0].ask_now(questions.VARIABLES)
        except Gone as error:
            self.close()
            key = self._nodes[0].key
            raise ServerError(f"the server at {key} cannot be watched: {error}", hint=error.hint) from error
        seen = self._sessions[0].seen
        return seen.identity, settings_of(seen, self._nodes[0].key)

    def close(self) -> None:
        while self._sessions:
            self._sessions.pop().close()

    def _connect(self) -> None:
        while len(self._sessions) < len(self._nodes):
            node = self._nodes[len(self._sessions)]
            self._sessions.append(Session(node, choose=load_questions, first_s=self._first_s))

    def _mean_s(self, took_s: float) -> float:
        return max(_SOON_S if self._met < 0.5 else _LATER_S, took_s / _MOST_SHARE)

    def _look(self, looks: Sequence[_Looks], until_s: float) -> None:
        mean_s = self._mean_s(0.0)
        while (now := time.monotonic()) < until_s:
            for session, own in zip(self._sessions, looks, strict=True):
                session.ask_now(questions.STATES)
                self._met += 0.05 * (own.add(session.seen, mean_s) - self._met)
            took_s = time.monotonic() - now
            mean_s = self._mean_s(took_s)
            # Exponential: samples of a Poisson process see averages over time. Each one weighs by the mean
            # time before it, since idle moments are sampled more often than others.
            time.sleep(max(0.0, min(self._random.expovariate(1 / mean_s), until_s - time.monotonic())))


class _Looks:
    def __init__(self) -> None:
        self.count = 0
        self.weight = 0.0
        self.writing = 0.0
        self.committing = 0.0

    def add(self, status: ServerStatus, weight: float) -> int:
        if status.states is None:
            return 0
        waits = [wait_of(one, status.identity) for one in status.states]
        writing = sum(wait in _WRITING for wait in waits)
        self.count += 1
        self.weight += weight
        self.writing += weight * writing
        self.committing += weight * waits.count("commit")
        return writing


def _counters(session: Session) -> ServerStatus:
    """In the same order at both ends of a stretch; empty without an answer: an earlier one is of another
    stretch."""
    session.ask_now(HISTOGRAM, STATEMENTS, questions.FILES)
    for _ in range(_ASKED_AGAIN):
        session.ask_now(questions.STATUS)
        if questions.STATUS not in session.seen.failed:
            empty = {field: none for name, (field, none) in _EMPTY.items() if name in session.seen.failed}
            return msgspec.structs.replace(session.seen, **empty)
    raise CountersReset(
        f"{session.seen.key} cut {_ASKED_AGAIN} answers short",
        hint="find who ends flushlab's queries, or what makes the server slow",
    )


def _require_same(first: ServerStatus, last: ServerStatus, now: ServerStatus) -> None:
    ups = last.number("uptime"), now.number("uptime")
    if ups[0] is not None and ups[1] is not None and ups[1] < ups[0] + now.at_s - last.at_s - _SAME_START_S:
        raise ServerError(
            f"{now.key} started anew: its settings are those of its start", hint="measure again"
        )
    for name in _WHO:
        was, found = first.variables.get(name), now.variables.get(name)
        if was and found and was != found:
            raise ServerError(
                f"another server answers at {now.key}: {name} was {was}, and is {found}",
                hint="name the server itself, not an address that moves",
            )


def between(before: ServerStatus, after: ServerStatus, looks: _Looks) -> ObservedLoad:
    """Raises ServerError if the server started anew or tells of no commits, CountersReset if counters were
    set back."""
    counter = commits_counter(after)
    seconds, commits = after.at_s - before.at_s, committed(counter, partial(after.growth, before), after)
    if commits is None:
        raise ServerError(f"{after.key} does not count commits: it has no {counter}", hint="is it a server?")
    if (after.growth(before, "uptime") or 0.0) < 0:
        raise ServerError(f"{after.key} started anew: its counters began at 0", hint="measure again")
    if (after.growth(before, counter) or 0.0) < 0 or was_reset(before, after):
        raise CountersReset(
            f"FLUSH STATUS set counters of {after.key} back", hint="measure again, and find who runs it"
        )
    rates = Rates(before, after)
    told, errors = _statements(before, after, 0.0 if counter == WITH_READS else commits)
    sampled_s = looks.writing / looks.weight * seconds if looks.count else None
    return ObservedLoad(
        seconds=seconds,
        commits=round(commits),
        commits_by=counter,
        source="samples" if told is None else "statements",
        write_s=sampled_s or 0.0 if told is None else sum(one.seconds for one in told.values()),
        sampled_s=sampled_s,
        commit_s=looks.committing / looks.weight * seconds if looks.count else None,
        samples=looks.count,
        statements=told or {},
        histogram=_histogram(before, after, sum(one.count for one in (told or {}).values())),
        syncs={name: rate * seconds for name, rate in rates.syncs.items() if rate is not None},
        redo_bytes=after.growth(before, "innodb_os_log_written"),
        binlog_bytes=None if rates.binlog_bytes is None else rates.binlog_bytes * seconds,
        rollbacks=round(after.growth(before, "handler_rollback") or 0.0),
        errors=None if told is None else errors,
    )


def _statements(
    before: ServerStatus, after: ServerStatus, commits: float
) -> tuple[dict[str, WrittenStatements] | None, int]:
    """Write statements by kind that ended meanwhile, and how many failed. None if many are prepared or in
    procedures: these are of any kind. None also if instruments or accounts are off: statements are fewer than
    commits then, or take no time. Raises CountersReset if somebody emptied the table of sums.
    """
    if before.statements is None or after.statements is None:
        return None, 0
    (first, failed), (last, failed_now) = before.statements, after.statements
    # A connection that ends meanwhile may be missing in one kind for a moment.
    if sum(one.count for one in last.values()) < sum(one.count for one in first.values()):
        raise CountersReset(
            f"performance_schema of {after.key} was truncated", hint="measure again, and find who does it"
        )
    told, untold, none = dict[str, WrittenStatements](), 0, WrittenStatements(count=0, seconds=0.0)
    for kind, now in last.items():
        was = first.get(kind, none)
        count = max(0, now.count - was.count)
        if kind in UNTOLD:
            untold += count
        elif count:
            told[kind] = WrittenStatements(count=count, seconds=now.seconds - was.seconds)
    count, timed = sum(one.count for one in told.values()), any(one.seconds > 0 for one in told.values())
    is_whole = count + _STRADDLING >= _LEAST_TOLD * commits and (timed or not count)
    is_known = is_whole and untold <= _MOST_UNTOLD * count
    return told if is_known else None, max(0, failed_now - failed)


def _histogram(before: ServerStatus, after: ServerStatus, ended: int) -> dict[float, int]:
    """The buckets' growth; nothing if it is not about as many statements as ended. A statement that became
    one of the busiest meanwhile brings its past along, and one that is no longer among them takes it away."""
    grown = {high: count - before.histogram.get(high, 0) for high, count in after.histogram.items()}
    if abs(sum(grown.values()) - ended) > _MOST_AMISS * ended:
        return {}
    return {high: count for high, count in sorted(grown.items()) if count > 0}


SCHEMA: Literal["flushlab.load/1"] = "flushlab.load/1"
STRETCH_S = 10.0
LEAST_S = 1.0
"""A stretch that Ctrl-C cuts shorter has no rates worth a line."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    server: ServerIdentity
    settings: Mapping[str, Value]
    schema: Literal["flushlab.load/1"] = SCHEMA


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """`ended_at` is in UTC; `changed` are settings that were otherwise than at the start of the recording."""

    ended_at: datetime
    load: ObservedLoad
    changed: Mapping[str, Value] = {}


def record(reach: WatchedServer, path: Path, seconds: float | None, progress: Progress) -> None:
    """Until `seconds` are over or Ctrl-C, which is raised. Raises NotWritable if the file exists, or
    ServerError."""
    observer = LoadObserver([reach])
    try:
        with waiting_aloud(reach.key, progress):
            server, settings = observer.settings()
        head = Head(place=reach.key, server=server, settings=settings)
        with _new(path) as file:
            _line(file, head)
            limit = f"for {format_seconds(seconds)}" if seconds else "until Ctrl-C"
            progress(f"recording the load of {server.name} at {reach.key} {limit}, read-only")
            began = time.monotonic()

            def keep(load: ObservedLoad) -> None:
                _, now = observer.settings()
                changed = {name: value for name, value in now.items() if settings.get(name) != value}
                _line(file, Stretch(ended_at=datetime.now(UTC), load=load, changed=changed))

            def keep_cut(load: ObservedLoad) -> None:
                if load.seconds >= LEAST_S:
                    keep(load)

            while (left_s := (seconds or math.inf) - (time.monotonic() - began)) > 0:
                try:
                    load = observer.observe(min(STRETCH_S, left_s), cut=keep_cut)
                except CountersReset as error:
                    progress(f"{error}: the last {min(STRETCH_S, left_s):.0f} s are left out")
                else:
                    keep(load)
    finally:
        observer.close()


def _new(path: Path) -> FileIO:
    try:
        return path.open("xb", buffering=0)
    except FileExistsError as error:
        raise NotWritable(f"{path} exists already", hint="name a new file") from error
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def _line(file: FileIO, value: msgspec.Struct) -> None:
    try:
        file.write(msgspec.json.encode(value) + b"\n")
    except OSError as error:
        text = f"the recording cannot be written: {error.strerror}"
        raise NotWritable(text, hint="free some space; what was recorded until now is whole") from error
