"""Window: adds up what a server tells, over all time or the last seconds, and makes the evidence. Pure.

The one way to `Evidence`: `sampling` notes a session's answers for the doctor, `watch` for its last half
minute, `files.samples` the outputs that files have.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from flushlab.diagnosis.evidence import Evidence, commit_counts, settings_of
from flushlab.diagnosis.shares import Tally
from flushlab.diagnosis.waits import Longest
from flushlab.record import Value
from flushlab.telemetry.live.questions import (
    ASLEEP,
    METADATA_LOCKS,
    STATES,
    TRANSACTIONS,
    MetadataLock,
    OpenTransaction,
    ThreadState,
)
from flushlab.telemetry.live.status import ServerStatus


class Window:
    def __init__(self, first: ServerStatus, step_s: float, keep_s: float = math.inf) -> None:
        self._keep_s = keep_s
        self._tally = Tally(first.identity, step_s, first.variables)
        self._ends = deque[ServerStatus]()
        self._commits = deque[tuple[float, Mapping[str, float]]]()
        self._ages = deque[tuple[float, int]]()
        self._looks = deque[tuple[float, tuple[OpenTransaction, ...]]]()
        self._waiters = deque[tuple[float, float]]()
        self._longest = Longest()
        self._locks: tuple[float, tuple[MetadataLock, ...]] = (0.0, ())
        self._last: ServerStatus | None = None
        self.restarted = False
        self._settings: tuple[object, Mapping[str, Value]] = (None, {})
        self.note(first, 0.0)

    @property
    def first(self) -> ServerStatus:
        return self._ends[0]

    @property
    def last(self) -> ServerStatus:
        assert self._last is not None
        return self._last

    def note(self, seen: ServerStatus, at_s: float) -> None:
        last, self._last = self._last, seen
        if last is not None and _began_anew(last, seen):
            self.restarted = True

        def is_new(question: str) -> bool:
            return last is None or seen.asked_s.get(question) != last.asked_s.get(question)

        if seen.states is not None and is_new(STATES):
            self.note_states(at_s, seen.states)
        if last is None or seen.at_s != last.at_s:
            self.note_status(seen)
        if seen.transactions is not None and is_new(TRANSACTIONS):
            self.note_transactions(seen.at_s, seen.transactions)
        if is_new(ASLEEP):
            self._longest.note(at_s, seen.asleep)
        if seen.locks and is_new(METADATA_LOCKS):
            self._locks = at_s, seen.locks
        self._forget(at_s)

    def note_states(self, at_s: float, states: Iterable[ThreadState]) -> None:
        self._tally.add(at_s, states)
        self._longest.note(at_s, states)

    def note_transactions(self, at_s: float, transactions: tuple[OpenTransaction, ...]) -> None:
        self._looks.append((at_s, transactions))

    def note_status(self, seen: ServerStatus) -> None:
        self._last = seen
        self._ends.append(msgspec.structs.replace(seen, states=None, threads=None, transactions=None))
        self._commits.append((seen.at_s, commit_counts(seen)))
        if (waiters := seen.row_lock_waiters) is not None:
            self._waiters.append((seen.at_s, waiters))
        if (age := seen.redo.checkpoint_age) is not None:
            self._ages.append((seen.at_s, age))

    def evidence(self, path: str, *, from_files: bool = False, **more: Any) -> Evidence:
        first, last = self.first, self.last
        seconds = last.at_s - first.at_s
        # The counter of time has waits that ended, the others those that go on; the looks have all locks.
        waiters = [[count for _, count in self._waiters]]
        waiters += [[float(sum(one.waits for one in look)) for _, look in self._looks]]
        row_locks = [sum(counts) / len(counts) for counts in waiters if counts]
        is_known = bool(row_locks) or not from_files
        if seconds > 0:
            row_locks.append((last.growth(first, "innodb_row_lock_time") or 0.0) / 1000 / seconds)
        if self._settings[0] is not last.variables:
            self._settings = (last.variables, settings_of(last, path))
        write_time = self._tally.write_time(max(row_locks, default=0.0) if is_known else None)
        return Evidence(
            seconds=seconds,
            before=first,
            after=last,
            checkpoint_ages=tuple(age for _, age in self._ages),
            commit_counts=tuple((at_s - first.at_s, counts) for at_s, counts in self._commits),
            write_time=write_time if sees_others(last) else None,
            transactions={one.key: one for _, look in self._looks for one in look},
            looks=tuple(look for _, look in self._looks),
            longest=self._longest.found(asleep=False),
            asleep=self._longest.found(asleep=True),
            locks=self._locks[1],
            settings=self._settings[1],
            missing=last.missing,
            **more,
        )

    def _forget(self, at_s: float) -> None:
        if self._keep_s == math.inf:
            while len(self._ends) > 2:
                del self._ends[1]
            return
        until_s = at_s - self._keep_s
        self._tally.forget(until_s)
        self._longest.forget(until_s)
        if self._locks[0] < until_s:
            self._locks = (0.0, ())
        while len(self._ends) > 2 and self._ends[1].at_s <= self.last.at_s - self._keep_s:
            self._ends.popleft()
        for series in (self._commits, self._ages, self._looks, self._waiters):
            while series and series[0][0] < self.first.at_s:
                series.popleft()


def sees_others(seen: ServerStatus) -> bool:
    """Without PROCESS, the list of processes is the own ones, and no error says so."""
    if seen.states is None:
        return False
    has_schema = seen.variables.get("performance_schema", "") in ("ON", "1")
    instrumented = seen.identity.flavor == "mysql" and has_schema
    by_list = not instrumented or any("performance_schema" in one for one in seen.missing)
    return "PROCESS" not in seen.missing or not by_list


def _began_anew(before: ServerStatus, after: ServerStatus) -> bool:
    shrunk = [
        (after.number(name) or 0.0) < (before.number(name) or 0.0)
        for name in ("uptime", "questions")
        if before.number(name) is not None
    ]
    return bool(shrunk) and all(shrunk)
